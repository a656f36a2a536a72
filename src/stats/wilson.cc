// SPDX-License-Identifier: Apache-2.0
#include "stats/wilson.h"

#include <algorithm>
#include <cmath>

namespace cupel::stats {

Interval Wilson(int64_t hits, int64_t trials) {
  constexpr double kZ = 1.959963984540054;  // of 95 %, two-sided
  if (trials <= 0) return {0, 0, 1, 0.95};
  const double n = static_cast<double>(trials), p = static_cast<double>(hits) / n;
  const double scale = 1 + kZ * kZ / n;
  const double centre = (p + kZ * kZ / (2 * n)) / scale;
  const double half = kZ / scale * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return {p, std::max(0.0, centre - half), std::min(1.0, centre + half), 0.95};
}

}  // namespace cupel::stats
