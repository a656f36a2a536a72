// Feed-forward block with SwiGLU: the baseline. One product in tiles makes the hidden features from
// both matrices, a second one the output; sums are float32.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile

// y = x a^T, or silu(x a^T) * (x b^T) where kGated.
template <typename T, bool kGated>
__global__ void __launch_bounds__(kBlock)
    Linear(const T* __restrict__ x, const T* __restrict__ a, const T* __restrict__ b,
           T* __restrict__ y, int tokens, int in, int out) {
  __shared__ float x_tile[kTile * kItems][kTile];
  __shared__ float a_tile[kTile][kTile + 1];  // [k][column]; written along k
  __shared__ float b_tile[kGated ? kTile : 1][kTile + 1];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile * kItems;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  float a_sums[kItems] = {};
  float b_sums[kItems] = {};
  for (int first = 0; first < in; first += kTile) {
    const int k = first + tx;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t row = first_row + item * kTile + ty;
      x_tile[item * kTile + ty][tx] =
          row < tokens && k < in ? static_cast<float>(x[row * in + k]) : 0.0f;
    }
    const int64_t loaded = first_column + ty;
    const bool inside = loaded < out && k < in;
    a_tile[tx][ty] = inside ? static_cast<float>(a[loaded * in + k]) : 0.0f;
    if constexpr (kGated) {
      b_tile[tx][ty] = inside ? static_cast<float>(b[loaded * in + k]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTile; ++j) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        a_sums[item] += x_tile[item * kTile + ty][j] * a_tile[j][tx];
        if constexpr (kGated) b_sums[item] += x_tile[item * kTile + ty][j] * b_tile[j][tx];
      }
    }
    __syncthreads();
  }
  const int64_t column = first_column + tx;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int64_t row = first_row + item * kTile + ty;
    if (row >= tokens || column >= out) continue;
    float value = a_sums[item];
    if constexpr (kGated) value = value / (1 + expf(-value)) * b_sums[item];
    y[row * out + column] = static_cast<T>(value);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& gate, const torch::Tensor& up,
                   const torch::Tensor& down, torch::Tensor& y) {
  const int tokens = static_cast<int>(x.size(0));
  const int features = static_cast<int>(x.size(1));
  const int hidden = static_cast<int>(gate.size(0));
  auto middle = torch::empty({tokens, hidden}, x.options());
  const dim3 threads(kTile, kTile);
  const auto tiles = [](int size, int tile) {
    return static_cast<unsigned>((size - 1) / tile + 1);
  };
  const unsigned rows = tiles(tokens, kTile * kItems);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Linear<T, true><<<dim3(tiles(hidden, kTile), rows), threads, 0, stream>>>(
      x.data_ptr<T>(), gate.data_ptr<T>(), up.data_ptr<T>(), middle.data_ptr<T>(), tokens, features,
      hidden);
  Linear<T, false><<<dim3(tiles(features, kTile), rows), threads, 0, stream>>>(
      middle.data_ptr<T>(), down.data_ptr<T>(), nullptr, y.data_ptr<T>(), tokens, hidden, features);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor down) {
  TORCH_CHECK(x.dim() == 2 && gate.dim() == 2 && down.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(gate.size(1) == x.size(1) && up.sizes() == gate.sizes() &&
                  down.size(0) == x.size(1) && down.size(1) == gate.size(0),
              "the shapes of x and weights do not fit together");
  TORCH_CHECK(x.scalar_type() == gate.scalar_type() && x.scalar_type() == up.scalar_type() &&
                  x.scalar_type() == down.scalar_type(),
              "x and weights must be of one type");
  TORCH_CHECK(x.numel() > 0 && gate.numel() > 0, "x and weights must not be empty");
  x = x.contiguous();
  gate = gate.contiguous();
  up = up.contiguous();
  down = down.contiguous();
  auto y = torch::empty_like(x);
  switch (x.scalar_type()) {
    case torch::kFloat16:
      Launch<at::Half>(x, gate, up, down, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, gate, up, down, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Feed-forward block"); }
