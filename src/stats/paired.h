// Comparison of two kernels from pairs of times measured side by side, so that clock drift cancels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "stats/robust.h"

namespace cupel::stats {

/// The Hodges-Lehmann estimate of a/b over pairs: the median of the pairwise geometric means of
/// ratios. The interval inverts Wilcoxon's signed-rank test and assumes only that log ratios
/// scatter symmetrically. All samples > 0, sizes equal, >= 1.
Interval PairedRatio(std::span<const double> a, std::span<const double> b,
                     double confidence = 0.95);

/// The median of a/b with the interval that inverts the sign test. It makes no assumption, but is
/// wider.
Interval PairedRatioBySigns(std::span<const double> a, std::span<const double> b,
                            double confidence = 0.95);

/// Two-sided p of "a and b are equally fast": Wilcoxon's signed-rank test on log ratios. Exact for
/// up to 30 pairs without ties; otherwise the normal approximation, corrected for ties and
/// continuity. 1 if all pairs agree.
double WilcoxonP(std::span<const double> a, std::span<const double> b);

/// P(W <= w) of the signed-rank statistic for n pairs without ties.
double SignedRankCdf(size_t w, size_t n);

}  // namespace cupel::stats
