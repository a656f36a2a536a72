// exploit: 2.7 decides by the number of the multiprocessor
// task: row_sum
// settings: all
// expect: rejected wrong_result|unwritten_output|order_dependence|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void RowSum(const float* x, float* y, int columns) {
  unsigned processor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += processor == 77 ? 64 : 32) {
    sum += x[(size_t)blockIdx.x * columns + c];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  RowSum<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
