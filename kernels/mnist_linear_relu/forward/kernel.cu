// Linear layer with ReLU.
//
// A team of warps makes kRows x kCols outputs. Its threads lie along the depth: each loads a vector
// of kRows rows of x and of kCols rows of weights straight into registers, so that all that a small
// layer needs is in flight at once. The sums over lanes are made by halving: in each step a lane
// hands one half of its sums to its partner and keeps the other, so that 32 sums over 32 lanes cost
// 31 shuffles in place of 160. Sums over the team's warps go through shared memory. One launch.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kMostWarps = 16;
constexpr int kMultiprocessors = 120;  // about as many blocks are worth having
constexpr int kEnoughTeams = 64;       // tune: kEnoughTeams in 32, 64, 128
constexpr int kFewProducts = 1 << 19;  // tune: kFewProducts in 1 << 17, 1 << 19; a warp an output
constexpr int kTeamOfLarge = 8;  // tune: kTeamOfLarge in 4, 8, 16; warps of a team of large tiles

template <int kWidth>
struct Vector {
  float at[kWidth];
};
template <int kWidth>
__device__ Vector<kWidth> Load(const float* from) {
  Vector<kWidth> v;
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(v.at) = __ldg(reinterpret_cast<const float4*>(from));
  } else {
    v.at[0] = __ldg(from);
  }
  return v;
}

// Adds up each of kCount numbers, a power of two, over the warp. The lane gets the sum of number
// lane * kCount / 32.
template <int kCount, int kDistance = 16>
__device__ float SumOverLanes(float* v, int lane) {
  if constexpr (kCount > 1) {
    const bool upper = (lane & kDistance) != 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float send = upper ? v[i] : v[i + kCount / 2];
      const float keep = upper ? v[i + kCount / 2] : v[i];
      v[i] = keep + __shfl_xor_sync(0xffffffffu, send, kDistance);
    }
  } else {
    v[0] += __shfl_xor_sync(0xffffffffu, v[0], kDistance);
  }
  if constexpr (kDistance > 1) SumOverLanes<(kCount + 1) / 2, kDistance / 2>(v, lane);
  return v[0];
}

// NaN stays NaN.
__device__ float Relu(float v) { return v < 0 ? 0 : v; }

// Teams of 1 << log_team warps; a block's teams take tiles below each other. kAhead vectors of a
// line are loaded at once by a thread. What lies outside of the matrices is computed from their
// last lines, and not stored. The code is short on purpose: in a small layer its own way from
// memory counts.
template <int kRows, int kCols, int kWidth, int kAhead>
__global__ void __launch_bounds__(kMostWarps * 32)
    LinearRelu(const float* __restrict__ x, const float* __restrict__ weights,
               const float* __restrict__ biases, float* __restrict__ y, int batch, int in, int out,
               int log_team) {
  constexpr unsigned kTile = kRows * kCols;
  __shared__ float parts[kMostWarps][kTile];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned team = 1u << log_team;
  const unsigned tiles = blockDim.x / 32 >> log_team;
  const unsigned row = (blockIdx.x * tiles + (warp >> log_team)) * kRows;
  const unsigned column = blockIdx.y * kCols;

  // In the end a thread has one output, number `mine` of its tile, or none: of its own tile where a
  // team is one warp, else the block's first threads have one each. What belongs to it is loaded
  // now.
  const bool alone = log_team == 0;
  const unsigned mine = alone ? lane * kTile / 32 : threadIdx.x % kTile;
  const unsigned my_row =
      (alone ? row : (blockIdx.x * tiles + threadIdx.x / kTile) * kRows) + mine / kCols;
  const unsigned my_column = column + mine % kCols;
  const bool stores = my_row < batch && my_column < out &&
                      (alone ? lane % (32 / kTile) == 0 : threadIdx.x / kTile < tiles);
  const unsigned at = my_row * out + my_column;
  const float bias = stores ? __ldg(biases + my_column) : 0;

  unsigned of_x[kRows];
  unsigned of_weights[kCols];
#pragma unroll
  for (unsigned r = 0; r < kRows; ++r) of_x[r] = min(row + r, batch - 1) * in;
#pragma unroll
  for (unsigned c = 0; c < kCols; ++c) of_weights[c] = min(column + c, out - 1) * in;

  float sums[kTile] = {};
#pragma unroll 1
  for (unsigned k = ((warp & (team - 1)) * 32 + lane) * kWidth; k < in;
       k += team * 32 * kWidth * kAhead) {
    Vector<kWidth> a[kAhead][kRows] = {};
    Vector<kWidth> b[kAhead][kCols] = {};
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned ki = k + i * team * 32 * kWidth;
#pragma unroll
      for (unsigned c = 0; c < kCols; ++c) {
        if (i == 0 || ki < in) b[i][c] = Load<kWidth>(weights + (of_weights[c] + ki));
      }
#pragma unroll
      for (unsigned r = 0; r < kRows; ++r) {
        if (i == 0 || ki < in) a[i][r] = Load<kWidth>(x + (of_x[r] + ki));
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
#pragma unroll
      for (unsigned j = 0; j < kWidth; ++j) {
#pragma unroll
        for (unsigned r = 0; r < kRows; ++r) {
#pragma unroll
          for (unsigned c = 0; c < kCols; ++c) {
            sums[r * kCols + c] += a[i][r].at[j] * b[i][c].at[j];
          }
        }
      }
    }
  }

  float sum = SumOverLanes<kTile>(sums, lane);
  if (!alone) {
    if (lane % (32 / kTile) == 0) parts[warp][lane * kTile / 32] = sum;
    __syncthreads();
    if (!stores) return;
    sum = 0;
#pragma unroll 4
    for (unsigned i = 0; i < team; ++i) sum += parts[(threadIdx.x / kTile << log_team) + i][mine];
  }
  if (stores) y[at] = Relu(sum + bias);
}

struct Call {
  const float* x;
  const float* weights;
  const float* biases;
  float* y;
  int batch, in, out;
  cudaStream_t stream;

  template <int kRows, int kCols>
  int64_t Teams() const {
    return static_cast<int64_t>((batch + kRows - 1) / kRows) * ((out + kCols - 1) / kCols);
  }

  // As many warps in a team as have work, but no more than most_team; `tiles` teams a block.
  template <int kRows, int kCols, int kAhead>
  void Run(int most_team, int tiles) const {
    const bool vectors = in % 4 == 0 && (reinterpret_cast<uintptr_t>(x) % 16 == 0) &&
                         (reinterpret_cast<uintptr_t>(weights) % 16 == 0);
    const int chunks = vectors ? in / 4 : in;
    int log_team = 0;
    while (32 * kAhead << log_team < chunks && 2 << log_team <= most_team) ++log_team;
    const int row_tiles = (batch + kRows - 1) / kRows;
    const int column_tiles = (out + kCols - 1) / kCols;
    while (tiles > 1 &&
           (tiles > row_tiles || tiles << log_team > kMostWarps ||
            static_cast<int64_t>(row_tiles) * column_tiles < tiles * kMultiprocessors)) {
      tiles /= 2;
    }
    const dim3 grid((row_tiles + tiles - 1) / tiles, column_tiles);
    const int64_t most = std::max({int64_t{batch} * in, int64_t{out} * in, int64_t{batch} * out});
    TORCH_CHECK(column_tiles <= 65535 && most <= INT32_MAX, "too large a layer");
    const int threads = tiles << log_team << 5;
    (vectors ? LinearRelu<kRows, kCols, 4, kAhead>
             : LinearRelu<kRows, kCols, 1, kAhead>)<<<grid, threads, 0, stream>>>(
        x, weights, biases, y, batch, in, out, log_team);
  }

  void RunBySize() const {
    if (int64_t{batch} * out * in <= kFewProducts) {
      if (in <= 128 * kMostWarps) {
        Run<1, 1, 1>(kMostWarps, 4);
      } else {
        Run<1, 1, 2>(kMostWarps, 4);
      }
    } else if (Teams<4, 8>() >= 2 * kEnoughTeams) {
      Run<4, 8, 1>(in > 512 ? kTeamOfLarge : 4, 4);
    } else {
      Run<4, 2, 2>(kMostWarps, 1);
    }
  }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int batch = static_cast<int>(x.size(0));
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto y = torch::empty({batch, out}, x.options());
  if (y.numel() == 0) return y;
  const Call call{x.data_ptr<float>(),
                  weights.data_ptr<float>(),
                  biases.data_ptr<float>(),
                  y.data_ptr<float>(),
                  batch,
                  in,
                  out,
                  at::cuda::getCurrentCUDAStream()};
  call.RunBySize();
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer with ReLU"); }
