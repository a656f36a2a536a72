// Which of a plan's own work has a part in its results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"

namespace cupel::plan {

struct OwnWork {
  bool kernels = false;   // launches
  bool products = false;  // of cuBLAS
};

/// Whether a launch or a product of a call (not of the prepared nodes) may write bytes from which
/// an output is made. A launch may write every buffer whose address it gets, also through memory
/// with addresses. Work whose results are overwritten or not used has no part.
OwnWork OwnWorkIn(const Plan& plan);

}  // namespace cupel::plan
