// Draws from a Beta distribution, for Thompson sampling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random.h"

namespace cupel {

/// Returns a value in (0, 1) from the distribution with mean a / (a + b). a and b must be positive.
/// The same generator seed gives the same values.
double DrawBeta(Random& random, double a, double b);

}  // namespace cupel
