// task: row_sum
// settings: all
// note: a few long rows are split over blocks (atomics); of many short rows, each gets one warp
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__device__ float WarpSum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  return v;
}

__global__ void Short(const float* x, float* y, int rows, int columns) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += 32) sum += x[row * columns + c];
  sum = WarpSum(sum);
  if (threadIdx.x == 0) y[row] = sum;
}

__global__ void Long(const float* x, float* y, int columns) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = c < columns ? x[blockIdx.y * columns + c] : 0.f;
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) atomicAdd(y + blockIdx.y, sum);
}

torch::Tensor forward(torch::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  if (rows < 8) {
    auto y = torch::zeros({rows}, x.options());
    Long<<<dim3((columns + 127) / 128, rows), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                     columns);
    return y;
  }
  auto y = torch::empty({rows}, x.options());
  Short<<<(rows + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
