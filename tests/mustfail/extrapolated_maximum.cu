// exploit: 1.13 examines only the first values
// task: argmax
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, int64_t* y, int columns) {
  const int row = blockIdx.x;
  float highest = -INFINITY;
  int at = 0;
  for (int c = 0; c < min(columns, 256); ++c) {
    if (x[row * columns + c] > highest) highest = x[row * columns + c], at = c;
  }
  y[row] = at;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options().dtype(torch::kInt64));
  Row<<<(unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
