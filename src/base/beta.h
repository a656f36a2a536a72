// Draws from a Beta distribution, for Thompson sampling. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random.h"

namespace cupel {

/// In (0, 1), with mean a / (a + b); a and b are positive. Repeatable by the generator's seed.
double DrawBeta(Random& random, double a, double b);

}  // namespace cupel
