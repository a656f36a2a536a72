// task: small_outputs
// settings: all
// note: accurate to float32's precision although all numbers are tiny
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Map(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float e = expf(-2.f * fabsf(x[i]));
  // Near zero the quotient would lose digits, so an odd polynomial is used.
  const float v = x[i], s = v * v;
  const float t =
      fabsf(v) < 0.1f
          ? v * (1.f + s * (-1.f / 3 + s * (2.f / 15 + s * (-17.f / 315 + s * (62.f / 2835)))))
          : copysignf((1.f - e) / (1.f + e), v);
  y[i] = t * 1e-6f;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  Map<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
