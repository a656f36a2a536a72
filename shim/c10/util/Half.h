// c10::Half: IEEE binary16, usable on host and device. It converts to and from the toolkit's __half
// without the operators that PyTorch's build flags (-D__CUDA_NO_HALF_OPERATORS__ ...) switch off;
// arithmetic goes through float, as in PyTorch. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"
#include "cupel/reduced_float.h"

#ifndef CUPEL_LEAN_HALF
#include <cuda_fp16.h>

namespace c10 {

struct alignas(2) Half {
  unsigned short x;

  struct from_bits_t {};
  static constexpr CUPEL_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }

  Half() = default;
  constexpr CUPEL_HOST_DEVICE Half(unsigned short bits, from_bits_t) : x(bits) {}
  CUPEL_HOST_DEVICE Half(float value) : x(__half_raw(__float2half_rn(value)).x) {}
  CUPEL_HOST_DEVICE Half(const __half& value) : x(__half_raw(value).x) {}
  CUPEL_HOST_DEVICE operator float() const { return __half2float(__half(Raw())); }
  CUPEL_HOST_DEVICE operator __half() const { return __half(Raw()); }

 private:
  CUPEL_HOST_DEVICE __half_raw Raw() const {
    __half_raw r;
    r.x = x;
    return r;
  }
};

CUPEL_REDUCED_FLOAT_OPERATORS(Half)

}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::Half>
    : public cupel::shim::ReducedFloatLimits<c10::Half, 11, -13, -4, 16, 4, 0x0400, 0x7BFF, 0x1400,
                                             0x7C00, 0x7E00> {};
}  // namespace std

#ifdef __CUDACC__
__device__ __forceinline__ c10::Half __ldg(const c10::Half* p) {
  return c10::Half(__ldg(reinterpret_cast<const unsigned short*>(p)), c10::Half::from_bits());
}
#endif
#endif  // CUPEL_LEAN_HALF

namespace c10 {
struct Half;
}
namespace at {
using c10::Half;
}  // namespace at
