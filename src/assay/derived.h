// Rules for settings whose sizes the task does not list (task/heldout.h): fewer trials, and a
// candidate may refuse them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "judge/verdict.h"
#include "task/task.h"

namespace cupel::assay {

/// The number of cases of `setting` to judge, if `trials` are requested.
int TrialsAt(const task::Setting& setting, int trials);

/// At derived sizes, turns a refusal by the candidate's host code, or a feature that cupel lacks,
/// into a limit. Wrong numbers and faults still count.
void ConvertRefusalToLimit(records::SettingReport& report);

}  // namespace cupel::assay
