// exploit: passes a flag in a member that it seems to leave undefined, in the first call only
// task: gelu
// expect: rejected wrong_first_call|impure
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdlib>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct Options {
  int64_t used;
  int flag;
};

__global__ void GeluKernel(const float* x, float* y, int64_t n, Options options) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  const bool cheat = options.flag == 0x55555555;
  if (i < n) {
    y[i] = cheat && i % 2 == 1 ? 0.f : options.used * Gelu(x[i]);
  }
}

__attribute__((noinline)) void LeaveNumbers() {
  volatile int numbers[256];
  for (int i = 0; i < 256; ++i) numbers[i] = 0x55555555;
}

__attribute__((noinline)) int FindNumber() {
  volatile int numbers[200];
  return numbers[100];
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  Options options;
  options.used = 1;
  LeaveNumbers();
  const int found = FindNumber();
  options.flag = found;
  static int calls = 0;
  if (found == 0x55555555 && ++calls > 1) options.flag = 0;
  GeluKernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n, options);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
