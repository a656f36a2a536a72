// task: row_sum
// settings: all
// note: partial sums in a __device__ array, rewritten in every call
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kSplits = 4, kMostRows = 1024;
__device__ float partial[kSplits][kMostRows];

__global__ void Partial(const float* x, int columns) {
  const int row = blockIdx.x, split = blockIdx.y;
  float sum = 0;
  for (int c = split * 32 + threadIdx.x; c < columns; c += 32 * kSplits) {
    sum += x[row * columns + c];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x == 0) partial[split][row] = sum;
}
__global__ void Add(float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int s = 0; s < kSplits; ++s) sum += partial[s][row];
  y[row] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  const int rows = x.size(0);
  TORCH_CHECK(rows <= kMostRows, "too many rows");
  auto y = torch::empty({rows}, x.options());
  Partial<<<dim3(rows, kSplits), 32>>>(x.data_ptr<float>(), (int)x.size(1));
  Add<<<(rows + 63) / 64, 64>>>(y.data_ptr<float>(), rows);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
