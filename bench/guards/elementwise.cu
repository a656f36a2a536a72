// variants: four_if four_ternary four_clamp eight_if eight_clamp vector_if vector_clamp
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kElements = 300000;  // no multiple of what the grid computes at a time
constexpr int kBlocks = 128;
constexpr RankInput kInputs[] = {{kElements, 0}};
constexpr int64_t kOutput = kElements;

__device__ __forceinline__ float Leaky(float value) { return fmaxf(value, 0.01f * value); }
__device__ __forceinline__ float4 Leaky(float4 v) {
  return make_float4(Leaky(v.x), Leaky(v.y), Leaky(v.z), Leaky(v.w));
}

template <int kEach>
__global__ void If(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int threads = gridDim.x * blockDim.x;
  for (int first = blockIdx.x * blockDim.x + threadIdx.x; first < n; first += kEach * threads) {
    float value[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = first + j * threads;
      value[j] = 0;
      if (i < n) value[j] = x[i];
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = first + j * threads;
      if (i < n) y[i] = Leaky(value[j]);
    }
  }
}

template <int kEach>
__global__ void Ternary(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int threads = gridDim.x * blockDim.x;
  for (int first = blockIdx.x * blockDim.x + threadIdx.x; first < n; first += kEach * threads) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = first + j * threads;
      const float value = i < n ? x[i] : 0;
      if (i < n) y[i] = Leaky(value);
    }
  }
}

template <int kEach>
__global__ void Clamped(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int threads = gridDim.x * blockDim.x;
  for (int first = blockIdx.x * blockDim.x + threadIdx.x; first < n; first += kEach * threads) {
    float value[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) value[j] = x[min(first + j * threads, n - 1)];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = first + j * threads;
      if (i < n) y[i] = Leaky(value[j]);
    }
  }
}

__global__ void VectorIf(const float4* __restrict__ x, float4* __restrict__ y, int n) {
  const int threads = gridDim.x * blockDim.x;
  for (int first = blockIdx.x * blockDim.x + threadIdx.x; first < n; first += 2 * threads) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = first + j * threads;
      if (i < n) y[i] = Leaky(x[i]);
    }
  }
}

__global__ void VectorClamped(const float4* __restrict__ x, float4* __restrict__ y, int n) {
  const int threads = gridDim.x * blockDim.x;
  for (int first = blockIdx.x * blockDim.x + threadIdx.x; first < n; first += 2 * threads) {
    float4 value[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) value[j] = x[min(first + j * threads, n - 1)];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = first + j * threads;
      if (i < n) y[i] = Leaky(value[j]);
    }
  }
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const auto* v = static_cast<const float4*>(in[0]);
  auto* w = reinterpret_cast<float4*>(y);
  if (RANK_VARIANT == 0) If<4><<<kBlocks, 128, 0, stream>>>(x, y, kElements);
  if (RANK_VARIANT == 1) Ternary<4><<<kBlocks, 128, 0, stream>>>(x, y, kElements);
  if (RANK_VARIANT == 2) Clamped<4><<<kBlocks, 128, 0, stream>>>(x, y, kElements);
  if (RANK_VARIANT == 3) If<8><<<kBlocks, 128, 0, stream>>>(x, y, kElements);
  if (RANK_VARIANT == 4) Clamped<8><<<kBlocks, 128, 0, stream>>>(x, y, kElements);
  if (RANK_VARIANT == 5) VectorIf<<<kBlocks, 128, 0, stream>>>(v, w, kElements / 4);
  if (RANK_VARIANT == 6) VectorClamped<<<kBlocks, 128, 0, stream>>>(v, w, kElements / 4);
}

RANK_ONE_INPUT({kElements})
