// What is settled before anything is executed: what a recording may depend on, and whether a plan
// returns what the task asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/compare.h"
#include "plan/plan.h"
#include "task/case.h"

namespace cupel::assay {

/// Describes everything of an argument list that a recording may depend on, so that a plan is
/// recorded anew exactly when it must be: shapes, strides, dtypes, scalars, and the bytes of
/// one-element tensors.
std::string RecordingKey(const std::vector<task::Value>& args);

/// What is wrong with a plan's results: their number, types and shapes, which also bounds what an
/// engine has to hand over; and plans that compute nothing.
std::optional<judge::Comparison> ContractProblem(const plan::Plan& plan, const task::Case& wanted);

}  // namespace cupel::assay
