// Tells errors that rounding alone explains from others: with shadow values, which do not round,
// the kernel's result is the truth. A long sum in float32 may then exceed a tolerance that
// PyTorch's more careful sum sets. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "assay/setting_judge.h"

namespace cupel::assay {

/// True if every failed trial of `report` has wrong numbers and nothing else, and a call on the
/// first case of the context's setting is equal to the truth in exact arithmetic and computes in
/// the outputs' own precision. Always false on engines without shadows. Error: as Assay::Judge.
Result<bool> IsRoundingAlone(const SettingContext& context, const records::SettingReport& report);

}  // namespace cupel::assay
