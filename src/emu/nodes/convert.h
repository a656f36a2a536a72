// Element-wise copies between strided arrays with the dtype conversions of PyTorch's copy_ on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "emu/core/thread_pool.h"

namespace cupel::emu {

/// The address of element 0 and the strides (in elements) of an array. The shape is separate.
template <typename Byte>
struct StridedArray {
  Byte* data = nullptr;
  DType dtype = DType::kF32;
  std::span<const int64_t> strides;
};

/// to[i] = from[i] for every index i of `shape`. The caller must check that both arrays are in
/// bounds. Conversions:
/// - float to a narrower float: rounds to nearest even; float64 to 16 bits goes through float32
/// - float to integer: truncates and saturates at 32 or 64 bits, as the GPU's cvt does
/// - integer to a narrower integer: wraps
/// - to bool: "not zero"
void CopyStrided(std::span<const int64_t> shape, const StridedArray<std::byte>& to,
                 const StridedArray<const std::byte>& from, ThreadPool& pool);

}  // namespace cupel::emu
