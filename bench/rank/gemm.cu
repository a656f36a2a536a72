// variants: naive naive_crossed tiled_16 tiled_32 register_4x4 register_vector
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kN = 512;  // all three extents
constexpr RankInput kInputs[] = {{int64_t{kN} * kN, 0}, {int64_t{kN} * kN, 0}};
constexpr int64_t kOutput = int64_t{kN} * kN;

/// Neighbouring lanes share a row of A, or (crossed) a column of B.
template <bool IsCrossed>
__global__ void Naive(const float* a, const float* b, float* c) {
  const int fast = blockIdx.x * 16 + threadIdx.x, slow = blockIdx.y * 16 + threadIdx.y;
  const int row = IsCrossed ? fast : slow, column = IsCrossed ? slow : fast;
  float sum = 0;
  for (int k = 0; k < kN; ++k) sum += a[row * kN + k] * b[k * kN + column];
  c[row * kN + column] = sum;
}

template <int Tile>
__global__ void Tiled(const float* a, const float* b, float* c) {
  __shared__ float at[Tile][Tile], bt[Tile][Tile];
  const int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
  float sum = 0;
  for (int k0 = 0; k0 < kN; k0 += Tile) {
    at[threadIdx.y][threadIdx.x] = a[row * kN + k0 + threadIdx.x];
    bt[threadIdx.y][threadIdx.x] = b[(k0 + threadIdx.y) * kN + column];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Tile; ++k) sum += at[threadIdx.y][k] * bt[k][threadIdx.x];
    __syncthreads();
  }
  c[row * kN + column] = sum;
}

/// 64x64 per block of 256 threads, 4x4 per thread, 16 deep. With vectors, a thread's columns are
/// neighbours; without, they are 16 apart.
template <bool IsVector>
__global__ void Register(const float* a, const float* b, float* c) {
  __shared__ float at[16][64 + 4], bt[16][64];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < kN; k0 += 16) {
    if (IsVector) {
      const int r = threadIdx.x / 4, k = threadIdx.x % 4 * 4;
      const float4 v = *reinterpret_cast<const float4*>(a + (row0 + r) * kN + k0 + k);
      at[k][r] = v.x;
      at[k + 1][r] = v.y;
      at[k + 2][r] = v.z;
      at[k + 3][r] = v.w;
      *reinterpret_cast<float4*>(&bt[ty][tx * 4]) =
          *reinterpret_cast<const float4*>(b + (k0 + ty) * kN + column0 + tx * 4);
    } else {
      for (int i = threadIdx.x; i < 1024; i += 256) {
        at[i % 16][i / 16] = a[(row0 + i / 16) * kN + k0 + i % 16];
        bt[i / 64][i % 64] = b[(k0 + i / 64) * kN + column0 + i % 64];
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = at[k][ty * 4 + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) y[j] = bt[k][IsVector ? tx * 4 + j : tx + 16 * j];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      c[(row0 + ty * 4 + i) * kN + column0 + (IsVector ? tx * 4 + j : tx + 16 * j)] = sum[i][j];
    }
  }
}

void Launch(const void* const* in, float* c, cudaStream_t stream) {
  const auto* a = static_cast<const float*>(in[0]);
  const auto* b = static_cast<const float*>(in[1]);
  const dim3 g16(kN / 16, kN / 16), b16(16, 16), g32(kN / 32, kN / 32), b32(32, 32);
  const dim3 g64(kN / 64, kN / 64);
  if (RANK_VARIANT == 0) Naive<false><<<g16, b16, 0, stream>>>(a, b, c);
  if (RANK_VARIANT == 1) Naive<true><<<g16, b16, 0, stream>>>(a, b, c);
  if (RANK_VARIANT == 2) Tiled<16><<<g16, b16, 0, stream>>>(a, b, c);
  if (RANK_VARIANT == 3) Tiled<32><<<g32, b32, 0, stream>>>(a, b, c);
  if (RANK_VARIANT == 4) Register<false><<<g64, 256, 0, stream>>>(a, b, c);
  if (RANK_VARIANT == 5) Register<true><<<g64, 256, 0, stream>>>(a, b, c);
}

RANK_TWO_INPUTS({kN, kN})
