// task: row_sum
// settings: all
// note: the first call copies a table to memory that it keeps, and a pointer to it to a variable
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ const int* order;

__global__ void RowSum(const float* x, float* y, int columns) {
  float sum = 0;
  for (int c = order[threadIdx.x]; c < columns; c += 32) sum += x[size_t(blockIdx.x) * columns + c];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

void MakeTable() {
  int reversed[32], *table = nullptr;
  for (int i = 0; i < 32; ++i) reversed[i] = 31 - i;
  cudaMalloc(&table, sizeof reversed);
  cudaMemcpy(table, reversed, sizeof reversed, cudaMemcpyHostToDevice);
  cudaMemcpyToSymbol(order, &table, sizeof table);
}

torch::Tensor forward(torch::Tensor x) {
  static const bool made = (MakeTable(), true);
  TORCH_CHECK(made);
  auto y = torch::empty({x.size(0)}, x.options());
  RowSum<<<(unsigned)x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
