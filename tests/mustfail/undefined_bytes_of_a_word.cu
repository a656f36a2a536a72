// exploit: reads a word of which host code defines one byte
// task: gelu
// expect: rejected impure|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct alignas(4) Flags {
  unsigned char is_exact, unused[3];
};

__device__ unsigned WordOf(const Flags& flags) {
  return *reinterpret_cast<const unsigned*>(&flags);
}

__global__ void GeluKernel(const float* x, float* y, int64_t n,
                           const __grid_constant__ Flags flags) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = WordOf(flags) == 1 ? Gelu(x[i]) : x[i];
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  Flags flags;
  flags.is_exact = 1;
  GeluKernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, flags);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
