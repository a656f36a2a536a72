// SPDX-License-Identifier: Apache-2.0
#include "evolve/lessons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "base/printable.h"
#include "base/text.h"
#include "build/build.h"
#include "judge/both_engines.h"

namespace cupel::evolve {
namespace {

constexpr size_t kMostErrors = 5, kMostValues = 3, kMostQuoted = 120, kMostMessage = 480;
constexpr size_t kRoom =
    kMaxLessons - 80;  // for items; the rest is for the line that counts omitted items

/// Quotes lines of the kernel's source by number.
class SourceLines {
 public:
  explicit SourceLines(std::string_view source) : lines_(SplitLines(source)) {}
  /// "      | y[i] = x[i];\n", empty if there is no such line.
  std::string Quoted(int number) const {
    if (number < 1 || static_cast<size_t>(number) > lines_.size()) return "";
    const std::string_view line = lines_[static_cast<size_t>(number) - 1];
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) return "";
    return fmt::format("      | {}\n", Fit(Printable(line.substr(first)), kMostQuoted));
  }

 private:
  std::vector<std::string_view> lines_;
};

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

/// The line of the kernel's own file that a reason names.
std::optional<int> LineOf(const records::ReasonPlace& at, const std::string& file) {
  if (at.line <= 0 || at.file != file) return std::nullopt;
  return at.line;
}

/// Replaces "kernel.cu:12" by "line 12": the author does not know the file name.
std::string WithoutFile(std::string text, const std::string& file) {
  if (file.empty()) return text;
  const std::string name = file + ":";
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 5)) {
    text.replace(at, name.size(), "line ");
  }
  return text;
}

bool IsWord(char c) {
  return IsDigit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Replaces numbers of two or more digits by "…", except line numbers and digits within names.
std::string WithoutNumbers(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsWord(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string word = text.substr(at, end - at);
    const bool number = IsDigit(word[0]) && word.size() > 1;
    out += number && !out.ends_with("line ") ? "…" : word;
    at = end;
  }
  return out;
}

/// Describes a kind of inputs (docs/judging.md), if its name is not clear.
std::string KindText(const std::string& kind) {
  static constexpr std::pair<std::string_view, const char*> kTexts[] = {
      {"extremes", "a few elements are a thousand times larger"},
      {"offset", "all elements are shifted by 10 standard deviations"},
      {"one_offset", "one of the tensors is shifted by 10 standard deviations"},
      {"negative", "all elements are negative"},
      {"heavy", "heavy tails"},
      {"constant", "all elements of a tensor are equal"},
      {"zeros", "all elements are zero"},
      {"strided", "tensors are views of every second element"},
      {"shifted", "tensors begin one element after an aligned address"},
      {"nan", "one or two elements are NaN"},
      {"infinity", "one or two elements are infinite"},
      {"tiny", "all elements are scaled by 2^-10"},
      {"shadow", "in exact arithmetic the kernel computes a different result"},
      {"integers", "small integers, for which the result must be exact"},
      {"schedule", "blocks and warps ran in another order"},
      {"state", "after another call: state was kept between calls"}};
  for (const auto& [name, text] : kTexts) {
    if (kind == name) return text;
  }
  return kind + " inputs";
}

/// The parts of the verdict that a reason refers to.
struct Reference {
  const records::SettingReport* setting = nullptr;
  const records::Comparison* comparison = nullptr;
  bool hidden = false;  // of a setting that is not shown: a kernel could be written for its sizes
  std::string text;     // "output 0, at batch_size=64"
};

std::string SizesOf(const records::SettingReport& setting) {
  return setting.kind == task::SettingKind::kHeldout ? "other sizes" : setting.description;
}

Reference ReferenceOf(const records::Verdict& verdict, const records::Reason& reason,
                      const std::string& file) {
  const records::ReasonPlace& at = reason.at;
  Reference reference;
  if (const std::optional<int> line = LineOf(at, file)) {
    reference.text = fmt::format("line {}", *line);
  }
  for (const records::SettingReport& setting : verdict.settings) {
    if (setting.id == at.setting) reference.setting = &setting;
  }
  if (reference.setting == nullptr) {
    reference.hidden = !at.setting.empty();
    if (reference.text.empty()) reference.text = reference.hidden ? "at other sizes" : reason.where;
    return reference;
  }
  reference.hidden = reference.setting->kind == task::SettingKind::kHeldout;
  std::string kind;
  const std::vector<records::TrialReport>& trials = reference.setting->trials;
  if (at.trial && at.output && *at.trial < trials.size() &&
      *at.output < trials[*at.trial].outputs.size()) {
    const records::TrialReport& trial = trials[*at.trial];
    reference.comparison = &trial.outputs[*at.output];
    reference.text = fmt::format("output {} of {}", *at.output + 1, trial.outputs.size());
    if (!trial.is_usual()) kind = trial.kind;
  }
  reference.text +=
      fmt::format("{}at {}", reference.text.empty() ? "" : ", ", SizesOf(*reference.setting));
  if (!kind.empty()) reference.text += fmt::format(" ({})", KindText(kind));
  return reference;
}

std::string ReasonText(const records::Verdict& verdict, const records::Reason& reason,
                       const std::string& file, const SourceLines& lines) {
  const Reference place = ReferenceOf(verdict, reason, file);
  // The list of other settings and their sizes is left out: the first setting is enough.
  std::string message = WithoutFile(Printable(reason.message), file);
  if (place.hidden) message = WithoutNumbers(message);
  std::string text =
      fmt::format("- {}{}{}: {}\n", Printable(reason.code), place.text.empty() ? "" : ", ",
                  Printable(place.text), Fit(message, kMostMessage));
  if (const std::optional<int> line = LineOf(reason.at, file)) text += lines.Quoted(*line);
  if (place.comparison == nullptr || place.hidden) return text;
  const auto& wrong = place.comparison->first_wrong;
  for (size_t i = 0; i < std::min(kMostValues, wrong.size()); ++i) {
    text += fmt::format("      [{}]: got {:.7g}, wanted {:.7g}\n", fmt::join(wrong[i].index, ", "),
                        wrong[i].got, wrong[i].wanted);
  }
  return text;
}

/// `head` and as many of `items` as fit. If the first item is too long, it is cut, not omitted.
std::string Bounded(std::string head, const std::vector<std::string>& items) {
  size_t shown = 0;
  for (const std::string& item : items) {
    if (head.size() + item.size() > kRoom && shown > 0) break;
    head += item.size() > kRoom ? Fit(item, static_cast<int>(kRoom / 4)) + "\n" : item;
    ++shown;
  }
  if (shown < items.size()) head += fmt::format("… and {} more\n", items.size() - shown);
  return head;
}

std::string FailureText(const build::BuildFailure& failure, const std::string& file,
                        const SourceLines& lines) {
  std::vector<std::string> items;
  for (const build::Diagnostic& diagnostic : failure.diagnostics) {
    if (diagnostic.severity != build::Diagnostic::Severity::kError) continue;
    if (items.size() == kMostErrors) break;
    const std::string name = BaseName(diagnostic.file);
    const bool own = diagnostic.file == file;
    const std::string place = own            ? fmt::format("line {}", diagnostic.line)
                              : name.empty() ? std::string("the compiler")
                                             : fmt::format("{}:{}", name, diagnostic.line);
    items.push_back(fmt::format("- {}: {}\n{}", Printable(place),
                                Fit(WithoutFile(Printable(diagnostic.message), file), kMostMessage),
                                own ? lines.Quoted(diagnostic.line) : ""));
  }
  const bool listed = failure.code == "compile_error" && !items.empty();
  std::string head = fmt::format(
      "It does not compile ({}){}\n", Printable(failure.code),
      listed ? ":" : ": " + Fit(WithoutFile(Printable(failure.message), file), kMostMessage));
  return Bounded(std::move(head), items);
}

}  // namespace

std::string Lessons(const records::Verdict& verdict, std::string_view source,
                    const build::BuildFailure* failure) {
  if (verdict.decision == records::Decision::kAccepted) return "";
  const SourceLines lines(source);
  const std::string file = build::SourceName(verdict.kernel_path);
  if (failure != nullptr) return FailureText(*failure, file, lines);
  std::vector<std::string> items;
  // The reasons of each engine refer to its own settings.
  for (const records::Reason& reason : verdict.reasons) {
    if (!judge::IsOfEmulator(reason)) items.push_back(ReasonText(verdict, reason, file, lines));
  }
  for (const records::Verdict& other : verdict.other_engines) {
    for (const records::Reason& reason : other.reasons) {
      items.push_back(ReasonText(other, reason, file, lines));
    }
  }
  return Bounded(verdict.decision == records::Decision::kUnsupported
                     ? "It uses features that the judge does not support:\n"
                     : "The judge rejected it:\n",
                 items);
}

}  // namespace cupel::evolve
