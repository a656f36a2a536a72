// Linear layer of a few rows: the baseline. A warp takes one row of the weights, which it reads
// once for up to kRows rows of x. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kRows = 4;       // tune: kRows in 1, 2, 4, 8, 16
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Linear(const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y, int batch,
           int in, int out) {
  const int64_t output = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kRows;
  if (output >= out) return;  // the whole warp

  float sums[kRows] = {};
#pragma unroll kUnroll
  for (int k = lane; k < in; k += 32) {
    const float weight = static_cast<float>(weights[output * in + k]);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (first + row < batch) sums[row] += static_cast<float>(x[(first + row) * in + k]) * weight;
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sums[row] += __shfl_xor_sync(0xffffffffu, sums[row], distance);
    }
    if (lane == 0 && first + row < batch) {
      y[(first + row) * out + output] = static_cast<T>(sums[row]);
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights, torch::Tensor& y) {
  const auto batch = x.size(0), in = x.size(1), out = weights.size(0);
  const dim3 grid(static_cast<unsigned>((out * 32 - 1) / kThreads + 1),
                  static_cast<unsigned>((batch - 1) / kRows + 1));
  Linear<T><<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), weights.data_ptr<T>(), y.data_ptr<T>(), static_cast<int>(batch),
      static_cast<int>(in), static_cast<int>(out));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer of few rows"); }
