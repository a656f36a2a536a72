// SPDX-License-Identifier: Apache-2.0
#include "evolve/tokens.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace cupel::evolve {
namespace {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(source) {}

  std::vector<Token> Scan() {
    while (at_ < source_.size()) Step();
    return std::move(tokens_);
  }

 private:
  void Step() {
    const char c = source_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == '/' && Peek(1) == '/') {
      Take(Token::Kind::kLineComment, source_.find('\n', at_));
    } else if (c == '/' && Peek(1) == '*') {
      Skip(source_.find("*/", at_ + 2), 2);
    } else if (c == '"') {
      Take(Token::Kind::kString, IsRaw() ? EndOfRawString() : EndOfQuoted('"'));
    } else if (c == '\'') {
      Take(Token::Kind::kString, EndOfQuoted('\''));
    } else if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) {
      Take(Token::Kind::kNumber, EndOfNumber());
    } else if (IsWordChar(c)) {
      size_t end = at_;
      while (end < source_.size() && IsWordChar(source_[end])) ++end;
      Take(Token::Kind::kWord, end);
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      Take(Token::Kind::kPunctuation, at_ + 1);
    }
  }

  char Peek(size_t ahead) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void Take(Token::Kind kind, size_t end) {
    end = std::min(end, source_.size());
    tokens_.push_back({kind, source_.substr(at_, end - at_), at_, line_});
    for (; at_ < end; ++at_) line_ += source_[at_] == '\n';
  }

  void Skip(size_t end, size_t extra) {
    end = end == std::string_view::npos ? source_.size() : end + extra;
    for (; at_ < end; ++at_) line_ += source_[at_] == '\n';
  }

  bool IsRaw() const {
    return !tokens_.empty() && tokens_.back().begin + tokens_.back().text.size() == at_ &&
           tokens_.back().text.ends_with('R');
  }

  size_t EndOfRawString() const {
    const size_t open = source_.find('(', at_);
    if (open == std::string_view::npos) return open;
    const std::string close = ")" + std::string(source_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const size_t end = source_.find(close, open);
    return end == std::string_view::npos ? end : end + close.size();
  }

  size_t EndOfQuoted(char quote) const {
    size_t end = at_ + 1;
    for (; end < source_.size() && source_[end] != quote && source_[end] != '\n'; ++end) {
      if (source_[end] == '\\') ++end;
    }
    return end < source_.size() && source_[end] == quote ? end + 1 : end;
  }

  /// A sign right after the exponent's letter belongs to the number.
  size_t EndOfNumber() const {
    const bool hex = source_[at_] == '0' && (Peek(1) == 'x' || Peek(1) == 'X');
    size_t end = at_;
    for (; end < source_.size(); ++end) {
      const char c = source_[end];
      const char before = end > at_ ? static_cast<char>(source_[end - 1] | 0x20) : '\0';
      const bool exponent = before == (hex ? 'p' : 'e');
      if (!IsWordChar(c) && c != '.' && c != '\'' && !(exponent && (c == '+' || c == '-'))) break;
    }
    return end;
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Scanner(source).Scan(); }

}  // namespace cupel::evolve
