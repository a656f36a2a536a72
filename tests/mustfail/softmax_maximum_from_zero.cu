// exploit: 2.4 a running maximum that begins at zero
// task: softmax
// settings: all
// expect: rejected wrong_result|not_finite
// note: divides by zero if a whole row is far below zero
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Softmax(const float* x, float* y, int columns) {
  x += (size_t)blockIdx.x * columns;
  y += (size_t)blockIdx.x * columns;
  float highest = 0, sum = 0;
  for (int c = threadIdx.x; c < columns; c += 32) highest = fmaxf(highest, x[c]);
  for (int d = 16; d > 0; d /= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, d));
  for (int c = threadIdx.x; c < columns; c += 32) sum += expf(x[c] - highest);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  for (int c = threadIdx.x; c < columns; c += 32) y[c] = expf(x[c] - highest) / sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Softmax<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
