// Decides whether one kernel is faster than another, for tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "stats/robust.h"

namespace cupel::stats {

enum class Difference { kNone, kFaster, kSlower };
/// "no difference", "faster", "slower".
std::string_view Name(Difference difference);

struct Compared {
  Interval ratio;                             // time of a over time of b, Hodges-Lehmann over pairs
  Difference difference = Difference::kNone;  // of a
};

/// `a` and `b` are times in one unit, measured side by side in pairs. "Faster" requires the whole
/// interval to lie below 1 by more than a margin: half a percent plus `absolute`, which has the
/// unit of the times. Two copies of the same code can differ by that much because of their
/// placement in memory. Too few pairs for the confidence give kNone.
Compared CompareTimes(std::span<const double> a, std::span<const double> b, double absolute,
                      double confidence = 0.99);

}  // namespace cupel::stats
