// Residual and RMS normalisation: the baseline. One block for each row: the first pass adds and
// stores the new residual, the second normalises what each thread has stored itself. Sums are
// float32. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <tuple>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

// The sum of one number of each thread of the block, for all of them.
__device__ float Sum(float value) {
  __shared__ float partial[kThreads];
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
    ResidualRmsNorm(const T* __restrict__ x, const T* __restrict__ residual,
                    const T* __restrict__ weights, T* __restrict__ y, T* __restrict__ total,
                    int64_t features, float eps) {
  const int64_t start = blockIdx.x * features;
  float squares = 0;
#pragma unroll kUnroll
  for (int64_t i = threadIdx.x; i < features; i += kThreads) {
    const T sum =
        static_cast<T>(static_cast<float>(x[start + i]) + static_cast<float>(residual[start + i]));
    total[start + i] = sum;
    squares += static_cast<float>(sum) * static_cast<float>(sum);
  }
  const float scale = rsqrtf(Sum(squares) / static_cast<float>(features) + eps);
#pragma unroll kUnroll
  for (int64_t i = threadIdx.x; i < features; i += kThreads) {
    y[start + i] = static_cast<T>(static_cast<float>(total[start + i]) * scale *
                                  static_cast<float>(weights[i]));
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& residual,
                   const torch::Tensor& weights, torch::Tensor& y, torch::Tensor& total,
                   float eps) {
  const int64_t features = weights.size(0);
  const int64_t rows = x.numel() / features;
  TORCH_CHECK(rows < (int64_t{1} << 31), "x has too many rows");
  ResidualRmsNorm<T>
      <<<static_cast<unsigned>(rows), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          x.data_ptr<T>(), residual.data_ptr<T>(), weights.data_ptr<T>(), y.data_ptr<T>(),
          total.data_ptr<T>(), features, eps);
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor residual,
                                                 torch::Tensor weights, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0),
              "weights must be as long as the last dimension of x");
  TORCH_CHECK(x.sizes() == residual.sizes(), "x and residual must be of one size");
  TORCH_CHECK(x.scalar_type() == residual.scalar_type() && x.scalar_type() == weights.scalar_type(),
              "x, residual and weights must be of one type");
  x = x.contiguous();
  residual = residual.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty_like(x), total = torch::empty_like(x);
  if (y.numel() == 0) return {y, total};
  const float epsilon = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, residual, weights, y, total, epsilon);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, residual, weights, y, total, epsilon);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, residual, weights, y, total, epsilon);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return {y, total};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Residual and RMS normalisation");
}
