// Gradient of top-k gating: the baseline. One warp for each token. It makes the weights again from
// the selected logits, and looks for each expert among the selected ones.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>

constexpr int kWarps = 4;   // tune: kWarps in 1, 2, 4, 8, 16, 32
constexpr int kUnroll = 1;  // tune: kUnroll in 1, 2, 4, 8

__device__ float SumOfWarp(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(~0u, value, distance);
  }
  return value;
}

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    GradLogits(const float* __restrict__ grad_weights, const T* __restrict__ logits,
               const int64_t* __restrict__ indices, T* __restrict__ grad_logits, int64_t tokens,
               int64_t experts, int64_t k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;
  const float* const grads = grad_weights + token * k;
  const T* const row = logits + token * experts;
  const int64_t* const selected = indices + token * k;

  const float largest = static_cast<float>(row[selected[0]]);  // as the first is the largest one
  float sum = 0, mean = 0;                                     // of the gradients, by the weights
  for (int64_t i = lane; i < k; i += 32) {
    const float weight = expf(static_cast<float>(row[selected[i]]) - largest);
    sum += weight;
    mean += weight * grads[i];
  }
  sum = SumOfWarp(sum);
  mean = SumOfWarp(mean) / sum;

  for (int64_t e = lane; e < experts; e += 32) {
    float grad = 0;
#pragma unroll kUnroll
    for (int64_t i = 0; i < k; ++i) {
      if (selected[i] != e) continue;
      grad = expf(static_cast<float>(row[e]) - largest) / sum * (grads[i] - mean);
    }
    grad_logits[token * experts + e] = static_cast<T>(grad);
  }
}

template <typename T>
static void Launch(const torch::Tensor& grad_weights, const torch::Tensor& logits,
                   const torch::Tensor& indices, torch::Tensor& grad_logits) {
  const int64_t tokens = logits.size(0);
  const auto blocks = static_cast<unsigned>((tokens - 1) / kWarps + 1);
  GradLogits<T><<<blocks, kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad_weights.data_ptr<float>(), logits.data_ptr<T>(), indices.data_ptr<int64_t>(),
      grad_logits.data_ptr<T>(), tokens, logits.size(1), indices.size(1));
}

torch::Tensor backward(torch::Tensor grad_weights, torch::Tensor logits, torch::Tensor indices) {
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, experts)");
  TORCH_CHECK(indices.dim() == 2 && indices.size(0) == logits.size(0) &&
                  indices.sizes() == grad_weights.sizes(),
              "indices and grad_weights must be (tokens, k)");
  TORCH_CHECK(indices.scalar_type() == torch::kInt64, "indices must be int64");
  TORCH_CHECK(grad_weights.scalar_type() == torch::kFloat32, "grad_weights must be float32");
  grad_weights = grad_weights.contiguous();
  logits = logits.contiguous();
  indices = indices.contiguous();
  auto grad_logits = torch::empty_like(logits);
  if (grad_logits.numel() == 0) return grad_logits;
  if (indices.numel() == 0) return grad_logits.zero_();
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(grad_weights, logits, indices, grad_logits);
      break;
    case torch::kFloat16:
      Launch<at::Half>(grad_weights, logits, indices, grad_logits);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(grad_weights, logits, indices, grad_logits);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return grad_logits;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of top-k gating");
}
