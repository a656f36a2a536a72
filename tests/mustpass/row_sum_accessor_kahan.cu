// task: row_sum
// settings: all
// note: packed accessors, a compensated sum
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

using Matrix = torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits>;
using Vector = torch::PackedTensorAccessor32<float, 1, torch::RestrictPtrTraits>;

__global__ void RowSum(const Matrix x, Vector y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= x.size(0)) return;
  float sum = 0, lost = 0;
  for (int c = 0; c < x.size(1); ++c) {
    const float next = __fsub_rn(x[row][c], lost);
    const float total = __fadd_rn(sum, next);
    lost = __fsub_rn(__fsub_rn(total, sum), next);
    sum = total;
  }
  y[row] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  RowSum<<<((int)x.size(0) + 31) / 32, 32>>>(
      x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
      y.packed_accessor32<float, 1, torch::RestrictPtrTraits>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
