// exploit: 2.5 an index that overflows above some size
// task: prefix_sum
// expect: rejected wrong_result|out_of_bounds|unwritten_output|illegal_address
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void PrefixSum(const float* x, float* y, int rows, int columns) {
  const short row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < columns; ++c) {
    const short bytes = sizeof(float) * (row * columns + c);  // up to 32,767
    y[bytes / 4] = sum += x[bytes / 4];
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  PrefixSum<<<((int)x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                (int)x.size(0), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
