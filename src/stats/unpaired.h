// Comparison of times that were not taken side by side, and correction for many comparisons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "stats/robust.h"

namespace cupel::stats {

/// Fewer samples than this on one side tell nothing.
inline constexpr size_t kFewestUnpaired = 8;

/// The Hodges-Lehmann estimate of a/b (median of all ratios a_i / b_j) with the interval that
/// inverts the Mann-Whitney test. All samples > 0, at least kFewestUnpaired on either side.
Interval UnpairedRatio(std::span<const double> a, std::span<const double> b,
                       double confidence = 0.95);

/// One-sided p of the Mann-Whitney test against "a is not greater than b", by the normal
/// approximation, corrected for ties and continuity. At least kFewestUnpaired on either side.
double GreaterP(std::span<const double> a, std::span<const double> b);

/// Holm's step-down: p-values such that claiming all below alpha errs in any one of them with
/// probability alpha at most. In the order given.
std::vector<double> HolmAdjusted(std::span<const double> p);

}  // namespace cupel::stats
