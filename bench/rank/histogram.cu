// variants: global shared shared_few_blocks shared_by_warp aggregated
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kN = 1 << 20, kBins = 256;
constexpr RankInput kInputs[] = {{kN, -512}};  // half of them are 0
constexpr int64_t kOutput = kBins;

__global__ void Global(const int64_t* x, float* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&counts[x[i]], 1.0f);
}

/// With `Copies` histograms per block, which its warps share evenly.
template <int Copies>
__global__ void Shared(const int64_t* x, float* counts) {
  __shared__ unsigned bins[Copies][kBins];
  for (int i = threadIdx.x; i < Copies * kBins; i += blockDim.x) bins[i / kBins][i % kBins] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kN; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[threadIdx.x / 32 % Copies][x[i]], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) {
    unsigned sum = 0;
    for (int copy = 0; copy < Copies; ++copy) sum += bins[copy][i];
    if (sum != 0) atomicAdd(&counts[i], static_cast<float>(sum));
  }
}

/// Lanes with the same value elect one that adds for all.
__global__ void Aggregated(const int64_t* x, float* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int bin = static_cast<int>(x[i]);
  const unsigned same = __match_any_sync(0xffffffffu, bin);
  if ((threadIdx.x % 32) == __ffs(same) - 1) {
    atomicAdd(&counts[bin], static_cast<float>(__popc(same)));
  }
}

void Launch(const void* const* in, float* counts, cudaStream_t stream) {
  const auto* x = static_cast<const int64_t*>(in[0]);
  cudaMemsetAsync(counts, 0, kBins * sizeof(float), stream);
  if (RANK_VARIANT == 0) Global<<<kN / 256, 256, 0, stream>>>(x, counts);
  if (RANK_VARIANT == 1) Shared<1><<<kN / 2048, 256, 0, stream>>>(x, counts);
  if (RANK_VARIANT == 2) Shared<1><<<32, 256, 0, stream>>>(x, counts);
  if (RANK_VARIANT == 3) Shared<8><<<kN / 2048, 256, 0, stream>>>(x, counts);
  if (RANK_VARIANT == 4) Aggregated<<<kN / 256, 256, 0, stream>>>(x, counts);
}

RANK_ONE_INPUT({kBins})
