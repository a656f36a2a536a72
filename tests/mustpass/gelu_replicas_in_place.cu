// task: gelu
// settings: single
// note: as Triton's kernels for small tiles, in place: four warps load each tile, one of them stores it
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ float Load(const float* at) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(at));
  return value;
}

__global__ void InPlace(float* y, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)32 + threadIdx.x % 32;
  float x = 0;
  if (i < n) x = Load(y + i);
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  const float result = x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
  if (i < n && threadIdx.x < 32) y[i] = result;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = x.clone();
  const int64_t n = y.numel();
  InPlace<<<(unsigned)((n + 31) / 32), 128>>>(y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
