// Where the cases of a setting come from: drawn by the oracle, or given by an earlier verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "assay/setting_judge.h"

namespace cupel::assay {

/// Cases of `setting`, which is the context's own or a smaller twin of it.
Result<std::unique_ptr<oracle::Oracle::Stream>> OpenCases(
    const SettingContext& context, const task::Setting& setting,
    task::Distribution distribution = task::Distribution::kUsual, int count = 1);

/// How a verdict lists a case.
judge::UsedCase UsedCaseOf(const SettingContext& context, const task::Setting& setting,
                           task::Distribution distribution, const task::Case& used);

}  // namespace cupel::assay
