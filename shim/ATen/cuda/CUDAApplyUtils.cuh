// What kernels use that include this header: the helpers of the headers that it includes, and the
// size of a grid with a block of 512 threads. Its element-wise appliers are not supported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/TensorUtils.h"
#include "ATen/ceil_div.h"
#include "ATen/cuda/Atomic.cuh"
#include "ATen/cuda/CUDAContext.h"

namespace at::cuda {

template <class T>
CUPEL_HOST_DEVICE T ATenCeilDiv(T a, T b) {
  return ceil_div(a, b);
}

constexpr uint32_t AT_APPLY_THREADS_PER_BLOCK = 512;
constexpr uint32_t AT_APPLY_BLOCKS_PER_SM = 4;

inline dim3 getApplyBlock() { return dim3(AT_APPLY_THREADS_PER_BLOCK); }
/// Sets the grid for `elements` elements, `step` of them per thread.
template <int step = 1>
bool getApplyGrid(uint64_t elements, dim3& grid, int64_t /*device*/,
                  int threads = AT_APPLY_THREADS_PER_BLOCK) {
  const uint64_t blocks = ceil_div(elements, static_cast<uint64_t>(threads) * step);
  grid = dim3(static_cast<unsigned>(std::min<uint64_t>(blocks, 2147483647)));
  return true;
}

}  // namespace at::cuda
