// RMS normalisation of 16-bit numbers: the baseline. One block for each row, two passes over it;
// sums are float32. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

// The sum of one number of each thread of the block, for all of them.
__device__ float Sum(float value) {
  __shared__ float partial[kThreads];
  __syncthreads();
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
    __syncthreads();
  }
  return partial[0];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    RmsNorm(const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y, int features,
            float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features;
  float squares = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) {
    const float value = static_cast<float>(x[start + i]);
    squares += value * value;
  }
  const float scale = rsqrtf(Sum(squares) / static_cast<float>(features) + eps);
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) {
    y[start + i] =
        static_cast<T>(static_cast<float>(x[start + i]) * scale * static_cast<float>(weights[i]));
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights, torch::Tensor& y,
                   float eps) {
  const auto features = weights.size(0);
  const auto rows = static_cast<unsigned>(x.numel() / features);
  RmsNorm<T><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), weights.data_ptr<T>(), y.data_ptr<T>(), static_cast<int>(features), eps);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0),
              "weights must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const float epsilon = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat16:
      Launch<at::Half>(x, weights, y, epsilon);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, y, epsilon);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "RMS normalisation"); }
