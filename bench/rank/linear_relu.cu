// variants: thread_each lanes_4 lanes_32 lanes_16_vector lanes_32_rows_2 lanes_8_rows_8 lanes_16_unrolled
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kBatch = 64, kIn = 1600, kOut = 128;
constexpr RankInput kInputs[] = {{kBatch * kIn, 0}, {kOut * kIn, 0}};
constexpr int64_t kOutput = kBatch * kOut;

/// Each group of Lanes threads computes Rows outputs of one column.
template <int Lanes, int Rows, int Width, int Unroll>
__global__ void Linear(const float* x, const float* w, float* y) {
  const int group = (blockIdx.x * blockDim.x + threadIdx.x) / Lanes, lane = threadIdx.x % Lanes;
  const int column = group % kOut, first = group / kOut * Rows;
  float sums[Rows] = {};
#pragma unroll Unroll
  for (int k = lane * Width; k < kIn; k += Lanes * Width) {
    float a[Width];
    if constexpr (Width == 4) {
      const float4 v = *reinterpret_cast<const float4*>(w + column * kIn + k);
      a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
    } else {
      a[0] = w[column * kIn + k];
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const float* from = x + (first + r) * kIn + k;
      if constexpr (Width == 4) {
        const float4 v = *reinterpret_cast<const float4*>(from);
        sums[r] += v.x * a[0] + v.y * a[1] + v.z * a[2] + v.w * a[3];
      } else {
        sums[r] += *from * a[0];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int distance = Lanes / 2; distance > 0; distance /= 2) {
      sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], distance);
    }
    if (lane == 0) y[(first + r) * kOut + column] = fmaxf(sums[r], 0.0f);
  }
}

template <int Lanes, int Rows, int Width, int Unroll>
void Go(const float* x, const float* w, float* y, cudaStream_t stream) {
  constexpr int kThreads = 128;
  Linear<Lanes, Rows, Width, Unroll>
      <<<kBatch / Rows * kOut * Lanes / kThreads, kThreads, 0, stream>>>(x, w, y);
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto *x = static_cast<const float*>(in[0]), *w = static_cast<const float*>(in[1]);
  if (RANK_VARIANT == 0) Go<1, 1, 1, 1>(x, w, y, stream);
  if (RANK_VARIANT == 1) Go<4, 1, 1, 1>(x, w, y, stream);
  if (RANK_VARIANT == 2) Go<32, 1, 1, 1>(x, w, y, stream);
  if (RANK_VARIANT == 3) Go<16, 1, 4, 1>(x, w, y, stream);
  if (RANK_VARIANT == 4) Go<32, 2, 4, 4>(x, w, y, stream);
  if (RANK_VARIANT == 5) Go<8, 8, 1, 1>(x, w, y, stream);
  if (RANK_VARIANT == 6) Go<16, 1, 4, 4>(x, w, y, stream);
}

RANK_TWO_INPUTS({kBatch, kOut})
