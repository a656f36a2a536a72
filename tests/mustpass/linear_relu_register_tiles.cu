// task: mnist_linear_relu
// settings: single
// note: 4 x 4 outputs per thread, tiles in shared memory, ReLU at the end
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kTile = 32, kDepth = 16, kPer = 4, kSide = kTile / kPer;

__global__ void __launch_bounds__(kSide* kSide)
    LinearRelu(const float* __restrict__ x, const float* __restrict__ w,
               const float* __restrict__ b, float* __restrict__ y, int rows, int columns,
               int depth) {
  __shared__ float xs[kDepth][kTile + 1], ws[kDepth][kTile + 1];
  const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  float sum[kPer][kPer] = {};
  for (int begin = 0; begin < depth; begin += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kSide * kSide) {
      const int line = i / kDepth, k = begin + i % kDepth;
      xs[i % kDepth][line] = row0 + line < rows && k < depth ? x[(row0 + line) * depth + k] : 0.f;
      ws[i % kDepth][line] =
          column0 + line < columns && k < depth ? w[(column0 + line) * depth + k] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a[kPer], c[kPer];
#pragma unroll
      for (int i = 0; i < kPer; ++i) a[i] = xs[k][ty * kPer + i], c[i] = ws[k][tx * kPer + i];
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) sum[i][j] += a[i] * c[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPer; ++i) {
    for (int j = 0; j < kPer; ++j) {
      const int row = row0 + ty * kPer + i, column = column0 + tx * kPer + j;
      if (row < rows && column < columns) {
        y[row * columns + column] = fmaxf(sum[i][j] + b[column], 0.f);
      }
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int rows = x.size(0), depth = x.size(1), columns = w.size(0);
  auto y = torch::empty({rows, columns}, x.options());
  LinearRelu<<<dim3((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile), kSide * kSide>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows,
      columns, depth);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
