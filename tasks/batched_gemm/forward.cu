// Batched matrix product: the baseline. Square tiles of both matrices go through shared memory; a
// thread computes kItems rows of one column.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile

template <typename T>
__global__ void __launch_bounds__(kBlock)
    Product(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y, int batch,
            int rows, int columns, int inner) {
  __shared__ float a_tile[kTile * kItems][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kTile * kItems;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kTile + tx;
  for (int64_t member = blockIdx.z; member < batch; member += gridDim.z) {
    const T* const my_a = a + member * rows * inner;
    const T* const my_b = b + member * inner * columns;
    float sums[kItems] = {};
    for (int first = 0; first < inner; first += kTile) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        const int64_t row = first_row + item * kTile + ty;
        const bool inside = row < rows && first + tx < inner;
        a_tile[item * kTile + ty][tx] =
            inside ? static_cast<float>(my_a[row * inner + first + tx]) : 0.0f;
      }
      const bool inside = first + ty < inner && column < columns;
      b_tile[ty][tx] =
          inside ? static_cast<float>(my_b[(first + ty) * static_cast<int64_t>(columns) + column])
                 : 0.0f;
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kTile; ++k) {
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
          sums[item] += a_tile[item * kTile + ty][k] * b_tile[k][tx];
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t row = first_row + item * kTile + ty;
      if (row < rows && column < columns) {
        y[(member * rows + row) * columns + column] = static_cast<T>(sums[item]);
      }
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  const auto batch = y.size(0), rows = y.size(1), columns = y.size(2);
  const dim3 grid(static_cast<unsigned>((rows - 1) / (kTile * kItems) + 1),
                  static_cast<unsigned>((columns - 1) / kTile + 1),
                  static_cast<unsigned>(std::min<int64_t>(batch, 65535)));
  Product<T><<<grid, dim3(kTile, kTile), 0, at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<T>(), b.data_ptr<T>(), y.data_ptr<T>(), static_cast<int>(batch),
      static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(a.size(2)));
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "a and b must be batches of matrices");
  TORCH_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1),
              "the shapes of a and b do not fit together");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "a and b must be of one type");
  a = a.contiguous();
  b = b.contiguous();
  auto y = torch::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  if (y.numel() == 0) return y;
  switch (a.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(a, b, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(a, b, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(a, b, y);
      break;
    default:
      TORCH_CHECK(false, "a must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Batched matrix product"); }
