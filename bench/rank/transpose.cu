// variants: read_rows write_rows tile_conflicts tile_padded tile_rows tile_vector
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kN = 2048;
constexpr RankInput kInputs[] = {{int64_t{kN} * kN, 0}};
constexpr int64_t kOutput = int64_t{kN} * kN;

template <bool ReadsRows>
__global__ void Naive(const float* x, float* y) {
  const int fast = blockIdx.x * 32 + threadIdx.x, slow = blockIdx.y * 8 + threadIdx.y;
  if (ReadsRows) {
    y[fast * kN + slow] = x[slow * kN + fast];
  } else {
    y[slow * kN + fast] = x[fast * kN + slow];
  }
}

/// 32x32 elements per block of 32 times Rows threads.
template <int Pad, int Rows>
__global__ void Tile(const float* x, float* y) {
  __shared__ float tile[32][32 + Pad];
  const int x0 = blockIdx.x * 32, y0 = blockIdx.y * 32;
#pragma unroll
  for (int i = threadIdx.y; i < 32; i += Rows) {
    tile[i][threadIdx.x] = x[(y0 + i) * kN + x0 + threadIdx.x];
  }
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.y; i < 32; i += Rows) {
    y[(x0 + i) * kN + y0 + threadIdx.x] = tile[threadIdx.x][i];
  }
}

/// Each thread transposes four by four elements: 16-byte loads and stores, no shared memory.
__global__ void Vector(const float4* x, float4* y) {
  const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  float4 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = x[(row * 4 + i) * (kN / 4) + column];
  y[(column * 4 + 0) * (kN / 4) + row] = {v[0].x, v[1].x, v[2].x, v[3].x};
  y[(column * 4 + 1) * (kN / 4) + row] = {v[0].y, v[1].y, v[2].y, v[3].y};
  y[(column * 4 + 2) * (kN / 4) + row] = {v[0].z, v[1].z, v[2].z, v[3].z};
  y[(column * 4 + 3) * (kN / 4) + row] = {v[0].w, v[1].w, v[2].w, v[3].w};
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const dim3 narrow(kN / 32, kN / 8), tiles(kN / 32, kN / 32);
  if (RANK_VARIANT == 0) Naive<true><<<narrow, dim3(32, 8), 0, stream>>>(x, y);
  if (RANK_VARIANT == 1) Naive<false><<<narrow, dim3(32, 8), 0, stream>>>(x, y);
  if (RANK_VARIANT == 2) Tile<0, 32><<<tiles, dim3(32, 32), 0, stream>>>(x, y);
  if (RANK_VARIANT == 3) Tile<1, 32><<<tiles, dim3(32, 32), 0, stream>>>(x, y);
  if (RANK_VARIANT == 4) Tile<1, 8><<<tiles, dim3(32, 8), 0, stream>>>(x, y);
  if (RANK_VARIANT == 5) {
    Vector<<<dim3(kN / 64, kN / 64), dim3(16, 16), 0, stream>>>(static_cast<const float4*>(in[0]),
                                                                reinterpret_cast<float4*>(y));
  }
}

RANK_ONE_INPUT({kN, kN})
