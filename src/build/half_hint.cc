// SPDX-License-Identifier: Apache-2.0
#include "build/half_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "build/is_one_of.h"

namespace cupel::build {
namespace {

bool Names(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The macro that hides what an error of nvcc is about: "no operator "*" matches these operands:
/// const __half * float". Empty if it is about something else.
std::string MacroOf(const std::string& message) {
  const bool is_operator = message.starts_with("no operator \"");
  const bool is_conversion = message.starts_with("no suitable conversion function from \"") ||
                             message.starts_with("no instance of constructor \"__");
  const bool is_half = Names(message, "__half"), is_bfloat16 = Names(message, "__nv_bfloat16");
  if ((!is_operator && !is_conversion) || is_half == is_bfloat16) return {};
  constexpr std::string_view kNumbers[] = {"float ", "double", "int", "long", "unsigned"};
  // An operator of another type needs a conversion to it. The space: not of "__nv_bfloat16".
  const std::string types = message.substr(std::min(message.find(": "), message.size())) + " ";
  const bool converts = is_conversion || std::ranges::any_of(kNumbers, [&](std::string_view name) {
                          return Names(types, name);
                        });
  if (is_bfloat16) return converts ? "__CUDA_NO_BFLOAT16_CONVERSIONS__" : "";
  if (converts) return "__CUDA_NO_HALF_CONVERSIONS__";
  return Names(types, "__half2") ? "__CUDA_NO_HALF2_OPERATORS__" : "__CUDA_NO_HALF_OPERATORS__";
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
      "as "
      "__hadd and __half2float, or compile as your own build does, with{}",
      options);
}

}  // namespace cupel::build
