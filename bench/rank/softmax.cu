// variants: thread_per_row warp_per_row warp_registers block_shared block_registers online
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 2048, kColumns = 1024;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kColumns, 0}};
constexpr int64_t kOutput = int64_t{kRows} * kColumns;

__global__ void ThreadPerRow(const float* x, float* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const float* p = x + row * kColumns;
  float most = -INFINITY, sum = 0;
  for (int i = 0; i < kColumns; ++i) most = fmaxf(most, p[i]);
  for (int i = 0; i < kColumns; ++i) sum += expf(p[i] - most);
  for (int i = 0; i < kColumns; ++i) y[row * kColumns + i] = expf(p[i] - most) / sum;
}

__global__ void WarpPerRow(const float* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  const float* p = x + row * kColumns;
  float most = -INFINITY, sum = 0;
  for (int i = lane; i < kColumns; i += 32) most = fmaxf(most, p[i]);
  most = WarpMax(most);
  for (int i = lane; i < kColumns; i += 32) sum += expf(p[i] - most);
  sum = WarpSum(sum);
  for (int i = lane; i < kColumns; i += 32) y[row * kColumns + i] = expf(p[i] - most) / sum;
}

__global__ void WarpRegisters(const float4* x, float4* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float4 v[kColumns / 128];
  float most = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < kColumns / 128; ++i) {
    v[i] = x[row * (kColumns / 4) + i * 32 + lane];
    most = fmaxf(fmaxf(most, fmaxf(v[i].x, v[i].y)), fmaxf(v[i].z, v[i].w));
  }
  most = WarpMax(most);
#pragma unroll
  for (int i = 0; i < kColumns / 128; ++i) {
    v[i] = {expf(v[i].x - most), expf(v[i].y - most), expf(v[i].z - most), expf(v[i].w - most)};
    sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
  }
  const float scale = 1.0f / WarpSum(sum);
#pragma unroll
  for (int i = 0; i < kColumns / 128; ++i) {
    y[row * (kColumns / 4) + i * 32 + lane] = {v[i].x * scale, v[i].y * scale, v[i].z * scale,
                                               v[i].w * scale};
  }
}

__global__ void BlockShared(const float* x, float* y) {
  __shared__ float row[kColumns];
  const float* p = x + blockIdx.x * kColumns;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < kColumns; i += 128) {
    row[i] = p[i];
    most = fmaxf(most, row[i]);
  }
  most = BlockMax(most);
  for (int i = threadIdx.x; i < kColumns; i += 128) {
    row[i] = expf(row[i] - most);
    sum += row[i];
  }
  const float scale = 1.0f / BlockSum(sum);
  for (int i = threadIdx.x; i < kColumns; i += 128) y[blockIdx.x * kColumns + i] = row[i] * scale;
}

__global__ void BlockRegisters(const float4* x, float4* y) {
  float4 v = x[blockIdx.x * (kColumns / 4) + threadIdx.x];
  const float most = BlockMax(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  v = {expf(v.x - most), expf(v.y - most), expf(v.z - most), expf(v.w - most)};
  const float scale = 1.0f / BlockSum((v.x + v.y) + (v.z + v.w));
  y[blockIdx.x * (kColumns / 4) + threadIdx.x] = {v.x * scale, v.y * scale, v.z * scale,
                                                  v.w * scale};
}

/// Maximum and sum in one pass: more exponentials, fewer loads.
__global__ void Online(const float* x, float* y) {
  const float* p = x + blockIdx.x * kColumns;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < kColumns; i += 256) {
    const float next = fmaxf(most, p[i]);
    sum = sum * expf(most - next) + expf(p[i] - next);
    most = next;
  }
  const float all = BlockMax(most);
  const float total = BlockSum(sum * expf(most - all));
  for (int i = threadIdx.x; i < kColumns; i += 256) {
    y[blockIdx.x * kColumns + i] = expf(p[i] - all) / total;
  }
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const auto* xv = static_cast<const float4*>(in[0]);
  auto* yv = reinterpret_cast<float4*>(y);
  if (RANK_VARIANT == 0) ThreadPerRow<<<kRows / 64, 64, 0, stream>>>(x, y);
  if (RANK_VARIANT == 1) WarpPerRow<<<kRows / 4, 128, 0, stream>>>(x, y);
  if (RANK_VARIANT == 2) WarpRegisters<<<kRows / 4, 128, 0, stream>>>(xv, yv);
  if (RANK_VARIANT == 3) BlockShared<<<kRows, 128, 0, stream>>>(x, y);
  if (RANK_VARIANT == 4) BlockRegisters<<<kRows, 256, 0, stream>>>(xv, yv);
  if (RANK_VARIANT == 5) Online<<<kRows, 256, 0, stream>>>(x, y);
}

RANK_ONE_INPUT({kRows, kColumns})
