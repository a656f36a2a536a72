// The compiler flags of a build: the defaults, and those that a candidate may add.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::build {

/// Checks `extra` against the allow-list and appends it to the defaults: those of the published
/// harness (-O3 --use_fast_math) and of PyTorch's extension builder. Omits defaults that `extra`
/// contradicts. "--no-fast-math" is cupel's own flag and removes --use_fast_math. Pairs ("-D", "X")
/// become one word.
Result<std::vector<std::string>> CandidateFlags(const std::vector<std::string>& extra);

/// Joins a flag and its value if they are separate words. Returns an Error if a value is missing.
Result<std::vector<std::string>> JoinFlags(const std::vector<std::string>& flags);

/// The flags that a Python answer passes to nvcc. Like PyTorch, cupel compiles an answer without
/// fast math unless the answer asks for it.
struct AnswerFlags {
  std::vector<std::string> kept;   // for CandidateFlags
  std::vector<std::string> notes;  // about flags that are not allowed
};
AnswerFlags FlagsOfAnswer(const std::vector<std::string>& flags);

/// Replaces C++17 by C++20 in `flags`, which CandidateFlags made of `extra`. False if `extra` names
/// a standard itself. PyTorch compiles extensions as C++20; C++17 takes a sixth less time.
bool UseNewestStandard(const std::vector<std::string>& extra, std::vector<std::string>& flags);

/// True if a flag that CandidateFlags ignores (-gencode, -arch) names `arch`, for example "sm_90a".
bool NamesArch(const std::vector<std::string>& extra, std::string_view arch);

/// "sm_90" gives "compute_90". Returns an Error if `arch` does not have this form.
Result<std::string> VirtualArch(std::string_view arch);

/// The definitions that make the shim omit parts that `source` visibly does not use. They only save
/// time: a build that fails with them is repeated without them.
std::vector<std::string> LeanDefinitions(std::string_view source);

}  // namespace cupel::build
