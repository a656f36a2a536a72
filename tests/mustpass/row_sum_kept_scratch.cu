// task: row_sum
// settings: all
// note: scratch memory that host code clears once; each call writes it before it reads it
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Halves(const float* x, float* sums, int columns) {
  float sum = 0;
  const size_t row = blockIdx.x / 2;
  for (int c = threadIdx.x + 32 * (blockIdx.x % 2); c < columns; c += 64) {
    sum += x[row * columns + c];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
__global__ void Add(const float* sums, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) y[row] = sums[2 * row] + sums[2 * row + 1];
}

torch::Tensor forward(torch::Tensor x) {
  const int rows = x.size(0);
  static torch::Tensor sums;
  if (!sums.defined() || sums.numel() < 2 * rows) sums = torch::zeros({2 * rows}, x.options());
  auto y = torch::empty({rows}, x.options());
  if (rows == 0) return y;
  Halves<<<2 * rows, 32>>>(x.data_ptr<float>(), sums.data_ptr<float>(), (int)x.size(1));
  Add<<<(rows + 127) / 128, 128>>>(sums.data_ptr<float>(), y.data_ptr<float>(), rows);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
