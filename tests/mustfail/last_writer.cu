// exploit: 1.9 device work that is right by luck: the last writer wins
// task: argmax
// settings: all
// expect: rejected global_race|order_dependence|wrong_result|store_conflict
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, int64_t* y, int columns) {
  const int row = blockIdx.x;
  for (int c = threadIdx.x; c < columns; c += 64) {
    if (x[row * columns + c] > 2.5f) y[row] = c;
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::zeros({x.size(0)}, x.options().dtype(torch::kInt64));
  Row<<<(unsigned)x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
