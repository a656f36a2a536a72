// SPDX-License-Identifier: Apache-2.0
#include "base/python_text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace cupel {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// True if the word before a quote says that the string is raw.
bool IsRawPrefix(std::string_view code) {
  size_t begin = code.size();
  while (begin > 0 && IsWord(code[begin - 1])) --begin;
  const std::string_view word = code.substr(begin);
  return word.size() <= 2 && word.find_first_of("rR") != std::string_view::npos &&
         word.find_first_not_of("rRbBfFuU") == std::string_view::npos;
}

/// The string whose opening quote is at the beginning of `text`.
PythonPiece StringAt(std::string_view text) {
  const char quote = text[0];
  const auto has_three = [&](size_t at) {
    return text.size() - at >= 3 && text[at] == quote && text[at + 1] == quote &&
           text[at + 2] == quote;
  };
  const bool is_long = has_three(0);
  const size_t quotes = is_long ? 3 : 1;
  size_t end = quotes;
  bool is_closed = false;
  for (; end < text.size(); ++end) {
    if (text[end] == '\\') {
      ++end;
    } else if (is_long ? has_three(end) : text[end] == quote) {
      is_closed = true;
      break;
    } else if (!is_long && text[end] == '\n') {
      break;
    }
  }
  end = std::min(end, text.size());
  PythonPiece piece{PythonPiece::Kind::kString, {}, text.substr(quotes, end - quotes)};
  piece.text = text.substr(0, is_closed ? end + quotes : end);
  return piece;
}

}  // namespace

std::vector<PythonPiece> SplitPython(std::string_view text) {
  std::vector<PythonPiece> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("#'\""), text.size());
    if (end > 0) pieces.push_back({PythonPiece::Kind::kCode, text.substr(0, end), {}});
    const bool is_raw = IsRawPrefix(text.substr(0, end));
    text.remove_prefix(end);
    if (text.empty()) break;
    if (text[0] == '#') {
      const std::string_view comment = text.substr(0, text.find('\n'));
      pieces.push_back({PythonPiece::Kind::kComment, comment, {}});
    } else {
      pieces.push_back(StringAt(text));
      pieces.back().is_raw = is_raw;
    }
    text.remove_prefix(pieces.back().text.size());
  }
  return pieces;
}

std::string PythonCodeOnly(std::string_view text) {
  std::string code(text);
  const auto blank = [&](std::string_view part) {
    const auto begin = code.begin() + (part.data() - text.data());
    std::replace_if(
        begin, begin + static_cast<std::ptrdiff_t>(part.size()), [](char c) { return c != '\n'; },
        ' ');
  };
  for (const PythonPiece& piece : SplitPython(text)) {
    if (piece.kind == PythonPiece::Kind::kComment) blank(piece.text);
    if (piece.kind == PythonPiece::Kind::kString) blank(piece.content);
  }
  return code;
}

bool IsCudaCode(std::string_view content) {
  static constexpr std::array<std::string_view, 9> kSigns = {
      "__global__", "__device__", "__host__", "__shared__",     "#include",
      "#define",    "torch::",    "at::",     "PYBIND11_MODULE"};
  return std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view sign) {
    return content.find(sign) != std::string_view::npos;
  });
}

}  // namespace cupel
