// Held-out settings for tasks that define none: awkward sizes, derived from the names and numbers
// of the first setting's arguments. If the task's code does not support a derived size, its
// reference fails and cupel skips that setting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "task/task.h"

namespace cupel::task {

/// Returns at most nine settings, each with at most about twice the elements of `first`: one row;
/// odd and prime numbers of rows; just past a power of two; more rows; a prime number of features;
/// fewer features than a block, and than a warp, has threads.
/// Rows are numbers that only get_inputs takes. Features are numbers that the model also takes.
std::vector<Setting> DeriveHeldout(const Setting& first);

}  // namespace cupel::task
