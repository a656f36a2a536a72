// Linear layer with bias, activation and residual: the baseline. Square tiles of both factors go
// through shared memory; a thread computes kItems rows of one column.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <string>

constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile

enum Activation { kNone, kRelu, kGeluTanh, kSilu };

// Element (i, j) lies at data[i * row + j * column].
template <typename T>
struct Matrix {
  const T* data;
  int64_t row, column;

  __device__ float At(int64_t i, int64_t j) const {
    return static_cast<float>(data[i * row + j * column]);
  }
};

__device__ float Activate(float x, Activation activation) {
  switch (activation) {
    case kRelu:
      return x < 0.0f ? 0.0f : x;  // NaN stays
    case kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    case kSilu:
      return x / (1.0f + expf(-x));
    default:
      return x;
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    Linear(Matrix<T> a, Matrix<T> b, Matrix<T> bias, Matrix<T> residual, Activation activation,
           T* __restrict__ y, int64_t rows, int64_t columns, int64_t inner) {
  __shared__ float a_tile[kTile * kItems][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kTile * kItems;
  const int64_t step = static_cast<int64_t>(gridDim.y) * kTile;
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kTile; first < columns; first += step) {
    const int64_t column = first + tx;
    float sums[kItems] = {};
    for (int64_t k = 0; k < inner; k += kTile) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        const int64_t row = first_row + item * kTile + ty;
        a_tile[item * kTile + ty][tx] = row < rows && k + tx < inner ? a.At(row, k + tx) : 0.0f;
      }
      b_tile[ty][tx] = k + ty < inner && column < columns ? b.At(k + ty, column) : 0.0f;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
          sums[item] += a_tile[item * kTile + ty][i] * b_tile[i][tx];
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t row = first_row + item * kTile + ty;
      if (row >= rows || column >= columns) continue;
      float value = sums[item] + (bias.data ? bias.At(0, column) : 0.0f);
      value = Activate(value, activation);
      if (residual.data) value += residual.At(row, column);
      y[row * columns + column] = static_cast<T>(value);
    }
  }
}

template <typename T>
static Matrix<T> MatrixOf(const torch::Tensor& x) {
  return {x.data_ptr<T>(), x.stride(0), x.stride(1)};
}

template <typename T>
static void Launch(const torch::Tensor& a, const torch::Tensor& b,
                   const c10::optional<torch::Tensor>& bias,
                   const c10::optional<torch::Tensor>& residual, Activation activation,
                   torch::Tensor& y) {
  const int64_t rows = y.size(0), columns = y.size(1);
  const dim3 grid(static_cast<unsigned>((rows - 1) / (kTile * kItems) + 1),
                  static_cast<unsigned>(std::min<int64_t>((columns - 1) / kTile + 1, 65535)));
  Linear<T><<<grid, dim3(kTile, kTile), 0, at::cuda::getCurrentCUDAStream()>>>(
      MatrixOf<T>(a), MatrixOf<T>(b),
      bias ? Matrix<T>{bias->data_ptr<T>(), 0, bias->stride(0)} : Matrix<T>{nullptr, 0, 0},
      residual ? MatrixOf<T>(*residual) : Matrix<T>{nullptr, 0, 0}, activation, y.data_ptr<T>(),
      rows, columns, a.size(1));
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b, c10::optional<torch::Tensor> bias,
                      c10::optional<torch::Tensor> residual, std::string activation) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
              "the shapes of a and b do not fit together");
  const auto type = a.scalar_type();
  TORCH_CHECK(b.scalar_type() == type && (!bias || bias->scalar_type() == type) &&
                  (!residual || residual->scalar_type() == type),
              "all tensors must be of one type");
  auto y = torch::empty({a.size(0), b.size(1)}, a.options());
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == b.size(1)),
              "bias must have an element for each column");
  TORCH_CHECK(!residual || residual->sizes() == y.sizes(), "residual must be like the result");
  const Activation kind = activation == "relu"        ? kRelu
                          : activation == "gelu_tanh" ? kGeluTanh
                          : activation == "silu"      ? kSilu
                                                      : kNone;
  TORCH_CHECK(kind != kNone || activation == "none",
              "activation must be none, relu, gelu_tanh or silu");
  if (y.numel() == 0) return y;
  if (type == torch::kBFloat16) {
    Launch<at::BFloat16>(a, b, bias, residual, kind, y);
  } else {
    TORCH_CHECK(type == torch::kFloat16, "a must be float16 or bfloat16");
    Launch<at::Half>(a, b, bias, residual, kind, y);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer"); }
