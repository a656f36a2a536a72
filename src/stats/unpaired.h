// Comparison of times that were not measured in pairs, and correction for many comparisons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "stats/robust.h"

namespace cupel::stats {

/// The fewest samples on each side that allow a comparison.
inline constexpr size_t kFewestUnpaired = 8;

/// The Hodges-Lehmann estimate of a/b (median of all ratios a_i / b_j) with the interval that
/// inverts the Mann-Whitney test. All samples > 0, at least kFewestUnpaired on each side.
Interval UnpairedRatio(std::span<const double> a, std::span<const double> b,
                       double confidence = 0.95);

/// One-sided p of the Mann-Whitney test against "a is not greater than b", by the normal
/// approximation, corrected for ties and continuity. At least kFewestUnpaired on each side.
double GreaterP(std::span<const double> a, std::span<const double> b);

/// Holm's step-down adjustment of p-values, in the given order. If you claim all those below alpha,
/// the probability of any wrong claim is at most alpha.
std::vector<double> HolmAdjusted(std::span<const double> p);

}  // namespace cupel::stats
