// Grid-stride loops and the block count that goes with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                          \
  int64_t cupel_index_##i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; \
  for (index_type i = static_cast<index_type>(cupel_index_##i); cupel_index_##i < (n);   \
       cupel_index_##i += static_cast<int64_t>(blockDim.x) * gridDim.x,                  \
                  i = static_cast<index_type>(cupel_index_##i))
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace at::cuda::detail {
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t n, int64_t threads = CUDA_NUM_THREADS) {
  TORCH_INTERNAL_ASSERT(n > 0, "CUDA kernel launch blocks must be positive, but got N=", n);
  int64_t blocks = (n - 1) / threads + 1;
  TORCH_INTERNAL_ASSERT(blocks <= std::numeric_limits<int>::max(),
                        "Can't schedule too many blocks on CUDA device");
  return static_cast<int>(blocks);
}
}  // namespace at::cuda::detail
