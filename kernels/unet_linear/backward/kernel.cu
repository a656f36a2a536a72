// Gradients of a linear layer over the last dimension, for many rows:
//
//     grad_x = grad_output * weights, grad_weights = grad_output^T * x, grad_biases = sums of rows.
//
// One kernel reads grad_output and x once. A block takes tiles of 64 rows; while it multiplies one,
// the next is on its way from memory into registers. Products are made by the tensor cores out of
// halves, and keep float32's accuracy: a number, scaled by a power of two that brings the largest
// of 16 rows near 2^14, is the sum of two halves, upper and lower, to 23 bits (numbers below 2^-14
// of the largest lose what lies below 2^-39 of it); of the four products of two such numbers all
// but lower * lower are added up in float32. The halves of a tile stand in shared memory, row by
// row; ldmatrix reads them along features for grad_x and along rows for grad_weights. Weights are
// split once by each block, into the order in which the tensor cores want them.
//
// Each block's share of grad_weights stays in registers until its last tile; a second kernel adds
// the shares in a fixed order. Halves have no place for infinities beside numbers: what comes out
// not finite is computed once more in plain float32. Other shapes go another way.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr int kMostBlocks = 132;  // two to a multiprocessor fit for 64 features on either side
constexpr int kWarps = 8;         // four load grad_output, four x: 16 rows each
constexpr int kRows = 64;         // of a tile
constexpr int kPadding = 8;       // halves after each row: no bank conflicts
constexpr int kParts = 8;         // tune: kParts in 4, 8, 16; threads that add up one output

// A power of two and its inverse.
struct Scale {
  float up, down;
};
// Brings `largest`, which is not negative, to 2^13 or above and below 2^14. The products of two
// inverses are normal numbers, or what is too large becomes infinite. Numbers below 2^-63 are too
// small for a scale: an inverse that is none says so, and what it takes part in comes out as none.
__device__ Scale ScaleOf(float largest) {
  Scale s{256.0f, 1 / 256.0f};
  while (largest * s.up >= 16384.0f && s.up > 0x1p-118f) s = {s.up / 256.0f, s.down * 256.0f};
  while (largest * s.up < 64.0f && largest > 0 && s.up < 0x1p56f) {
    s = {s.up * 256.0f, s.down / 256.0f};
  }
  if (largest * s.up < 1024.0f) s = {s.up * 16.0f, s.down / 16.0f};
  if (largest * s.up < 4096.0f) s = {s.up * 4.0f, s.down / 4.0f};
  if (largest * s.up < 8192.0f) s = {s.up * 2.0f, s.down / 2.0f};
  if (largest * s.up < 1.0f && largest > 0) s.down = NAN;
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

// sums = a * b, likewise.
__device__ void Multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// Four matrices of 8 x 8 halves; each lane names the row of one.
__device__ void LoadMatrices(unsigned (&to)[4], const __half* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ void LoadTransposed(unsigned (&to)[4], const __half* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// A tile of kRows rows in halves.
template <int kColumns>
struct Tile {
  static constexpr int kStride = kColumns + kPadding;
  __half upper[kRows][kStride];
  __half lower[kRows][kStride];
};

// How a warp loads 16 rows: 16 bytes a lane, a row or two at a time.
template <int kColumns>
struct Loader {
  static constexpr int kLanes = kColumns / 4;
  static constexpr int kAtOnce = 32 / kLanes;
  static constexpr int kLoads = 16 / kAtOnce;

  // Without kWhole rows from `rows` on are zeros.
  template <bool kWhole>
  static __device__ void Load(float4 (&raw)[16], const float* from, int64_t row, int64_t rows) {
    const int lane = threadIdx.x % 32;
    const int64_t first = row + lane / kLanes;
    const float4* at = reinterpret_cast<const float4*>(from + first * kColumns) + lane % kLanes;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      raw[i] = kWhole || first + i * kAtOnce < rows ? __ldcs(at + i * (kAtOnce * kLanes))
                                                    : make_float4(0, 0, 0, 0);
    }
  }

  // The largest finite magnitude; the numbers are read once more.
  static __device__ float LargestFinite(const float* from, int64_t row, int64_t rows) {
    float largest = 0;
    for (int i = threadIdx.x % 32; i < 16 * kColumns; i += 32) {
      if (row + i / kColumns >= rows) break;
      const float v = fabsf(from[row * kColumns + i]);
      if (v <= FLT_MAX) largest = fmaxf(largest, v);
    }
    return LargestOfWarp(largest);
  }

  // Splits the rows, from line `line` of the tile on; the scale's inverse is returned.
  static __device__ float Store(const float4 (&raw)[16], Tile<kColumns>& tile, int line,
                                const float* from, int64_t row, int64_t rows) {
    const int lane = threadIdx.x % 32;
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) largest = Largest(largest, raw[i]);
    largest = LargestOfWarp(largest);
    // An infinity spoils what it takes part in; the other numbers keep their scale.
    if (largest > FLT_MAX) largest = LargestFinite(from, row, rows);
    const Scale scale = ScaleOf(largest);
    __half* upper = &tile.upper[line + lane / kLanes][lane % kLanes * 4];
    __half* lower = &tile.lower[line + lane / kLanes][lane % kLanes * 4];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const Split split = SplitOf(raw[i], scale.up);
      constexpr int kStep = kAtOnce * Tile<kColumns>::kStride;
      *reinterpret_cast<uint2*>(upper + i * kStep) =
          make_uint2(Bits(split.upper[0]), Bits(split.upper[1]));
      *reinterpret_cast<uint2*>(lower + i * kStep) =
          make_uint2(Bits(split.lower[0]), Bits(split.lower[1]));
    }
    return scale.down;
  }
};

template <int kIn, int kOut>
struct Shared {
  uint4 weights[kIn / 8][kOut / 16][32];  // upper halves, lower halves
  float factors[kIn];                     // inverses of the scales of weights
  Tile<kOut> g[2];
  Tile<kIn> x[2];
  float g_down[2][kRows / 16];
  float x_down[2][kRows / 16];
};

// Which column stands at place `at` of the tile of 8 columns: tiles go in pairs, so that a lane's
// four results of a pair are neighbours.
__device__ int ColumnAt(int tile, int at) {
  return tile / 2 * 16 + at / 2 * 4 + tile % 2 * 2 + at % 2;
}

template <int kIn, int kOut>
__device__ void SplitWeights(Shared<kIn, kOut>& shared, const float* __restrict__ weights) {
  const int lane = threadIdx.x % 32;
  for (int tile = threadIdx.x / 32; tile < kIn / 8; tile += kWarps) {
    const int column = ColumnAt(tile, lane / 4);
    const float* from = weights + lane % 4 * 2 * kIn + column;
    float4 v[kOut / 16];
    float largest = 0;
#pragma unroll
    for (int s = 0; s < kOut / 16; ++s) {
      v[s] = make_float4(__ldg(from + s * 16 * kIn), __ldg(from + (s * 16 + 1) * kIn),
                         __ldg(from + (s * 16 + 8) * kIn), __ldg(from + (s * 16 + 9) * kIn));
    }
#pragma unroll
    for (int s = 0; s < kOut / 16; ++s) largest = Largest(largest, v[s]);
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const Scale scale = ScaleOf(largest);
#pragma unroll
    for (int s = 0; s < kOut / 16; ++s) {
      const Split split = SplitOf(v[s], scale.up);
      shared.weights[tile][s][lane] = make_uint4(Bits(split.upper[0]), Bits(split.upper[1]),
                                                 Bits(split.lower[0]), Bits(split.lower[1]));
    }
    if (lane % 4 == 0) shared.factors[column] = scale.down;
  }
}

// The tile's rows of grad_x: a warp takes 32 rows and a quarter of the columns.
template <int kIn, int kOut>
__device__ void GradX(const Shared<kIn, kOut>& shared, int buffer, const float* grad_output,
                      const float* weights, float* grad_x, int64_t first, int64_t rows) {
  constexpr int kTiles = kIn / 32;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int row = warp / 4 * 32;
  const int tile = warp % 4 * kTiles;
  const Tile<kOut>& g = shared.g[buffer];
  const int at_row = row + lane % 16;
  const int at_column = lane / 16 * 8;

  float sums[2][kTiles][4] = {};
#pragma unroll 1
  for (int s = 0; s < kOut / 16; ++s) {
    unsigned upper[2][4];
    unsigned lower[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      LoadMatrices(upper[m], &g.upper[at_row + m * 16][at_column + s * 16]);
      LoadMatrices(lower[m], &g.lower[at_row + m * 16][at_column + s * 16]);
    }
    // Products of one sum stand apart, so that none waits for the one before.
    uint4 w[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) w[n] = shared.weights[tile + n][s][lane];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int m = 0; m < 2; ++m) MultiplyAdd(sums[m][n], upper[m], w[n].z, w[n].w);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int m = 0; m < 2; ++m) MultiplyAdd(sums[m][n], lower[m], w[n].x, w[n].y);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int m = 0; m < 2; ++m) MultiplyAdd(sums[m][n], upper[m], w[n].x, w[n].y);
    }
  }

  bool finite = true;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const float down = shared.g_down[buffer][row / 16 + m];
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const int column = (tile + n) * 8 + lane % 4 * 4;
      const float4 factor = *reinterpret_cast<const float4*>(shared.factors + column);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float4 v;
        v.x = sums[m][n][2 * half] * down * factor.x;
        v.y = sums[m][n][2 * half + 1] * down * factor.y;
        v.z = sums[m][n + 1][2 * half] * down * factor.z;
        v.w = sums[m][n + 1][2 * half + 1] * down * factor.w;
        finite = finite && fabsf(v.x) <= FLT_MAX && fabsf(v.y) <= FLT_MAX &&
                 fabsf(v.z) <= FLT_MAX && fabsf(v.w) <= FLT_MAX;
        const int64_t r = first + row + m * 16 + half * 8 + lane / 4;
        if (r < rows) __stcs(reinterpret_cast<float4*>(grad_x + r * kIn + column), v);
      }
    }
  }
  if (__all_sync(0xffffffffu, finite)) return;
  for (int i = lane; i < 32 * kTiles * 8; i += 32) {
    const int64_t r = first + row + i / (kTiles * 8);
    const int column = tile * 8 + i % (kTiles * 8);
    if (r >= rows) break;
    float sum = 0;
#pragma unroll 1
    for (int o = 0; o < kOut; ++o) sum += grad_output[r * kOut + o] * weights[o * kIn + column];
    grad_x[r * kIn + column] = sum;
  }
}

// A warp's part of grad_weights: 4 x 2 warps share the matrix.
template <int kIn, int kOut>
struct Part {
  static constexpr int kTilesOut = kOut / 64;  // of 16
  static constexpr int kTilesIn = kIn / 16;    // of 8
  float sums[kTilesOut][kTilesIn][4];

  __device__ void Add(const Shared<kIn, kOut>& shared, int buffer) {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const Tile<kOut>& g = shared.g[buffer];
    const Tile<kIn>& x = shared.x[buffer];
    const int g_row = lane % 8 + lane / 16 * 8;
    const int g_column = warp / 2 * (kOut / 4) + lane / 8 % 2 * 8;
    const int x_row = lane % 16;
    const int x_column = warp % 2 * (kIn / 2) + lane / 16 * 8;
#pragma unroll 1
    for (int s = 0; s < kRows / 16; ++s) {
      unsigned g_upper[kTilesOut][4];
      unsigned g_lower[kTilesOut][4];
#pragma unroll
      for (int m = 0; m < kTilesOut; ++m) {
        LoadTransposed(g_upper[m], &g.upper[g_row + s * 16][g_column + m * 16]);
        LoadTransposed(g_lower[m], &g.lower[g_row + s * 16][g_column + m * 16]);
      }
      const float down = shared.g_down[buffer][s] * shared.x_down[buffer][s];
#pragma unroll
      for (int n = 0; n < kTilesIn; n += 2) {
        unsigned upper[4];
        unsigned lower[4];
        LoadTransposed(upper, &x.upper[x_row + s * 16][x_column + n * 8]);
        LoadTransposed(lower, &x.lower[x_row + s * 16][x_column + n * 8]);
        float products[2][kTilesOut][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int m = 0; m < kTilesOut; ++m) {
            Multiply(products[i][m], g_upper[m], lower[2 * i], lower[2 * i + 1]);
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int m = 0; m < kTilesOut; ++m) {
            MultiplyAdd(products[i][m], g_lower[m], upper[2 * i], upper[2 * i + 1]);
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int m = 0; m < kTilesOut; ++m) {
            MultiplyAdd(products[i][m], g_upper[m], upper[2 * i], upper[2 * i + 1]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              sums[m][n + i][j] += products[i][m][j] * down;
            }
          }
        }
      }
    }
  }

  // Where sums[m][n], of this lane of this warp, stands in a block's share, in vectors of four.
  static __device__ int Place(int warp, int m, int n, int lane) {
    return ((warp * kTilesOut + m) * kTilesIn + n) * 32 + lane;
  }
};

// A block's share: grad_weights in the order of Place, then grad_biases.
template <int kIn, int kOut>
constexpr int ShareSize() {
  return kIn * kOut + kOut;
}

template <int kIn, int kOut, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, 1)
    Gradients(const float* __restrict__ grad_output, const float* __restrict__ x,
              const float* __restrict__ weights, float* __restrict__ grad_x,
              float* __restrict__ shares, int64_t rows) {
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<Shared<kIn, kOut>*>(memory);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int group = warp % 4;
  const bool of_g = warp < 4;
  const float* mine = of_g ? grad_output : x;

  Part<kIn, kOut> part = {};
  float4 biases = make_float4(0, 0, 0, 0);
  float4 raw[16];
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRows;
  int64_t next = static_cast<int64_t>(blockIdx.x) * kRows;
  for (int buffer = 0;; buffer ^= 1) {
    // `row` is the tile that is on its way into registers, none in the first round.
    const int64_t row = next - step;
    if (row >= 0) {
      float down;
      if (kIn == kOut || of_g) {
#pragma unroll
        for (int i = 0; i < Loader<kOut>::kLoads; ++i) {
          biases.x += raw[i].x;
          biases.y += raw[i].y;
          biases.z += raw[i].z;
          biases.w += raw[i].w;
        }
        Tile<kOut>& to = of_g ? shared.g[buffer] : reinterpret_cast<Tile<kOut>&>(shared.x[buffer]);
        down = Loader<kOut>::Store(raw, to, group * 16, mine, row + group * 16, rows);
      } else {
        down = Loader<kIn>::Store(raw, shared.x[buffer], group * 16, mine, row + group * 16, rows);
      }
      if (lane == 0) (of_g ? shared.g_down : shared.x_down)[buffer][group] = down;
    }
    if (next < rows) {
      if (kIn == kOut || of_g) {
        Loader<kOut>::template Load<kWhole>(raw, mine, next + group * 16, rows);
      } else {
        Loader<kIn>::template Load<kWhole>(raw, mine, next + group * 16, rows);
      }
    }
    if (row < 0) SplitWeights(shared, weights);
    // With two buffers one barrier is enough: who is past it has seen all finish the other buffer.
    __syncthreads();
    if (row >= 0) {
      GradX(shared, buffer, grad_output, weights, grad_x, row, rows);
      part.Add(shared, buffer);
      if (next >= rows) break;
    }
    next += step;
  }

  float* share = shares + static_cast<int64_t>(blockIdx.x) * ShareSize<kIn, kOut>();
#pragma unroll
  for (int m = 0; m < part.kTilesOut; ++m) {
#pragma unroll
    for (int n = 0; n < part.kTilesIn; ++n) {
      const float(&s)[4] = part.sums[m][n];
      reinterpret_cast<float4*>(share)[part.Place(warp, m, n, lane)] =
          make_float4(s[0], s[1], s[2], s[3]);
    }
  }
  // The sums of grad_output lie in the lanes of four warps, some columns in two lanes.
  __syncthreads();
  float* columns = reinterpret_cast<float*>(memory);
  constexpr int kLines = 4 * Loader<kOut>::kAtOnce;
  if (of_g) {
    const int line = group * Loader<kOut>::kAtOnce + lane / Loader<kOut>::kLanes;
    reinterpret_cast<float4*>(columns + line * kOut)[lane % Loader<kOut>::kLanes] = biases;
  }
  __syncthreads();
  if (threadIdx.x < kOut) {
    float sum = 0;
#pragma unroll
    for (int line = 0; line < kLines; ++line) sum += columns[line * kOut + threadIdx.x];
    share[kIn * kOut + threadIdx.x] = sum;
  }
}

// Adds up the blocks' shares: kParts threads add a part of them each, for four outputs.
template <int kIn, int kOut>
__global__ void __launch_bounds__(32 * kParts)
    AddShares(const float* __restrict__ shares, const float* __restrict__ grad_output,
              const float* __restrict__ x, float* __restrict__ grad_weights,
              float* __restrict__ grad_biases, int count, int64_t rows) {
  __shared__ float4 parts[kParts][32];
  const int lane = threadIdx.x % 32;
  const int of = threadIdx.x / 32;
  const int place = blockIdx.x * 32 + lane;
  float4 sum = make_float4(0, 0, 0, 0);
  if (place < ShareSize<kIn, kOut>() / 4) {
    const float4* from = reinterpret_cast<const float4*>(shares) + place;
#pragma unroll 8
    for (int i = of; i < count; i += kParts) {
      const float4 v = from[static_cast<int64_t>(i) * (ShareSize<kIn, kOut>() / 4)];
      sum.x += v.x;
      sum.y += v.y;
      sum.z += v.z;
      sum.w += v.w;
    }
  }
  parts[of][lane] = sum;
  __syncthreads();
  if (of != 0 || place >= ShareSize<kIn, kOut>() / 4) return;
#pragma unroll
  for (int i = 1; i < kParts; ++i) {
    const float4 v = parts[i][lane];
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  if (place >= kIn * kOut / 4) {
    reinterpret_cast<float4*>(grad_biases)[place - kIn * kOut / 4] = sum;
    return;
  }
  // The inverse of Place; a lane has two neighbours of two rows, 8 apart.
  const int tile = place / 32;
  const int n = tile % (kIn / 16);
  const int m = tile / (kIn / 16) % (kOut / 64);
  const int warp = tile / (kIn / 16) / (kOut / 64);
  const int o = warp / 2 * (kOut / 4) + m * 16 + lane / 4;
  const int i = warp % 2 * (kIn / 2) + n * 8 + lane % 4 * 2;
  const auto store = [&](int row, int column, float v) {
    if (!(fabsf(v) <= FLT_MAX)) {
      v = 0;
      for (int64_t r = 0; r < rows; ++r) v += grad_output[r * kOut + row] * x[r * kIn + column];
    }
    grad_weights[row * kIn + column] = v;
  };
  store(o, i, sum.x);
  store(o, i + 1, sum.y);
  store(o + 8, i, sum.z);
  store(o + 8, i + 1, sum.w);
}

// A sum that keeps what its additions lose: long sums in one thread stay float32's.
struct LongSum {
  float sum = 0, lost = 0;

  __device__ void Add(float v) {
    const float y = v - lost;
    const float t = sum + y;
    lost = fabsf(t) < INFINITY ? (t - sum) - y : 0;
    sum = t;
  }
};

// Any shape: to[m][n] = sum over k of a[m, k] * b[n, k], with the strides of both.
constexpr int kTile = 32;

struct Operand {
  const float* at;
  int64_t line, depth;  // strides
};

__global__ void __launch_bounds__(256) AnyProduct(Operand a, Operand b, float* __restrict__ to,
                                                  int64_t lines, int64_t columns, int64_t depth) {
  __shared__ float of_a[kTile][kTile + 1];
  __shared__ float of_b[kTile][kTile + 1];
  const int64_t tiles = (columns + kTile - 1) / kTile;
  const int64_t line = blockIdx.x / tiles * kTile;
  const int64_t column = blockIdx.x % tiles * kTile;
  const int tx = threadIdx.x % kTile;
  LongSum sums[kTile / 8];
  for (int64_t k = 0; k < depth; k += kTile) {
    for (int i = threadIdx.x / kTile; i < kTile; i += 8) {
      // Neighbouring threads take what lies side by side in memory.
      const int la = a.depth == 1 ? i : tx;
      const int ka = a.depth == 1 ? tx : i;
      const int lb = b.depth == 1 ? i : tx;
      const int kb = b.depth == 1 ? tx : i;
      of_a[ka][la] =
          line + la < lines && k + ka < depth ? a.at[(line + la) * a.line + (k + ka) * a.depth] : 0;
      of_b[kb][lb] = column + lb < columns && k + kb < depth
                         ? b.at[(column + lb) * b.line + (k + kb) * b.depth]
                         : 0;
    }
    __syncthreads();
    float parts[kTile / 8] = {};
#pragma unroll 8
    for (int d = 0; d < kTile; ++d) {
#pragma unroll
      for (int i = 0; i < kTile / 8; ++i) {
        parts[i] += of_a[d][threadIdx.x / kTile + i * 8] * of_b[d][tx];
      }
    }
#pragma unroll
    for (int i = 0; i < kTile / 8; ++i) sums[i].Add(parts[i]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kTile / 8; ++i) {
    const int64_t l = line + threadIdx.x / kTile + i * 8;
    if (l < lines && column + tx < columns) to[l * columns + column + tx] = sums[i].sum;
  }
}

__global__ void __launch_bounds__(256)
    AnyColumnSums(const float* __restrict__ from, float* __restrict__ to, int64_t rows,
                  int columns) {
  const int column = blockIdx.x * 8 + threadIdx.x / 32;
  if (column >= columns) return;
  float sum = 0;
  for (int64_t r = threadIdx.x % 32; r < rows; r += 32) sum += from[r * columns + column];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if (threadIdx.x % 32 == 0) to[column] = sum;
}

struct Call {
  const float* grad_output;
  const float* x;
  const float* weights;
  torch::Tensor grad_x, grad_weights, grad_biases;
  int64_t rows;
  int in, out;
  cudaStream_t stream;

  template <int kIn, int kOut>
  void Run() const {
    const int64_t tiles = (rows + kRows - 1) / kRows;
    constexpr int kMost = kIn + kOut == 128 ? 2 * kMostBlocks : kMostBlocks;
    const int64_t each = (tiles + kMost - 1) / kMost;
    const auto blocks = static_cast<int>((tiles + each - 1) / each);
    torch::Tensor shares = torch::empty({blocks, ShareSize<kIn, kOut>()}, grad_x.options());
    constexpr int kSums = ShareSize<kIn, kOut>() / 4;
    const int shared = sizeof(Shared<kIn, kOut>);
    const auto kernel =
        rows % kRows == 0 ? Gradients<kIn, kOut, true> : Gradients<kIn, kOut, false>;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    kernel<<<blocks, kWarps * 32, shared, stream>>>(
        grad_output, x, weights, grad_x.data_ptr<float>(), shares.data_ptr<float>(), rows);
    AddShares<kIn, kOut><<<(kSums + 31) / 32, 32 * kParts, 0, stream>>>(
        shares.data_ptr<float>(), grad_output, x, grad_weights.data_ptr<float>(),
        grad_biases.data_ptr<float>(), blocks, rows);
  }

  static unsigned Tiles(int64_t lines, int64_t columns) {
    return static_cast<unsigned>(((lines + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile));
  }

  void RunAny() const {
    AnyProduct<<<Tiles(rows, in), 256, 0, stream>>>({grad_output, out, 1}, {weights, 1, in},
                                                    grad_x.data_ptr<float>(), rows, in, out);
    AnyProduct<<<Tiles(out, in), 256, 0, stream>>>({grad_output, 1, out}, {x, 1, in},
                                                   grad_weights.data_ptr<float>(), out, in, rows);
    AnyColumnSums<<<(out + 7) / 8, 256, 0, stream>>>(grad_output, grad_biases.data_ptr<float>(),
                                                     rows, out);
  }
};

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weights) {
  TORCH_CHECK(grad_output.dim() == 3 && x.dim() == 3 && weights.dim() == 2,
              "grad_output and x must have three dimensions and weights be a matrix");
  TORCH_CHECK(grad_output.size(0) == x.size(0) && grad_output.size(1) == x.size(1) &&
                  grad_output.size(2) == weights.size(0) && x.size(2) == weights.size(1),
              "the shapes of grad_output, x and weights do not fit together");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weights = weights.contiguous();
  const int in = static_cast<int>(weights.size(1));
  const int out = static_cast<int>(weights.size(0));
  const Call call{grad_output.data_ptr<float>(),
                  x.data_ptr<float>(),
                  weights.data_ptr<float>(),
                  torch::empty_like(x),
                  torch::empty_like(weights),
                  torch::empty({out}, x.options()),
                  x.size(0) * x.size(1),
                  in,
                  out,
                  at::cuda::getCurrentCUDAStream()};
  const bool aligned =
      (reinterpret_cast<uintptr_t>(call.grad_output) | reinterpret_cast<uintptr_t>(call.x)) % 16 ==
      0;
  if (aligned && in == 128 && out == 128) {
    call.Run<128, 128>();
  } else if (aligned && in == 128 && out == 64) {
    call.Run<128, 64>();
  } else if (aligned && in == 64 && out == 128) {
    call.Run<64, 128>();
  } else if (aligned && in == 64 && out == 64) {
    call.Run<64, 64>();
  } else {
    call.RunAny();
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {call.grad_x, call.grad_weights, call.grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a linear layer");
}
