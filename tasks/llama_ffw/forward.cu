// Feed-forward block of Llama: the baseline. Two kernels, both products of matrices in tiles:
// GateUp makes both projections up at once, since they read the same x, and silu(gate) * up of
// them; Down projects that back. A block of kSide x kSide threads takes kTile x kTile outputs, kPer
// x kPer of them a thread, and walks the depth in slices held in shared memory.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kSide = 16;   // threads along each side of a tile
constexpr int kPer = 2;     // tune: kPer in 1, 2, 4, 8
constexpr int kDepth = 16;  // tune: kDepth in 8, 16
constexpr int kTile = kSide * kPer;
constexpr int kThreads = kSide * kSide;

using Slice = float[kDepth][kTile + 1];
using Sums = float[kPer][kPer];

struct Matrix {  // of rows that lie one after another
  const float* data;
  int64_t rows;
  int columns;
};

// The rows of a matrix from `row` on, at columns from `depth` on; zeros beyond its ends.
__device__ void Load(Slice& slice, const Matrix& from, int64_t row, int depth) {
  for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
    const int64_t r = row + i / kDepth;
    const int k = depth + i % kDepth;
    slice[i % kDepth][i / kDepth] =
        r < from.rows && k < from.columns ? from.data[r * from.columns + k] : 0.0f;
  }
}

__device__ void Accumulate(Sums& sums, const Slice& left, const Slice& right) {
  const int ty = threadIdx.x / kSide;
  const int tx = threadIdx.x % kSide;
  for (int k = 0; k < kDepth; ++k) {
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        sums[i][j] += left[k][ty + i * kSide] * right[k][tx + j * kSide];
      }
    }
  }
}

// Calls store(row, column, i, j) for each of this thread's outputs within rows x columns.
template <class Store>
__device__ void ForOutputs(int64_t first_row, int first_column, int64_t rows, int64_t columns,
                           Store store) {
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int64_t row = first_row + threadIdx.x / kSide + i * kSide;
      const int column = first_column + static_cast<int>(threadIdx.x % kSide) + j * kSide;
      if (row < rows && column < columns) store(row, column, i, j);
    }
  }
}

__device__ float Silu(float a) { return a / (1.0f + expf(-a)); }

// hidden[r, u] = silu(x[r] . gate[u]) * (x[r] . up[u]).
__global__ void __launch_bounds__(kThreads)
    GateUp(Matrix x, Matrix gate, Matrix up, float* __restrict__ hidden) {
  __shared__ Slice of_x, of_gate, of_up;
  const int64_t tiles = (gate.rows + kTile - 1) / kTile;
  const int64_t row = blockIdx.x / tiles * kTile;
  const int column = static_cast<int>(blockIdx.x % tiles) * kTile;
  Sums gates = {}, ups = {};
  for (int depth = 0; depth < x.columns; depth += kDepth) {
    Load(of_x, x, row, depth);
    Load(of_gate, gate, column, depth);
    Load(of_up, up, column, depth);
    __syncthreads();
    Accumulate(gates, of_x, of_gate);
    Accumulate(ups, of_x, of_up);
    __syncthreads();
  }
  ForOutputs(row, column, x.rows, gate.rows, [&](int64_t r, int u, int i, int j) {
    hidden[r * gate.rows + u] = Silu(gates[i][j]) * ups[i][j];
  });
}

// y[r, o] = hidden[r] . down[o].
__global__ void __launch_bounds__(kThreads)
    Down(Matrix hidden, Matrix down, float* __restrict__ y) {
  __shared__ Slice of_hidden, of_down;
  const int64_t tiles = (down.rows + kTile - 1) / kTile;
  const int64_t row = blockIdx.x / tiles * kTile;
  const int column = static_cast<int>(blockIdx.x % tiles) * kTile;
  Sums sums = {};
  for (int depth = 0; depth < hidden.columns; depth += kDepth) {
    Load(of_hidden, hidden, row, depth);
    Load(of_down, down, column, depth);
    __syncthreads();
    Accumulate(sums, of_hidden, of_down);
    __syncthreads();
  }
  ForOutputs(row, column, hidden.rows, down.rows,
             [&](int64_t r, int o, int i, int j) { y[r * down.rows + o] = sums[i][j]; });
}

static Matrix MatrixOf(const torch::Tensor& tensor) {
  const int64_t columns = tensor.size(tensor.dim() - 1);
  return {tensor.data_ptr<float>(), tensor.numel() / columns, static_cast<int>(columns)};
}

static unsigned Tiles(int64_t rows, int64_t columns) {
  return static_cast<unsigned>(((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_proj, torch::Tensor up_proj,
                      torch::Tensor down_proj) {
  TORCH_CHECK(x.dim() == 3 && gate_proj.dim() == 2 && up_proj.dim() == 2 && down_proj.dim() == 2,
              "x must have three dimensions and the projections be matrices");
  TORCH_CHECK(gate_proj.sizes() == up_proj.sizes() && x.size(2) == gate_proj.size(1) &&
                  down_proj.size(1) == gate_proj.size(0),
              "the shapes of x and the projections do not fit together");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0 && down_proj.numel() > 0, "nothing to do for empty tensors");
  x = x.contiguous();
  gate_proj = gate_proj.contiguous();
  up_proj = up_proj.contiguous();
  down_proj = down_proj.contiguous();
  auto hidden = torch::empty({x.size(0), x.size(1), gate_proj.size(0)}, x.options());
  auto y = torch::empty({x.size(0), x.size(1), down_proj.size(0)}, x.options());

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int64_t rows = x.size(0) * x.size(1);
  GateUp<<<Tiles(rows, gate_proj.size(0)), kThreads, 0, stream>>>(
      MatrixOf(x), MatrixOf(gate_proj), MatrixOf(up_proj), hidden.data_ptr<float>());
  Down<<<Tiles(rows, down_proj.size(0)), kThreads, 0, stream>>>(
      MatrixOf(hidden), MatrixOf(down_proj), y.data_ptr<float>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Feed-forward block of Llama");
}
