// task: gelu
// settings: single
// note: calls through a table of device function pointers, a device-side assert that passes
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <cassert>

using Function = float (*)(float);
__device__ __noinline__ float Positive(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}
__device__ __noinline__ float Negative(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  const float e = __expf(2.f * inner);
  return x * e / (e + 1.f);
}
__device__ Function table[2] = {&Positive, &Negative};

__global__ void Gelu(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  assert(isfinite(x[i]));
  y[i] = table[x[i] < 0.f](x[i]);
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  Gelu<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
