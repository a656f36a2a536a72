// The smaller twin of a setting that is too large to run with shadows: fewer rows of the same kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "task/task.h"

namespace cupel::assay {

/// `setting` with numbers of get_inputs alone, those that the model does not take too, halved until
/// their product is `factor` times smaller. Nothing when there are none to halve.
std::optional<task::Setting> SmallerTwin(const task::Setting& setting, double factor);

}  // namespace cupel::assay
