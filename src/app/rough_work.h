// Estimates work, so that suites and streams can start with the largest tasks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "task/task.h"

namespace cupel::app {

/// A rough estimate of the work to judge and time a kernel at these settings, in elements. It is
/// only for comparisons. Each setting counts a fixed amount plus the product of the numbers in its
/// arguments (counts and extents), which can exceed the size of its tensors.
double RoughWork(std::span<const task::Setting> settings);

}  // namespace cupel::app
