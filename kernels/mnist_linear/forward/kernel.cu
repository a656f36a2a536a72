// Linear layer.
//
// Few outputs, or few rows: a team of warps makes kRows x kCols outputs. Its threads lie along the
// depth: each loads a vector of kRows rows of x and of kCols rows of weights straight into
// registers, so that all that a small layer needs is in flight at once. The sums over lanes are
// made by halving: in each step a lane hands one half of its sums to its partner and keeps the
// other, so that 32 sums over 32 lanes cost 31 shuffles in place of 160. Sums over the team's warps
// go through shared memory. One launch.
//
// Many outputs and rows: products are made by the tensor cores out of halves, and keep float32's
// accuracy: a number, scaled by a power of two that brings the largest of a few rows near 2^14, is
// the sum of two halves, upper and lower, to 23 bits (numbers below 2^-14 of the largest lose what
// lies below 2^-39 of it); of the four products of two such numbers all but lower * lower are added
// up, in float32. While one step is multiplied, the next is on its way into registers. Deep layers
// are cut along the depth, and a second launch adds the shares in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>

constexpr int kMostBlocks = 132;         // of many outputs
constexpr int kManyOutputs = 64 * 1024;  // tune: kManyOutputs in 32768, 65536, 131072
constexpr int kLeastSteps = 4;           // of a share
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

// Teams of 1 << log_team warps; a block's teams take tiles below each other. kAhead vectors of a
// line are loaded at once by a thread. What lies outside of the matrices is computed from their
// last lines, and not stored. The code is short on purpose: in a small layer its own way from
// memory counts.
template <int kRows, int kCols, int kWidth, int kAhead>
__global__ void __launch_bounds__(kMostWarps * 32)
    Linear(const float* __restrict__ x, const float* __restrict__ weights,
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
  if (stores) y[at] = sum + bias;
}

// Many outputs. Products are made by the tensor cores out of halves.

constexpr int kBatch = 64;   // rows of x of a block; what is not there is zero
constexpr int kDepth = 128;  // of a step
constexpr int kPadding = 8;  // halves after each row: no bank conflicts
constexpr int kWarps = 8;

// A power of two and its inverse.
struct Scale {
  float up, down;
};
// Brings `largest`, which is not negative, to 2^13 or above and below 2^14; what is beyond all
// steps becomes zero or infinite.
__device__ Scale ScaleOf(float largest) {
  Scale s{256.0f, 1 / 256.0f};
  while (largest * s.up >= 16384.0f && s.up > 0x1p-118f) s = {s.up / 256.0f, s.down * 256.0f};
  while (largest * s.up < 64.0f && largest > 0 && s.up < 0x1p110f) {
    s = {s.up * 256.0f, s.down / 256.0f};
  }
  if (largest * s.up < 1024.0f) s = {s.up * 16.0f, s.down / 16.0f};
  if (largest * s.up < 4096.0f) s = {s.up * 4.0f, s.down / 4.0f};
  if (largest * s.up < 8192.0f) s = {s.up * 2.0f, s.down / 2.0f};
  return s;
}

// Four numbers in upper and lower halves.
struct Split {
  __half2 upper[2], lower[2];
};
__device__ Split SplitOf(float4 v, float scale) {
  Split s;
  s.upper[0] = __floats2half2_rn(v.x * scale, v.y * scale);
  s.upper[1] = __floats2half2_rn(v.z * scale, v.w * scale);
  const float2 a = __half22float2(s.upper[0]);
  const float2 b = __half22float2(s.upper[1]);
  s.lower[0] = __floats2half2_rn(fmaf(v.x, scale, -a.x), fmaf(v.y, scale, -a.y));
  s.lower[1] = __floats2half2_rn(fmaf(v.z, scale, -b.x), fmaf(v.w, scale, -b.y));
  return s;
}

__device__ float Largest(float largest, float4 v) {
  return fmaxf(fmaxf(fmaxf(largest, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
}

__device__ float LargestOfWarp(float v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, distance));
  }
  return v;
}

__device__ unsigned Bits(__half2 v) { return *reinterpret_cast<unsigned*>(&v); }

// sums += a * b, 16 x 16 times 16 x 8.
__device__ void MultiplyAdd(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8 x 8 halves; each lane names the row of one.
__device__ void LoadMatrices(unsigned (&to)[4], const __half* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
// Rows of a matrix in halves. Every warp has split as many of them, by a scale of its own.
template <int kLines>
struct Tile {
  static constexpr int kEach = kLines / kWarps;
  __half upper[kLines][kDepth + kPadding];
  __half lower[kLines][kDepth + kPadding];
  float down[kWarps];

  // The warp's rows: 16 bytes a lane of each. `from` is the first row, `count` rows of `length`
  // numbers exist.
  static __device__ void Load(float4 (&raw)[kEach], const float* from, int stride, int count,
                              int length) {
    const int lane = threadIdx.x % 32;
    if (lane * 4 >= length) count = 0;
    from += lane * 4;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      raw[i] = make_float4(0, 0, 0, 0);
      if (i < count) raw[i] = __ldg(reinterpret_cast<const float4*>(from));
      from += stride;
    }
  }

  // The largest finite magnitude; the numbers are read once more.
  static __device__ float LargestFinite(const float* from, int stride, int count, int length) {
    float largest = 0;
    for (int i = threadIdx.x % 32; i < kEach * kDepth; i += 32) {
      if (i / kDepth >= count || i % kDepth >= length) continue;
      const float v = fabsf(from[int64_t{i / kDepth} * stride + i % kDepth]);
      if (v <= FLT_MAX) largest = fmaxf(largest, v);
    }
    return LargestOfWarp(largest);
  }

  // In pairs, of 16 rows the neighbours 4 q and 4 q + 1 go to 2 q and 2 q + 1, the next two to 8
  // places further: so a lane's four results of two products of 8 columns are neighbours.
  template <bool kPairs>
  __device__ void Store(const float4 (&raw)[kEach], const float* from, int stride, int count,
                        int length) {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) largest = Largest(largest, raw[i]);
    largest = LargestOfWarp(largest);
    // An infinity spoils what it takes part in; the other numbers keep their scale.
    if (largest > FLT_MAX) largest = LargestFinite(from, stride, count, length);
    const Scale scale = ScaleOf(largest);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const Split split = SplitOf(raw[i], scale.up);
      const int row = warp * kEach + i;
      const int to = kPairs ? row / 16 * 16 + row / 2 % 2 * 8 + row / 4 % 4 * 2 + row % 2 : row;
      *reinterpret_cast<uint2*>(&upper[to][lane * 4]) =
          make_uint2(Bits(split.upper[0]), Bits(split.upper[1]));
      *reinterpret_cast<uint2*>(&lower[to][lane * 4]) =
          make_uint2(Bits(split.lower[0]), Bits(split.lower[1]));
    }
    if (lane == 0) down[warp] = scale.down;
  }
};

template <int kOutputs>
struct Shared {
  Tile<kBatch> x[2];
  Tile<kOutputs> weights[2];
};

// One output in plain float32: halves have no place for infinities beside numbers.
__device__ __noinline__ float Plain(const float* x, const float* weights, int in) {
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < in; ++k) sum += x[k] * weights[k];
  return sum;
}

// A block makes 64 x kOutputs outputs: the result, or, if kWhole is not, a share of it, of `steps`
// steps of the depth.
template <int kOutputs, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, 1)
    ManyOutputs(const float* __restrict__ x, const float* __restrict__ weights,
                const float* __restrict__ biases, float* __restrict__ result, int batch, int in,
                int out, int steps) {
  constexpr int kLines = kOutputs == 128 ? 2 : 1;    // of 16 rows, of a warp
  constexpr int kColumns = kOutputs == 128 ? 4 : 2;  // of 8 outputs, of a warp
  constexpr int kWarpsAcross = kOutputs / 8 / kColumns;
  extern __shared__ float4 memory[];
  auto& shared = *reinterpret_cast<Shared<kOutputs>*>(memory);
  using OfX = Tile<kBatch>;
  using OfWeights = Tile<kOutputs>;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int first_row = blockIdx.z * kBatch;
  const int first_column = blockIdx.x * kOutputs;

  float4 raw_x[OfX::kEach];
  float4 raw_weights[OfWeights::kEach];
  const int my_output = first_column + warp * OfWeights::kEach;
  const int my_row = first_row + warp * OfX::kEach;
  const float* of_my_output = weights + int64_t{my_output} * in;
  const float* of_my_row = x + int64_t{my_row} * in;
  const int begin = blockIdx.y * steps * kDepth;
  const int end = min(begin + steps * kDepth, in);

  const int row = warp / kWarpsAcross * kLines * 16;
  const int column = warp % kWarpsAcross * kColumns * 8;
  float bias[kColumns / 2][4] = {};
#pragma unroll
  for (int n = 0; n < kColumns; n += 2) {
    const int o = first_column + column + n * 8 + lane % 4 * 4;
#pragma unroll
    for (int j = 0; kWhole && j < 4; ++j) bias[n / 2][j] = o < out ? __ldg(biases + o + j) : 0;
  }
  float sums[kLines][kColumns][4] = {};
  for (int buffer = 0, next = begin;; buffer ^= 1, next += kDepth) {
    OfX& of_x = shared.x[buffer];
    OfWeights& of_weights = shared.weights[buffer];
    const int k = next - kDepth;  // what is on its way into registers: nothing at first
    if (k >= begin) {
      of_weights.template Store<true>(raw_weights, of_my_output + k, in, out - my_output, in - k);
      of_x.template Store<false>(raw_x, of_my_row + k, in, batch - my_row, in - k);
    }
    if (next < end) {
      OfWeights::Load(raw_weights, of_my_output + next, in, out - my_output, in - next);
      OfX::Load(raw_x, of_my_row + next, in, batch - my_row, in - next);
    }
    if (k < begin) continue;
    // With two buffers one barrier is enough: who is past it has seen all finish the other buffer.
    __syncthreads();
    float products[kLines][kColumns][4] = {};
#pragma unroll 1
    for (int s = 0; s < kDepth; s += 16) {
      unsigned x_upper[kLines][4];
      unsigned x_lower[kLines][4];
#pragma unroll
      for (int m = 0; m < kLines; ++m) {
        LoadMatrices(x_upper[m], &of_x.upper[row + m * 16 + lane % 16][s + lane / 16 * 8]);
        LoadMatrices(x_lower[m], &of_x.lower[row + m * 16 + lane % 16][s + lane / 16 * 8]);
      }
#pragma unroll
      for (int n = 0; n < kColumns; n += 2) {
        unsigned upper[4];
        unsigned lower[4];
        const int o = column + n * 8 + lane / 16 * 8 + lane % 8;
        LoadMatrices(upper, &of_weights.upper[o][s + lane / 8 % 2 * 8]);
        LoadMatrices(lower, &of_weights.lower[o][s + lane / 8 % 2 * 8]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int m = 0; m < kLines; ++m) {
            MultiplyAdd(products[m][n + i], x_upper[m], lower[2 * i], lower[2 * i + 1]);
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int m = 0; m < kLines; ++m) {
            MultiplyAdd(products[m][n + i], x_lower[m], upper[2 * i], upper[2 * i + 1]);
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int m = 0; m < kLines; ++m) {
            MultiplyAdd(products[m][n + i], x_upper[m], upper[2 * i], upper[2 * i + 1]);
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int o = column + n / 2 * 16 + lane % 4 * 4;
      const float weights_down = of_weights.down[o / OfWeights::kEach];
#pragma unroll
      for (int m = 0; m < kLines; ++m) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float x_down = of_x.down[(row + m * 16) / OfX::kEach + j / 2];
          sums[m][n][j] += products[m][n][j] * x_down * weights_down;
        }
      }
    }
    if (next >= end) break;
  }

  float* to = result + static_cast<int64_t>(blockIdx.y) * batch * out;
  bool finite = true;
#pragma unroll
  for (int m = 0; m < kLines; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      const int o = first_column + column + n * 8 + lane % 4 * 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t b = first_row + row + m * 16 + half * 8 + lane / 4;
        float v[4] = {sums[m][n][2 * half], sums[m][n][2 * half + 1], sums[m][n + 1][2 * half],
                      sums[m][n + 1][2 * half + 1]};
        if (kWhole) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            v[j] += bias[n / 2][j];
            finite = finite && fabsf(v[j]) <= FLT_MAX;
          }
        }
        if (b < batch && o < out) {
          *reinterpret_cast<float4*>(to + b * out + o) = make_float4(v[0], v[1], v[2], v[3]);
        }
      }
    }
  }
  if constexpr (kWhole) {
    if (__all_sync(0xffffffffu, finite)) return;
    for (int i = lane; i < kLines * 16 * kColumns * 8; i += 32) {
      const int64_t b = first_row + row + i / (kColumns * 8);
      const int o = first_column + column + i % (kColumns * 8);
      if (b >= batch || o >= out) continue;
      to[b * out + o] = Plain(x + b * in, weights + int64_t{o} * in, in) + biases[o];
    }
  }
}

// Adds up the shares of four outputs, in a fixed order.
__global__ void __launch_bounds__(128)
    AddShares(const float* __restrict__ shares, const float* __restrict__ x,
              const float* __restrict__ weights, const float* __restrict__ biases,
              float* __restrict__ y, int count, int batch, int in, int out) {
  const int64_t all = static_cast<int64_t>(batch) * out;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x) * 4;
  if (at >= all) return;
  const int o = static_cast<int>(at % out);
  float bias[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) bias[j] = __ldg(biases + o + j);
  float v[4] = {};
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const float4 share = *reinterpret_cast<const float4*>(shares + i * all + at);
    v[0] += share.x;
    v[1] += share.y;
    v[2] += share.z;
    v[3] += share.w;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (!(fabsf(v[j]) <= FLT_MAX)) {
      v[j] = Plain(x + at / out * in, weights + int64_t{o + j} * in, in);
    }
    v[j] += bias[j];
  }
  *reinterpret_cast<float4*>(y + at) = make_float4(v[0], v[1], v[2], v[3]);
}

struct Call {
  const float* x;
  const float* weights;
  const float* biases;
  float* y;
  int batch, in, out;
  torch::TensorOptions options;
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
    (vectors ? Linear<kRows, kCols, 4, kAhead>
             : Linear<kRows, kCols, 1, kAhead>)<<<grid, threads, 0, stream>>>(
        x, weights, biases, y, batch, in, out, log_team);
  }

  template <int kOutputs, bool kWhole>
  void RunManyOutputs() const {
    const int columns = (out + kOutputs - 1) / kOutputs;
    const int rows = (batch + kBatch - 1) / kBatch;
    const int steps = (in + kDepth - 1) / kDepth;
    const int wanted = (steps * columns * rows + kMostBlocks - 1) / kMostBlocks;
    const int each = kWhole ? steps : std::max(kLeastSteps, wanted);
    const int groups = (steps + each - 1) / each;
    const auto kernel = ManyOutputs<kOutputs, kWhole>;
    const int shared = sizeof(Shared<kOutputs>);
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const dim3 grid(columns, groups, rows);
    if (kWhole) {
      kernel<<<grid, kWarps * 32, shared, stream>>>(x, weights, biases, y, batch, in, out, each);
      return;
    }
    torch::Tensor shares = torch::empty({groups, batch, out}, options);
    float* of_groups = shares.data_ptr<float>();
    kernel<<<grid, kWarps * 32, shared, stream>>>(x, weights, biases, of_groups, batch, in, out,
                                                  each);
    const auto blocks = static_cast<unsigned>((int64_t{batch} * out + 511) / 512);
    AddShares<<<blocks, 128, 0, stream>>>(of_groups, x, weights, biases, y, groups, batch, in, out);
  }

  bool ManyOutputsFit() const {
    const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weights);
    return batch > 8 && in > 0 && int64_t{batch} * out >= kManyOutputs && in % 4 == 0 &&
           out % 4 == 0 && addresses % 16 == 0;
  }

  void RunBySize() const {
    if (ManyOutputsFit()) {
      if (in > kLeastSteps * kDepth) {
        RunManyOutputs<128, false>();
      } else {
        RunManyOutputs<32, true>();
      }
      return;
    }
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
                  x.options(),
                  at::cuda::getCurrentCUDAStream()};
  call.RunBySize();
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer"); }
