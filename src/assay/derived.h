// What differs at settings whose sizes the task does not list (task/heldout.h): they are tried less
// often, and a candidate may refuse them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "judge/verdict.h"
#include "task/task.h"

namespace cupel::assay {

/// How many cases of `setting` are judged when `trials` are asked for.
int TrialsAt(const task::Setting& setting, int trials);

/// A candidate that says that it does not take a derived size is honest, and what cupel lacks there
/// is not its fault: both become limits. Wrong numbers and faults stay what they are.
void ForgiveAtDerivedSizes(judge::SettingReport& report);

}  // namespace cupel::assay
