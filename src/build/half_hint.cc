// SPDX-License-Identifier: Apache-2.0
#include "build/half_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "build/is_one_of.h"

namespace cupel::build {
namespace {

/// The words of the types that an error names.
std::vector<std::string> WordsOf(std::string_view types) {
  std::vector<std::string> words(1);
  for (const char c : types) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// The macro that hides what an error of nvcc is about: "no operator "*" matches these operands:
/// const __half * float". Empty if it is about something else, such as a type of the candidate.
std::string MacroOf(const std::string& message) {
  const bool is_operator = message.starts_with("no operator \"");
  const bool is_conversion = message.starts_with("no suitable conversion function from \"");
  const bool is_constructor = message.starts_with("no instance of constructor \"__");
  if (!is_operator && !is_conversion && !is_constructor) return {};
  size_t from = 0;
  if (is_operator) from = std::min(message.find(": "), message.size());
  if (is_conversion) from = message.find('"');
  bool half = false, half2 = false, bfloat16 = false, number = false;
  for (const std::string& word : WordsOf(std::string_view(message).substr(from))) {
    constexpr std::string_view kNumbers[] = {"float", "double", "int", "long", "short", "unsigned"};
    constexpr std::string_view kWords[] = {"",    "const",    "to",       "exists",      "no",
                                           "of",  "list",     "instance", "constructor", "matches",
                                           "the", "argument", "volatile", "bool"};
    const auto is_in = [&](const auto& names) {
      return std::ranges::find(names, word) != std::end(names);
    };
    half = half || word == "__half";
    half2 = half2 || word == "__half2";
    bfloat16 = bfloat16 || word == "__nv_bfloat16";
    const bool is_number = is_in(kNumbers);
    number = number || is_number;
    const bool is_known =
        is_number || is_in(kWords) || word.starts_with("__half") || word == "__nv_bfloat16";
    if (!is_known) return {};
  }
  const bool converts = number || is_conversion || is_constructor;
  if (bfloat16) return !half && !half2 && converts ? "__CUDA_NO_BFLOAT16_CONVERSIONS__" : "";
  if (half2) return !half && !number ? "__CUDA_NO_HALF2_OPERATORS__" : "";
  if (!half) return {};
  return converts ? "__CUDA_NO_HALF_CONVERSIONS__" : "__CUDA_NO_HALF_OPERATORS__";
}

}  // namespace

std::string HalfHint(const std::vector<Diagnostic>& diagnostics,
                     const std::vector<std::string>& flags) {
  std::vector<std::string> needed;
  for (const Diagnostic& diagnostic : diagnostics) {
    const std::string macro = MacroOf(diagnostic.message);
    if (diagnostic.severity != Diagnostic::Severity::kError || macro.empty()) continue;
    const std::string flag = "-U" + macro;
    if (!IsOneOf(flags, flag) && !IsOneOf(needed, flag)) needed.push_back(flag);
  }
  if (needed.empty()) return {};
  std::string options;
  for (const std::string& flag : needed) options += " --flag=" + flag;
  return fmt::format(
      "; PyTorch compiles extensions without these operators and conversions: use functions such "
      "as __hadd and __half2float, or compile as your own build does, with{}",
      options);
}

}  // namespace cupel::build
