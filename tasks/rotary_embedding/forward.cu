// Rotary position embedding: the baseline. One thread for each pair of elements; a launch for the
// queries, one for the keys.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <tuple>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kItems = 1;      // tune: kItems in 1, 2, 4, 8

// x is (batch * heads, tokens, 2 * half), cosine and sine are (tokens, half).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    Rotate(const T* __restrict__ x, const T* __restrict__ cosine, const T* __restrict__ sine,
           T* __restrict__ y, int64_t pairs, int tokens, int half) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
#pragma unroll
  for (int item = 0; item < kItems; ++item, i += kThreads) {
    if (i >= pairs) return;
    const int64_t row = i / half;
    const int64_t first = row * 2 * half + i % half;
    const int64_t angle = row % tokens * half + i % half;
    const float a = static_cast<float>(x[first]);
    const float b = static_cast<float>(x[first + half]);
    const float c = static_cast<float>(cosine[angle]);
    const float s = static_cast<float>(sine[angle]);
    y[first] = static_cast<T>(a * c - b * s);
    y[first + half] = static_cast<T>(b * c + a * s);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& cosine, const torch::Tensor& sine,
                   torch::Tensor& y) {
  const int64_t pairs = x.numel() / 2;
  if (pairs == 0) return;
  const auto blocks = static_cast<unsigned>((pairs - 1) / (kThreads * kItems) + 1);
  Rotate<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), cosine.data_ptr<T>(), sine.data_ptr<T>(), y.data_ptr<T>(), pairs,
      static_cast<int>(x.size(2)), static_cast<int>(x.size(3) / 2));
}

static torch::Tensor Rotated(torch::Tensor x, const torch::Tensor& cosine,
                             const torch::Tensor& sine) {
  TORCH_CHECK(x.dim() == 4, "queries and keys must be (batch, heads, tokens, size)");
  TORCH_CHECK(x.size(2) == cosine.size(0) && x.size(3) == 2 * cosine.size(1),
              "cosine and sine must be (tokens, size / 2)");
  TORCH_CHECK(x.scalar_type() == cosine.scalar_type(), "all tensors must be of one type");
  x = x.contiguous();
  auto y = torch::empty_like(x);
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, cosine, sine, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, cosine, sine, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, cosine, sine, y);
      break;
    default:
      TORCH_CHECK(false, "queries and keys must be float32, float16 or bfloat16");
  }
  return y;
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor query, torch::Tensor key,
                                                 torch::Tensor cosine, torch::Tensor sine) {
  TORCH_CHECK(cosine.dim() == 2 && cosine.sizes() == sine.sizes() &&
                  cosine.scalar_type() == sine.scalar_type(),
              "cosine and sine must be matrices alike");
  cosine = cosine.contiguous();
  sine = sine.contiguous();
  return {Rotated(query, cosine, sine), Rotated(key, cosine, sine)};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Rotary embedding"); }
