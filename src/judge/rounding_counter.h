// Counts how the elements of a 16-bit output were rounded (records::RoundedResults).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "records/comparison.h"

namespace cupel::judge {

class RoundingCounter {
 public:
  /// Counts nothing for other than 16-bit floating-point types.
  explicit RoundingCounter(DType dtype);
  RoundingCounter() = default;
  bool counts() const { return digits_ != 0; }
  /// Both must be finite.
  void Add(double value, double truth);
  /// `other` must have the same type, or be empty.
  void Add(const RoundingCounter& other);
  /// `error_scale`: E of the output. Directions and bias are left out if PyTorch's own errors are
  /// more than those of one rounding, since a kernel may compute as PyTorch does.
  records::RoundedResults Results(double error_scale) const;

 private:
  void CountSmall(double value, double truth, double unit);

  int digits_ = 0;  // explicit bits of the significand; 0: nothing is counted
  double smallest_normal_ = 0;
  bool flushes_ = false;  // float16: counts what flushing subnormal numbers would change
  double along_ = 0, squares_ = 0;
  int64_t finite_ = 0;
  records::RoundedResults counts_;
};

}  // namespace cupel::judge
