// SPDX-License-Identifier: Apache-2.0
#include "review/neutral_python.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/python_text.h"
#include "review/neutral.h"
#include "review/neutraliser.h"

namespace cupel::review {
namespace {

constexpr size_t kLongestWord = 64;

/// A name, a dtype, a flag: one word, which cannot say much.
bool IsShown(std::string_view content) {
  return content.size() <= kLongestWord && std::all_of(content.begin(), content.end(), [](char c) {
           return IsWord(c) || c == '.' || c == '-' || c == '=' || c == ':';
         });
}

/// The code of a string, and for each line end in it whether the string has a \n there.
struct Code {
  std::string text;
  std::vector<bool> is_escape;
};

Code Decoded(const PythonPiece& piece) {
  Code code;
  const std::string_view content = piece.content;
  for (size_t i = 0; i < content.size(); ++i) {
    char c = content[i];
    bool is_escape = false;
    if (c == '\\' && !piece.is_raw && i + 1 < content.size() && content[i + 1] != '\n') {
      const char next = content[++i];
      is_escape = next == 'n';
      static constexpr std::string_view kPlain = "\\'\"";
      // Others could hide the beginning of a comment.
      c = is_escape                                     ? '\n'
          : next == 't'                                 ? '\t'
          : kPlain.find(next) != std::string_view::npos ? next
                                                        : '?';
    }
    code.text += c;
    if (c == '\n') code.is_escape.push_back(is_escape);
  }
  return code;
}

void AddCode(const PythonPiece& piece, std::string& out) {
  const size_t begin = static_cast<size_t>(piece.content.data() - piece.text.data());
  const std::string_view quotes = piece.text.substr(0, begin);
  const Code code = Decoded(piece);
  out += quotes;
  size_t line = 0;
  for (const char c : Neutralised(code.text)) {
    const bool is_escape = c == '\n' && line < code.is_escape.size() && code.is_escape[line];
    if (c == '\n') ++line;
    if (is_escape) {
      out += "\\n";
    } else {
      out += c;
    }
  }
  out += quotes;
}

void AddString(const PythonPiece& piece, std::string& out) {
  if (IsShown(piece.content)) {
    out += piece.text;
  } else if (IsCudaCode(piece.content)) {
    AddCode(piece, out);
  } else {
    const auto lines = std::count(piece.content.begin(), piece.content.end(), '\n');
    out += kWithheld;
    out.append(static_cast<size_t>(lines), '\n');
  }
}

}  // namespace

std::string NeutralisedPython(std::string_view source) {
  const std::string text = Plain(source);
  std::string out;
  out.reserve(text.size());
  for (const PythonPiece& piece : SplitPython(text)) {
    if (piece.kind == PythonPiece::Kind::kCode) out += piece.text;
    if (piece.kind == PythonPiece::Kind::kString) AddString(piece, out);
  }
  return out;
}

}  // namespace cupel::review
