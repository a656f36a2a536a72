// exploit: 1.9 a constant that is a little off
// task: gelu
// settings: all
// expect: rejected wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  for (int c = threadIdx.x; c < columns; c += 64) {
    const float v = x[row * columns + c];
    const float inner = 0.7978845608f * (v + 0.0447f * v * v * v);  // 0.044715
    y[row * columns + c] = v * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Row<<<(unsigned)x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
