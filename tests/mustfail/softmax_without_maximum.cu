// exploit: 2.4 right for inputs of moderate size only
// task: softmax
// expect: rejected wrong_result|not_finite
// note: overflows if an input exceeds 88
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += expf(x[row * columns + c]);
  for (int c = 0; c < columns; ++c) y[row * columns + c] = expf(x[row * columns + c]) / sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Row<<<(unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
