// exploit: 1.9 device work that is right by luck: a warp decides by values that another one overwrites
// task: gelu
// settings: single
// device: emu
// expect: rejected global_race
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ float Load(const float* at) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(at));
  return value;
}

// Both warps load the tile, and each stores a half of it.
__global__ void InPlace(float* y, int64_t n) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t i = blockIdx.x * (int64_t)32 + lane;
  float x = 0;
  if (i < n) x = Load(y + i);
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  const float result = x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
  // A tile of zeros stays as it is. The other warp's half may already be results, but these are zero for the same tiles.
  if (__all_sync(~0u, x == 0)) return;
  if (i < n && warp == lane / 16) y[i] = result;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = x.clone();
  const int64_t n = y.numel();
  InPlace<<<(unsigned)((n + 31) / 32), 64>>>(y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
