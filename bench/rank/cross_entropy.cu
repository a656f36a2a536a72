// variants: thread_atomic warp_atomic warp_per_row_atomic block_atomic one_block
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kRows = 8192, kClasses = 128;
constexpr RankInput kInputs[] = {{int64_t{kRows} * kClasses, 0}, {kRows, kClasses}};
constexpr int64_t kOutput = 1;

__device__ float RowLoss(const float* p, int64_t target) {
  float most = -INFINITY, sum = 0;
  for (int i = 0; i < kClasses; ++i) most = fmaxf(most, p[i]);
  for (int i = 0; i < kClasses; ++i) sum += expf(p[i] - most);
  return logf(sum) + most - p[target];
}
/// The same, computed by a whole warp, four classes per lane; every lane gets the result.
__device__ float WarpLoss(const float* p, int64_t target) {
  const float4 v = reinterpret_cast<const float4*>(p)[threadIdx.x % 32];
  const float most = WarpMax(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  const float sum = WarpSum((expf(v.x - most) + expf(v.y - most)) +
                            (expf(v.z - most) + expf(v.w - most)));
  return logf(sum) + most - p[target];
}

/// One row per thread; one atomic per thread or per warp.
template <bool IsCombined>
__global__ void ThreadPerRow(const float* x, const int64_t* t, float* loss) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float mine = RowLoss(x + row * kClasses, t[row]) / kRows;
  if (IsCombined) mine = WarpSum(mine);
  if (!IsCombined || threadIdx.x % 32 == 0) atomicAdd(loss, mine);
}
__global__ void WarpAtomic(const float* x, const int64_t* t, float* loss) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const float mine = WarpLoss(x + row * kClasses, t[row]);
  if (threadIdx.x % 32 == 0) atomicAdd(loss, mine / kRows);
}
/// A block of eight warps computes 64 rows and adds once.
__global__ void BlockAtomic(const float* x, const int64_t* t, float* loss) {
  float mine = 0;
  for (int i = threadIdx.x / 32; i < 64; i += 8) {
    const int row = blockIdx.x * 64 + i;
    mine += WarpLoss(x + row * kClasses, t[row]);
  }
  mine = BlockSum(threadIdx.x % 32 == 0 ? mine : 0.0f);
  if (threadIdx.x == 0) atomicAdd(loss, mine / kRows);
}
__global__ void OneBlock(const float* x, const int64_t* t, float* loss) {
  float mine = 0;
  for (int row = threadIdx.x / 32; row < kRows; row += 32) {
    mine += WarpLoss(x + row * kClasses, t[row]);
  }
  mine = BlockSum(threadIdx.x % 32 == 0 ? mine : 0.0f);
  if (threadIdx.x == 0) *loss = mine / kRows;
}

void Launch(const void* const* in, float* loss, cudaStream_t stream) {
  const auto* x = static_cast<const float*>(in[0]);
  const auto* t = static_cast<const int64_t*>(in[1]);
  if (RANK_VARIANT != 4) cudaMemsetAsync(loss, 0, sizeof(float), stream);
  if (RANK_VARIANT == 0) ThreadPerRow<false><<<kRows / 64, 64, 0, stream>>>(x, t, loss);
  if (RANK_VARIANT == 1) ThreadPerRow<true><<<kRows / 64, 64, 0, stream>>>(x, t, loss);
  if (RANK_VARIANT == 2) WarpAtomic<<<kRows / 8, 256, 0, stream>>>(x, t, loss);
  if (RANK_VARIANT == 3) BlockAtomic<<<kRows / 64, 256, 0, stream>>>(x, t, loss);
  if (RANK_VARIANT == 4) OneBlock<<<1, 1024, 0, stream>>>(x, t, loss);
}

RANK_TWO_INPUTS({1})
