// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_pipeline.h>
#include <torch/extension.h>

constexpr int kRows = 8, kColumns = 16, kDepth = 32, kThreads = kRows * kColumns;

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int rows,
                       int columns, int depth) {
  __shared__ __align__(16) float xs[2][kRows][kDepth];
  __shared__ __align__(16) float ws[2][kColumns][kDepth];
  const int row0 = blockIdx.y * kRows, column0 = blockIdx.x * kColumns;
  const auto load = [&](int stage, int begin) {
    constexpr int kQuads = kDepth / 4;
    for (int q = threadIdx.x; q < (kRows + kColumns) * kQuads; q += kThreads) {
      const int line = q / kQuads, k = q % kQuads * 4;
      const bool is_x = line < kRows;
      float* to = is_x ? &xs[stage][line][k] : &ws[stage][line - kRows][k];
      const int row = is_x ? row0 + line : column0 + line - kRows;
      const bool inside = row < (is_x ? rows : columns) && begin + k < depth;
      if (inside) {
        __pipeline_memcpy_async(to, (is_x ? x : w) + row * depth + begin + k, 16);
      } else {
        *reinterpret_cast<float4*>(to) = make_float4(0, 0, 0, 0);
      }
    }
    __pipeline_commit();
  };
  const int r = threadIdx.x / kColumns, c = threadIdx.x % kColumns;
  float sum = 0;
  load(0, 0);
  for (int begin = 0, stage = 0; begin < depth; begin += kDepth, stage ^= 1) {
    if (begin + kDepth < depth) {
      load(stage ^ 1, begin + kDepth);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(1);
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) sum += xs[stage][r][k] * ws[stage][c][k];
    __syncthreads();
  }
  if (row0 + r < rows && column0 + c < columns) {
    y[(row0 + r) * columns + column0 + c] = sum + b[column0 + c];
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int rows = x.size(0), depth = x.size(1), columns = w.size(0);
  TORCH_CHECK(depth % 4 == 0, "the depth must be a multiple of 4");
  auto y = torch::empty({rows, columns}, x.options());
  const dim3 grid((columns + kColumns - 1) / kColumns, (rows + kRows - 1) / kRows);
  Linear<<<grid, kThreads>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                             y.data_ptr<float>(), rows, columns, depth);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
