// gpuAtomicAdd, Mul, Max and Min for all element types, and atomicAdd for those that CUDA lacks.
// What the hardware cannot do is a loop of compare-and-swap on the 2, 4 or 8 bytes that hold the
// element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/NumericUtils.h"

namespace cupel::shim {

/// Replaces *address by f(*address) and returns the old value.
template <class T, class F>
__device__ T AtomicUpdate(T* address, F f) {
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  const auto raw = reinterpret_cast<size_t>(address);
  auto* word = reinterpret_cast<Word*>(raw - raw % sizeof(Word));
  const unsigned shift = raw % sizeof(Word) * 8;
  const Word mask = (sizeof(T) < sizeof(Word) ? (Word{1} << sizeof(T) * 8 % 64) - 1 : ~Word{0})
                    << shift;
  Word seen = *word, expected;
  T old;
  do {
    expected = seen;
    const Word bits = (expected & mask) >> shift;
    memcpy(&old, &bits, sizeof(T));
    const T changed = f(old);
    Word wanted = 0;
    memcpy(&wanted, &changed, sizeof(T));
    seen = atomicCAS(word, expected, (expected & ~mask) | (wanted << shift));
  } while (seen != expected);
  return old;
}

}  // namespace cupel::shim

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
  } else if constexpr (std::is_same_v<T, bool>) {
    return cupel::shim::AtomicUpdate(address, [value](bool old) { return old || value; });
  } else if constexpr (sizeof(T) < 4) {
    return cupel::shim::AtomicUpdate(address,
                                     [value](T old) { return static_cast<T>(old + value); });
  } else {
    return atomicAdd(address, value);
  }
}
template <class T>
__device__ __forceinline__ void gpuAtomicAddNoReturn(T* address, T value) {
  gpuAtomicAdd(address, value);
}
template <class T>
__device__ T gpuAtomicMul(T* address, T value) {
  return cupel::shim::AtomicUpdate(address, [value](T old) { return static_cast<T>(old * value); });
}
/// The larger one; NaN if one is NaN.
template <class T>
__device__ T gpuAtomicMax(T* address, T value) {
  return cupel::shim::AtomicUpdate(
      address, [value](T old) { return at::_isnan(old) || old > value ? old : value; });
}
template <class T>
__device__ T gpuAtomicMin(T* address, T value) {
  return cupel::shim::AtomicUpdate(
      address, [value](T old) { return at::_isnan(old) || old < value ? old : value; });
}

#define CUPEL_ATOMIC_ADD(T)                                     \
  __device__ __forceinline__ T atomicAdd(T* address, T value) { \
    return gpuAtomicAdd(address, value);                        \
  }
CUPEL_ATOMIC_ADD(uint8_t)
CUPEL_ATOMIC_ADD(int8_t)
CUPEL_ATOMIC_ADD(int16_t)
CUPEL_ATOMIC_ADD(int64_t)
CUPEL_ATOMIC_ADD(bool)
#ifndef CUPEL_LEAN_HALF
CUPEL_ATOMIC_ADD(c10::Half)
CUPEL_ATOMIC_ADD(c10::BFloat16)
#endif
#undef CUPEL_ATOMIC_ADD
