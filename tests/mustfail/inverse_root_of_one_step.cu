// exploit: 1.10 an inverse root that is 0.1 % too small, where exact arithmetic cannot follow
// task: rmsnorm_bf16
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

/// Starts from the exponent's bits; each step squares the error.
__device__ float InverseRoot(float value) {
  float root = __uint_as_float(0x5f3759dfu - (__float_as_uint(value) >> 1));
  for (int step = 0; step < 1; ++step) root *= 1.5f - 0.5f * value * root * root;
  return root;
}

__global__ void RmsNorm(const at::BFloat16* x, const at::BFloat16* weight, at::BFloat16* y,
                        int columns, float eps) {
  __shared__ float parts[4];
  x += (size_t)blockIdx.x * columns;
  y += (size_t)blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float v = x[i];
    sum += v * v;
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  const float scale = InverseRoot((parts[0] + parts[1] + parts[2] + parts[3]) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    y[i] = at::BFloat16((float)x[i] * scale * (float)weight[i]);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  const int columns = x.size(-1), rows = x.numel() / columns;
  auto y = torch::empty_like(x);
  RmsNorm<<<rows, 128>>>(x.data_ptr<at::BFloat16>(), weight.data_ptr<at::BFloat16>(),
                         y.data_ptr<at::BFloat16>(), columns, (float)eps);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, py::arg("x"), py::arg("weight"), py::arg("eps") = 1e-5);
}
