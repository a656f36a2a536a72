// SwiGLU activation: the baseline. A thread computes kItems elements, a block's width apart.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kItems = 1;      // tune: kItems in 1, 2, 4, 8

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SwiGlu(const T* __restrict__ x, T* __restrict__ y, int64_t elements, int hidden) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
#pragma unroll
  for (int item = 0; item < kItems; ++item, i += kThreads) {
    if (i >= elements) return;
    const int64_t gate_at = i / hidden * 2 * hidden + i % hidden;
    const float gate = static_cast<float>(x[gate_at]);
    const float value = static_cast<float>(x[gate_at + hidden]);
    y[i] = static_cast<T>(gate / (1 + expf(-gate)) * value);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  const int64_t elements = y.numel();
  const auto blocks = static_cast<unsigned>((elements - 1) / (kThreads * kItems) + 1);
  SwiGlu<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), y.data_ptr<T>(), elements, static_cast<int>(y.size(1)));
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2 && x.size(1) % 2 == 0, "x must be a matrix of gates and values");
  x = x.contiguous();
  auto y = torch::empty({x.size(0), x.size(1) / 2}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "SwiGLU activation"); }
