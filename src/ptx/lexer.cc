// SPDX-License-Identifier: Apache-2.0
#include "ptx/lexer.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <limits>

namespace cupel::ptx {
namespace {

enum CharClass : uint8_t { kOther = 0, kDigit = 1, kLetter = 2, kSymbolChar = 4 };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[c] = kDigit;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = kLetter;
  for (int c = 'A'; c <= 'Z'; ++c) table[c] = kLetter;
  table['_'] = kLetter;
  table['$'] = kSymbolChar;
  table['%'] = kSymbolChar;
  return table;
}();

uint8_t ClassOf(char c) { return kClasses[static_cast<unsigned char>(c)]; }
bool IsDigit(char c) { return ClassOf(c) == kDigit; }
bool IsWord(char c) { return (ClassOf(c) & (kDigit | kLetter)) != 0; }
bool IsIdentifier(char c) { return ClassOf(c) != kOther; }

/// The value of a digit in bases up to 16. Returns 99 for other characters.
unsigned DigitValue(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return 99;
}

}  // namespace

std::string Quote(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 48)) out += c >= 32 && c < 127 ? c : '?';
  if (text.size() > 48) out += "...";
  return out;
}

Token Lexer::Make(TokenKind kind, size_t start) const {
  Token token;
  token.kind = kind;
  token.line = line_;
  token.text = text_.substr(start, pos_ - start);
  return token;
}

void Lexer::SkipBlanks() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '\n') {
      ++line_;
      ++pos_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++pos_;
    } else if (c == '/' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '/') {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else if (c == '/' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '*') {
      const size_t end = text_.find("*/", pos_ + 2);
      unterminated_comment_ = end == std::string_view::npos;
      if (unterminated_comment_) return;
      for (; pos_ < end; ++pos_) line_ += text_[pos_] == '\n';
      pos_ = end + 2;
    } else {
      return;
    }
  }
}

Token Lexer::Next() {
  SkipBlanks();
  const size_t start = pos_;
  if (start >= text_.size()) return Make(TokenKind::kEnd, start);
  if (unterminated_comment_) {
    pos_ = text_.size();  // bad tokens must advance too: callers skip tokens in loops
    return Make(TokenKind::kBad, start);
  }
  const char c = text_[start];
  if (IsDigit(c)) return Number();
  if (IsIdentifier(c)) {
    while (pos_ < text_.size() && IsIdentifier(text_[pos_])) ++pos_;
    return Make(TokenKind::kIdentifier, start);
  }
  ++pos_;
  if (c == '"') return Quoted();
  if (c == '.' && pos_ < text_.size() && IsIdentifier(text_[pos_])) {
    while (pos_ < text_.size()) {
      if (IsIdentifier(text_[pos_])) {
        ++pos_;
      } else if (text_.substr(pos_, 2) == "::" && pos_ + 2 < text_.size() &&
                 IsWord(text_[pos_ + 2])) {
        pos_ += 2;
      } else {
        break;
      }
    }
    return Make(TokenKind::kDot, start + 1);
  }
  constexpr std::string_view kPunctuation = "{}()[]<>,;:+-*=!@|~&^/?";
  if (kPunctuation.find(c) == std::string_view::npos) return Make(TokenKind::kBad, start);
  Token token = Make(TokenKind::kPunctuation, start);
  token.punctuation = c;
  return token;
}

Token Lexer::Quoted() {
  const size_t start = pos_;
  while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') {
    pos_ += text_[pos_] == '\\' && pos_ + 1 < text_.size() && text_[pos_ + 1] != '\n' ? 2 : 1;
  }
  if (pos_ >= text_.size() || text_[pos_] != '"') return Make(TokenKind::kBad, start - 1);
  Token token = Make(TokenKind::kString, start);
  ++pos_;
  return token;
}

Token Lexer::HexFloat(char letter) {
  const size_t start = pos_;
  const size_t digits = letter == 'f' ? 8 : 16;
  pos_ += 2;
  uint64_t bits = 0;
  size_t count = 0;
  while (pos_ < text_.size() && DigitValue(text_[pos_]) < 16 && count <= digits) {
    bits = bits << 4 | DigitValue(text_[pos_]);
    ++pos_;
    ++count;
  }
  if (count != digits) return Make(TokenKind::kBad, start);
  Token token = Make(TokenKind::kFloat, start);
  token.bits = bits;
  token.imm_type = letter == 'f' ? Type::kF32 : Type::kF64;
  return token;
}

Token Lexer::DecimalFloat(size_t start) {
  double value = 0;
  const char* begin = text_.data() + start;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  pos_ = start + static_cast<size_t>(result.ptr - begin);
  if (result.ec != std::errc()) return Make(TokenKind::kBad, start);
  Token token = Make(TokenKind::kFloat, start);
  token.bits = std::bit_cast<uint64_t>(value);
  token.imm_type = Type::kF64;
  return token;
}

Token Lexer::Number() {
  const size_t start = pos_;
  unsigned base = 10;
  if (text_[start] == '0' && start + 1 < text_.size()) {
    const char letter = static_cast<char>(text_[start + 1] | 0x20);
    if (letter == 'f' || letter == 'd') return HexFloat(letter);
    if (letter == 'x') base = 16;
    if (letter == 'b') base = 2;
    if (IsDigit(text_[start + 1])) base = 8;
    pos_ += base == 10 ? 0 : base == 8 ? 1 : 2;
  }
  const size_t digits = pos_;
  uint64_t value = 0;
  bool fits = true;
  for (; pos_ < text_.size() && DigitValue(text_[pos_]) < base; ++pos_) {
    fits = fits && value <= (~uint64_t{0} - DigitValue(text_[pos_])) / base;
    value = value * base + DigitValue(text_[pos_]);
  }
  const char next = pos_ < text_.size() ? text_[pos_] : '\0';
  if (base == 10 || base == 8) {
    const bool point = next == '.' && (pos_ + 1 >= text_.size() || !IsIdentifier(text_[pos_ + 1]) ||
                                       IsDigit(text_[pos_ + 1]));
    if (point || next == 'e' || next == 'E') return DecimalFloat(start);
  }
  const bool has_suffix = next == 'U';
  pos_ += has_suffix;
  const bool glued = pos_ < text_.size() && IsIdentifier(text_[pos_]);
  if (!fits || pos_ == digits || glued) {
    while (pos_ < text_.size() && IsIdentifier(text_[pos_])) ++pos_;
    return Make(TokenKind::kBad, start);
  }
  Token token = Make(TokenKind::kInteger, start);
  token.bits = value;
  const bool is_unsigned =
      has_suffix || value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  token.imm_type = is_unsigned ? Type::kU64 : Type::kS64;
  return token;
}

bool TokenStream::Accept(char punctuation) {
  if (!At(punctuation)) return false;
  Advance();
  return true;
}

bool TokenStream::AcceptDot(std::string_view word) {
  if (!AtDot(word)) return false;
  Advance();
  return true;
}

bool TokenStream::Expect(char punctuation) {
  return Accept(punctuation) || Unexpected(std::string_view(&punctuation, 1));
}

bool TokenStream::ExpectDot(std::string_view word) {
  return AcceptDot(word) || Unexpected(fmt::format(".{}", word));
}

bool TokenStream::ExpectIdentifier(std::string_view* text, std::string_view what) {
  if (current_.kind != TokenKind::kIdentifier) return Unexpected(what);
  *text = current_.text;
  Advance();
  return true;
}

bool TokenStream::ExpectString(std::string_view* text) {
  if (current_.kind != TokenKind::kString) return Unexpected("a string");
  *text = current_.text;
  Advance();
  return true;
}

bool TokenStream::ExpectInteger(uint64_t limit, uint64_t* value, std::string_view what) {
  if (current_.kind != TokenKind::kInteger) return Unexpected(what);
  if (current_.bits > limit) {
    return Malformed(fmt::format("{} is {}, more than {}", what, current_.bits, limit));
  }
  *value = current_.bits;
  Advance();
  return true;
}

bool TokenStream::ExpectSigned(int64_t* value, std::string_view what) {
  const bool negative = Accept('-');
  if (current_.kind != TokenKind::kInteger) return Unexpected(what);
  const uint64_t limit =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (current_.bits > limit) return Malformed(fmt::format("{} is too large", what));
  *value = static_cast<int64_t>(negative ? 0 - current_.bits : current_.bits);
  Advance();
  return true;
}

bool TokenStream::Unexpected(std::string_view expected) {
  if (AtEnd()) return Malformed(fmt::format("the text ends where {} was expected", expected));
  const char* dot = current_.kind == TokenKind::kDot ? "." : "";
  return Malformed(
      fmt::format("'{}{}' where {} was expected", dot, Quote(current_.text), expected));
}

bool TokenStream::Error(ErrorCode code, std::string_view message, int line) {
  if (failed_) return false;
  failed_ = true;
  error_ = {code, fmt::format("PTX line {}: {}", line > 0 ? line : current_.line, message), {}};
  return false;
}

}  // namespace cupel::ptx
