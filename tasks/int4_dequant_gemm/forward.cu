// Linear layer of 4-bit weights: the baseline. Square tiles of x and of the weights, as numbers, go
// through shared memory. A thread computes kItems rows of one column.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile
constexpr int kGroup = 128;            // features of a scale and a zero point

template <typename T>
struct Layer {
  const T* x;
  const uint8_t* weights;
  const T* scales;
  const uint8_t* zeros;
  T* y;
  int64_t tokens, in, out, bytes, groups;

  __device__ float Weight(int64_t output, int64_t k) const {
    const int pair = weights[output * bytes + k / 2];
    const int integer = k % 2 == 0 ? pair & 15 : pair >> 4;
    const int64_t group = output * groups + k / kGroup;
    return static_cast<float>(integer - zeros[group]) * static_cast<float>(scales[group]);
  }
};

template <typename T>
__global__ void __launch_bounds__(kBlock) Linear(Layer<T> layer) {
  constexpr int kRows = kTile * kItems;
  __shared__ float x_tile[kRows][kTile];
  __shared__ float w_tile[kTile][kTile + 1];  // [k][column]; written along k
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t column = first_column + tx;
  const int64_t loaded = first_column + ty;
  for (int64_t first_row = static_cast<int64_t>(blockIdx.y) * kRows; first_row < layer.tokens;
       first_row += static_cast<int64_t>(gridDim.y) * kRows) {
    float sums[kItems] = {};
    for (int64_t first = 0; first < layer.in; first += kTile) {
      const int64_t k = first + tx;
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        const int64_t row = first_row + item * kTile + ty;
        x_tile[item * kTile + ty][tx] = row < layer.tokens && k < layer.in
                                            ? static_cast<float>(layer.x[row * layer.in + k])
                                            : 0.0f;
      }
      w_tile[tx][ty] = loaded < layer.out && k < layer.in ? layer.Weight(loaded, k) : 0.0f;
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
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t row = first_row + item * kTile + ty;
      if (row < layer.tokens && column < layer.out) {
        layer.y[row * layer.out + column] = static_cast<T>(sums[item]);
      }
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& scales, const torch::Tensor& zeros, torch::Tensor& y) {
  const Layer<T> layer{x.data_ptr<T>(),
                       weights.data_ptr<uint8_t>(),
                       scales.data_ptr<T>(),
                       zeros.data_ptr<uint8_t>(),
                       y.data_ptr<T>(),
                       x.size(0),
                       x.size(1),
                       weights.size(0),
                       weights.size(1),
                       scales.size(1)};
  const int64_t rows = (layer.tokens - 1) / (kTile * kItems) + 1;
  const dim3 grid(static_cast<unsigned>((layer.out - 1) / kTile + 1),
                  static_cast<unsigned>(std::min<int64_t>(rows, 65535)));
  Linear<T><<<grid, dim3(kTile, kTile), 0, at::cuda::getCurrentCUDAStream()>>>(layer);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor scales,
                      torch::Tensor zeros) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(weights.size(1) == (x.size(1) + 1) / 2, "a byte for each two columns of x");
  TORCH_CHECK(scales.dim() == 2 && scales.size(0) == weights.size(0) &&
                  scales.size(1) == (x.size(1) + kGroup - 1) / kGroup,
              "a scale for each output and 128 columns of x");
  TORCH_CHECK(zeros.sizes() == scales.sizes(), "as many zero points as scales");
  TORCH_CHECK(weights.scalar_type() == torch::kUInt8 && zeros.scalar_type() == torch::kUInt8,
              "weights and zeros must be uint8");
  TORCH_CHECK(x.scalar_type() == scales.scalar_type(), "x and scales must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  scales = scales.contiguous();
  zeros = zeros.contiguous();
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat16:
      Launch<at::Half>(x, weights, scales, zeros, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, scales, zeros, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear, 4-bit weights"); }
