// at::acc_type and at::opmath_type: the type in which an element type is summed or computed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/OpMathType.h"

namespace at {

/// The type of sums: float stays float on the GPU and widens to double on the CPU.
template <class T, bool is_cuda>
struct AccumulateType {
  using type = std::conditional_t<
      std::is_same_v<T, bool>, bool,
      std::conditional_t<
          std::is_integral_v<T>, int64_t,
          std::conditional_t<std::is_same_v<T, double> || (std::is_same_v<T, float> && !is_cuda),
                             double, float>>>;
};
template <class T, bool is_cuda>
using acc_type = typename AccumulateType<T, is_cuda>::type;

}  // namespace at
