// task: matmul
// settings: all
// note: one warp loads, the others multiply; mbarriers (cuda::barrier) synchronise the stages
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <cuda/barrier>

constexpr int kTile = 16, kDepth = 16, kStages = 2, kProducers = 32, kConsumers = kTile * kTile;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

#pragma nv_diag_suppress static_var_with_dynamic_init
__global__ void Matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[kStages][kTile][kDepth], bs[kStages][kDepth][kTile];
  __shared__ Barrier filled[kStages], emptied[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init(&filled[s], kProducers + kConsumers);
      init(&emptied[s], kProducers + kConsumers);
    }
  }
  __syncthreads();
  const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  const int steps = (k + kDepth - 1) / kDepth;
  if (threadIdx.x < kProducers) {
    for (int step = 0; step < steps; ++step) {
      const int s = step % kStages;
      if (step >= kStages) emptied[s].arrive_and_wait();
      for (int i = threadIdx.x; i < kTile * kDepth; i += kProducers) {
        const int row = row0 + i / kDepth, depth = step * kDepth + i % kDepth;
        as[s][i / kDepth][i % kDepth] = row < m && depth < k ? a[row * k + depth] : 0.f;
        const int level = step * kDepth + i / kTile, column = column0 + i % kTile;
        bs[s][i / kTile][i % kTile] = level < k && column < n ? b[level * n + column] : 0.f;
      }
      (void)filled[s].arrive();
    }
    return;
  }
  const int t = threadIdx.x - kProducers, r = t / kTile, q = t % kTile;
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    const int s = step % kStages;
    filled[s].arrive_and_wait();
    for (int d = 0; d < kDepth; ++d) sum += as[s][r][d] * bs[s][d][q];
    if (step + kStages < steps) (void)emptied[s].arrive();
  }
  if (row0 + r < m && column0 + q < n) c[(row0 + r) * n + column0 + q] = sum;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  Matmul<<<dim3((n + kTile - 1) / kTile, (m + kTile - 1) / kTile), kProducers + kConsumers>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
