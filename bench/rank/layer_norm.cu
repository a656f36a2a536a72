// variants: thread_per_row warp_two_pass warp_one_pass block_two_pass block_one_pass block_registers
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 2048, kColumns = 1024;
constexpr float kEpsilon = 1e-5f;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}};
constexpr int64_t kOutput = int64_t{kRows} * kColumns;

__global__ void ThreadPerRow(const float* x, float* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const float* p = x + row * kColumns;
  float sum = 0, squares = 0;
  for (int i = 0; i < kColumns; ++i) sum += p[i];
  const float mean = sum / kColumns;
  for (int i = 0; i < kColumns; ++i) squares += (p[i] - mean) * (p[i] - mean);
  const float scale = rsqrtf(squares / kColumns + kEpsilon);
  for (int i = 0; i < kColumns; ++i) y[row * kColumns + i] = (p[i] - mean) * scale;
}

template <bool IsOnePass>
__global__ void Warp(const float* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  const float* p = x + row * kColumns;
  float sum = 0, squares = 0;
  for (int i = lane; i < kColumns; i += 32) {
    sum += p[i];
    if (IsOnePass) squares += p[i] * p[i];
  }
  const float mean = WarpSum(sum) / kColumns;
  if (!IsOnePass) {
    for (int i = lane; i < kColumns; i += 32) squares += (p[i] - mean) * (p[i] - mean);
  }
  const float variance = WarpSum(squares) / kColumns - (IsOnePass ? mean * mean : 0.0f);
  const float scale = rsqrtf(variance + kEpsilon);
  for (int i = lane; i < kColumns; i += 32) y[row * kColumns + i] = (p[i] - mean) * scale;
}

template <bool IsOnePass>
__global__ void Block(const float* x, float* y) {
  const float* p = x + blockIdx.x * kColumns;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < kColumns; i += 256) {
    sum += p[i];
    if (IsOnePass) squares += p[i] * p[i];
  }
  const float mean = BlockSum(sum) / kColumns;
  if (!IsOnePass) {
    for (int i = threadIdx.x; i < kColumns; i += 256) squares += (p[i] - mean) * (p[i] - mean);
  }
  const float variance = BlockSum(squares) / kColumns - (IsOnePass ? mean * mean : 0.0f);
  const float scale = rsqrtf(variance + kEpsilon);
  for (int i = threadIdx.x; i < kColumns; i += 256) {
    y[blockIdx.x * kColumns + i] = (p[i] - mean) * scale;
  }
}

__global__ void BlockRegisters(const float4* x, float4* y) {
  const int at = blockIdx.x * (kColumns / 4) + threadIdx.x;
  const float4 v = x[at];
  const float mean = BlockSum((v.x + v.y) + (v.z + v.w)) / kColumns;
  const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
  const float scale = rsqrtf(BlockSum((a * a + b * b) + (c * c + d * d)) / kColumns + kEpsilon);
  y[at] = {a * scale, b * scale, c * scale, d * scale};
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  if (RANK_VARIANT == 0) ThreadPerRow<<<kRows / 64, 64, 0, stream>>>(x, y);
  if (RANK_VARIANT == 1) Warp<false><<<kRows / 4, 128, 0, stream>>>(x, y);
  if (RANK_VARIANT == 2) Warp<true><<<kRows / 4, 128, 0, stream>>>(x, y);
  if (RANK_VARIANT == 3) Block<false><<<kRows, 256, 0, stream>>>(x, y);
  if (RANK_VARIANT == 4) Block<true><<<kRows, 256, 0, stream>>>(x, y);
  if (RANK_VARIANT == 5) {
    BlockRegisters<<<kRows, 256, 0, stream>>>(static_cast<const float4*>(in[0]),
                                              reinterpret_cast<float4*>(y));
  }
}

RANK_ONE_INPUT({kRows, kColumns})
