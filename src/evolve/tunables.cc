// SPDX-License-Identifier: Apache-2.0
#include "evolve/tunables.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parse_number.h"
#include "base/text.h"
#include "evolve/tokens.h"

namespace cupel::evolve {
namespace {

/// The value of a decimal literal (suffixes u and l allowed); floats and hex are not tunables.
std::optional<int64_t> DecimalValue(std::string_view text, size_t& digits) {
  digits = 0;
  while (digits < text.size() && IsDigit(text[digits])) ++digits;
  const std::string_view suffix = text.substr(digits);
  if (digits == 0 || digits > 9 || suffix.find_first_not_of("uUlL") != std::string_view::npos) {
    return std::nullopt;
  }
  if (digits > 1 && text[0] == '0') return std::nullopt;
  return ParseNumber<int64_t>(text.substr(0, digits));
}

bool IsIntegerType(std::string_view word) {
  return word == "int" || word == "unsigned" || word == "int32_t" || word == "uint32_t" ||
         word == "int64_t" || word == "size_t" || word == "long" || word == "short";
}

class TunableFinder {
 public:
  explicit TunableFinder(std::string_view source) : source_(source), all_(Tokenize(source)) {
    for (const Token& token : all_) {
      if (token.kind != Token::Kind::kLineComment && token.kind != Token::Kind::kString) {
        tokens_.push_back(token);
      }
    }
  }

  Result<std::vector<Tunable>> Find() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      FindDefine(i);
      FindConstant(i);
    }
    TRY(ApplyComments());
    return std::move(found_);
  }

 private:
  bool Is(size_t i, std::string_view text) const {
    return i < tokens_.size() && tokens_[i].text == text;
  }

  void Add(std::string name, const Token& number) {
    size_t digits = 0;
    const auto value = DecimalValue(number.text, digits);
    if (!value) return;
    for (const Tunable& other : found_) {
      if (other.begin == number.begin) return;
      if (other.name == name) return;  // ignore a second definition (#else branch, other scope)
    }
    Tunable tunable;
    tunable.name = std::move(name);
    tunable.value = *value;
    tunable.begin = number.begin;
    tunable.end = number.begin + digits;
    tunable.line = number.line;
    found_.push_back(std::move(tunable));
  }

  /// #define NAME 128
  void FindDefine(size_t i) {
    if (!Is(i, "#") || !Is(i + 1, "define") || i + 3 >= tokens_.size()) return;
    const Token& name = tokens_[i + 2];
    const Token& value = tokens_[i + 3];
    const bool alone = i + 4 >= tokens_.size() || tokens_[i + 4].line != value.line;
    if (name.line == value.line && value.kind == Token::Kind::kNumber && alone) {
      Add(std::string(name.text), value);
    }
  }

  /// [constexpr|const] int NAME = 128;
  void FindConstant(size_t i) {
    if (!Is(i + 1, "=") || i == 0 || !Is(i + 3, ";")) return;
    const Token& name = tokens_[i];
    if (name.kind != Token::Kind::kWord || tokens_[i + 2].kind != Token::Kind::kNumber) return;
    bool typed = false;
    for (size_t back = 1; back <= 4 && back <= i; ++back) {
      const std::string_view word = tokens_[i - back].text;
      if (IsIntegerType(word) || word == "auto") typed = true;
      if (word == ";" || word == "{" || word == "}" || word == "(" || word == ",") break;
    }
    if (typed) Add(std::string(name.text), tokens_[i + 2]);
  }

  /// Reads the comments "tune: NAME in a, b, c". Constants without one are no tunables.
  Status ApplyComments() {
    for (const Token& token : all_) {
      if (token.kind != Token::Kind::kLineComment) continue;
      const size_t mark = token.text.find("tune:");
      if (mark == std::string_view::npos) continue;
      TRY(ApplyComment(token.text.substr(mark + 5), token.line));
    }
    std::erase_if(found_, [](const Tunable& t) { return t.choices.empty(); });
    return {};
  }

  Status ApplyComment(std::string_view text, int line) {
    const std::vector<Token> words = Tokenize(text);
    if (words.size() < 3 || words[1].text != "in") {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("line {}: a tune comment must have the form \"tune: NAME in 1, 2, 4\"",
                      line));
    }
    const auto tunable = std::find_if(found_.begin(), found_.end(),
                                      [&](const Tunable& t) { return t.name == words[0].text; });
    if (tunable == found_.end()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format(
              "line {}: the tune comment names {}, but this file has no such integer constant",
              line, words[0].text),
          "define it as constexpr int or #define with a decimal literal");
    }
    std::vector<int64_t> choices = {tunable->value};
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i].text == ",") continue;
      size_t digits = 0;
      const auto value = DecimalValue(words[i].text, digits);
      if (!value) break;
      choices.push_back(*value);
    }
    std::sort(choices.begin(), choices.end());
    choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
    if (choices.size() < 2) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format(
              "line {}: the tune comment for {} has no choices other than the current value", line,
              words[0].text));
    }
    tunable->choices = std::move(choices);
    return {};
  }

  std::string_view source_;
  std::vector<Token> all_, tokens_;
  std::vector<Tunable> found_;
};

}  // namespace

Result<std::vector<Tunable>> FindTunables(std::string_view source) {
  return TunableFinder(source).Find();
}

Result<std::string> Rewrite(std::string_view source, const std::vector<Tunable>& tunables,
                            const Assignment& assignment) {
  std::vector<std::pair<const Tunable*, int64_t>> edits;
  for (const auto& entry : assignment) {
    const auto tunable = std::find_if(tunables.begin(), tunables.end(),
                                      [&](const Tunable& t) { return t.name == entry.first; });
    if (tunable == tunables.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("this kernel has no tunable {}", entry.first));
    }
    edits.emplace_back(&*tunable, entry.second);
  }
  std::sort(edits.begin(), edits.end(),
            [](const auto& a, const auto& b) { return a.first->begin < b.first->begin; });
  std::string result;
  size_t at = 0;
  for (const auto& [tunable, value] : edits) {
    result += source.substr(at, tunable->begin - at);
    result += std::to_string(value);
    at = tunable->end;
  }
  result += source.substr(at);
  return result;
}

std::string Describe(const Assignment& assignment) {
  std::string text;
  for (const auto& [name, value] : assignment) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

}  // namespace cupel::evolve
