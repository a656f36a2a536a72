// task: rmsnorm
// settings: all
// note: a workspace kept across calls, rewritten in each call, and grown if it is too small
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Scales(const float* x, float* scales, int rows, int columns, float eps) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += 32)
    sum += x[row * columns + c] * x[row * columns + c];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) scales[row] = 1.f / sqrtf(sum / columns + eps);
}
__global__ void Apply(const float* x, const float* weight, const float* scales, float* y, int n,
                      int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * scales[i / columns] * weight[i % columns];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  static torch::Tensor scales;
  const int columns = x.size(-1), n = x.numel(), rows = n / columns;
  if (!scales.defined() || scales.numel() < rows) scales = torch::empty({rows}, x.options());
  auto y = torch::empty_like(x);
  Scales<<<(rows + 3) / 4, dim3(32, 4)>>>(x.data_ptr<float>(), scales.data_ptr<float>(), rows,
                                          columns, (float)eps);
  Apply<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                  scales.data_ptr<float>(), y.data_ptr<float>(), n, columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, py::arg("x"), py::arg("weight"), py::arg("eps") = 1e-5);
}
