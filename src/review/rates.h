// Measures how well verdicts agree with labels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/json.h"

namespace cupel::review {

/// Counts. "found": wrong kernels with the verdict wrong.
struct Rates {
  int64_t found = 0, missed = 0;    // of the wrong kernels
  int64_t passed = 0, stopped = 0;  // of the correct kernels

  void Add(bool is_fine, bool said_fine);
  int64_t all() const { return found + missed + passed + stopped; }
  /// Balanced accuracy: the mean of the shares of correct verdicts among wrong and among correct
  /// kernels. 0.5 for a verifier whose verdict is constant. If one kind is absent, the share of the
  /// other; if both are, 0.5.
  double Balanced() const;
};

/// Counts, and accuracy, precision and recall with their intervals. "Positive" means wrong.
Json ToJson(const Rates& rates);

}  // namespace cupel::review
