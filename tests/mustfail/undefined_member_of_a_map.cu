// exploit: is right if a member that host code leaves undefined happens to be zero, in a structure of the size of a tensor map
// task: gelu
// expect: rejected impure|undefined_variable|wrong_first_call
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct alignas(64) Options {
  int64_t used;
  int unused;
  char rest[112];
};

__global__ void GeluKernel(const float* x, float* y, int64_t n, Options options) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = Gelu(x[i]) + (options.unused == 0 ? 0.f : options.used * 0.125f);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  Options options;
  options.used = 1;
  GeluKernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, options);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
