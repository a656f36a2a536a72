// Checks whether a kernel carries results from call to call. It may keep results in __device__
// variables or in memory that host code keeps, and return them again if a few of its inputs look
// the same, or it may be correct only in its first calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "assay/setting_judge.h"
#include "base/random.h"
#include "judge/verdict.h"
#include "plan/plan.h"
#include "task/case.h"

namespace cupel::assay {

/// The arguments with a few random elements of each floating tensor changed: one of 64, at least
/// one. Does not change tensors of one element, which host code may read.
std::vector<std::vector<std::byte>> ManyChanged(const std::vector<task::Value>& args,
                                                Random& random);

/// Returns false, and says so in `report`, if results depend on earlier calls. Runs only if a call
/// can find state that another left: in variables (according to `report`), or in memory that it
/// reads before writing. Calls the kernels on `last` and then on slightly changed inputs, once with
/// the variables and memory as left and then with random numbers in them. Compares the results with
/// those of a freshly loaded module with empty memory.
Result<bool> IsStateless(const SettingContext& context, const plan::Plan& plan,
                         const task::Case& last, records::SettingReport& report);

}  // namespace cupel::assay
