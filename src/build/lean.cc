// Finds the parts of the headers that a candidate visibly does not use. Parsing unused parts takes
// most of a build's time. shim/cupel/prelude.h defines which words require which part.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "build/flags.h"
#include "build/source_scan.h"

namespace cupel::build {
namespace {

using std::string_view;

template <size_t N>
bool Mentions(string_view text, const std::array<string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](string_view word) { return text.find(word) != string_view::npos; });
}

constexpr std::array<string_view, 17> kHalfWords = {
    "half",    "fp16", "bf16",   "float16",  "reduced_floating",          "wmma", "mma.h", "cute",
    "cutlass", "cub/", "thrust", "cuda/std", "cooperative_groups/reduce", "fp8",  "fp4",   "fp6",
    "float8"};
constexpr std::array<string_view, 6> kHalfCalls = {"add", "mul", "fma", "sub", "max", "min"};
constexpr std::array<string_view, 6> kStringWords = {
    "string", "runtime_error", "logic_error", "invalid_argument", "out_of_range", "stdexcept"};
constexpr std::array<string_view, 71> kLeanStd = {"min",
                                                  "max",
                                                  "abs",
                                                  "sqrt",
                                                  "exp",
                                                  "log",
                                                  "pow",
                                                  "floor",
                                                  "ceil",
                                                  "round",
                                                  "fabs",
                                                  "size_t",
                                                  "int8_t",
                                                  "int16_t",
                                                  "int32_t",
                                                  "int64_t",
                                                  "uint8_t",
                                                  "uint16_t",
                                                  "uint32_t",
                                                  "uint64_t",
                                                  "uintptr_t",
                                                  "intptr_t",
                                                  "ptrdiff_t",
                                                  "vector",
                                                  "string",
                                                  "to_string",
                                                  "tuple",
                                                  "make_tuple",
                                                  "tie",
                                                  "get",
                                                  "pair",
                                                  "make_pair",
                                                  "optional",
                                                  "nullopt",
                                                  "make_optional",
                                                  "move",
                                                  "forward",
                                                  "swap",
                                                  "initializer_list",
                                                  "numeric_limits",
                                                  "is_same",
                                                  "is_same_v",
                                                  "is_floating_point",
                                                  "is_integral",
                                                  "enable_if",
                                                  "enable_if_t",
                                                  "conditional",
                                                  "conditional_t",
                                                  "decay_t",
                                                  "remove_reference_t",
                                                  "array",
                                                  "runtime_error",
                                                  "exception",
                                                  "invalid_argument",
                                                  "logic_error",
                                                  "out_of_range",
                                                  "copy",
                                                  "fill",
                                                  "sort",
                                                  "clamp",
                                                  "integral_constant",
                                                  "true_type",
                                                  "false_type",
                                                  "nullptr_t",
                                                  "declval",
                                                  "string_view"};

/// Finds words that begin like hadd or h2max.
bool CallsHalf(string_view lower) {
  for (size_t at = lower.find('h'); at != string_view::npos; at = lower.find('h', at + 1)) {
    if (at > 0 && IsWordChar(lower[at - 1]) && lower[at - 1] != '_') continue;
    string_view rest = lower.substr(at + 1);
    if (!rest.empty() && rest[0] == '2') rest.remove_prefix(1);
    for (const string_view call : kHalfCalls) {
      if (rest.substr(0, call.size()) == call) return true;
    }
  }
  return false;
}

/// True if the lean headers declare every std::NAME that is used.
bool UsesLittleOfStd(string_view text) {
  for (size_t at = text.find("std"); at != string_view::npos; at = text.find("std", at + 3)) {
    if (at > 0 && IsWordChar(text[at - 1])) continue;
    size_t i = at + 3;
    const auto skip_blanks = [&] {
      while (i < text.size() && std::isspace(static_cast<unsigned char>(text[i])) != 0) ++i;
    };
    skip_blanks();
    if (text.substr(i, 2) != "::") {
      // `using namespace std;` or `namespace s = std;`
      if (i < text.size() && (text[i] == ';' || text[i] == '{')) return false;
      continue;
    }
    i += 2;
    skip_blanks();
    size_t end = i;
    while (end < text.size() && IsWordChar(text[end])) ++end;
    const string_view name = text.substr(i, end - i);
    if (std::find(kLeanStd.begin(), kLeanStd.end(), name) == kLeanStd.end()) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> LeanDefinitions(string_view source) {
  std::string lower(source);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> flags;
  if (!Mentions<>(lower, kHalfWords) && !CallsHalf(lower)) flags.emplace_back("-DCUPEL_LEAN_HALF");
  if (lower.find("cublas") == std::string::npos) flags.emplace_back("-DCUPEL_LEAN_CUBLAS");
  if (UsesLittleOfStd(source)) {
    flags.emplace_back("-DCUPEL_LEAN_STD");
    if (!Mentions<>(source, kStringWords)) flags.emplace_back("-DCUPEL_LEAN_STRING");
  }
  return flags;
}

}  // namespace cupel::build
