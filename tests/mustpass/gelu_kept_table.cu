// task: gelu
// settings: all
// note: a table with room for more tensors, which the first call copies to the GPU
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct Sizes {
  int64_t stride;
  int used;
  float unused[13];
};

__constant__ Sizes kept[2];

__global__ void GeluKernel(const float* x, float* y, int64_t n, int which) {
  const int64_t i = blockIdx.x * kept[which].stride + threadIdx.x;
  if (i < n) y[i] = kept[which].used * Gelu(x[i]);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  static const bool is_uploaded = [] {
    Sizes sizes[2];
    sizes[0].stride = 256;
    sizes[0].used = 1;
    cudaMemcpyToSymbol(kept, sizes, sizeof(sizes));
    return true;
  }();
  (void)is_uploaded;
  GeluKernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, 0);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
