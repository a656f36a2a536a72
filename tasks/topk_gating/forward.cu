// Top-k gating: the baseline. One warp for each token; it goes through the logits once for each of
// the k experts that it selects.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>
#include <tuple>

constexpr int kWarps = 4;   // tune: kWarps in 1, 2, 4, 8, 16, 32
constexpr int kUnroll = 1;  // tune: kUnroll in 1, 2, 4, 8

struct Expert {
  float logit;
  int64_t index;
};

// Larger logits are first, and of equal ones the smaller index. A NaN is larger than all numbers,
// as in torch.topk.
__device__ bool IsBefore(const Expert& a, const Expert& b) {
  const bool a_is_nan = isnan(a.logit), b_is_nan = isnan(b.logit);
  if (a_is_nan != b_is_nan) return a_is_nan;
  if (!a_is_nan && a.logit != b.logit) return a.logit > b.logit;
  return a.index < b.index;
}

// The first of the experts that the lanes of the warp have.
__device__ Expert FirstOfWarp(Expert mine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Expert other{
        __shfl_xor_sync(~0u, mine.logit, distance),
        static_cast<int64_t>(__shfl_xor_sync(~0u, static_cast<long long>(mine.index), distance))};
    if (IsBefore(other, mine)) mine = other;
  }
  return mine;
}

// The probabilities' own sum cancels when they are divided by the sum of the selected ones.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    Gate(const T* __restrict__ logits, float* __restrict__ weights, int64_t* __restrict__ indices,
         int64_t tokens, int64_t experts, int64_t k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;
  const T* const row = logits + token * experts;
  float* const my_weights = weights + token * k;

  Expert last{NAN, -1};  // what was selected before; at first something before all experts
  float largest = 0, sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    Expert best{-INFINITY, INT64_MAX};  // after all experts
#pragma unroll kUnroll
    for (int64_t e = lane; e < experts; e += 32) {
      const Expert expert{static_cast<float>(row[e]), e};
      if (IsBefore(last, expert) && IsBefore(expert, best)) best = expert;
    }
    last = FirstOfWarp(best);
    if (i == 0) largest = last.logit;
    const float weight = expf(last.logit - largest);
    sum += weight;
    if (i % 32 == lane) my_weights[i] = weight;
    if (lane == 0) indices[token * k + i] = last.index;
  }
  for (int64_t i = lane; i < k; i += 32) my_weights[i] /= sum;  // the same lane has written it
}

template <typename T>
static void Launch(const torch::Tensor& logits, torch::Tensor& weights, torch::Tensor& indices) {
  const int64_t tokens = logits.size(0);
  const auto blocks = static_cast<unsigned>((tokens - 1) / kWarps + 1);
  Gate<T><<<blocks, kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      logits.data_ptr<T>(), weights.data_ptr<float>(), indices.data_ptr<int64_t>(), tokens,
      logits.size(1), weights.size(1));
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor logits, int64_t k) {
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, experts)");
  TORCH_CHECK(k >= 0 && k <= logits.size(1), "k must be at most the number of experts");
  logits = logits.contiguous();
  auto weights = torch::empty({logits.size(0), k}, logits.options().dtype(torch::kFloat32));
  auto indices = torch::empty({logits.size(0), k}, logits.options().dtype(torch::kInt64));
  if (weights.numel() == 0) return {weights, indices};
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(logits, weights, indices);
      break;
    case torch::kFloat16:
      Launch<at::Half>(logits, weights, indices);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(logits, weights, indices);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return {weights, indices};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Top-k gating"); }
