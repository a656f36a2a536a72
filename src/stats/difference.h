// Is one kernel faster than another? The answer that a table prints.
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

/// `a` and `b` are times taken side by side, a pair at a time, in one unit. "Faster" asks that the
/// whole interval lies below 1 by more than half a percent and `absolute`, in the same unit: what
/// two copies of the same code differ by through where they lie. Too few pairs for the confidence
/// are no difference.
Compared CompareTimes(std::span<const double> a, std::span<const double> b, double absolute,
                      double confidence = 0.99);

}  // namespace cupel::stats
