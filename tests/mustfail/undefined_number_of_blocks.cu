// exploit: the size of the grid depends on a variable that host code leaves undefined
// task: gelu
// expect: rejected impure
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct Sizes {
  int64_t first, count;
};

__global__ void GeluKernel(const float* x, float* y, Sizes sizes) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= sizes.first && i < sizes.count) y[i] = Gelu(x[i]);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  int unset[2];
  unset[0] = 0;
  const volatile int* numbers =
      unset;  // the compiler does not see that the second one is undefined
  const int64_t blocks = (n + 255) / 256 + (numbers[1] != 0);
  GeluKernel<<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                   y.data_ptr<float>(), {0, n});
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
