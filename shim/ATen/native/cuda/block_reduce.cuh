// Sums over a warp and over a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/DeviceUtils.cuh"

namespace at::native::cuda_utils {

constexpr int kCUDABlockReduceNumThreads = 512;
constexpr int kCUDABlockReduceMaxThreads = 1024;

template <class T>
__inline__ __device__ T WarpReduceSum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += WARP_SHFL_DOWN(value, offset);
  return value;
}
/// The sum over a one-dimensional block, valid in thread 0; `shared` holds one value per warp.
template <class T>
__inline__ __device__ T BlockReduceSum(T value, T* shared) {
  const int lane = threadIdx.x % C10_WARP_SIZE, warp = threadIdx.x / C10_WARP_SIZE;
  value = WarpReduceSum(value);
  __syncthreads();  // `shared` may still be read from an earlier sum
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / C10_WARP_SIZE ? shared[lane] : T(0);
  return warp == 0 ? WarpReduceSum(value) : value;
}

}  // namespace at::native::cuda_utils
