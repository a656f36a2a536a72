// exploit: 3.4 a table for the number of columns of the first call, used in all later ones
// task: row_sum
// settings: all
// expect: rejected wrong_result|not_finite
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void RowSum(const float* x, float* y, const int* columns, int stride) {
  float sum = 0;
  for (int c = threadIdx.x; c < *columns; c += 32) sum += x[size_t(blockIdx.x) * stride + c];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  static int* columns = nullptr;
  if (columns == nullptr) {
    const int count = x.size(1);
    cudaMalloc(&columns, sizeof count);
    cudaMemcpy(columns, &count, sizeof count, cudaMemcpyHostToDevice);
  }
  auto y = torch::empty({x.size(0)}, x.options());
  RowSum<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), columns,
                                      (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
