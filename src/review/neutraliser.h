// The lexer behind Neutralised (neutral.h): reads the text in one pass and keeps the state that
// classifies each token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "review/ptx_text.h"

namespace cupel::review {

inline bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }

/// Converts line ends to \n, and invisible or reordering characters to question marks.
std::string Plain(std::string_view source);

/// The length of a spliced line end (backslash, blanks, newline) at `at`; 0 if there is none.
size_t SpliceAt(std::string_view text, size_t at);

/// Processes the text in one pass. Copies everything else unchanged.
class Neutraliser {
 public:
  /// `text` has \n as line ends and is otherwise printable.
  explicit Neutraliser(std::string text) : text_(std::move(text)) {}
  std::string Run();

 private:
  bool End() const { return at_ >= text_.size(); }
  bool Matches(std::string_view pair) const;
  void Copy(size_t count = 1);
  void NewLine();
  void Token();
  void KeepLineEnds(size_t begin, size_t end, bool spliced);
  void LineComment();
  void BlockComment();
  void Word();
  void Literal();
  void RawString();
  void Directive();
  void DropRestOfLine();
  void IncludedPath();
  void SkipLine();
  void SkipGroup();
  std::string LogicalLine(size_t from) const;
  void Emit(std::string_view prefix, std::string_view content, char quote, bool raw);
  void FollowAssembly(char c);

  const std::string text_;
  std::string out_;
  size_t at_ = 0;
  bool line_begins_ = true;  // only blanks and comments so far in this line
  bool in_directive_ = false;
  // Inline assembly: -1 outside, 0 between `asm` and its parenthesis, then the depth.
  int assembly_ = -1;
  PtxText ptx_;
};

}  // namespace cupel::review
