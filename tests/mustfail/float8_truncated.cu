// exploit: 1.10 quantised by truncation in place of rounding
// task: quantize_float8
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp8.h>
#include <torch/extension.h>

#include <tuple>

/// The next float8 toward zero.
__device__ __nv_fp8_e4m3 Truncate(float v) {
  __nv_fp8_e4m3 q(v);
  if (fabsf(float(q)) > fabsf(v)) --q.__x;
  return q;
}

__global__ void Quantize(const float* x, __nv_fp8_e4m3* q, float* scales, int columns) {
  __shared__ float parts[4];
  x += (size_t)blockIdx.x * columns;
  q += (size_t)blockIdx.x * columns;
  float largest = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, fabsf(x[i]));
  for (int d = 16; d > 0; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = largest;
  __syncthreads();
  largest = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
  const float scale = fmaxf(largest, 1e-12f) / 448.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    q[i] = Truncate(fminf(fmaxf(x[i] / scale, -448.0f), 448.0f));
  }
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
  x = x.contiguous();
  const int rows = x.size(0), columns = x.size(1);
  auto q = torch::empty({rows, columns}, x.options().dtype(torch::kFloat8_e4m3fn));
  auto scales = torch::empty({rows, 1}, x.options());
  Quantize<<<rows, 128>>>(x.data_ptr<float>(),
                          reinterpret_cast<__nv_fp8_e4m3*>(q.data_ptr<at::Float8_e4m3fn>()),
                          scales.data_ptr<float>(), columns);
  return {q, scales};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
