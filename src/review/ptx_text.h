// Removes text that could address a reader from the PTX in the strings of inline assembly: comments
// and quoted strings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::review {

/// The assembler joins adjacent strings, so a comment may begin in one string and end in the next.
/// Use one object for all strings of an asm statement, in order.
class PtxText {
 public:
  /// `content` is the content of a string in the source (`raw`: a raw string, without escapes).
  /// Returns it without comments and quoted strings, but with their line ends.
  std::string Neutralised(std::string_view content, bool raw);

 private:
  enum class State { kCode, kLine, kBlock, kQuoted };
  State state_ = State::kCode;
  char last_ = 0;  // the previous character, in code or in a block comment
};

}  // namespace cupel::review
