// GELU: the baseline. A thread computes kItems elements, a block's width apart.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <string>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kItems = 1;      // tune: kItems in 1, 2, 4, 8

__device__ float Exact(float x) { return 0.5f * x * (1 + erff(x * 0.707106781186547524f)); }

// x * (1 + tanh(u)) / 2 is x / (1 + exp(-2 u)); tanhf is too inexact under --use_fast_math.
__device__ float ByTanh(float x) {
  const float u = 0.797884560802865356f * (x + 0.044715f * x * x * x);
  return x / (1 + expf(-2 * u));
}

template <typename T, bool kTanh>
__global__ void __launch_bounds__(kThreads)
    Gelu(const T* __restrict__ x, T* __restrict__ y, int64_t elements) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
#pragma unroll
  for (int item = 0; item < kItems; ++item, i += kThreads) {
    if (i >= elements) return;
    const float value = static_cast<float>(x[i]);
    y[i] = static_cast<T>(kTanh ? ByTanh(value) : Exact(value));
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& y, bool tanh) {
  const int64_t elements = x.numel();
  const auto blocks = static_cast<unsigned>((elements - 1) / (kThreads * kItems) + 1);
  const auto kernel = tanh ? &Gelu<T, true> : &Gelu<T, false>;
  kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<T>(),
                                                                    y.data_ptr<T>(), elements);
}

torch::Tensor forward(torch::Tensor x, std::string approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate must be none or tanh");
  const bool tanh = approximate == "tanh";
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, y, tanh);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, y, tanh);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, y, tanh);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "GELU"); }
