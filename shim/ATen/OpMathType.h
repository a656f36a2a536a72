// at::opmath_type: shorter elements compute in float, others in their own type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/BFloat16.h"
#include "c10/util/Float8_e4m3fn.h"
#include "c10/util/Float8_e5m2.h"
#include "c10/util/Half.h"

namespace at {

template <class T>
struct OpMathType {
  using type = std::conditional_t<
      std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16> ||
          std::is_same_v<T, c10::Float8_e5m2> || std::is_same_v<T, c10::Float8_e4m3fn>,
      float, T>;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

}  // namespace at
