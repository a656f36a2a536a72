// What to begin with, where a suite has many workers. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "task/task.h"

namespace cupel::cli {

/// How much work a kernel judged and timed at these settings may be, for comparisons alone: a share
/// that each setting takes whatever its size, and the product of a setting's numbers (counts and
/// extents, at times more than its tensors hold), whose unit is an element.
double RoughWork(std::span<const task::Setting> settings);

}  // namespace cupel::cli
