// variants: thread_per_row warp_per_row warp_vector block_per_row block_vector rows_4
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 2048, kColumns = 4096;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}, {kColumns, 0}};
constexpr int64_t kOutput = kRows;

__device__ __forceinline__ float Dot(float4 a, float4 b) {
  return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
}

__global__ void ThreadPerRow(const float* a, const float* x, float* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < kColumns; ++i) sum += a[row * kColumns + i] * x[i];
  y[row] = sum;
}
__global__ void WarpPerRow(const float* a, const float* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int i = lane; i < kColumns; i += 32) sum += a[row * kColumns + i] * x[i];
  sum = WarpSum(sum);
  if (lane == 0) y[row] = sum;
}
__global__ void WarpVector(const float4* a, const float4* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
#pragma unroll 4
  for (int i = lane; i < kColumns / 4; i += 32) sum += Dot(a[row * (kColumns / 4) + i], x[i]);
  sum = WarpSum(sum);
  if (lane == 0) y[row] = sum;
}
__global__ void BlockPerRow(const float* a, const float* x, float* y) {
  float sum = 0;
  for (int i = threadIdx.x; i < kColumns; i += 256) sum += a[blockIdx.x * kColumns + i] * x[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
__global__ void BlockVector(const float4* a, const float4* x, float* y) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kColumns / 1024; ++i) {
    const int at = i * 256 + threadIdx.x;
    sum += Dot(a[blockIdx.x * (kColumns / 4) + at], x[at]);
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
/// A warp computes four rows, so that it loads each part of the vector once for all four.
__global__ void Rows4(const float4* a, const float4* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 4, lane = threadIdx.x % 32;
  float sum[4] = {};
  for (int i = lane; i < kColumns / 4; i += 32) {
    const float4 v = x[i];
#pragma unroll
    for (int r = 0; r < 4; ++r) sum[r] += Dot(a[(row + r) * (kColumns / 4) + i], v);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float all = WarpSum(sum[r]);
    if (lane == 0) y[row + r] = all;
  }
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* a = static_cast<const float*>(in[0]);
  const auto* x = static_cast<const float*>(in[1]);
  const auto* av = static_cast<const float4*>(in[0]);
  const auto* xv = static_cast<const float4*>(in[1]);
  if (RANK_VARIANT == 0) ThreadPerRow<<<kRows / 64, 64, 0, stream>>>(a, x, y);
  if (RANK_VARIANT == 1) WarpPerRow<<<kRows / 8, 256, 0, stream>>>(a, x, y);
  if (RANK_VARIANT == 2) WarpVector<<<kRows / 8, 256, 0, stream>>>(av, xv, y);
  if (RANK_VARIANT == 3) BlockPerRow<<<kRows, 256, 0, stream>>>(a, x, y);
  if (RANK_VARIANT == 4) BlockVector<<<kRows, 256, 0, stream>>>(av, xv, y);
  if (RANK_VARIANT == 5) Rows4<<<kRows / 32, 256, 0, stream>>>(av, xv, y);
}

RANK_TWO_INPUTS({kRows})
