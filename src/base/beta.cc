// SPDX-License-Identifier: Apache-2.0
#include "base/beta.h"

#include <cmath>
#include <numbers>

namespace cupel {
namespace {

double Normal(Random& random) {
  const double u = 1 - random.Unit();  // not 0
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * random.Unit());
}

/// Marsaglia and Tsang 2000, for shape >= 1. Smaller shapes use their boost.
double Gamma(Random& random, double shape) {
  if (shape < 1) return Gamma(random, shape + 1) * std::pow(1 - random.Unit(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = Normal(random);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.Unit()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

double DrawBeta(Random& random, double a, double b) {
  const double x = Gamma(random, a);
  const double y = Gamma(random, b);
  return x / (x + y);
}

}  // namespace cupel
