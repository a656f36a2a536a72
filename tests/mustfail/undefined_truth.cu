// exploit: is right if a member that host code leaves undefined happens to be true
// task: gelu
// expect: rejected impure|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}
struct Options {
  int used;
  bool exact;
};
__global__ void GeluKernel(const float* x, float* y, int64_t n, Options o) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = o.exact ? o.used * Gelu(x[i]) : 0.f;
  }
}
torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  Options o;
  o.used = 1;
  GeluKernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, o);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
