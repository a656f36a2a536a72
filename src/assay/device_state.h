// Does a kernel carry answers from call to call? It may keep results in __device__ variables or in
// memory that host code keeps, and hand them out again where a few of its inputs look as before, or
// be right in its first calls alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "assay/setting_judge.h"
#include "base/random.h"
#include "judge/verdict.h"
#include "plan/plan.h"
#include "task/case.h"

namespace cupel::assay {

/// The arguments with a few elements of each floating tensor changed, at least one and one of 64,
/// at secret places. Tensors of one element, which host code may read, stay.
std::vector<std::vector<std::byte>> ManyChanged(const std::vector<task::Value>& args,
                                                Random& random);

/// Only where a call can find what another left: in variables (`report` says so), or in memory that
/// it reads without having written it. Calls the kernels on `last`, then on slightly changed
/// inputs, with variables and memory as they were left and with random numbers in them, and holds
/// the results against those of a freshly loaded module with nothing in memory. False when they
/// differ: then the report says so.
Result<bool> ForgetsCalls(const SettingContext& context, const plan::Plan& plan,
                          const task::Case& last, judge::SettingReport& report);

}  // namespace cupel::assay
