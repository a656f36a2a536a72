// How well verdicts agree with labels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/json.h"

namespace cupel::review {

/// Counts, where "found" is a wrong kernel that is called wrong.
struct Rates {
  int64_t found = 0, missed = 0;    // of the wrong ones
  int64_t passed = 0, stopped = 0;  // of the right ones

  void Add(bool is_fine, bool said_fine);
  int64_t all() const { return found + missed + passed + stopped; }
  /// The mean of the shares of wrong and of right ones that were told: 0.5 for a verifier that
  /// always says the same. Without one of the kinds, the other's share; without both 0.5.
  double Balanced() const;
};

/// Counts, and accuracy, precision (of what is called wrong) and recall (of what is wrong) with
/// their intervals.
Json ToJson(const Rates& rates);

}  // namespace cupel::review
