// Linear layer over the last dimension: the baseline. A product of matrices in tiles: a block of
// kSide x kSide threads takes kTile x kTile outputs, kPer x kPer of them a thread, and walks the
// depth in slices held in shared memory. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kSide = 16;   // threads along each side of a tile
constexpr int kPer = 2;     // tune: kPer in 1, 2, 4, 8
constexpr int kDepth = 16;  // tune: kDepth in 8, 16, 32
constexpr int kTile = kSide * kPer;
constexpr int kThreads = kSide * kSide;

// A slice of an operand: its lines from `first` on, at depths from `depth` on. Neighbouring threads
// take neighbouring depths, as the operand lies in memory.
template <class Operand>
__device__ void Load(float (&slice)[kDepth][kTile + 1], int64_t first, int depth, Operand operand) {
  for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
    slice[i % kDepth][i / kDepth] = operand(first + i / kDepth, depth + i % kDepth);
  }
}

__global__ void __launch_bounds__(kThreads)
    Linear(const float* __restrict__ x, const float* __restrict__ weights,
           const float* __restrict__ biases, float* __restrict__ y, int64_t rows, int in, int out) {
  __shared__ float of_x[kDepth][kTile + 1];
  __shared__ float of_weights[kDepth][kTile + 1];
  const int tiles = (out + kTile - 1) / kTile;
  const int64_t row = static_cast<int64_t>(blockIdx.x / tiles) * kTile;
  const int column = static_cast<int>(blockIdx.x % tiles) * kTile;
  const int ty = threadIdx.x / kSide;
  const int tx = threadIdx.x % kSide;

  float sums[kPer][kPer] = {};
  for (int depth = 0; depth < in; depth += kDepth) {
    Load(of_x, row, depth,
         [=](int64_t r, int k) { return r < rows && k < in ? x[r * in + k] : 0.0f; });
    Load(of_weights, column, depth,
         [=](int64_t o, int k) { return o < out && k < in ? weights[o * in + k] : 0.0f; });
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) {
          sums[i][j] += of_x[k][ty + i * kSide] * of_weights[k][tx + j * kSide];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int64_t r = row + ty + i * kSide;
      const int o = column + tx + j * kSide;
      if (r < rows && o < out) y[r * out + o] = sums[i][j] + biases[o];
    }
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 3 && weights.dim() == 2,
              "x must have three dimensions and weights be a matrix");
  TORCH_CHECK(x.size(2) == weights.size(1), "the last dimensions of x and weights must be equal");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int64_t rows = x.size(0) * x.size(1);
  const int in = static_cast<int>(weights.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto y = torch::empty({x.size(0), x.size(1), out}, x.options());
  if (y.numel() == 0) return y;
  const int64_t blocks = ((rows + kTile - 1) / kTile) * ((out + kTile - 1) / kTile);
  Linear<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(), y.data_ptr<float>(),
      rows, in, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer"); }
