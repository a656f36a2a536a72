// variants: four_if four_ternary four_clamp eight_if eight_clamp vector_if vector_clamp
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 512, kColumns = 3000;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}};
constexpr int64_t kOutput = kRows;

template <int kUnroll>
__global__ void If(const float* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += kUnroll * 128) {
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      if (i + j * 128 < columns) sum += x[blockIdx.x * columns + i + j * 128];
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

template <int kUnroll>
__global__ void Ternary(const float* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += kUnroll * 128) {
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      sum += i + j * 128 < columns ? x[blockIdx.x * columns + i + j * 128] : 0;
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

template <int kUnroll>
__global__ void Clamped(const float* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += kUnroll * 128) {
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      const float value = x[blockIdx.x * columns + min(i + j * 128, columns - 1)];
      sum += i + j * 128 < columns ? value : 0;
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

__global__ void VectorIf(const float4* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 4 * 64) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (i + j * 64 >= columns) continue;
      const float4 v = x[blockIdx.x * columns + i + j * 64];
      sum += (v.x + v.y) + (v.z + v.w);
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

__global__ void VectorClamped(const float4* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 4 * 64) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float4 v = x[blockIdx.x * columns + min(i + j * 64, columns - 1)];
      sum += i + j * 64 < columns ? (v.x + v.y) + (v.z + v.w) : 0;
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const auto* v = static_cast<const float4*>(in[0]);
  if (RANK_VARIANT == 0) If<4><<<kRows, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 1) Ternary<4><<<kRows, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 2) Clamped<4><<<kRows, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 3) If<8><<<kRows, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 4) Clamped<8><<<kRows, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 5) VectorIf<<<kRows, 64, 0, stream>>>(v, y, kColumns / 4);
  if (RANK_VARIANT == 6) VectorClamped<<<kRows, 64, 0, stream>>>(v, y, kColumns / 4);
}

RANK_ONE_INPUT({kRows})
