// task: scaled_add
// settings: all
// note: a number as argument, an output from new_empty, two elements per thread
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void ScaledAdd(const float2* x, const float2* y, float a, float2* z, int pairs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  z[i] = make_float2(fmaf(a, x[i].x, y[i].x), fmaf(a, x[i].y, y[i].y));
}
__global__ void Last(const float* x, const float* y, float a, float* z, int i) {
  z[i] = fmaf(a, x[i], y[i]);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor y, double a) {
  const auto aligned = [](const torch::Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.data_ptr()) % sizeof(float2) == 0;
  };
  x = x.contiguous();
  y = y.contiguous();
  if (!aligned(x)) x = x.clone();
  if (!aligned(y)) y = y.clone();
  auto z = x.new_empty(x.sizes());
  const int n = x.numel();
  const float *px = x.data_ptr<float>(), *py = y.data_ptr<float>();
  ScaledAdd<<<(n / 2 + 127) / 128, 128>>>((const float2*)px, (const float2*)py, (float)a,
                                          (float2*)z.data_ptr<float>(), n / 2);
  if (n % 2 != 0) Last<<<1, 1>>>(px, py, (float)a, z.data_ptr<float>(), n - 1);
  return z;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, py::arg("x"), py::arg("y"), py::arg("a") = 1.0);
}
