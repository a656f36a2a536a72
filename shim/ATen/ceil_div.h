// Integer division rounded up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"

namespace at {
template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
CUPEL_HOST_DEVICE T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
CUPEL_HOST_DEVICE T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}
}  // namespace at
