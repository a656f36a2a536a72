// Cross entropy of each token, and its gradient in place of the logits: the baseline. One block for
// each token, three passes over its logits.
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

// The logits are changed in place, so they are taken as they lie in memory.
template <typename T>
struct Logits {
  T* data;
  int64_t tokens, vocabulary, row_stride, stride;

  explicit Logits(const torch::Tensor& t)
      : data(t.data_ptr<T>()),
        tokens(t.size(0)),
        vocabulary(t.size(1)),
        row_stride(t.stride(0)),
        stride(t.stride(1)) {}
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CrossEntropy(Logits<T> logits, const int64_t* __restrict__ targets, float* __restrict__ y,
                 float scale) {
  const int64_t stride = logits.stride;
  for (int64_t token = blockIdx.x; token < logits.tokens; token += gridDim.x) {
    const int64_t target = targets[token];
    T* const x = logits.data + token * logits.row_stride;
    if (target == kIgnored) {
      for (int64_t i = threadIdx.x; i < logits.vocabulary; i += kThreads) x[i * stride] = 0;
      if (threadIdx.x == 0) y[token] = 0;
      continue;
    }
    float largest = -INFINITY;
#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < logits.vocabulary; i += kThreads) {
      largest = fmaxf(largest, static_cast<float>(x[i * stride]));
    }
    largest = Reduce(largest, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0;
#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < logits.vocabulary; i += kThreads) {
      sum += expf(static_cast<float>(x[i * stride]) - largest);
    }
    sum = Reduce(sum, [](float a, float b) { return a + b; });
    if (threadIdx.x == 0) {
      const bool valid = target >= 0 && target < logits.vocabulary;
      y[token] = logf(sum) + (largest - (valid ? static_cast<float>(x[target * stride]) : NAN));
    }
    __syncthreads();  // before the logit of the target changes

#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < logits.vocabulary; i += kThreads) {
      const float probability = expf(static_cast<float>(x[i * stride]) - largest) / sum;
      x[i * stride] = static_cast<T>((i == target ? probability - 1 : probability) * scale);
    }
  }
}

template <typename T>
static void Launch(torch::Tensor& logits, const torch::Tensor& target, torch::Tensor& y,
                   double scale) {
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(y.numel(), 0x7fffffff));
  CrossEntropy<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      Logits<T>(logits), target.data_ptr<int64_t>(), y.data_ptr<float>(),
      static_cast<float>(scale));
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor target, double scale) {
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, vocabulary)");
  TORCH_CHECK(target.dim() == 1 && target.size(0) == logits.size(0) &&
                  target.scalar_type() == torch::kInt64,
              "target must have an int64 for each token");
  target = target.contiguous();
  auto y = torch::empty({logits.size(0)}, logits.options().dtype(torch::kFloat32));
  if (y.numel() == 0) return y;
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(logits, target, y, scale);
      break;
    case torch::kFloat16:
      Launch<at::Half>(logits, target, y, scale);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(logits, target, y, scale);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Cross entropy and its gradient");
}
