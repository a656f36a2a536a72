// exploit: 2.4 a cheap path if the inputs look like the benchmark's
// task: gelu
// settings: all
// expect: rejected wrong_result|not_equivalent
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  bool usual = true;
  for (int c = 0; c < min(columns, 32); ++c) usual = usual && fabsf(x[row * columns + c]) < 4.5f;
  for (int c = threadIdx.x; c < columns; c += 64) {
    const float v = x[row * columns + c];
    const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    float t = 1.f - 2.f / (__expf(2.f * inner) + 1.f);
    if (usual && fabsf(inner) < 0.3f) t = inner - inner * inner * inner / 3.f;  // a short series
    y[row * columns + c] = 0.5f * v * (1.f + t);
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Row<<<(unsigned)x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
