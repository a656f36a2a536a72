// Checks before anything is executed: what a recording may depend on, and whether a plan returns
// what the task requires.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/compare.h"
#include "plan/plan.h"
#include "task/case.h"

namespace cupel::assay {

/// A key of everything in an argument list that a recording may depend on: shapes, strides, dtypes,
/// scalars, and the bytes of one-element tensors. A plan must be recorded again if the key changes.
/// `reads_values`: host code has read values, so the key has all that it may read.
std::string RecordingKey(const std::vector<task::Value>& args, bool reads_values);

/// Makes the arguments that the task's function changes outputs of the plan, as the case has them.
void ReturnChangedArguments(plan::Plan& plan, const task::Case& wanted);

/// Removes the dimension of results of shape [1] where the task's result is a number, of shape [].
/// Returns the first such result's position. Their users see the difference: it is a limit.
std::optional<size_t> DropDimensionOfNumbers(plan::Plan& plan, const task::Case& wanted);

/// Both. Returns what DropDimensionOfNumbers does.
std::optional<size_t> FitToCase(plan::Plan& plan, const task::Case& wanted);

/// What is wrong with a plan's results: their number, types and shapes, or a plan that computes
/// nothing. This check also bounds the size of the outputs that an engine must return.
std::optional<records::Comparison> ContractProblem(const plan::Plan& plan,
                                                   const task::Case& wanted);

}  // namespace cupel::assay
