// at::numeric_limits: bounds for reductions. lower_bound and upper_bound are infinite if the type
// has infinities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/NumericUtils.h"

namespace at {

template <class T>
struct numeric_limits {
  using Limits = std::numeric_limits<T>;
  static CUPEL_HOST_DEVICE T lowest() { return Limits::lowest(); }
  static CUPEL_HOST_DEVICE T max() { return Limits::max(); }
  static CUPEL_HOST_DEVICE T lower_bound() {
    if constexpr (Limits::has_infinity) return -Limits::infinity();
    return Limits::lowest();
  }
  static CUPEL_HOST_DEVICE T upper_bound() {
    if constexpr (Limits::has_infinity) return Limits::infinity();
    return Limits::max();
  }
};

}  // namespace at
