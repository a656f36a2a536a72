// Splits PTX text into tokens without allocating: tokens are views into the text. TokenStream adds
// one token of look-ahead. It keeps the first error, so that the parser's functions can return
// plain bool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/ir.h"

namespace cupel::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kIdentifier,  // tid, %r12, $L__BB0_1, _Z3foo
  kDot,         // .shared::cta, .m16n8k16, .2d: text is without the dot
  kInteger,     // bits, imm_type kS64 or kU64
  kFloat,       // bits, imm_type kF32 or kF64
  kString,      // text between the quotes, escapes kept
  kPunctuation,
  kBad,  // text is the invalid part
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  char punctuation = 0;
  Type imm_type = Type::kNone;
  int line = 1;
  uint64_t bits = 0;
  std::string_view text;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token Next();

 private:
  void SkipBlanks();
  Token Number();
  Token HexFloat(char letter);
  Token DecimalFloat(size_t start);
  Token Quoted();
  Token Make(TokenKind kind, size_t start) const;

  std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool unterminated_comment_ = false;
};

class TokenStream {
 public:
  explicit TokenStream(std::string_view text) : lexer_(text) { Advance(); }

  const Token& current() const { return current_; }
  int line() const { return current_.line; }
  void Advance() { current_ = lexer_.Next(); }

  bool AtEnd() const { return current_.kind == TokenKind::kEnd; }
  bool At(char punctuation) const {
    return current_.kind == TokenKind::kPunctuation && current_.punctuation == punctuation;
  }
  bool AtDot(std::string_view word) const {
    return current_.kind == TokenKind::kDot && current_.text == word;
  }
  /// Consumes the token if it is next.
  bool Accept(char punctuation);
  bool AcceptDot(std::string_view word);
  /// Consumes the token, or records an error and returns false.
  bool Expect(char punctuation);
  bool ExpectDot(std::string_view word);
  bool ExpectIdentifier(std::string_view* text, std::string_view what);
  bool ExpectString(std::string_view* text);
  /// Reads an unsigned integer of at most `limit`.
  bool ExpectInteger(uint64_t limit, uint64_t* value, std::string_view what);
  /// Reads an optional sign and an integer.
  bool ExpectSigned(int64_t* value, std::string_view what);

  /// Both record the first error and return false.
  bool Unexpected(std::string_view expected);
  bool Error(ErrorCode code, std::string_view message, int line = 0);
  bool Malformed(std::string_view message, int line = 0) {
    return Error(ErrorCode::kInvalidArgument, message, line);
  }
  bool Unsupported(std::string_view message, int line = 0) {
    return Error(ErrorCode::kUnsupported, message, line);
  }
  bool failed() const { return failed_; }
  const cupel::Error& error() const { return error_; }

 private:
  Lexer lexer_;
  Token current_;
  bool failed_ = false;
  cupel::Error error_;
};

/// The first 48 characters of untrusted text for messages; unprintable ones become "?".
std::string Quote(std::string_view text);

}  // namespace cupel::ptx
