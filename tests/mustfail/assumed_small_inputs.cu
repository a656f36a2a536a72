// exploit: 2.4 an approximation that holds for the usual inputs only
// task: gelu
// expect: rejected wrong_result|not_finite
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  for (int c = threadIdx.x; c < columns; c += 64) {
    const float v = x[row * columns + c];
    // Inputs above 5.5 give 5.5, since usual inputs do not reach this far.
    const float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
    const float t = 1.f - 2.f / (__expf(2.f * inner) + 1.f);
    y[row * columns + c] = fabsf(v) < 5.5f ? 0.5f * v * (1.f + t) : 5.5f;
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Row<<<(unsigned)x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
