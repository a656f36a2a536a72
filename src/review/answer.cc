// SPDX-License-Identifier: Apache-2.0
#include "review/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "base/text.h"
#include "llm/request.h"

namespace cupel::review {
namespace {

constexpr size_t kMaxAnswer = 256u << 10;
constexpr size_t kMaxReason = 1000;
constexpr size_t kMaxQuote = 300;
constexpr size_t kLeastPart = 8;

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// The text after "NAME:" if the line begins with that; ignores markdown.
std::optional<std::string_view> FieldOf(std::string_view line, std::string_view name) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t*_`#>-"), line.size()));
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  line.remove_prefix(std::min(line.find_first_not_of("*_`"), line.size()));
  if (!line.starts_with(':')) return std::nullopt;
  return Trim(line.substr(1), "*`");
}

tl::unexpected<Error> Unusable(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<bool> FineOf(std::string_view value) {
  if (value == "fine") return true;
  if (value == "wrong") return false;
  return Unusable(
      fmt::format("VERDICT is \"{}\", but it must be fine or wrong", llm::Shown(value, 40)));
}

Result<double> ConfidenceOf(std::string_view value) {
  const auto number = ParseNumber<double>(value);
  if (number && *number >= 0 && *number <= 1) return *number;
  return Unusable(fmt::format("CONFIDENCE is \"{}\", but it must be a number from 0 to 1",
                              llm::Shown(value, 40)));
}

/// Reads "12: y[i] = x[i];" or "none"; a : or | follows the number.
Status ReadLine(std::string_view value, Stated& stated) {
  value = Trim(value, "`");
  if (value == "none") return {};
  const int number = TakeNumber<int>(value).value_or(0);
  const std::string_view quoted = Trim(value, "`");
  if (number < 1 || quoted.empty() || (quoted[0] != ':' && quoted[0] != '|')) {
    return Unusable("LINE must be none, or the number of the line, a colon and the line");
  }
  stated.line = Trim(quoted.substr(1), "`");
  stated.line.resize(std::min(stated.line.size(), kMaxQuote));
  stated.line_number = number;
  return {};
}

std::string WithoutBlanks(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return !IsSpace(c); });
  return out;
}

}  // namespace

std::string AnswerFormat(const std::vector<Aspect>& aspects) {
  std::string format;
  if (aspects.size() > 1) {
    format =
        "End your answer with one part for each check, each once and in this order. A part "
        "has five lines in this order:\n\n";
    for (const Aspect aspect : aspects) {
      format +=
          fmt::format("CHECK: {}\nVERDICT: …\nCONFIDENCE: …\nLINE: …\nREASON: …\n\n", Name(aspect));
    }
    format += "The last four lines of a part are either\n\n";
  } else {
    format = "End your answer with four lines, in this order, each once. Either\n\n";
  }
  return format +
         "VERDICT: fine\n"
         "CONFIDENCE: 0.80\n"
         "LINE: none\n"
         "REASON: one or two sentences on what you checked\n"
         "\n"
         "or\n"
         "\n"
         "VERDICT: wrong\n"
         "CONFIDENCE: 0.95\n"
         "LINE: 17: y[i] = x[i];\n"
         "REASON: one or two sentences that name the sizes or values for which it fails\n"
         "\n"
         "CONFIDENCE is how likely it is that your verdict is correct, from 0 (a guess) to 1 "
         "(certain).\n"
         "LINE is the number and the text of the faulty line. Do not begin any other line with "
         "these words.\n";
}

Result<std::vector<Stated>> ReadAnswers(std::string_view text, const std::vector<Aspect>& aspects) {
  if (text.size() > kMaxAnswer) return Unusable("the answer is longer than 256 KiB");
  std::vector<Stated> all;
  if (aspects.size() == 1) {
    TRY_ASSIGN(Stated only, ReadAnswer(text));
    all.push_back(std::move(only));
    return all;
  }
  std::vector<std::pair<std::string_view, std::string>> parts;  // name, lines
  for (const std::string_view line : SplitLines(text)) {
    if (const auto name = FieldOf(line, "CHECK")) {
      parts.emplace_back(Trim(*name), "");
    } else if (!parts.empty()) {
      parts.back().second.append(line) += '\n';
    }
  }
  if (parts.size() != aspects.size()) {
    return Unusable(
        fmt::format("there are {} CHECK lines, but {} checks", parts.size(), aspects.size()));
  }
  for (size_t i = 0; i < aspects.size(); ++i) {
    const char* const name = Name(aspects[i]);
    if (parts[i].first != name) {
      return Unusable(fmt::format("CHECK number {} is \"{}\", but it must be {}", i + 1,
                                  llm::Shown(parts[i].first, 40), name));
    }
    auto stated = ReadAnswer(parts[i].second);
    if (!stated) return Unusable(fmt::format("{}: {}", name, stated.error().message));
    all.push_back(std::move(*stated));
  }
  return all;
}

Result<Stated> ReadAnswer(std::string_view text) {
  if (text.size() > kMaxAnswer) return Unusable("the answer is longer than 256 KiB");
  constexpr std::array<std::string_view, 4> kNames = {"VERDICT", "CONFIDENCE", "LINE", "REASON"};
  std::array<std::optional<std::string_view>, 4> fields;
  std::string reason;
  size_t last = 0;
  for (const std::string_view line : SplitLines(text)) {
    bool named = false;
    for (size_t i = 0; i < kNames.size(); ++i) {
      const auto value = FieldOf(line, kNames[i]);
      if (!value) continue;
      if (fields[i]) return Unusable(fmt::format("there is more than one {} line", kNames[i]));
      if (i > 0 && !fields[i - 1]) {
        return Unusable(fmt::format("{} must not come before {}", kNames[i], kNames[i - 1]));
      }
      fields[i] = value;
      named = true;
      last = i;
    }
    // A reason may span several lines.
    if (!named && last == 3 && reason.size() < kMaxReason && Trim(line, "`") != "") {
      reason.append(" ").append(Trim(line));
    }
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (!fields[i]) return Unusable(fmt::format("there is no {} line", kNames[i]));
  }
  Stated stated;
  TRY_ASSIGN(stated.fine, FineOf(*fields[0]));
  TRY_ASSIGN(stated.confidence, ConfidenceOf(*fields[1]));
  TRY(ReadLine(*fields[2], stated));
  stated.reason = llm::Shown(std::string(*fields[3]) + reason, kMaxReason);
  if (stated.reason.empty()) return Unusable("REASON is empty");
  if (!stated.fine && stated.line.empty()) {
    return Unusable("VERDICT is wrong, but LINE names no line");
  }
  return stated;
}

int FindQuote(std::string_view source, const Stated& stated) {
  const std::string quote = WithoutBlanks(stated.line);
  if (quote.empty()) return 0;
  const std::vector<std::string_view> lines = SplitLines(source);
  const auto holds = [&](size_t index) {
    const std::string line = WithoutBlanks(lines[index]);
    return line == quote || (quote.size() >= kLeastPart && line.find(quote) != std::string::npos);
  };
  const auto stated_index = static_cast<size_t>(stated.line_number - 1);
  if (stated.line_number > 0 && stated_index < lines.size() && holds(stated_index)) {
    return stated.line_number;
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (holds(i)) return static_cast<int>(i + 1);
  }
  return 0;
}

}  // namespace cupel::review
