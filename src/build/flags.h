// The flags of a build: what every candidate is compiled with, and what a candidate may ask for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::build {

/// Checks `extra` against the allow-list and puts it after the defaults: those of the published
/// harness
/// (-O3 --use_fast_math) and of PyTorch's extension builder. A default that `extra` contradicts is
/// left out. "--no-fast-math" is ours: it takes --use_fast_math away. Pairs ("-D", "X") become one
/// word.
Result<std::vector<std::string>> CandidateFlags(const std::vector<std::string>& extra);

/// "sm_90" gives "compute_90". Error: not the form of an architecture.
Result<std::string> VirtualArch(std::string_view arch);

/// The definitions with which the shim leaves out parts of itself that `source` visibly does not
/// use, for speed alone: a build that fails with them says nothing and is repeated without.
std::vector<std::string> LeanDefinitions(std::string_view source);

}  // namespace cupel::build
