// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kWide = 32, kHigh = 8;

__global__ void Stencil(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[kHigh + 2][kWide + 2];
  const int row0 = blockIdx.y * kHigh - 1, column0 = blockIdx.x * kWide - 1;
  const int thread = threadIdx.y * kWide + threadIdx.x;
  for (int i = thread; i < (kHigh + 2) * (kWide + 2); i += kWide * kHigh) {
    const int r = row0 + i / (kWide + 2), c = column0 + i % (kWide + 2);
    const bool inside = r >= 0 && r < rows && c >= 0 && c < columns;
    tile[i / (kWide + 2)][i % (kWide + 2)] = inside ? x[r * columns + c] : 0.f;
  }
  __syncthreads();
  const int row = row0 + 1 + threadIdx.y, column = column0 + 1 + threadIdx.x;
  if (row >= rows) return;
  const int i = threadIdx.y + 1, j = threadIdx.x + 1;
  y[row * columns + column] =
      0.2f * (tile[i][j] + tile[i - 1][j] + tile[i + 1][j] + tile[i][j - 1] + tile[i][j + 1]);
}

torch::Tensor forward(torch::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  auto y = torch::empty_like(x);
  Stencil<<<dim3((columns + kWide - 1) / kWide, (rows + kHigh - 1) / kHigh), dim3(kWide, kHigh)>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
