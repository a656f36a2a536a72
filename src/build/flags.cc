// SPDX-License-Identifier: Apache-2.0
#include "build/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

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
                               "--warn-on-local-memory-usage",
                               "-warn-lmem-usage",
                               "--allow-expensive-optimizations=true",
                               "--allow-expensive-optimizations=false"};

/// What published kernels pass to their own builds, and what means nothing here: the libraries are
/// stand-ins, and cupel chooses the architecture.
constexpr std::array kIgnored = {"-lcuda",           "-lcudart",   "-lcublas",  "-lcublasLt",
                                 "--resource-usage", "-res-usage", "--verbose", "-v"};
constexpr std::array kArch = {"gencode", "generate-code", "arch", "gpu-architecture"};
constexpr std::array kDiagnostics = {"diag-suppress", "nv-diag-suppress"};
constexpr std::array kHostOptions = {"-fPIC", "-fPIE",      "-O2",
                                     "-O3",   "-Wno-psabi", "-fno-strict-aliasing"};

/// The name of --name=value or -name=value, and the value.
std::optional<std::pair<std::string_view, std::string_view>> NameAndValue(std::string_view flag) {
  const size_t equals = flag.find('=');
  if (equals == std::string_view::npos || !StartsWith(flag, "-")) return std::nullopt;
  const size_t dashes = StartsWith(flag, "--") ? 2 : 1;
  return std::pair(flag.substr(dashes, equals - dashes), flag.substr(equals + 1));
}

bool IsArchValue(char c) { return IsWord(c) || c == '=' || c == ',' || c == '[' || c == ']'; }

bool IsIgnored(std::string_view flag) {
  if (IsOneOf(kIgnored, flag)) return true;
  const auto split = NameAndValue(flag);
  if (!split) return false;
  const auto& [name, value] = *split;
  if (IsOneOf(kArch, name)) return AllOf(value, IsArchValue);
  if (name == "threads" || name == "t") return AllOf(value, IsDigit);
  return (name == "Xcompiler" || name == "compiler-options") && IsOneOf(kHostOptions, value);
}

/// A list of options for ptxas, separated by commas.
bool ArePtxasOptions(std::string_view list) {
  while (true) {
    const size_t comma = list.find(',');
    std::string_view option = list.substr(0, comma);
    constexpr std::string_view kLevel = "--register-usage-level=";
    if (StartsWith(option, kLevel)) {
      option.remove_prefix(kLevel.size());
      if (option.empty() || option.size() > 2 || !AllOf(option, IsDigit)) return false;
    } else if (!IsOneOf(kPtxas, option)) {
      return false;
    }
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

bool IsAllowed(std::string_view flag) {
  if (IsOneOf(kExact, flag) || IsIgnored(flag)) return true;
  if (StartsWith(flag, "-D")) return IsDefinition(flag.substr(2), true);
  if (StartsWith(flag, "-U")) return IsDefinition(flag.substr(2), false);
  const auto split = NameAndValue(flag);
  if (!split) return false;
  const auto& [name, value] = *split;
  if (IsOneOf(kBoolean, name)) return value == "true" || value == "false";
  if (name == "maxrregcount") return !value.empty() && value.size() <= 3 && AllOf(value, IsDigit);
  if (name == "Xptxas" || name == "ptxas-options") return ArePtxasOptions(value);
  if (IsOneOf(kDiagnostics, name)) return AllOf(value, IsValue);
  return false;
}

constexpr std::array kPaired = {"-maxrregcount",
                                "--maxrregcount",
                                "-Xptxas",
                                "--ptxas-options",
                                "-gencode",
                                "--generate-code",
                                "-arch",
                                "--gpu-architecture",
                                "-Xcompiler",
                                "--compiler-options",
                                "-diag-suppress",
                                "--diag-suppress",
                                "-t",
                                "--threads"};

}  // namespace

Result<std::vector<std::string>> JoinFlags(const std::vector<std::string>& flags) {
  std::vector<std::string> joined;
  for (size_t i = 0; i < flags.size(); ++i) {
    const std::string& flag = flags[i];
    const bool glued = flag == "-D" || flag == "-U";
    const bool paired = IsOneOf(kPaired, flag);
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

AnswerFlags FlagsOfAnswer(const std::vector<std::string>& flags) {
  AnswerFlags answer;
  for (const std::string& flag : JoinFlags(flags).value_or(flags)) {
    if (CandidateFlags({flag})) {
      answer.kept.push_back(flag);
    } else {
      answer.notes.push_back(
          fmt::format("flag {} of the answer is not allowed and is ignored", flag.substr(0, 100)));
    }
  }
  const bool is_fast = std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
    return flag.find("use_fast_math") != std::string::npos;
  });
  if (!is_fast) answer.kept.emplace_back("--no-fast-math");
  return answer;
}

namespace {

constexpr const char* kUsualStandard = "-std=c++17";

bool NamesStandard(const std::string& flag) {
  return flag.find("std=") != std::string::npos && !StartsWith(flag, "-D");
}

}  // namespace

bool UseNewestStandard(const std::vector<std::string>& extra, std::vector<std::string>& flags) {
  if (std::ranges::any_of(extra, NamesStandard)) return false;
  std::ranges::replace(flags, std::string(kUsualStandard), std::string("-std=c++20"));
  return true;
}

Result<std::vector<std::string>> CandidateFlags(const std::vector<std::string>& extra) {
  TRY_ASSIGN(std::vector<std::string> asked, JoinFlags(extra));
  bool optimization = true, fast_math = true, standard = true;
  for (const std::string& flag : asked) {
    if (!IsAllowed(flag)) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("the compiler flag {} is not allowed", flag.substr(0, 100)),
          "allowed are -O0…-O3, --use_fast_math, --no-fast-math, -ftz=, -prec-div=, -prec-sqrt=, "
          "-fmad=, -maxrregcount=, -std=c++17|c++20, -D, -U, -Xptxas=, -lineinfo, --restrict, "
          "--extended-lambda, --expt-relaxed-constexpr, --extra-device-vectorization, "
          "-diag-suppress=; ignored are -lcuda, -lcudart, -lcublas, -arch=, -gencode, --threads");
    }
    if (StartsWith(flag, "-O")) optimization = false;
    if (flag.find("fast") != std::string::npos && !StartsWith(flag, "-D")) fast_math = false;
    if (NamesStandard(flag)) standard = false;
  }
  std::vector<std::string> flags;
  if (optimization) flags.emplace_back("-O3");
  if (fast_math) flags.emplace_back("--use_fast_math");
  if (standard) flags.emplace_back(kUsualStandard);
  for (const char* flag : {"-lineinfo", "--expt-relaxed-constexpr", "-D__CUDA_NO_HALF_OPERATORS__",
                           "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
                           "-D__CUDA_NO_HALF2_OPERATORS__"}) {
    if (!IsOneOf(asked, flag)) flags.emplace_back(flag);
  }
  for (std::string& flag : asked) {
    if (flag != "--no-fast-math" && !IsIgnored(flag) && !IsOneOf(flags, flag)) {
      flags.push_back(std::move(flag));
    }
  }
  return flags;
}

bool NamesArch(const std::vector<std::string>& extra, std::string_view arch) {
  return std::any_of(extra.begin(), extra.end(), [&](std::string_view flag) {
    const size_t at = flag.find(arch);
    if (at == std::string_view::npos || StartsWith(flag, "-D")) return false;
    const size_t end = at + arch.size();
    return end == flag.size() || !IsWord(flag[end]);
  });
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
                "use sm_80, sm_90, sm_90a, sm_100 or sm_100a");
  }
  return fmt::format("compute_{}", number);
}

}  // namespace cupel::build
