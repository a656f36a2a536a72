// c10::BFloat16: bfloat16, usable on host and device. It converts to and from the toolkit's
// __nv_bfloat16 without the operators that PyTorch's build flags (-D__CUDA_NO_HALF_OPERATORS__ ...)
// switch off; arithmetic goes through float, as in PyTorch. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"
#include "cupel/reduced_float.h"

#ifndef CUPEL_LEAN_HALF
#include <cuda_bf16.h>

namespace c10 {

struct alignas(2) BFloat16 {
  unsigned short x;

  struct from_bits_t {};
  static constexpr CUPEL_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }

  BFloat16() = default;
  constexpr CUPEL_HOST_DEVICE BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  CUPEL_HOST_DEVICE BFloat16(float value) : x(__nv_bfloat16_raw(__float2bfloat16_rn(value)).x) {}
  CUPEL_HOST_DEVICE BFloat16(const __nv_bfloat16& value) : x(__nv_bfloat16_raw(value).x) {}
  CUPEL_HOST_DEVICE operator float() const { return __bfloat162float(__nv_bfloat16(Raw())); }
  explicit CUPEL_HOST_DEVICE operator __nv_bfloat16() const { return __nv_bfloat16(Raw()); }

 private:
  CUPEL_HOST_DEVICE __nv_bfloat16_raw Raw() const {
    __nv_bfloat16_raw r;
    r.x = x;
    return r;
  }
};

CUPEL_REDUCED_FLOAT_OPERATORS(BFloat16)

}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::BFloat16>
    : public cupel::shim::ReducedFloatLimits<c10::BFloat16, 8, -125, -37, 128, 38, 0x0080, 0x7F7F,
                                             0x3C00, 0x7F80, 0x7FC0> {};
}  // namespace std

#ifdef __CUDACC__
__device__ __forceinline__ c10::BFloat16 __ldg(const c10::BFloat16* p) {
  return c10::BFloat16(__ldg(reinterpret_cast<const unsigned short*>(p)),
                       c10::BFloat16::from_bits());
}
#endif
#endif  // CUPEL_LEAN_HALF

namespace c10 {
struct BFloat16;
}
namespace at {
using c10::BFloat16;
}  // namespace at
