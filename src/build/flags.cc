// SPDX-License-Identifier: Apache-2.0
#include "build/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "build/is_one_of.h"

namespace cupel::build {
namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool AllOf(std::string_view text, bool (*test)(char)) {
  return std::all_of(text.begin(), text.end(), test);
}

bool IsWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
/// What a definition's value may contain: no quotes, blanks or other characters special to a shell.
bool IsValue(char c) {
  return IsWord(c) || c == '.' || c == '+' || c == '-' || c == ':' || c == ',';
}

bool IsDefinition(std::string_view text, bool with_value) {
  const size_t equals = with_value ? text.find('=') : std::string_view::npos;
  const std::string_view name = text.substr(0, equals);
  if (name.empty() || IsDigit(name[0]) || !AllOf(name, IsWord) || text.size() > 200) return false;
  return equals == std::string_view::npos || AllOf(text.substr(equals + 1), IsValue);
}

constexpr std::array kExact = {"-O0",
                               "-O1",
                               "-O2",
                               "-O3",
                               "--use_fast_math",
                               "-use_fast_math",
                               "--extra-device-vectorization",
                               "-extra-device-vectorization",
                               "-lineinfo",
                               "--generate-line-info",
                               "--expt-relaxed-constexpr",
                               "-expt-relaxed-constexpr",
                               "--expt-extended-lambda",
                               "-expt-extended-lambda",
                               "--extended-lambda",
                               "-extended-lambda",
                               "-restrict",
                               "--restrict",
                               "-w",
                               "-std=c++17",
                               "-std=c++20",
                               "--std=c++17",
                               "--std=c++20",
                               "--no-fast-math"};
constexpr std::array kBoolean = {"ftz", "prec-div", "prec-sqrt", "fmad"};
constexpr std::array kPtxas = {"-O0",
                               "-O1",
                               "-O2",
                               "-O3",
                               "-v",
                               "--verbose",
                               "-dlcm=ca",
                               "-dlcm=cg",
                               "--warn-on-spills",
                               "-warn-spills",
                               "--allow-expensive-optimizations=true",
                               "--allow-expensive-optimizations=false"};

bool IsAllowed(std::string_view flag) {
  if (IsOneOf(kExact, flag)) return true;
  if (StartsWith(flag, "-D")) return IsDefinition(flag.substr(2), true);
  if (StartsWith(flag, "-U")) return IsDefinition(flag.substr(2), false);
  if (!StartsWith(flag, "-")) return false;
  std::string_view name = flag.substr(StartsWith(flag, "--") ? 2 : 1);
  const size_t equals = name.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view value = name.substr(equals + 1);
  name = name.substr(0, equals);
  if (IsOneOf(kBoolean, name)) return value == "true" || value == "false";
  if (name == "maxrregcount") return !value.empty() && value.size() <= 3 && AllOf(value, IsDigit);
  if (name == "Xptxas" || name == "ptxas-options") return IsOneOf(kPtxas, value);
  return false;
}

/// Joins a flag and its value if they are separate words.
Result<std::vector<std::string>> Joined(const std::vector<std::string>& flags) {
  std::vector<std::string> joined;
  for (size_t i = 0; i < flags.size(); ++i) {
    const std::string& flag = flags[i];
    const bool glued = flag == "-D" || flag == "-U";
    const bool paired = flag == "-maxrregcount" || flag == "--maxrregcount" || flag == "-Xptxas" ||
                        flag == "--ptxas-options";
    if (!glued && !paired) {
      joined.push_back(flag);
    } else if (i + 1 == flags.size()) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("the flag {} needs a value", flag));
    } else {
      joined.push_back(flag + (glued ? "" : "=") + flags[++i]);
    }
  }
  return joined;
}

}  // namespace

Result<std::vector<std::string>> CandidateFlags(const std::vector<std::string>& extra) {
  TRY_ASSIGN(std::vector<std::string> asked, Joined(extra));
  bool optimization = true, fast_math = true, standard = true;
  for (const std::string& flag : asked) {
    if (!IsAllowed(flag)) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("the compiler flag {} is not allowed", flag.substr(0, 100)),
          "allowed are -O0…-O3, --use_fast_math, --no-fast-math, -ftz=, -prec-div=, -prec-sqrt=, "
          "-fmad=, -maxrregcount=, -std=c++17|c++20, -D, -U, -Xptxas=, -lineinfo, --restrict, "
          "--extended-lambda, --expt-relaxed-constexpr, --extra-device-vectorization");
    }
    if (StartsWith(flag, "-O")) optimization = false;
    if (flag.find("fast") != std::string::npos && !StartsWith(flag, "-D")) fast_math = false;
    if (flag.find("std=") != std::string::npos && !StartsWith(flag, "-D")) standard = false;
  }
  std::vector<std::string> flags;
  if (optimization) flags.emplace_back("-O3");
  if (fast_math) flags.emplace_back("--use_fast_math");
  if (standard) flags.emplace_back("-std=c++17");
  for (const char* flag : {"-lineinfo", "--expt-relaxed-constexpr", "-D__CUDA_NO_HALF_OPERATORS__",
                           "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
                           "-D__CUDA_NO_HALF2_OPERATORS__"}) {
    if (!IsOneOf(asked, flag)) flags.emplace_back(flag);
  }
  for (std::string& flag : asked) {
    if (flag != "--no-fast-math" && !IsOneOf(flags, flag)) flags.push_back(std::move(flag));
  }
  return flags;
}

Result<std::string> VirtualArch(std::string_view arch) {
  std::string_view number = arch;
  if (StartsWith(number, "sm_")) number.remove_prefix(3);
  const size_t digits = number.find_first_not_of("0123456789");
  const std::string_view suffix = digits == std::string_view::npos ? "" : number.substr(digits);
  const size_t count = number.size() - suffix.size();
  if (number.size() == arch.size() || count < 2 || count > 3 ||
      (suffix != "" && suffix != "a" && suffix != "f")) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is not an architecture", arch),
                "use sm_80, sm_90, sm_90a or sm_100");
  }
  return fmt::format("compute_{}", number);
}

}  // namespace cupel::build
