// variants: warp_if warp_ternary warp_clamp block_if block_clamp
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 512, kColumns = 1000;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}};
constexpr int64_t kOutput = int64_t{kRows} * kColumns;

enum Guard { kIf, kTernary, kClamped };

/// Loads element i, or -infinity behind the end.
template <Guard kGuard>
__device__ __forceinline__ float Load(const float* p, int i, int columns) {
  if (kGuard == kTernary) return i < columns ? p[i] : -INFINITY;
  if (kGuard == kClamped) {
    const float value = p[min(i, columns - 1)];
    return i < columns ? value : -INFINITY;
  }
  float value = -INFINITY;
  if (i < columns) value = p[i];
  return value;
}

template <Guard kGuard, int kThreads>
__global__ void Rows(const float* __restrict__ x, float* __restrict__ y, int columns) {
  constexpr int kEach = 1024 / kThreads;
  const int row = kThreads == 32 ? (blockIdx.x * blockDim.x + threadIdx.x) / 32 : blockIdx.x;
  const int lane = threadIdx.x % kThreads;
  const float* p = x + row * columns;
  float value[kEach], most = -INFINITY, sum = 0;
#pragma unroll
  for (int j = 0; j < kEach; ++j) value[j] = Load<kGuard>(p, lane + j * kThreads, columns);
#pragma unroll
  for (int j = 0; j < kEach; ++j) most = fmaxf(most, value[j]);
  most = kThreads == 32 ? WarpMax(most) : BlockMax(most);
#pragma unroll
  for (int j = 0; j < kEach; ++j) sum += value[j] = __expf(value[j] - most);
  sum = kThreads == 32 ? WarpSum(sum) : BlockSum(sum);
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int i = lane + j * kThreads;
    if (i < columns) y[row * columns + i] = value[j] / sum;
  }
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  if (RANK_VARIANT == 0) Rows<kIf, 32><<<kRows / 4, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 1) Rows<kTernary, 32><<<kRows / 4, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 2) Rows<kClamped, 32><<<kRows / 4, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 3) Rows<kIf, 128><<<kRows, 128, 0, stream>>>(x, y, kColumns);
  if (RANK_VARIANT == 4) Rows<kClamped, 128><<<kRows, 128, 0, stream>>>(x, y, kColumns);
}

RANK_ONE_INPUT({kRows, kColumns})
