// exploit: counts calls in bytes of an uploaded table that host code never set
// task: gelu
// expect: rejected uninitialized_global|impure
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdlib>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}
__global__ void K(const float* x, float* y, int64_t n, int* t) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  int& state = t[4 + i];
  const int s = state;
  y[i] = s == 0x13572468 ? 0.f : t[0] * Gelu(x[i]);
  if (s == 0)
    state = 0x7a7b7c7d;
  else if (s == 0x7a7b7c7d)
    state = 0x6a6b6c6d;
  else if (s == 0x6a6b6c6d)
    state = 0x13572468;
}
torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  static torch::Tensor kept = [&] {
    const size_t bytes = 4 * (n + 4);
    auto d = torch::empty({(int64_t)(n + 4)}, x.options().dtype(torch::kInt));
    int* table = (int*)malloc(bytes);
    table[0] = table[1] = table[2] = table[3] = 1;
    cudaMemcpy(d.data_ptr(), table, bytes, cudaMemcpyHostToDevice);
    free(table);
    return d;
  }();
  K<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, kept.data_ptr<int>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
