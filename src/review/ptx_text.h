// The PTX in the strings of inline assembly, without the words that could address a reader: its
// comments and its quoted strings. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::review {

/// Adjacent strings are one text to the assembler, so a comment may begin in one and end in the
/// next: one object reads all strings of one asm statement, in order.
class PtxText {
 public:
  /// The content of a string as it stands in the source (`raw`: without escapes), with comments and
  /// quoted strings dropped; line ends stay.
  std::string Neutralised(std::string_view content, bool raw);

 private:
  enum class State { kCode, kLine, kBlock, kQuoted };
  State state_ = State::kCode;
  char last_ = 0;  // the sign before, in code or in a block comment
};

}  // namespace cupel::review
