// What goes between cupel and a kernel that runs as a PyTorch extension: the arguments of a case,
// and the results, which are judged here. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "judge/verdict.h"
#include "task/case.h"

namespace cupel::cli {

/// Writes `args` as `base`.json and `base`.bin, readable by all; nothing else of a case goes there.
Status WriteArguments(const std::vector<task::Value>& args, const std::filesystem::path& base);

/// Holds what a child wrote into `folder` against the case. `said` is the child's description and
/// is checked. Empty when everything is right.
std::vector<judge::Reason> JudgeResults(const Json& said, const std::filesystem::path& folder,
                                        const task::Case& wanted);

}  // namespace cupel::cli
