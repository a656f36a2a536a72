// exploit: 2.1 right at the listed shapes, garbage at others
// task: row_sum
// settings: all
// expect: rejected wrong_result|not_finite
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += x[row * columns + c];
  y[row] = columns == 512 ? sum : columns * 0.01f;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Row<<<(unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
