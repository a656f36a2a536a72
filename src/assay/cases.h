// The source of a setting's cases: drawn by the oracle, or listed in an earlier verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "assay/setting_judge.h"

namespace cupel::assay {

/// Cases of `setting`, which is the context's own or a smaller twin of it.
Result<std::unique_ptr<oracle::Oracle::Stream>> OpenCases(
    const SettingContext& context, const task::Setting& setting,
    task::Distribution distribution = task::Distribution::kUsual, int count = 1);

/// The entry for a case in a verdict.
records::UsedCase UsedCaseOf(const SettingContext& context, const task::Setting& setting,
                             task::Distribution distribution, const task::Case& used);

}  // namespace cupel::assay
