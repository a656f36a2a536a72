// Warp primitives under PyTorch's names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/BFloat16.h"
#include "c10/util/Half.h"

__device__ __forceinline__ unsigned int ACTIVE_MASK() { return __activemask(); }
__device__ __forceinline__ void WARP_SYNC(unsigned mask = 0xffffffff) { __syncwarp(mask); }
__device__ __forceinline__ unsigned int WARP_BALLOT(int predicate, unsigned mask = 0xffffffff) {
  return __ballot_sync(mask, predicate);
}
#define CUPEL_SHUFFLE(NAME, intrinsic, Lane)                                          \
  template <class T>                                                                  \
  __device__ __forceinline__ T NAME(T value, Lane lane, int width = warpSize,         \
                                    unsigned mask = 0xffffffff) {                     \
    if constexpr (std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>) { \
      unsigned short bits = static_cast<unsigned short>(                              \
          intrinsic(mask, static_cast<unsigned>(value.x), lane, width));              \
      return T(bits, T::from_bits());                                                 \
    } else {                                                                          \
      return intrinsic(mask, value, lane, width);                                     \
    }                                                                                 \
  }
CUPEL_SHUFFLE(WARP_SHFL, __shfl_sync, int)
CUPEL_SHUFFLE(WARP_SHFL_XOR, __shfl_xor_sync, int)
CUPEL_SHUFFLE(WARP_SHFL_UP, __shfl_up_sync, unsigned)
CUPEL_SHUFFLE(WARP_SHFL_DOWN, __shfl_down_sync, unsigned)
#undef CUPEL_SHUFFLE
