// exploit: 4.3 the input is copied to the output
// task: gelu
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  for (int c = threadIdx.x; c < columns; c += 64) y[row * columns + c] = x[row * columns + c];
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Row<<<(unsigned)x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
