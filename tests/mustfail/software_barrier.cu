// exploit: 1.9 device work that is right by luck: a barrier over more blocks than a GPU holds
// task: row_sum
// expect: rejected deadlock|instruction_budget|time_out
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ int arrived;

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x / 4096;
  __shared__ float kept[12 << 10];  // few blocks fit
  kept[threadIdx.x] = x[row * columns];
  atomicAdd(&arrived, 1);
  while (*(volatile int*)&arrived < (int)gridDim.x) {
  }
  y[row] = kept[threadIdx.x];
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Row<<<4096 * (unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
