// c10::cuda::compat: math functions, overloaded for float and double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"

namespace c10::cuda::compat {
#define CUPEL_UNARY(name, function)                                                    \
  __host__ __device__ __forceinline__ float name(float x) { return ::function##f(x); } \
  __host__ __device__ __forceinline__ double name(double x) { return ::function(x); }
#define CUPEL_BINARY(name, function)                                                               \
  __host__ __device__ __forceinline__ float name(float x, float y) { return ::function##f(x, y); } \
  __host__ __device__ __forceinline__ double name(double x, double y) { return ::function(x, y); }
CUPEL_UNARY(abs, fabs)
CUPEL_UNARY(acos, acos)
CUPEL_UNARY(asin, asin)
CUPEL_UNARY(atan, atan)
CUPEL_UNARY(ceil, ceil)
CUPEL_UNARY(cos, cos)
CUPEL_UNARY(cosh, cosh)
CUPEL_UNARY(erf, erf)
CUPEL_UNARY(erfc, erfc)
CUPEL_UNARY(exp, exp)
CUPEL_UNARY(expm1, expm1)
CUPEL_UNARY(floor, floor)
CUPEL_UNARY(lgamma, lgamma)
CUPEL_UNARY(log, log)
CUPEL_UNARY(log10, log10)
CUPEL_UNARY(log1p, log1p)
CUPEL_UNARY(log2, log2)
CUPEL_UNARY(nearbyint, nearbyint)
CUPEL_UNARY(normcdf, normcdf)
CUPEL_UNARY(round, round)
CUPEL_UNARY(sin, sin)
CUPEL_UNARY(sinh, sinh)
CUPEL_UNARY(sqrt, sqrt)
CUPEL_UNARY(tan, tan)
CUPEL_UNARY(tanh, tanh)
CUPEL_UNARY(tgamma, tgamma)
CUPEL_UNARY(trunc, trunc)
CUPEL_BINARY(atan2, atan2)
CUPEL_BINARY(copysign, copysign)
CUPEL_BINARY(fmod, fmod)
CUPEL_BINARY(hypot, hypot)
CUPEL_BINARY(max, fmax)
CUPEL_BINARY(min, fmin)
CUPEL_BINARY(nextafter, nextafter)
CUPEL_BINARY(pow, pow)
CUPEL_BINARY(remainder, remainder)
#undef CUPEL_UNARY
#undef CUPEL_BINARY
__host__ __device__ __forceinline__ float rsqrt(float x) { return ::rsqrtf(x); }
__host__ __device__ __forceinline__ double rsqrt(double x) { return ::rsqrt(x); }
}  // namespace c10::cuda::compat
