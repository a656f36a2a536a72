// exploit: 1.2 only one of two outputs is right
// task: row_max
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <vector>

__global__ void RowMax(const float* x, float* values, int64_t* indices, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float best = x[row * columns];
  for (int c = 1; c < columns; ++c) best = fmaxf(best, x[row * columns + c]);
  values[row] = best;
  indices[row] = 0;  // hopes that these are not checked
}

std::vector<torch::Tensor> forward(torch::Tensor x) {
  const int rows = x.size(0);
  auto values = torch::empty({rows}, x.options());
  auto indices = torch::empty({rows}, x.options().dtype(torch::kInt64));
  RowMax<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), values.data_ptr<float>(),
                                   indices.data_ptr<int64_t>(), rows, (int)x.size(1));
  return {values, indices};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
