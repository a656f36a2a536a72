// Group normalisation: the baseline. One block for each group of a sample, three passes over it.
// SPDX-License-Identifier: Apache-2.0
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

// A group is channels * pixels neighbouring elements.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    GroupNorm(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
              T* __restrict__ y, int groups, int channels, int pixels, float eps) {
  const int size = channels * pixels;
  const int64_t start = static_cast<int64_t>(blockIdx.x) * size;
  const int first_channel = static_cast<int>(blockIdx.x % groups) * channels;
  float sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < size; i += kThreads) sum += static_cast<float>(x[start + i]);
  const float mean = Sum(sum) / static_cast<float>(size);

  float squares = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float distance = static_cast<float>(x[start + i]) - mean;
    squares += distance * distance;
  }
  const float scale = rsqrtf(Sum(squares) / static_cast<float>(size) + eps);

#pragma unroll kUnroll
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const int channel = first_channel + i / pixels;
    const float normal = (static_cast<float>(x[start + i]) - mean) * scale;
    y[start + i] = static_cast<T>(normal * static_cast<float>(weights[channel]) +
                                  static_cast<float>(biases[channel]));
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& biases, torch::Tensor& y, int groups, float eps) {
  const int channels = static_cast<int>(x.size(1)) / groups;
  const int pixels = static_cast<int>(x.numel() / (x.size(0) * x.size(1)));
  const auto blocks = static_cast<unsigned>(x.size(0) * groups);
  GroupNorm<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), weights.data_ptr<T>(), biases.data_ptr<T>(), y.data_ptr<T>(), groups,
      channels, pixels, eps);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases,
                      int64_t num_groups, double eps) {
  TORCH_CHECK(x.dim() >= 2, "x must have samples and channels");
  TORCH_CHECK(num_groups > 0 && x.size(1) % num_groups == 0,
              "the channels must be a multiple of the groups");
  TORCH_CHECK(weights.numel() == x.size(1) && biases.numel() == x.size(1),
              "one weight and one bias for each channel");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type() && x.scalar_type() == biases.scalar_type(),
              "x, weights and biases must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  TORCH_CHECK(x.numel() / x.size(0) / num_groups <= INT32_MAX, "a group is too large");
  const int groups = static_cast<int>(num_groups);
  const float epsilon = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, biases, y, groups, epsilon);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, biases, y, groups, epsilon);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, biases, y, groups, epsilon);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Group normalisation"); }
