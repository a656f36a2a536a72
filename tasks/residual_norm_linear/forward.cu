// Residual, RMS normalisation and linear layer: the baseline. A block adds one row's residual and
// finds the row's factor; the product then normalises while it loads tiles.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <tuple>

constexpr int kThreads = 256;          // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile

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

// total = x + residual; factors[row] = 1 / sqrt(mean(total^2) + eps).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    AddResidual(const T* __restrict__ x, const T* __restrict__ residual, T* __restrict__ total,
                float* __restrict__ factors, int features, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features;
  float squares = 0;
  for (int i = threadIdx.x; i < features; i += kThreads) {
    const T rounded =
        static_cast<T>(static_cast<float>(x[start + i]) + static_cast<float>(residual[start + i]));
    total[start + i] = rounded;
    squares += static_cast<float>(rounded) * static_cast<float>(rounded);
  }
  const float mean = Sum(squares) / static_cast<float>(features);
  if (threadIdx.x == 0) factors[blockIdx.x] = rsqrtf(mean + eps);
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    NormLinear(const T* __restrict__ total, const float* __restrict__ factors,
               const T* __restrict__ scales, const T* __restrict__ weights, T* __restrict__ y,
               int tokens, int in, int out) {
  __shared__ float x_tile[kTile * kItems][kTile];
  __shared__ float w_tile[kTile][kTile + 1];  // [k][column]; written along k
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile * kItems;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  float sums[kItems] = {};
  for (int first = 0; first < in; first += kTile) {
    const int k = first + tx;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t row = first_row + item * kTile + ty;
      x_tile[item * kTile + ty][tx] =
          row < tokens && k < in
              ? static_cast<float>(total[row * in + k]) * static_cast<float>(scales[k])
              : 0.0f;
    }
    const int64_t loaded = first_column + ty;
    w_tile[tx][ty] = loaded < out && k < in ? static_cast<float>(weights[loaded * in + k]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTile; ++j) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        sums[item] += x_tile[item * kTile + ty][j] * w_tile[j][tx];
      }
    }
    __syncthreads();
  }
  const int64_t column = first_column + tx;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int64_t row = first_row + item * kTile + ty;
    if (row < tokens && column < out)
      y[row * out + column] = static_cast<T>(sums[item] * factors[row]);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& residual,
                   const torch::Tensor& scales, const torch::Tensor& weights, torch::Tensor& total,
                   torch::Tensor& y, float eps) {
  const int tokens = static_cast<int>(x.size(0));
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto factors = torch::empty({tokens}, x.options().dtype(torch::kFloat32));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AddResidual<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      x.data_ptr<T>(), residual.data_ptr<T>(), total.data_ptr<T>(), factors.data_ptr<float>(), in,
      eps);
  const dim3 grid(static_cast<unsigned>((out - 1) / kTile + 1),
                  static_cast<unsigned>((tokens - 1) / (kTile * kItems) + 1));
  NormLinear<T><<<grid, dim3(kTile, kTile), 0, stream>>>(
      total.data_ptr<T>(), factors.data_ptr<float>(), scales.data_ptr<T>(), weights.data_ptr<T>(),
      y.data_ptr<T>(), tokens, in, out);
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor residual,
                                                 torch::Tensor scales, torch::Tensor weights,
                                                 double eps) {
  TORCH_CHECK(x.dim() == 2 && x.sizes() == residual.sizes(),
              "x and residual must be matrices of one shape");
  TORCH_CHECK(weights.dim() == 2 && weights.size(1) == x.size(1) && scales.numel() == x.size(1),
              "scales and rows of weights must be as long as rows of x");
  TORCH_CHECK(x.scalar_type() == residual.scalar_type() &&
                  x.scalar_type() == scales.scalar_type() &&
                  x.scalar_type() == weights.scalar_type(),
              "all tensors must be of one type");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "x and weights must not be empty");
  x = x.contiguous();
  residual = residual.contiguous();
  scales = scales.contiguous();
  weights = weights.contiguous();
  auto total = torch::empty_like(x);
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  const float epsilon = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, residual, scales, weights, total, y, epsilon);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, residual, scales, weights, total, y, epsilon);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, residual, scales, weights, total, y, epsilon);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return {y, total};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Residual, RMS normalisation and linear layer");
}
