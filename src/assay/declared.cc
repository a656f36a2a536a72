// SPDX-License-Identifier: Apache-2.0
#include "assay/declared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/hash.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "build/source_scan.h"
#include "os/files.h"

namespace cupel::assay {
namespace {

constexpr std::string_view kMark = "cupel:supports";
constexpr size_t kMostLines = 64;
constexpr size_t kMostLength = 1000;
constexpr size_t kMostSource = 16u << 20;  // larger than the build allows

constexpr const char* kForm =
    "write e.g. \"// cupel:supports batch_size=64 num_features=128..1024,4096 height=*8\"";

/// Removes the part before `separator` from the front of `rest` and returns it.
std::string_view Next(std::string_view& rest, char separator) {
  const size_t at = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

/// True if `text` may be a name or a value.
bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+' || c == '.' || c == '*';
  });
}

/// The text after the mark, if `line` is a declaration.
std::optional<std::string_view> AfterMark(std::string_view line) {
  line = Trim(line);
  const size_t comment = line.starts_with("//") ? 2 : line.starts_with("#") ? 1 : 0;
  if (comment == 0) return std::nullopt;
  line = Trim(line.substr(comment));
  if (!line.starts_with(kMark)) return std::nullopt;
  return line.substr(kMark.size());
}

records::Reason Malformed(std::string_view file, size_t line, const std::string& what) {
  return {"bad_declaration", fmt::format("{}; {}", what, kForm), fmt::format("{}:{}", file, line)};
}

}  // namespace

const Json* ValueOf(const task::Setting& setting, const std::string& name) {
  const auto init = setting.init.find(name);
  if (init != setting.init.end()) return &*init;
  const auto input = setting.inputs.find(name);
  return input != setting.inputs.end() ? &*input : nullptr;
}

bool Declaration::ParseRange(std::string_view value, Range& range) {
  if (const size_t star = value.find('*'); star != std::string_view::npos) {
    const auto step = ParseNumber<int64_t>(value.substr(star + 1));
    if (!step || *step < 1) return false;
    range = {INT64_MIN, INT64_MAX, *step};
    if (star == 0) return true;
    value = value.substr(0, star);
    if (value.find("..") == std::string_view::npos) return false;
  }
  const size_t dots = value.find("..");
  const auto first = ParseNumber<int64_t>(value.substr(0, dots)),
             last = ParseNumber<int64_t>(value.substr(dots + 2));
  if (!first || !last || *first > *last) return false;
  range.first = *first;
  range.last = *last;
  return true;
}

bool Declaration::ParseCondition(std::string_view text, Condition& condition) {
  std::string_view rest = text;
  const std::string_view name = Next(rest, '=');
  condition.name = name;
  condition.text = rest;
  if (!IsWord(name) || rest.empty() || rest.ends_with(',')) return false;
  while (!rest.empty()) {
    const std::string_view value = Next(rest, ',');
    if (!IsWord(value)) return false;
    if (value.find("..") == std::string_view::npos && value.find('*') == std::string_view::npos) {
      if (const auto number = ParseNumber<int64_t>(value)) {
        condition.ranges.push_back({*number, *number, 1});
      } else {
        condition.words.emplace_back(value);
      }
      continue;
    }
    if (!ParseRange(value, condition.ranges.emplace_back())) return false;
  }
  return true;
}

std::variant<Declaration, records::Reason> Declaration::Parse(std::string_view source,
                                                              std::string_view file) {
  const std::string text_only = build::CodeAndLineComments(source);  // strings do not declare sizes
  source = text_only;
  Declaration declaration;
  for (size_t number = 1; !source.empty(); ++number) {
    const auto text = AfterMark(Next(source, '\n'));
    if (!text) continue;
    if (text->size() > kMostLength) return Malformed(file, number, "the declaration is too long");
    if (declaration.lines_.size() == kMostLines) {
      return Malformed(file, number, "there are too many declarations");
    }
    // The mark is part of a longer word: "cupel:supportsbatch_size=1".
    if (!text->empty() && text->front() != ' ' && text->front() != '\t') {
      return Malformed(file, number, "a space must follow cupel:supports");
    }
    std::vector<Condition> line;
    std::string spaced(*text);
    std::replace(spaced.begin(), spaced.end(), '\t', ' ');
    for (std::string_view rest = spaced; !rest.empty();) {
      const std::string_view word = Trim(Next(rest, ' '));
      if (word.empty()) continue;
      if (!ParseCondition(word, line.emplace_back())) {
        return Malformed(file, number,
                         fmt::format("\"{}\" is not name=value, name=first..last, name=*step or a "
                                     "list of these",
                                     word.substr(0, 80)));
      }
    }
    if (line.empty()) return Malformed(file, number, "the declaration names no sizes");
    declaration.lines_.push_back(std::move(line));
  }
  return declaration;
}

bool Declaration::Condition::Holds(const task::Setting& setting) const {
  const Json* value = ValueOf(setting, name);
  if (value == nullptr) return false;
  if (value->is_number_integer()) {
    const auto number = value->get<int64_t>();
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      return range.first <= number && number <= range.last && number % range.step == 0;
    });
  }
  const std::string word = value->is_string() ? value->get<std::string>() : DumpJson(*value);
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool Declaration::Covers(const task::Setting& setting) const {
  if (IsEmpty()) return true;
  return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) {
    return std::all_of(line.begin(), line.end(),
                       [&](const Condition& condition) { return condition.Holds(setting); });
  });
}

std::string Declaration::Text() const {
  std::vector<std::string> lines;
  for (const auto& line : lines_) {
    std::vector<std::string> conditions;
    conditions.reserve(line.size());
    for (const Condition& condition : line) {
      conditions.push_back(fmt::format("{}={}", condition.name, condition.text));
    }
    lines.push_back(fmt::format("{}", fmt::join(conditions, " ")));
  }
  return fmt::format("{}", fmt::join(lines, " or "));
}

std::vector<std::string> Declaration::Names() const {
  std::vector<std::string> names;
  for (const auto& line : lines_) {
    for (const Condition& condition : line) names.push_back(condition.name);
  }
  return names;
}

Result<build::SourceFile> ReadBuilt(const std::filesystem::path& file,
                                    const std::string& source_hash) {
  TRY_ASSIGN(std::string text, os::ReadFile(file, kMostSource));
  if (Sha256Hex(text) == source_hash) {
    return build::SourceFile{file.filename().string(), std::move(text)};
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} has changed since it was built", file.string()),
              "run the command again, and do not change the file while it runs");
}

std::variant<Claim, records::Reason> ReadClaim(const std::vector<build::SourceFile>& files,
                                               const std::vector<const task::Setting*>& settings) {
  using Answer = std::variant<Claim, records::Reason>;
  Declaration declaration;
  std::string file = files.front().name;  // that declares something
  for (const build::SourceFile& one : files) {
    auto parsed = Declaration::Parse(one.text, one.name);
    if (auto* reason = std::get_if<records::Reason>(&parsed)) return Answer(std::move(*reason));
    const auto& lines = std::get<Declaration>(parsed);
    if (declaration.IsEmpty() && !lines.IsEmpty()) file = one.name;
    declaration.Add(lines);
  }
  Claim claim;
  if (declaration.IsEmpty()) {
    claim.covered.assign(settings.size(), true);
    return Answer(std::move(claim));
  }
  std::set<std::string> known;
  for (const task::Setting* setting : settings) {
    for (const Json* keywords : {&setting->init, &setting->inputs}) {
      for (const auto& [name, value] : keywords->items()) known.insert(name);
    }
  }
  for (const std::string& name : declaration.Names()) {
    if (known.count(name) > 0) continue;
    return Answer(records::Reason{
        "bad_declaration",
        fmt::format("cupel:supports uses the unknown name {}; the settings have {}", name,
                    known.empty() ? "no arguments" : fmt::format("{}", fmt::join(known, ", "))),
        file});
  }
  size_t covered = 0;
  bool listed = false, any_listed = false;
  for (const task::Setting* setting : settings) {
    claim.covered.push_back(declaration.Covers(*setting));
    covered += claim.covered.back();
    any_listed |= setting->derived.empty();
    listed |= claim.covered.back() && setting->derived.empty();
  }
  claim.text = fmt::format("judged only for {}: {} of {} settings", declaration.Text(), covered,
                           settings.size());
  if (covered == 0 || (any_listed && !listed)) {
    return Answer(records::Reason{
        "nothing_declared",
        fmt::format("the kernel declares that it supports only {}, but no requested setting "
                    "matches",
                    declaration.Text()),
        file});
  }
  claim.declaration = std::move(declaration);
  return Answer(std::move(claim));
}

}  // namespace cupel::assay
