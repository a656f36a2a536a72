// Linear layer of a mixture of experts: the baseline. The first kernel lists each expert's pairs of
// token and choice, the second multiplies them in square tiles, the third adds up a token's
// products by its gates. Everything is in a fixed order, so that the sums are always the same.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 256;          // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kTile = 16;              // tune: kTile in 8, 16, 32
constexpr int kRowBlocks = 4;          // tune: kRowBlocks in 1, 2, 4, 8, 16
constexpr int kBlock = kTile * kTile;  // threads of a block that makes a tile
constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffff;

// A warp has one expert. Its pairs (token * top_k + j) follow those of the experts before it.
__global__ void __launch_bounds__(kWarp)
    Group(const int64_t* __restrict__ chosen, int64_t* __restrict__ grouped,
          int64_t* __restrict__ ends, int64_t pairs) {
  const int64_t expert = blockIdx.x;
  int64_t end = 0;
  for (int64_t pair = threadIdx.x; pair - threadIdx.x < pairs; pair += kWarp) {
    end += __popc(__ballot_sync(kAll, pair < pairs && chosen[pair] < expert));
  }
  for (int64_t pair = threadIdx.x; pair - threadIdx.x < pairs; pair += kWarp) {
    const bool here = pair < pairs && chosen[pair] == expert;
    const unsigned mask = __ballot_sync(kAll, here);
    if (here) grouped[end + __popc(mask & ((1u << threadIdx.x) - 1))] = pair;
    end += __popc(mask);
  }
  if (threadIdx.x == 0) ends[expert] = end;
}

// products[pair] = weights[expert] @ x[token]. A block has one expert and kTile of its outputs.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    Product(const T* __restrict__ x, const T* __restrict__ weights,
            const int64_t* __restrict__ grouped, const int64_t* __restrict__ ends,
            float* __restrict__ products, int64_t top_k, int in, int out) {
  __shared__ float x_tile[kTile][kTile];
  __shared__ float w_tile[kTile][kTile + 1];  // [k][column]; written along k
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int column_tiles = (out - 1) / kTile + 1;
  const int64_t expert = blockIdx.x / column_tiles;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x % column_tiles) * kTile;
  const int64_t loaded = first_column + ty;
  const int64_t column = first_column + tx;
  const int64_t end = ends[expert];
  int64_t row = (expert > 0 ? ends[expert - 1] : 0) + blockIdx.y * kTile;
  for (; row < end; row += gridDim.y * kTile) {
    const int64_t pair = row + ty < end ? grouped[row + ty] : -1;
    float sum = 0;
    for (int first = 0; first < in; first += kTile) {
      const int k = first + tx;
      x_tile[ty][tx] = pair >= 0 && k < in ? static_cast<float>(x[pair / top_k * in + k]) : 0.0f;
      w_tile[tx][ty] = loaded < out && k < in
                           ? static_cast<float>(weights[(expert * out + loaded) * in + k])
                           : 0.0f;
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kTile; ++j) sum += x_tile[ty][j] * w_tile[j][tx];
      __syncthreads();
    }
    if (pair >= 0 && column < out) products[pair * out + column] = sum;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Combine(const float* __restrict__ products, const float* __restrict__ gates, T* __restrict__ y,
            int64_t top_k, int64_t count, int out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t token = i / out;
  float sum = 0;
  for (int64_t pair = token * top_k; pair < (token + 1) * top_k; ++pair) {
    sum += gates[pair] * products[pair * out + i % out];
  }
  y[i] = static_cast<T>(sum);
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& chosen, const torch::Tensor& gates, torch::Tensor& y) {
  const int64_t pairs = chosen.numel(), top_k = chosen.size(1), experts = weights.size(0);
  const int in = static_cast<int>(x.size(1)), out = static_cast<int>(weights.size(1));
  auto grouped = torch::empty({pairs}, chosen.options());
  auto ends = torch::empty({experts}, chosen.options());
  auto products = torch::empty({pairs, out}, gates.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (pairs > 0) {
    Group<<<static_cast<unsigned>(experts), kWarp, 0, stream>>>(
        chosen.data_ptr<int64_t>(), grouped.data_ptr<int64_t>(), ends.data_ptr<int64_t>(), pairs);
    const int64_t row_tiles = (pairs - 1) / kTile + 1;
    const dim3 grid(static_cast<unsigned>(experts * ((out - 1) / kTile + 1)),
                    static_cast<unsigned>(std::min<int64_t>(row_tiles, kRowBlocks)));
    Product<T><<<grid, dim3(kTile, kTile), 0, stream>>>(
        x.data_ptr<T>(), weights.data_ptr<T>(), grouped.data_ptr<int64_t>(),
        ends.data_ptr<int64_t>(), products.data_ptr<float>(), top_k, in, out);
  }
  Combine<T><<<static_cast<unsigned>((y.numel() - 1) / kThreads + 1), kThreads, 0, stream>>>(
      products.data_ptr<float>(), gates.data_ptr<float>(), y.data_ptr<T>(), top_k, y.numel(), out);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor chosen,
                      torch::Tensor gates) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 3 && x.size(1) == weights.size(2),
              "x must be (tokens, features), weights (experts, outputs, features)");
  TORCH_CHECK(chosen.dim() == 2 && chosen.size(0) == x.size(0) && chosen.sizes() == gates.sizes(),
              "chosen and gates must be (tokens, top_k)");
  TORCH_CHECK(chosen.numel() == 0 || weights.size(0) > 0, "there must be an expert to choose");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  TORCH_CHECK(chosen.scalar_type() == torch::kInt64 && gates.scalar_type() == torch::kFloat32,
              "chosen must be int64, gates float32");
  x = x.contiguous();
  weights = weights.contiguous();
  chosen = chosen.contiguous();
  gates = gates.contiguous();
  auto y = torch::empty({x.size(0), weights.size(1)}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, chosen, gates, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, chosen, gates, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, chosen, gates, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Mixture of experts"); }
