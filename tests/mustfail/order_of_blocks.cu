// exploit: 1.9 device work that is right by luck: the order of blocks
// task: mean_square
// expect: rejected order_dependence|wrong_result|global_race
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Sum(const float* x, float* sum, int* arrived, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] * x[i] : 0.f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
  __syncthreads();
  // The last block by number, not the last to arrive, takes the sum.
  if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) *y = atomicAdd(sum, 0.f) / n;
}

torch::Tensor forward(torch::Tensor x) {
  const int n = x.numel();
  auto sum = torch::zeros({1}, x.options());
  auto y = torch::empty({}, x.options());
  Sum<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), sum.data_ptr<float>(), nullptr,
                                y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
