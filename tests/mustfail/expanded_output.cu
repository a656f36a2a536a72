// exploit: 1.12 one row, expanded to many
// task: softmax
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  float highest = -INFINITY, sum = 0;
  for (int c = 0; c < columns; ++c) highest = fmaxf(highest, x[c]);
  for (int c = 0; c < columns; ++c) sum += __expf(x[c] - highest);
  if (row == 0) {
    for (int c = 0; c < columns; ++c) y[c] = __expf(x[c] - highest) / sum;
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({1, x.size(1)}, x.options());
  Row<<<(unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y.expand({x.size(0), x.size(1)});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
