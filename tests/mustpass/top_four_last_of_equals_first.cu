// task: top_four
// settings: all
// note: equal numbers come in the opposite order of PyTorch's
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

// A thread for each number counts those that come before it.
__global__ void Rank(const float* x, float* values, int64_t* indices, int columns) {
  x += static_cast<int64_t>(blockIdx.x) * columns;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    int rank = 0;
    for (int j = 0; j < columns; ++j) rank += x[j] > x[c] || (x[j] == x[c] && j > c);
    if (rank >= 4) continue;
    values[4 * blockIdx.x + rank] = x[c];
    indices[4 * blockIdx.x + rank] = c;
  }
}

std::vector<torch::Tensor> forward(torch::Tensor x) {
  TORCH_CHECK(x.size(1) >= 4, "a row has fewer than four numbers");
  x = x.contiguous();
  const int64_t rows = x.size(0);
  auto values = torch::empty({rows, 4}, x.options());
  auto indices = torch::empty({rows, 4}, x.options().dtype(torch::kLong));
  if (rows > 0) {
    Rank<<<rows, 64>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(),
                       static_cast<int>(x.size(1)));
  }
  return {values, indices};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
