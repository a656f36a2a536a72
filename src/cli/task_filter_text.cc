// SPDX-License-Identifier: Apache-2.0
#include "cli/task_filter_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

using oracle::CheckStatus;
using oracle::QualityCheck;
using term::Align;

constexpr int kWidth = 110;
constexpr size_t kTextWidth = 100;
constexpr size_t kMaxSentence = 1200;

/// The title of a check.
std::string Title(const std::string& check) {
  if (check == "range") return "range of the output";
  if (check == "deviation") return "deviation over seeds";
  if (check == "axes") return "variation along axes";
  if (check == "weights") return "impact of the weights";
  if (check == "inputs") return "impact of the inputs";
  if (check == "model_redundancy") return "model: redundant?";
  if (check == "model_inefficiency") return "model: inefficient?";
  if (check == "constant") return "constant output";
  if (check == "copy") return "output equals an input";
  if (check == "unused") return "tensors that matter";
  if (check == "operations") return "operations that matter";
  if (check == "reference") return "the reference runs";
  return check;
}

std::string Published(const QualityCheck& check) {
  if (!check.published) return "-";
  return *check.published ? "flagged" : "ok";
}

/// Wraps `text` to lines of at most kTextWidth bytes. The first line starts with `first`, the
/// others with as many spaces.
std::string Wrapped(const std::string& first, std::string text) {
  text = Printable(text);
  if (text.size() > kMaxSentence) text = text.substr(0, kMaxSentence) + " ...";
  std::string out = first;
  const std::string indent(first.size(), ' ');
  while (!text.empty()) {
    const size_t room = kTextWidth - first.size();
    size_t end = text.size();
    if (end > room) {
      const size_t space = text.rfind(' ', room);
      end = space == std::string::npos || space == 0 ? room : space;
    }
    out += text.substr(0, end) + "\n";
    text.erase(0, end);
    text.erase(0, text.find_first_not_of(' '));
    if (!text.empty()) out += indent;
  }
  return out;
}

std::string SettingText(const app::FilteredSetting& filtered) {
  std::string text =
      Printable(fmt::format("{} {}: {}  ({})", Name(filtered.direction), filtered.setting.id,
                            Name(filtered.verdict), filtered.setting.Describe())) +
      "\n";
  if (!filtered.message.empty()) text += Wrapped("  ", filtered.message);
  if (filtered.checks.empty()) return text;
  term::Table table({{"check", Align::kLeft},
                     {"cupel", Align::kLeft},
                     {"published", Align::kLeft},
                     {"measured", Align::kLeft}});
  for (const QualityCheck& check : filtered.checks) {
    const bool not_run =
        check.status == CheckStatus::kNotApplicable || check.status == CheckStatus::kNotAsked;
    table.Add({Title(check.name), Name(check.status), Published(check),
               not_run ? check.reason : check.measured});
  }
  text += table.Render(kWidth, "  ");
  int number = 0;
  for (const QualityCheck& check : filtered.checks) {
    const std::string sentence = Title(check.name) + ": " + check.reason;
    if (check.status == CheckStatus::kFlagged || check.status == CheckStatus::kUnfinished) {
      text += Wrapped(fmt::format("  {:2}. ", ++number), sentence);
    } else if (check.status == CheckStatus::kOk && !check.reason.empty()) {
      text += Wrapped("  note: ", sentence);
    }
  }
  return text;
}

/// Lists the checks for which `flagged` is true at any setting ("range, axes").
template <typename F>
std::string FlaggedChecks(const app::FilteredTask& task, F flagged) {
  std::vector<std::string> names;
  for (const app::FilteredSetting& filtered : task.settings) {
    for (const QualityCheck& check : filtered.checks) {
      if (!flagged(check)) continue;
      if (std::find(names.begin(), names.end(), check.name) == names.end()) {
        names.push_back(check.name);
      }
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool ByCupel(const QualityCheck& check) { return check.status == CheckStatus::kFlagged; }
bool AsPublished(const QualityCheck& check) { return check.published.value_or(false); }

std::string WhyNotExamined(const app::FilteredTask& task) {
  if (!task.message.empty()) return task.message;
  for (const app::FilteredSetting& filtered : task.settings) {
    if (!filtered.message.empty()) return filtered.message;
  }
  return "the task has no setting of this kind";
}

bool HasUnfinished(const app::FilteredTask& task) {
  for (const app::FilteredSetting& filtered : task.settings) {
    if (filtered.measures && !filtered.measures->unfinished.empty()) return true;
  }
  return false;
}

}  // namespace

std::string FilterText(const app::FilteredTask& task) {
  std::string text = fmt::format("{}: {}\n", Printable(task.name), Name(task.verdict()));
  if (task.settings.empty()) return text + Wrapped("  ", WhyNotExamined(task));
  for (const app::FilteredSetting& filtered : task.settings) text += SettingText(filtered);
  return text;
}

std::string FilterSummary(const app::FilterReport& report) {
  term::Table tasks({{"task", Align::kLeft},
                     {"verdict", Align::kLeft},
                     {"flagged by cupel", Align::kLeft},
                     {"as published", Align::kLeft}});
  int64_t by_verdict[3] = {};
  for (const app::FilteredTask& task : report.tasks) {
    const app::FilterVerdict verdict = task.verdict();
    ++by_verdict[static_cast<int>(verdict)];
    std::string flags = FlaggedChecks(task, ByCupel);
    if (verdict == app::FilterVerdict::kNotExamined) flags = WhyNotExamined(task);
    if (HasUnfinished(task)) flags += flags.empty() ? "(unfinished)" : " (unfinished)";
    tasks.Add({task.name, Name(verdict), flags, FlaggedChecks(task, AsPublished)});
  }
  term::Table counts(
      {{"check", Align::kLeft}, {"cupel", Align::kRight}, {"published", Align::kRight}});
  for (const app::CheckCount& count : app::CountChecks(report)) {
    counts.Add({count.check, fmt::format("{}", count.cupel),
                count.has_published ? fmt::format("{}", count.published) : "-"});
  }
  return tasks.Render(kWidth) + "\n" + counts.Render() +
         fmt::format("{} tasks: {} clean, {} flagged, {} not examined{}\n", report.tasks.size(),
                     by_verdict[0], by_verdict[1], by_verdict[2],
                     report.interrupted ? " (interrupted)" : "");
}

}  // namespace cupel::cli
