// task: gelu
// settings: single
// note: half of the work is on another stream, forked and joined by events
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void Gelu(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float inner = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
  y[i] = x[i] * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

torch::Tensor forward(torch::Tensor x) {
  static cudaStream_t side = [] {
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    return s;
  }();
  static cudaEvent_t forked = [] {
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    return e;
  }();
  static cudaEvent_t joined = [] {
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    return e;
  }();
  const int n = x.numel(), half = n / 2;
  auto y = torch::empty_like(x);
  cudaStream_t main = at::cuda::getCurrentCUDAStream();
  cudaEventRecord(forked, main);
  cudaStreamWaitEvent(side, forked, 0);
  Gelu<<<(half + 127) / 128, 128, 0, main>>>(x.data_ptr<float>(), y.data_ptr<float>(), half);
  Gelu<<<(n - half + 127) / 128, 128, 0, side>>>(x.data_ptr<float>() + half,
                                                 y.data_ptr<float>() + half, n - half);
  cudaEventRecord(joined, side);
  cudaStreamWaitEvent(main, joined, 0);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
