// Layer normalisation of 16-bit numbers: the baseline. One block for each row, three passes over
// it; sums are float32. SPDX-License-Identifier: Apache-2.0
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
    LayerNorm(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
              T* __restrict__ y, int features, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features;
  float sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) sum += static_cast<float>(x[start + i]);
  const float mean = Sum(sum) / static_cast<float>(features);

  float squares = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) {
    const float distance = static_cast<float>(x[start + i]) - mean;
    squares += distance * distance;
  }
  const float scale = rsqrtf(Sum(squares) / static_cast<float>(features) + eps);

#pragma unroll kUnroll
  for (int i = threadIdx.x; i < features; i += kThreads) {
    const float normal = (static_cast<float>(x[start + i]) - mean) * scale;
    y[start + i] =
        static_cast<T>(normal * static_cast<float>(weights[i]) + static_cast<float>(biases[i]));
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& biases, torch::Tensor& y, float eps) {
  const auto features = weights.size(0);
  const auto rows = static_cast<unsigned>(x.numel() / features);
  LayerNorm<T><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), weights.data_ptr<T>(), biases.data_ptr<T>(), y.data_ptr<T>(),
      static_cast<int>(features), eps);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0) &&
                  biases.sizes() == weights.sizes(),
              "weights and biases must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type() && x.scalar_type() == biases.scalar_type(),
              "x, weights and biases must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const float epsilon = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat16:
      Launch<at::Half>(x, weights, biases, y, epsilon);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, biases, y, epsilon);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Layer normalisation"); }
