// Splits Python text into code, comments and strings, without a parser.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cupel {

struct PythonPiece {
  enum class Kind {
    kCode,     // everything else, with the prefixes of strings
    kComment,  // from '#' to the end of the line, without the line end
    kString,
  } kind = Kind::kCode;
  std::string_view text;     // of the whole piece: a string's with its quotes
  std::string_view content;  // of a string, between its quotes
  bool is_raw = false;       // a string r"…"
};

/// The pieces of any text, in order; together they are the text, to which they refer. A string that
/// does not end reaches to the end of its line, or of the text if it has three quotes.
std::vector<PythonPiece> SplitPython(std::string_view text);

/// The text with blanks in place of comments and of the contents of strings. Line ends stay, so
/// every character keeps its place.
std::string PythonCodeOnly(std::string_view text);

/// True if a string's content looks like C++ or CUDA, as programs pass it to load_inline.
bool IsCudaCode(std::string_view content);

}  // namespace cupel
