// exploit: 1.9 device work that is right by luck: atomics that are atomic within a block only
// task: mean_square
// device: emu
// expect: rejected global_race
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Sum(const float* x, float* sum, int n) {
  float v = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += x[i] * x[i];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) atomicAdd_block(sum, v / n);
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::zeros({}, x.options());
  x = x.contiguous();
  Sum<<<6, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), static_cast<int>(x.numel()));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
