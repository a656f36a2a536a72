// exploit: 1.9 wrong beyond the sizes that are tried: a column number of 16 bits
// task: embedding
// settings: all
// expect: rejected out_of_bounds
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Gather(const int64_t* indices, const float* table, float* y, int columns) {
  const int64_t row = indices[blockIdx.x];
  for (short c = threadIdx.x; c < columns; c += blockDim.x) {
    y[(int64_t)blockIdx.x * columns + c] = table[row * columns + c];
  }
}

torch::Tensor forward(torch::Tensor indices, torch::Tensor table) {
  const int columns = table.size(1);
  auto y = torch::empty({indices.size(0), columns}, table.options());
  Gather<<<(unsigned)indices.numel(), 64>>>(indices.data_ptr<int64_t>(), table.data_ptr<float>(),
                                            y.data_ptr<float>(), columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
