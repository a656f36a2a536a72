// Product of float8 matrices with block scales: the baseline. Square tiles of a and b go through
// shared memory as they are; a block of 128 features is summed first, then scaled. A thread
// computes kItems rows of one column.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp8.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kItems = 1;              // tune: kItems in 1, 2, 4
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile
constexpr int kScaled = 128;           // features, or outputs, of a scale

struct Product {
  const __nv_fp8_e4m3 *a, *b;
  const float *a_scales, *b_scales;
  __nv_bfloat16* y;
  int64_t tokens, features, outputs, blocks;
};

__global__ void __launch_bounds__(kBlock) Multiply(Product p) {
  __shared__ float a_tile[kTile * kItems][kTile];
  __shared__ float b_tile[kTile][kTile + 1];  // [k][column]; written along k
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t column = first_column + tx;
  constexpr int kRows = kTile * kItems;
  for (int64_t first_row = static_cast<int64_t>(blockIdx.y) * kRows; first_row < p.tokens;
       first_row += static_cast<int64_t>(gridDim.y) * kRows) {
    float sums[kItems] = {};
    for (int64_t block = 0; block < p.blocks; ++block) {
      float parts[kItems] = {};
      const int64_t end = min((block + 1) * kScaled, p.features);
      for (int64_t first = block * kScaled; first < end; first += kTile) {
        const int64_t k = first + tx;
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
          const int64_t row = first_row + item * kTile + ty;
          a_tile[item * kTile + ty][tx] =
              row < p.tokens && k < end ? static_cast<float>(p.a[row * p.features + k]) : 0.0f;
        }
        const int64_t loaded = first_column + ty;
        b_tile[tx][ty] =
            loaded < p.outputs && k < end ? static_cast<float>(p.b[loaded * p.features + k]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < kTile; ++j) {
#pragma unroll
          for (int item = 0; item < kItems; ++item) {
            parts[item] += a_tile[item * kTile + ty][j] * b_tile[j][tx];
          }
        }
        __syncthreads();
      }
      if (column >= p.outputs) continue;
      const float b_scale = p.b_scales[column / kScaled * p.blocks + block];
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        const int64_t row = first_row + item * kTile + ty;
        if (row < p.tokens)
          sums[item] += parts[item] * p.a_scales[row * p.blocks + block] * b_scale;
      }
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t row = first_row + item * kTile + ty;
      if (row < p.tokens && column < p.outputs) {
        p.y[row * p.outputs + column] = __float2bfloat16(sums[item]);
      }
    }
  }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor a_scales, torch::Tensor b,
                      torch::Tensor b_scales) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1),
              "a and b must be matrices with as many columns");
  TORCH_CHECK(a.scalar_type() == torch::kFloat8_e4m3fn && b.scalar_type() == torch::kFloat8_e4m3fn,
              "a and b must be float8_e4m3fn");
  TORCH_CHECK(
      a_scales.scalar_type() == torch::kFloat32 && b_scales.scalar_type() == torch::kFloat32,
      "scales must be float32");
  const int64_t blocks = (a.size(1) + kScaled - 1) / kScaled;
  TORCH_CHECK(a_scales.dim() == 2 && a_scales.size(0) == a.size(0) && a_scales.size(1) == blocks,
              "a_scales must have a scale for each row and 128 columns");
  TORCH_CHECK(b_scales.dim() == 2 && b_scales.size(0) == (b.size(0) + kScaled - 1) / kScaled &&
                  b_scales.size(1) == blocks,
              "b_scales must have a scale for each 128 rows and 128 columns");
  a = a.contiguous();
  b = b.contiguous();
  a_scales = a_scales.contiguous();
  b_scales = b_scales.contiguous();
  auto y = torch::empty({a.size(0), b.size(0)}, a.options().dtype(torch::kBFloat16));
  if (y.numel() == 0) return y;
  const Product p{static_cast<const __nv_fp8_e4m3*>(a.data_ptr()),
                  static_cast<const __nv_fp8_e4m3*>(b.data_ptr()),
                  a_scales.data_ptr<float>(),
                  b_scales.data_ptr<float>(),
                  reinterpret_cast<__nv_bfloat16*>(y.data_ptr()),
                  a.size(0),
                  a.size(1),
                  b.size(0),
                  blocks};
  const int64_t rows = (p.tokens - 1) / (kTile * kItems) + 1;
  const dim3 grid(static_cast<unsigned>((p.outputs - 1) / kTile + 1),
                  static_cast<unsigned>(std::min<int64_t>(rows, 65535)));
  Multiply<<<grid, dim3(kTile, kTile), 0, at::cuda::getCurrentCUDAStream()>>>(p);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Product, block scales"); }
