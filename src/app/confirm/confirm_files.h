// The files exchanged with a kernel that runs as a PyTorch extension: a case's arguments, and the
// results, which are judged here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "judge/verdict.h"
#include "task/case.h"

namespace cupel::app {

/// Writes `args` as `base`.json and `base`.bin, readable by all users. Nothing else of a case is
/// written.
Status WriteArguments(const std::vector<task::Value>& args, const std::filesystem::path& base);

/// Compares the results that a child wrote into `folder` with the case. `reported` is the child's
/// description of them and is validated. Empty if all results are correct.
std::vector<records::Reason> JudgeResults(const Json& reported, const std::filesystem::path& folder,
                                          const task::Case& wanted);

}  // namespace cupel::app
