// variants: direct weights_shared tile_shared channels_4 channels_16
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kBatch = 16, kChannels = 16, kSize = 66, kOut = 64;
constexpr RankInput kInputs[] = {{int64_t{kBatch} * kChannels * kSize * kSize, 0},
                                 {int64_t{kChannels} * kChannels * 9, 0}};
constexpr int64_t kOutput = int64_t{kBatch} * kChannels * kOut * kOut;

__global__ void Direct(const float* x, const float* w, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int column = i % kOut, row = i / kOut % kOut, o = i / (kOut * kOut) % kChannels;
  const int n = i / (kOut * kOut * kChannels);
  float sum = 0;
  for (int c = 0; c < kChannels; ++c) {
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 3; ++b) {
        sum += x[((n * kChannels + c) * kSize + row + a) * kSize + column + b] *
               w[((o * kChannels + c) * 3 + a) * 3 + b];
      }
    }
  }
  y[i] = sum;
}

/// Each thread computes `Channels` output channels at one position; weights in shared memory.
template <int Channels>
__global__ void Blocked(const float* x, const float* w, float* y) {
  __shared__ float weights[Channels * kChannels * 9];
  const int groups = kChannels / Channels;
  const int group = blockIdx.y % groups, n = blockIdx.y / groups;
  for (int i = threadIdx.x; i < Channels * kChannels * 9; i += blockDim.x) {
    weights[i] = w[group * Channels * kChannels * 9 + i];
  }
  __syncthreads();
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  const int column = place % kOut, row = place / kOut;
  float sum[Channels] = {};
  for (int c = 0; c < kChannels; ++c) {
    const float* p = x + ((n * kChannels + c) * kSize + row) * kSize + column;
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      const float v = p[k / 3 * kSize + k % 3];
#pragma unroll
      for (int o = 0; o < Channels; ++o) sum[o] += v * weights[(o * kChannels + c) * 9 + k];
    }
  }
#pragma unroll
  for (int o = 0; o < Channels; ++o) {
    y[((n * kChannels + group * Channels + o) * kOut + row) * kOut + column] = sum[o];
  }
}

/// A block computes 32x8 positions of one output channel and keeps their inputs in shared memory.
__global__ void Tile(const float* x, const float* w, float* y) {
  __shared__ float tile[10][34];
  const int o = blockIdx.z % kChannels, n = blockIdx.z / kChannels;
  const int x0 = blockIdx.x * 32, y0 = blockIdx.y * 8;
  float sum = 0;
  for (int c = 0; c < kChannels; ++c) {
    __syncthreads();
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 340; i += 256) {
      tile[i / 34][i % 34] = x[((n * kChannels + c) * kSize + y0 + i / 34) * kSize + x0 + i % 34];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      sum += tile[threadIdx.y + k / 3][threadIdx.x + k % 3] * w[(o * kChannels + c) * 9 + k];
    }
  }
  y[((n * kChannels + o) * kOut + y0 + threadIdx.y) * kOut + x0 + threadIdx.x] = sum;
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const auto* w = static_cast<const float*>(in[1]);
  constexpr int kPlaces = kOut * kOut / 256;
  if (RANK_VARIANT == 0) Direct<<<kOutput / 256, 256, 0, stream>>>(x, w, y);
  if (RANK_VARIANT == 1) Blocked<1><<<dim3(kPlaces, kBatch * 16), 256, 0, stream>>>(x, w, y);
  if (RANK_VARIANT == 2) Tile<<<dim3(2, 8, kBatch * 16), dim3(32, 8), 0, stream>>>(x, w, y);
  if (RANK_VARIANT == 3) Blocked<4><<<dim3(kPlaces, kBatch * 4), 256, 0, stream>>>(x, w, y);
  if (RANK_VARIANT == 4) Blocked<16><<<dim3(kPlaces, kBatch), 256, 0, stream>>>(x, w, y);
}

RANK_TWO_INPUTS({kBatch, kChannels, kOut, kOut})
