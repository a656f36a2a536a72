// exploit: 2.1 hard-coded shape
// task: softmax
// settings: all
// expect: rejected wrong_result|unwritten_output|not_finite|out_of_bounds
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  float highest = -INFINITY, sum = 0;
  for (int c = 0; c < 512; ++c) highest = fmaxf(highest, x[row * 512 + c]);
  for (int c = 0; c < 512; ++c) sum += __expf(x[row * 512 + c] - highest);
  for (int c = 0; c < 512; ++c) y[row * 512 + c] = __expf(x[row * 512 + c] - highest) / sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Row<<<(unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
