// Code shared by the settings of bench/rank. A setting is NAME.py (a problem file that defines the
// correct answer) and NAME.cu (variants that compute it, chosen by RANK_VARIANT). A variant is a
// branch of Launch. cupel sees it as a PyTorch extension, and rank.cu times it on a GPU without
// PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef RANK_TIMING
extern int rank_variant;
#define RANK_VARIANT rank_variant
#elif !defined(RANK_VARIANT)
#define RANK_VARIANT 0
#endif

/// Inputs in the order of get_inputs: float32, or int64 where `below` is not 0.
struct RankInput {
  int64_t elements;
  int64_t below;  // integers from [0, below); negative: from [below / 2, -below / 2), then max with 0
};

/// Launches the kernels; defined by each setting.
void Launch(const void* const* in, float* out, cudaStream_t stream);

constexpr int CeilDiv(int a, int b) { return (a + b - 1) / b; }

__device__ __forceinline__ float WarpSum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}
__device__ __forceinline__ float WarpMax(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}
/// Sum over a block of at most 1024 threads, a multiple of 32. Every thread gets the sum.
__device__ __forceinline__ float BlockSum(float value) {
  __shared__ float partial[32];
  value = WarpSum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return WarpSum(threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f);
}
__device__ __forceinline__ float BlockMax(float value) {
  __shared__ float partial[32];
  value = WarpMax(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return WarpMax(threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : -INFINITY);
}

#ifndef RANK_TIMING
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

/// The extension's entry; goes at the end of a setting's file. The argument is the output's shape,
/// in braces.
#define RANK_ONE_INPUT(...)                                                             \
  torch::Tensor forward(torch::Tensor a) {                                              \
    auto out = torch::empty(__VA_ARGS__, a.options().dtype(torch::kFloat32));           \
    const void* in[] = {a.data_ptr()};                                                  \
    Launch(in, out.data_ptr<float>(), at::cuda::getCurrentCUDAStream());                \
    return out;                                                                         \
  }                                                                                     \
  PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
#define RANK_TWO_INPUTS(...)                                                            \
  torch::Tensor forward(torch::Tensor a, torch::Tensor b) {                             \
    auto out = torch::empty(__VA_ARGS__, a.options().dtype(torch::kFloat32));           \
    const void* in[] = {a.data_ptr(), b.data_ptr()};                                    \
    Launch(in, out.data_ptr<float>(), at::cuda::getCurrentCUDAStream());                \
    return out;                                                                         \
  }                                                                                     \
  PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
#else
#define RANK_ONE_INPUT(...)
#define RANK_TWO_INPUTS(...)
#endif
