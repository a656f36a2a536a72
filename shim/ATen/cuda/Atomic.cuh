// gpuAtomicAdd for the types that the hardware adds atomically.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/BFloat16.h"
#include "c10/util/Half.h"

template <class T>
__device__ __forceinline__ T gpuAtomicAdd(T* address, T value) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<T>(atomicAdd(reinterpret_cast<unsigned long long*>(address),
                                    static_cast<unsigned long long>(value)));
#ifndef CUPEL_LEAN_HALF
  } else if constexpr (std::is_same_v<T, c10::Half>) {
    return T(atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value)));
  } else if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return T(
        atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value)));
#endif
  } else {
    return atomicAdd(address, value);
  }
}
template <class T>
__device__ __forceinline__ void gpuAtomicAddNoReturn(T* address, T value) {
  gpuAtomicAdd(address, value);
}
