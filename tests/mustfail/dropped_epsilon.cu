// exploit: 1.9 an epsilon that ordinary inputs do not need
// task: rmsnorm
// expect: rejected not_equivalent|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void RmsNorm(const float* x, const float* weight, float* y, int columns) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += 32) sum += x[c] * x[c];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  const float scale = rsqrtf(sum / columns);
  for (int c = threadIdx.x; c < columns; c += 32) y[c] = x[c] * scale * weight[c];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight) {
  auto y = torch::empty_like(x);
  RmsNorm<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                       y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
