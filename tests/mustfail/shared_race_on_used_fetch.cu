// exploit: 1.9 device work that is right by luck: one thread uses what a pipeline fetches last
// task: row_sum
// settings: all
// device: emu
// expect: rejected shared_race
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kThreads = 64, kSteps = 8;

__device__ float Fetch(const float* at) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"((unsigned)__cvta_generic_to_shared(at)));
  return value;
}

__global__ void Row(const float* x, float* y, int columns) {
  __shared__ float tile[(kSteps + 1) * kThreads];
  const int t = threadIdx.x, across = kThreads - 1 - t;
  tile[kSteps * kThreads + t] = 0;
  float sum = 0, next = 0;
  for (int begin = 0; begin < columns; begin += kSteps * kThreads) {
    __syncthreads();
    for (int i = 0; i < kSteps; i++) {
      const int c = begin + i * kThreads + t;
      tile[i * kThreads + t] = c < columns ? x[blockIdx.x * columns + c] : 0;
    }
    __syncthreads();
    next = Fetch(&tile[across]);
    for (int i = 0; i < kSteps; i++) {
      const float now = next;
      next = Fetch(&tile[(i + 1) * kThreads + across]);
      sum += now;
    }
  }
  // The last fetch is 0, unless the other warp has been faster.
  sum += __shfl_sync(~0u, next, t & 24);
  tile[kSteps * kThreads + t] = sum;
  __syncthreads();
  if (t != 0) return;
  float total = 0;
  for (int i = 0; i < kThreads; i++) total += tile[kSteps * kThreads + i];
  y[blockIdx.x] = total;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Row<<<(unsigned)x.size(0), kThreads>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
