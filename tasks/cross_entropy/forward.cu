// Cross entropy of each token: the baseline. One block for each token, two passes over its logits.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

constexpr int64_t kIgnored = -100;

// The combination of one value of each thread of the block, for all of them.
template <typename Combine>
__device__ float Reduce(float value, Combine combine) {
  __shared__ float partial[kThreads];
  __syncthreads();
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) {
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + distance]);
    }
    __syncthreads();
  }
  return partial[0];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CrossEntropy(const T* __restrict__ logits, const int64_t* __restrict__ targets,
                 float* __restrict__ y, int64_t tokens, int64_t vocabulary) {
  for (int64_t token = blockIdx.x; token < tokens; token += gridDim.x) {
    const int64_t target = targets[token];
    if (target == kIgnored) {
      if (threadIdx.x == 0) y[token] = 0;
      continue;
    }
    const T* const x = logits + token * vocabulary;
    float largest = -INFINITY;
#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
      largest = fmaxf(largest, static_cast<float>(x[i]));
    }
    largest = Reduce(largest, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0;
#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
      sum += expf(static_cast<float>(x[i]) - largest);
    }
    sum = Reduce(sum, [](float a, float b) { return a + b; });
    if (threadIdx.x == 0) {
      const bool valid = target >= 0 && target < vocabulary;
      y[token] = logf(sum) + (largest - (valid ? static_cast<float>(x[target]) : NAN));
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& logits, const torch::Tensor& target, torch::Tensor& y) {
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(y.numel(), 0x7fffffff));
  CrossEntropy<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      logits.data_ptr<T>(), target.data_ptr<int64_t>(), y.data_ptr<float>(), logits.size(0),
      logits.size(1));
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor target) {
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, vocabulary)");
  TORCH_CHECK(target.dim() == 1 && target.size(0) == logits.size(0) &&
                  target.scalar_type() == torch::kInt64,
              "target must have an int64 for each token");
  logits = logits.contiguous();
  target = target.contiguous();
  auto y = torch::empty({logits.size(0)}, logits.options().dtype(torch::kFloat32));
  if (y.numel() == 0) return y;
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(logits, target, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(logits, target, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(logits, target, y);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Cross entropy"); }
