// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cli/task_filter.h"
#include "report/table.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

using oracle::CheckStatus;
using oracle::QualityCheck;
using report::Align;
using report::Printable;

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
  std::string out = first, line;
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

std::string SettingText(const FilteredSetting& filtered) {
  std::string text =
      Printable(fmt::format("{} {}: {}  ({})", Name(filtered.direction), filtered.setting.id,
                            Name(filtered.verdict), filtered.setting.Describe())) +
      "\n";
  if (!filtered.message.empty()) text += Wrapped("  ", filtered.message);
  if (filtered.checks.empty()) return text;
  report::Table table({{"check", Align::kLeft},
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
std::string FlaggedChecks(const FilteredTask& task, F flagged) {
  std::vector<std::string> names;
  for (const FilteredSetting& filtered : task.settings) {
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

std::string WhyNotExamined(const FilteredTask& task) {
  if (!task.message.empty()) return task.message;
  for (const FilteredSetting& filtered : task.settings) {
    if (!filtered.message.empty()) return filtered.message;
  }
  return "the task has no setting of this kind";
}

bool HasUnfinished(const FilteredTask& task) {
  for (const FilteredSetting& filtered : task.settings) {
    if (filtered.measures && !filtered.measures->unfinished.empty()) return true;
  }
  return false;
}

}  // namespace

const char* Name(FilterVerdict verdict) {
  switch (verdict) {
    case FilterVerdict::kClean:
      return "clean";
    case FilterVerdict::kFlagged:
      return "flagged";
    case FilterVerdict::kNotExamined:
      return "not examined";
  }
  return "?";
}

FilterVerdict FilteredTask::verdict() const {
  const auto any = [this](FilterVerdict verdict) {
    return std::any_of(settings.begin(), settings.end(), [verdict](const FilteredSetting& setting) {
      return setting.verdict == verdict;
    });
  };
  if (any(FilterVerdict::kFlagged)) return FilterVerdict::kFlagged;
  if (settings.empty() || any(FilterVerdict::kNotExamined)) return FilterVerdict::kNotExamined;
  return FilterVerdict::kClean;
}

std::vector<CheckCount> CountChecks(const FilterReport& report) {
  std::vector<CheckCount> counts;
  for (const FilteredTask& task : report.tasks) {
    for (const FilteredSetting& filtered : task.settings) {
      for (const QualityCheck& check : filtered.checks) {
        const bool known = std::any_of(counts.begin(), counts.end(), [&check](const auto& count) {
          return count.check == check.name;
        });
        if (!known) counts.push_back({check.name});
      }
    }
  }
  for (CheckCount& count : counts) {
    for (const FilteredTask& task : report.tasks) {
      bool by_cupel = false, as_published = false;
      for (const FilteredSetting& filtered : task.settings) {
        for (const QualityCheck& check : filtered.checks) {
          if (check.name != count.check) continue;
          by_cupel = by_cupel || ByCupel(check);
          as_published = as_published || AsPublished(check);
          count.has_published = count.has_published || check.published.has_value();
        }
      }
      count.cupel += by_cupel ? 1 : 0;
      count.published += as_published ? 1 : 0;
    }
  }
  return counts;
}

std::string FilterText(const FilteredTask& task) {
  std::string text = fmt::format("{}: {}\n", Printable(task.name), Name(task.verdict()));
  if (task.settings.empty()) return text + Wrapped("  ", WhyNotExamined(task));
  for (const FilteredSetting& filtered : task.settings) text += SettingText(filtered);
  return text;
}

std::string FilterSummary(const FilterReport& report) {
  report::Table tasks({{"task", Align::kLeft},
                       {"verdict", Align::kLeft},
                       {"flagged by cupel", Align::kLeft},
                       {"as published", Align::kLeft}});
  int64_t by_verdict[3] = {};
  for (const FilteredTask& task : report.tasks) {
    const FilterVerdict verdict = task.verdict();
    ++by_verdict[static_cast<int>(verdict)];
    std::string flags = FlaggedChecks(task, ByCupel);
    if (verdict == FilterVerdict::kNotExamined) flags = WhyNotExamined(task);
    if (HasUnfinished(task)) flags += flags.empty() ? "(unfinished)" : " (unfinished)";
    tasks.Add({task.name, Name(verdict), flags, FlaggedChecks(task, AsPublished)});
  }
  report::Table counts(
      {{"check", Align::kLeft}, {"cupel", Align::kRight}, {"published", Align::kRight}});
  for (const CheckCount& count : CountChecks(report)) {
    counts.Add({count.check, fmt::format("{}", count.cupel),
                count.has_published ? fmt::format("{}", count.published) : "-"});
  }
  return tasks.Render(kWidth) + "\n" + counts.Render() +
         fmt::format("{} tasks: {} clean, {} flagged, {} not examined{}\n", report.tasks.size(),
                     by_verdict[0], by_verdict[1], by_verdict[2],
                     report.interrupted ? " (interrupted)" : "");
}

}  // namespace cupel::cli
