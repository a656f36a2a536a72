// Tests for NaN and infinity, and the math functions that are fast in device code unless the type
// is double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/BFloat16.h"
#include "c10/util/Float8_e4m3fn.h"
#include "c10/util/Float8_e5m2.h"
#include "c10/util/Half.h"

namespace at {

template <class T>
inline CUPEL_HOST_DEVICE bool _isnan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return std::isnan(static_cast<Wide>(value));
  }
}
template <class T>
inline CUPEL_HOST_DEVICE bool _isinf(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return std::isinf(static_cast<Wide>(value));
  }
}

#ifdef __CUDA_ARCH__
#define CUPEL_FAST(name, fast)                                               \
  template <class T>                                                         \
  inline CUPEL_HOST_DEVICE T name(T x) {                                     \
    static_assert(!std::is_same_v<T, double>, "double has no fast variant"); \
    return fast;                                                             \
  }
#else
#define CUPEL_FAST(name, fast)            \
  template <class T>                      \
  inline CUPEL_HOST_DEVICE T name(T x) {  \
    return ::name(static_cast<float>(x)); \
  }
#endif
#define CUPEL_MATH(name, fast)                             \
  CUPEL_FAST(name, fast)                                   \
  template <>                                              \
  inline CUPEL_HOST_DEVICE double name<double>(double x) { \
    return ::name(x);                                      \
  }
CUPEL_MATH(exp, __expf(x))
CUPEL_MATH(log, __logf(x))
CUPEL_MATH(log1p, __logf(1.0f + x))
CUPEL_MATH(tan, __tanf(x))
#undef CUPEL_MATH
#undef CUPEL_FAST

}  // namespace at
