// Linear layer of int8 weights: the baseline. Square tiles of x and of the weights go through
// shared memory; the scale is applied to the sum. A thread computes kItems rows of one column.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile

template <typename T>
__global__ void __launch_bounds__(kBlock)
    Linear(const T* __restrict__ x, const int8_t* __restrict__ weights,
           const T* __restrict__ scales, T* __restrict__ y, int batch, int in, int out) {
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
          row < batch && k < in ? static_cast<float>(x[row * in + k]) : 0.0f;
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
    if (row < batch && column < out) {
      y[row * out + column] = static_cast<T>(sums[item] * static_cast<float>(scales[column]));
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& scales, torch::Tensor& y) {
  const auto batch = x.size(0), in = x.size(1), out = weights.size(0);
  const dim3 grid(static_cast<unsigned>((out - 1) / kTile + 1),
                  static_cast<unsigned>((batch - 1) / (kTile * kItems) + 1));
  Linear<T><<<grid, dim3(kTile, kTile), 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), weights.data_ptr<int8_t>(), scales.data_ptr<T>(), y.data_ptr<T>(),
      static_cast<int>(batch), static_cast<int>(in), static_cast<int>(out));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor scales) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(scales.numel() == weights.size(0), "one scale for each row of weights");
  TORCH_CHECK(weights.scalar_type() == torch::kInt8, "weights must be int8");
  TORCH_CHECK(x.scalar_type() == scales.scalar_type(), "x and scales must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  scales = scales.contiguous();
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, scales, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, scales, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, scales, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear, int8 weights"); }
