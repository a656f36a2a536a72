// Arguments that a call changes by contract: running statistics, a cache, a sum in place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace cupel::plan {

/// Lets kernels write to the storage (of `bytes` bytes) of tensor argument `argument`, and makes
/// `view` of it, whose address is relative to that storage, the last output.
void ReturnArgument(Plan& plan, int argument, uint64_t bytes, View view);

}  // namespace cupel::plan
