// SPDX-License-Identifier: Apache-2.0
#include "build/source_scan.h"

#include <algorithm>
#include <cctype>

namespace cupel::build {
namespace {

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The end of the literal that begins at `begin` with the quote `text[begin]`.
size_t EndOfLiteral(std::string_view text, size_t begin) {
  const char quote = text[begin];
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

/// The end of R"tag( … )tag", whose quote is at `quote`.
size_t EndOfRawString(std::string_view text, size_t quote) {
  const size_t open = text.find('(', quote);
  if (open == std::string_view::npos || open - quote > 17) return EndOfLiteral(text, quote);
  const std::string close = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  const size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

bool HasWord(std::string_view code, std::string_view word) {
  for (size_t at = code.find(word); at != std::string_view::npos; at = code.find(word, at + 1)) {
    const bool begins = at == 0 || !IsWordChar(code[at - 1]);
    const size_t end = at + word.size();
    if (begins && (end == code.size() || !IsWordChar(code[end]))) return true;
  }
  return false;
}

}  // namespace

std::string CodeOnly(std::string_view source) {
  std::string code(source);
  const auto blank = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < code.size(); ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    return end;
  };
  for (size_t i = 0; i < source.size();) {
    if (source.substr(i, 2) == "//") {
      i = blank(i, std::min(source.find('\n', i), source.size()));
    } else if (source.substr(i, 2) == "/*") {
      const size_t end = source.find("*/", i + 2);
      i = blank(i, end == std::string_view::npos ? source.size() : end + 2);
    } else if (source[i] == '"') {
      const bool raw = i > 0 && source[i - 1] == 'R' && (i < 2 || !IsWordChar(source[i - 2]));
      i = blank(i, raw ? EndOfRawString(source, i) : EndOfLiteral(source, i));
    } else if (source[i] == '\'' && (i == 0 || !IsWordChar(source[i - 1]))) {  // not 1'000
      i = blank(i, EndOfLiteral(source, i));
    } else {
      ++i;
    }
  }
  return code;
}

std::vector<std::string> NotesFromSource(std::string_view source) {
  const std::string code = CodeOnly(source);
  const auto has = [&](std::string_view text) { return code.find(text) != std::string::npos; };
  std::vector<std::string> notes;
  if (HasWord(code, "asm") || HasWord(code, "__asm__") || HasWord(code, "__asm")) {
    notes.emplace_back("uses inline assembly");
  }
  if (has("cublas")) notes.emplace_back("uses cuBLAS");
  if (has("wmma") || has("cute::") || has("cutlass"))
    notes.emplace_back("uses tensor core libraries");
  if (has("cub::")) notes.emplace_back("uses CUB");
  if (has("thrust::")) notes.emplace_back("uses Thrust");
  if (has("cudaGraph") || has("cudaStreamBeginCapture")) notes.emplace_back("uses CUDA graphs");
  if (has("cooperative_groups") || has("cudaLaunchCooperativeKernel")) {
    notes.emplace_back("uses cooperative groups");
  }
  return notes;
}

}  // namespace cupel::build
