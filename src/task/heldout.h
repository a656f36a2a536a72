// Held-out settings for tasks that bring none: awkward sizes, derived from the first setting by the
// names and numbers of its arguments alone. Where the task's code does not allow one, its reference
// fails there and the setting is left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "task/task.h"

namespace cupel::task {

/// At most five, none with more than about twice the elements: one row; odd and prime numbers of
/// rows; just past a power of two; more rows; a prime number of features. Rows are what get_inputs
/// alone takes, features what the model takes too.
std::vector<Setting> DeriveHeldout(const Setting& first);

}  // namespace cupel::task
