// exploit: 1.10 an intermediate result is rounded to float8_e5m2 instead of float8_e4m3fn
// task: scaled_mm_float8
// settings: all
// expect: rejected wrong_result|not_exact
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <torch/extension.h>

__global__ void Quantize(const float* x, __nv_fp8x4_e5m2* q, float* scales, int depth) {
  x += (size_t)blockIdx.x * depth;
  q += (size_t)blockIdx.x * depth / 4;
  float largest = 0;
  for (int i = threadIdx.x; i < depth; i += 32) largest = fmaxf(largest, fabsf(x[i]));
  for (int d = 16; d > 0; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
  const float scale = fmaxf(largest, 1e-12f) / 448.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < depth / 4; i += 32) {
    const float4 v = make_float4(x[4 * i] / scale, x[4 * i + 1] / scale, x[4 * i + 2] / scale,
                                 x[4 * i + 3] / scale);
    q[i] = __nv_fp8x4_e5m2(v);
  }
}

__global__ void Multiply(const __nv_fp8_e5m2* q, const __nv_fp8_e4m3* w, const float* q_scale,
                         const float* w_scale, __nv_bfloat16* y, int rows, int depth, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * columns) return;
  const int row = i / columns, column = i % columns;
  float sum = 0;
  for (int k = 0; k < depth; ++k) sum += float(q[row * depth + k]) * float(w[column * depth + k]);
  y[i] = __float2bfloat16(sum * q_scale[row] * w_scale[column]);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor w_scale) {
  x = x.contiguous();
  w = w.contiguous();
  const int rows = x.size(0), depth = x.size(1), columns = w.size(0);
  TORCH_CHECK(depth % 4 == 0, "the depth must be a multiple of 4");
  auto q = torch::empty({rows, depth}, w.options());
  auto q_scale = torch::empty({rows}, x.options());
  auto y = torch::empty({rows, columns}, x.options().dtype(torch::kBFloat16));
  Quantize<<<rows, 32>>>(x.data_ptr<float>(), reinterpret_cast<__nv_fp8x4_e5m2*>(q.data_ptr()),
                         q_scale.data_ptr<float>(), depth);
  Multiply<<<(rows * columns + 127) / 128, 128>>>(
      reinterpret_cast<const __nv_fp8_e5m2*>(q.data_ptr()),
      reinterpret_cast<const __nv_fp8_e4m3*>(w.data_ptr()), q_scale.data_ptr<float>(),
      w_scale.contiguous().data_ptr<float>(),
      reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()), rows, depth, columns);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
