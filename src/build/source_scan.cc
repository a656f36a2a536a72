// SPDX-License-Identifier: Apache-2.0
#include "build/source_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace cupel::build {
namespace {

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

/// The word that ends before `at`, skipping blanks.
std::string_view WordBefore(std::string_view code, size_t at) {
  while (at > 0 && std::isspace(static_cast<unsigned char>(code[at - 1])) != 0) --at;
  size_t begin = at;
  while (begin > 0 && IsWordChar(code[begin - 1])) --begin;
  return code.substr(begin, at - begin);
}

/// The whole number that begins at `at`, skipping blanks; -1 if there is none.
long NumberAt(std::string_view code, size_t at) {
  while (at < code.size() && std::isspace(static_cast<unsigned char>(code[at])) != 0) ++at;
  long number = -1;
  for (; at < code.size() && std::isdigit(static_cast<unsigned char>(code[at])) != 0; ++at) {
    number = std::min(1000000000L, std::max(0L, number) * 10 + (code[at] - '0'));
  }
  return at < code.size() && (code[at] == '.' || IsWordChar(code[at])) ? -1 : number;
}

/// True for sizes of tensors and for variables that contain them.
bool IsSize(std::string_view code, size_t end, const std::vector<std::string_view>& sizes) {
  while (end > 0 && std::isspace(static_cast<unsigned char>(code[end - 1])) != 0) --end;
  if (end > 0 && code[end - 1] == ')') {
    const size_t open = code.rfind('(', end - 1);
    if (open == std::string_view::npos) return false;
    const std::string_view name = WordBefore(code, open);
    return name == "size" || name == "numel";
  }
  return std::find(sizes.begin(), sizes.end(), WordBefore(code, end)) != sizes.end();
}

/// True if a size is compared with a number that only a specific shape has: `x.size(1) == 4096`, or
/// `n != 768` for `int n = x.size(1)`.
bool ComparesShapes(std::string_view code) {
  constexpr long kLeast = 5;  // smaller numbers: broadcasting, pairs, channels of an image
  std::vector<std::string_view> sizes;
  for (const std::string_view call : {".size(", ".numel("}) {
    for (size_t at = code.find(call); at != std::string_view::npos; at = code.find(call, at + 1)) {
      const size_t equals = code.rfind('=', at);
      const size_t before = code.find_last_of(";{}(,=", at);
      if (equals != std::string_view::npos && equals == before && equals > 0 &&
          std::string_view("=!<>").find(code[equals - 1]) == std::string_view::npos) {
        const std::string_view name = WordBefore(code, equals);
        if (!name.empty()) sizes.push_back(name);
      }
    }
  }
  for (const std::string_view sign : {"==", "!="}) {
    for (size_t at = code.find(sign); at != std::string_view::npos; at = code.find(sign, at + 2)) {
      if (NumberAt(code, at + 2) >= kLeast && IsSize(code, at, sizes)) return true;
    }
  }
  return false;
}

/// Blanks out comments, strings and characters; keeps line breaks.
std::string Blanked(std::string_view source, bool keep_line_comments) {
  std::string code(source);
  const auto blank = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < code.size(); ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    return end;
  };
  for (size_t i = 0; i < source.size();) {
    if (source.substr(i, 2) == "//") {
      const size_t end = std::min(source.find('\n', i), source.size());
      i = keep_line_comments ? end : blank(i, end);
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

}  // namespace

std::string CodeOnly(std::string_view source) { return Blanked(source, false); }

std::string CodeAndLineComments(std::string_view source) { return Blanked(source, true); }

std::vector<std::string> NotesFromPtx(std::string_view ptx) {
  constexpr struct {
    std::string_view name, what;
  } kRegisters[] = {{"%clock64", "the GPU's clock"},
                    {"%clock_hi", "the GPU's clock"},
                    {"%clock", "the GPU's clock"},
                    {"%globaltimer", "the time of day"},
                    {"%smid", "the multiprocessor's number"},
                    {"%gridid", "the launch's number"}};
  std::vector<std::string> notes;
  std::string_view last;
  for (const auto& [name, what] : kRegisters) {
    if (what == last || ptx.find(name) == std::string_view::npos) continue;
    notes.push_back(fmt::format("kernels read {} ({})", what, name));
    last = what;
  }
  return notes;
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
  if (ComparesShapes(code))
    notes.emplace_back("compares sizes with exact numbers: may be specialised");
  return notes;
}

std::string FastMathNote(std::string_view source, std::string_view ptx,
                         const std::vector<std::string>& flags, bool is_program) {
  static constexpr struct {
    std::string_view instruction, error;
    std::string_view names[6];
  } kReplaced[] = {
      {"tanh.approx", "off by 2^-11 of the result", {"tanhf", "tanh"}},
      {"sin.approx",
       "off by 2^-20, more for large arguments",
       {"sinf", "sin", "sincosf", "sincos"}},
      {"cos.approx",
       "off by 2^-20, more for large arguments",
       {"cosf", "cos", "sincosf", "sincos"}},
      {"lg2.approx",
       "off by 2^-22 in absolute terms: much for small results, and more for powers",
       {"logf", "log", "log2f", "log10f", "powf", "pow"}},
  };
  if (std::find(flags.begin(), flags.end(), "--use_fast_math") == flags.end()) return "";
  const std::string code = is_program ? std::string(source) : CodeOnly(source);
  std::string note;
  for (const auto& [instruction, error, names] : kReplaced) {
    if (ptx.find(instruction) == std::string_view::npos) continue;
    const auto called =
        std::find_if(std::begin(names), std::end(names),
                     [&](std::string_view name) { return !name.empty() && HasWord(code, name); });
    if (called == std::end(names)) continue;
    note +=
        fmt::format("{}{} became {} ({})", note.empty() ? "" : ", ", *called, instruction, error);
  }
  if (note.empty()) return note;
  if (is_program) {
    return fmt::format("the program's flags have --use_fast_math: {}", note);
  }
  return fmt::format(
      "--use_fast_math is on by default: {}; write the function yourself, or compile with "
      "--flag=--no-fast-math",
      note);
}

}  // namespace cupel::build
