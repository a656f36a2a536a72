// A smaller twin of a setting that is too large to run with shadows: fewer rows of the same kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "task/task.h"

namespace cupel::assay {

/// `setting` with numbers that only get_inputs takes (not the model) halved until their product is
/// `factor` times smaller. Returns nothing if there are none to halve.
std::optional<task::Setting> SmallerTwin(const task::Setting& setting, double factor);

}  // namespace cupel::assay
