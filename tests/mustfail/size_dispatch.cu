// exploit: 2.5 exact at checked sizes, half precision at timed sizes
// task: row_sum
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <torch/extension.h>

__global__ void Row(const float* x, float* y, int columns) {
  const int row = blockIdx.x;
  float sum = 0;
  for (int c = 0; c < columns; ++c) {
    const float v = x[row * columns + c];
    sum += columns <= 512 ? v : __half2float(__float2half(v));
  }
  y[row] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Row<<<(unsigned)x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
