// SPDX-License-Identifier: Apache-2.0
#include "review/neutral_python.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
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

/// The code of a string, and for each line end in it whether the string has an escape there.
struct Code {
  std::string text;
  std::vector<bool> is_escape;
};

/// Reads a number of at most `most` digits at the beginning of `text`, and removes it.
char TakeNumber(std::string_view& text, size_t most, int base) {
  int value = 0;
  const std::string_view digits = text.substr(0, most);
  const char* const begin = digits.begin();
  const auto [at, error] = std::from_chars(begin, digits.end(), value, base);
  text.remove_prefix(static_cast<size_t>(at - begin));
  return error == std::errc() ? static_cast<char>(value) : '?';
}

/// What the compiler reads: escapes could hide the beginning of a comment. Nothing for escapes that
/// name a character (\N, \u), which honest code for compilers does not need.
std::optional<Code> Decoded(const PythonPiece& piece) {
  Code code;
  std::string_view rest = piece.content;
  while (!rest.empty()) {
    char c = rest[0];
    rest.remove_prefix(1);
    bool is_escape = false;
    if (c == '\\' && !piece.is_raw && !rest.empty() && rest[0] != '\n') {
      is_escape = true;
      const char kind = rest[0];
      static constexpr std::string_view kKinds = "\\'\"nt", kMeanings = "\\'\"\n\t";
      if (kind == 'N' || kind == 'u' || kind == 'U') return std::nullopt;
      if (kind >= '0' && kind <= '7') {
        c = TakeNumber(rest, 3, 8);
      } else {
        rest.remove_prefix(1);
        const size_t known = kKinds.find(kind);
        c = kind == 'x'                       ? TakeNumber(rest, 2, 16)
            : known != std::string_view::npos ? kMeanings[known]
                                              : '?';
      }
    }
    code.text += c;
    if (c == '\n') code.is_escape.push_back(is_escape);
  }
  return code;
}

void AddCode(const PythonPiece& piece, const Code& code, std::string& out) {
  const size_t begin = static_cast<size_t>(piece.content.data() - piece.text.data());
  const std::string_view quotes = piece.text.substr(0, begin);
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
    return;
  }
  if (IsCudaCode(piece.content)) {
    if (const auto code = Decoded(piece)) return AddCode(piece, *code, out);
  }
  const auto lines = std::count(piece.content.begin(), piece.content.end(), '\n');
  out += kWithheld;
  out.append(static_cast<size_t>(lines), '\n');
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
