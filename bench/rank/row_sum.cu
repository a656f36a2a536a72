// variants: thread_per_row warp_per_row warp_vector block_tree block_shuffle block_vector
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 4096, kColumns = 2048;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}};
constexpr int64_t kOutput = kRows;

__global__ void ThreadPerRow(const float* x, float* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= kRows) return;
  float sum = 0;
  for (int i = 0; i < kColumns; ++i) sum += x[row * kColumns + i];
  y[row] = sum;
}

__global__ void WarpPerRow(const float* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int i = lane; i < kColumns; i += 32) sum += x[row * kColumns + i];
  sum = WarpSum(sum);
  if (lane == 0) y[row] = sum;
}

__global__ void WarpVector(const float4* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
#pragma unroll 4
  for (int i = lane; i < kColumns / 4; i += 32) {
    const float4 v = x[row * (kColumns / 4) + i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  sum = WarpSum(sum);
  if (lane == 0) y[row] = sum;
}

__global__ void BlockTree(const float* x, float* y) {
  __shared__ float partial[256];
  float sum = 0;
  for (int i = threadIdx.x; i < kColumns; i += 256) sum += x[blockIdx.x * kColumns + i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int distance = 1; distance < 256; distance *= 2) {  // interleaved: diverges and conflicts
    const int at = 2 * distance * threadIdx.x;
    if (at < 256) partial[at] += partial[at + distance];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

__global__ void BlockShuffle(const float* x, float* y) {
  float sum = 0;
  for (int i = threadIdx.x; i < kColumns; i += 256) sum += x[blockIdx.x * kColumns + i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

__global__ void BlockVector(const float4* x, float* y) {
  float sum = 0;
  for (int i = threadIdx.x; i < kColumns / 4; i += 128) {
    const float4 v = x[blockIdx.x * (kColumns / 4) + i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const auto* v = static_cast<const float4*>(in[0]);
  if (RANK_VARIANT == 0) ThreadPerRow<<<kRows / 128, 128, 0, stream>>>(x, y);
  if (RANK_VARIANT == 1) WarpPerRow<<<kRows / 8, 256, 0, stream>>>(x, y);
  if (RANK_VARIANT == 2) WarpVector<<<kRows / 8, 256, 0, stream>>>(v, y);
  if (RANK_VARIANT == 3) BlockTree<<<kRows, 256, 0, stream>>>(x, y);
  if (RANK_VARIANT == 4) BlockShuffle<<<kRows, 256, 0, stream>>>(x, y);
  if (RANK_VARIANT == 5) BlockVector<<<kRows, 128, 0, stream>>>(v, y);
}

RANK_ONE_INPUT({kRows})
