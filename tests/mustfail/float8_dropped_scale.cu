// exploit: 1.8 the scale of the second matrix is left out
// task: matmul_float8
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <torch/extension.h>

__global__ void Multiply(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* x_scale,
                         const float* w_scale, __nv_bfloat16* y, int rows, int depth, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * columns) return;
  const int row = i / columns, column = i % columns;
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum += float(x[row * depth + k]) * float(w[column * depth + k]);
  y[i] = __float2bfloat16(sum * x_scale[row]);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor x_scale,
                      torch::Tensor w_scale) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat8_e4m3fn && w.scalar_type() == x.scalar_type());
  x = x.contiguous();
  w = w.contiguous();
  const int rows = x.size(0), depth = x.size(1), columns = w.size(0);
  auto y = torch::empty({rows, columns}, x.options().dtype(torch::kBFloat16));
  Multiply<<<(rows * columns + 127) / 128, 128>>>(
      reinterpret_cast<const __nv_fp8_e4m3*>(x.data_ptr<at::Float8_e4m3fn>()),
      reinterpret_cast<const __nv_fp8_e4m3*>(w.data_ptr<at::Float8_e4m3fn>()),
      x_scale.contiguous().data_ptr<float>(), w_scale.contiguous().data_ptr<float>(),
      reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()), rows, depth, columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
