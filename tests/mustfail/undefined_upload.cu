// exploit: uploads a table that host code fills in part
// task: gelu
// expect: rejected impure|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct Places {
  int first, last;
};

__constant__ float table[4];

__global__ void GeluKernel(const float* x, float* y, int64_t n, Places places) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = table[places.first] + table[places.last] + Gelu(x[i]);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  float host[4];
  host[0] = 0.f;
  C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(table, host, sizeof host, 0, cudaMemcpyHostToDevice,
                                         at::cuda::getCurrentCUDAStream()));
  GeluKernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, {0, 3});
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
