// Selective scan of Mamba: the baseline. kLanes threads of a warp have one channel and go through
// its tokens in their order. Each has every kLanes-th number of the state. They load kLanes tokens
// at once, one each, and pass them to each other.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kLanes = 16;     // tune: kLanes in 4, 8, 16, 32
constexpr int kRows = kThreads / kLanes;
constexpr unsigned kAll = 0xffffffff;

// u, delta and y are (batch, channels, tokens), b and c (batch, state, tokens), a and h (between
// chunks of tokens) have the state of each channel. A row is a channel of a member of the batch.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    Scan(const T* __restrict__ u, const T* __restrict__ delta, const float* __restrict__ a,
         const T* __restrict__ b, const T* __restrict__ c, const float* __restrict__ skip,
         const float* __restrict__ delta_bias, float* __restrict__ h, T* __restrict__ y,
         int64_t rows, int64_t channels, int64_t tokens, int64_t state) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t own = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / kLanes;
  const bool is_row = own < rows;  // threads without a row still take part in the shuffles
  const int64_t row = is_row ? own : rows - 1;
  const int64_t channel = row % channels;
  const int64_t member = row / channels;
  const float bias = delta_bias[channel];
  const float factor = skip[channel];

  for (int64_t first = 0; first < tokens; first += kLanes) {
    const int64_t token = row * tokens + first + lane;
    const bool is_token = first + lane < tokens;
    const float mine = is_token ? static_cast<float>(u[token]) : 0.0f;
    const float sum = is_token ? static_cast<float>(delta[token]) + bias : 0.0f;
    const float step = sum > 20 ? sum : log1pf(expf(sum));  // softplus
    float sums[kLanes] = {};  // for each token of the chunk, over this thread's part of the state
    for (int64_t start = 0; start < state; start += kLanes) {
      const int64_t n = start + lane;
      const bool is_state = is_row && n < state;
      const float rate = is_state ? a[channel * state + n] : 0.0f;
      float value = is_state && first > 0 ? h[row * state + n] : 0.0f;
#pragma unroll
      for (int i = 0; i < kLanes; ++i) {
        const float d = __shfl_sync(kAll, step, i, kLanes);
        const float fed = __shfl_sync(kAll, step * mine, i, kLanes);
        if (is_state && first + i < tokens) {
          const int64_t at = (member * state + n) * tokens + first + i;
          const float before = first + i > 0 ? expf(d * rate) * value : 0.0f;
          value = before + fed * static_cast<float>(b[at]);
          sums[i] += value * static_cast<float>(c[at]);
        }
      }
      if (is_state) h[row * state + n] = value;
    }
    float total = 0;  // of this thread's token
#pragma unroll
    for (int i = 0; i < kLanes; ++i) {
      float part = sums[i];
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        part += __shfl_xor_sync(kAll, part, distance, kLanes);
      }
      if (i == lane) total = part;
    }
    if (is_row && is_token) y[token] = static_cast<T>(total + factor * mine);
  }
}

template <typename T>
static void Launch(const torch::Tensor& u, const torch::Tensor& delta, const torch::Tensor& a,
                   const torch::Tensor& b, const torch::Tensor& c, const torch::Tensor& skip,
                   const torch::Tensor& delta_bias, torch::Tensor& y) {
  const int64_t rows = u.size(0) * u.size(1);
  auto h = torch::empty({rows, a.size(1)}, a.options());
  const auto blocks = static_cast<unsigned>((rows - 1) / kRows + 1);
  Scan<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      u.data_ptr<T>(), delta.data_ptr<T>(), a.data_ptr<float>(), b.data_ptr<T>(), c.data_ptr<T>(),
      skip.data_ptr<float>(), delta_bias.data_ptr<float>(), h.data_ptr<float>(), y.data_ptr<T>(),
      rows, u.size(1), u.size(2), a.size(1));
}

torch::Tensor forward(torch::Tensor u, torch::Tensor delta, torch::Tensor A, torch::Tensor B,
                      torch::Tensor C, torch::Tensor D, torch::Tensor delta_bias) {
  TORCH_CHECK(u.dim() == 3 && u.sizes() == delta.sizes(),
              "u and delta must be (batch, channels, tokens)");
  TORCH_CHECK(A.dim() == 2 && A.size(0) == u.size(1), "A must be (channels, state)");
  TORCH_CHECK(B.dim() == 3 && B.sizes() == C.sizes() && B.size(0) == u.size(0) &&
                  B.size(1) == A.size(1) && B.size(2) == u.size(2),
              "B and C must be (batch, state, tokens)");
  TORCH_CHECK(D.dim() == 1 && D.size(0) == u.size(1) && D.sizes() == delta_bias.sizes(),
              "D and delta_bias must have a number for each channel");
  TORCH_CHECK(A.scalar_type() == torch::kFloat32 && D.scalar_type() == torch::kFloat32 &&
                  delta_bias.scalar_type() == torch::kFloat32,
              "A, D and delta_bias must be float32");
  TORCH_CHECK(u.scalar_type() == delta.scalar_type() && u.scalar_type() == B.scalar_type() &&
                  u.scalar_type() == C.scalar_type(),
              "u, delta, B and C must be of one type");
  u = u.contiguous();
  delta = delta.contiguous();
  A = A.contiguous();
  B = B.contiguous();
  C = C.contiguous();
  D = D.contiguous();
  delta_bias = delta_bias.contiguous();
  auto y = torch::empty_like(u);
  if (y.numel() == 0) return y;
  switch (u.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(u, delta, A, B, C, D, delta_bias, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(u, delta, A, B, C, D, delta_bias, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(u, delta, A, B, C, D, delta_bias, y);
      break;
    default:
      TORCH_CHECK(false, "u must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Selective scan"); }
