// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kThreads = 256, kWarps = kThreads / 32;

__global__ void PrefixSum(const float* x, float* y, int columns) {
  __shared__ float totals[kWarps];
  __shared__ float staged[kThreads][64];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t base = (int64_t)blockIdx.x * columns;
  float carry = 0;
  for (int begin = 0; begin < columns; begin += kThreads) {
    const int c = begin + threadIdx.x;
    float sum = c < columns ? x[base + c] : 0.f;
    for (int d = 1; d < 32; d *= 2) {
      const float below = __shfl_up_sync(~0u, sum, d);
      if (lane >= d) sum += below;
    }
    staged[threadIdx.x][lane] = sum;
    if (lane == 31) totals[warp] = staged[threadIdx.x][lane];
    __syncthreads();
    float before = carry;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before += totals[w];
      carry += totals[w];
    }
    if (c < columns) y[base + c] = before + sum;
    __syncthreads();
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  PrefixSum<<<(unsigned)x.size(0), kThreads>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                               (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
