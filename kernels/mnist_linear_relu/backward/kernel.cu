// Gradients of a linear layer with ReLU:
//
//     masked = grad_output where x * weights^T + biases > 0, else 0,
//     grad_x = masked * weights, grad_weights = masked^T * x, grad_biases = sums of rows.
//
// The mask comes first, in a launch of its own. A team of warps makes kRows x kCols sums, its
// threads lie along the depth; sums over lanes are made by halving: in each step a lane hands one
// half of its sums to its partner and keeps the other. Where rows and outputs are many the tensor
// cores make these sums, too, as below.
//
// Few rows and many outputs: one pass over the weights makes the mask and all else. So does it
// where there are at most 128 input features.
//
// Few outputs (ten classes): one launch. Each warp has its own numbers of one of the gradients, and
// loads all that it needs for them at once, straight into registers.
//
// Many outputs and at most 64 rows: weights are read once and grad_weights is written once, by
// blocks that have 128 input features and walk down the output features; while one tile of these is
// multiplied, the next is on its way into registers. Products are made by the tensor cores out of
// halves, and keep float32's accuracy: a number, scaled by a power of two that brings the largest
// of 16 rows near 2^14, is the sum of two halves, upper and lower, to 23 bits (numbers below 2^-14
// of the largest lose what lies below 2^-39 of it); of the four products of two such numbers all
// but lower * lower are added up, in float32. A second launch adds the blocks' shares of grad_x in
// a fixed order, and grad_biases.
//
// Other shapes: tiled products.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr int kMostBlocks = 132;  // of many outputs
constexpr int kFewOutputs = 48;
constexpr unsigned kMany = 10;    // output features at once, for grad_x
constexpr unsigned kSome = 5;     // and for grad_weights: odd
constexpr unsigned kAhead = 4;    // tune: kAhead in 2, 4; rows at once of a lane
constexpr int kFewThreads = 128;  // tune: kFewThreads in 64, 128, 256

constexpr int kMostWarps = 16;
constexpr int kMultiprocessors = 120;  // about as many blocks are worth having
constexpr int kEnoughTeams = 64;       // tune: kEnoughTeams in 32, 64, 128
constexpr int kFewProducts = 1 << 19;  // tune: kFewProducts in 1 << 17, 1 << 19; a warp an output
constexpr int kTeamOfLarge = 8;        // tune: kTeamOfLarge in 4, 8, 16

template <int kWidth>
struct Vector {
  float at[kWidth];
};
template <int kWidth>
__device__ Vector<kWidth> Load(const float* from) {
  Vector<kWidth> v;
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(v.at) = *reinterpret_cast<const float4*>(from);
  } else {
    v.at[0] = *from;
  }
  return v;
}
template <int kWidth>
__device__ void Store(float* to, const Vector<kWidth>& v) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(v.at);
  } else {
    *to = v.at[0];
  }
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

// masked = grad_output where the layer's output is not cut off by ReLU, else 0.
//
// Teams of 1 << log_team warps; a block's teams take tiles below each other. kAhead vectors of a
// line are loaded at once by a thread. What lies outside of the matrices is computed from their
// last lines, and not stored. The code is short on purpose: in a small layer its own way from
// memory counts.
template <int kRows, int kCols, int kWidth, int kAhead>
__global__ void __launch_bounds__(kMostWarps * 32)
    MaskGradient(const float* __restrict__ x, const float* __restrict__ weights,
                 const float* __restrict__ biases, const float* __restrict__ grad_output,
                 float* __restrict__ masked, int batch, int in, int out, int log_team) {
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
  const float gradient = stores ? __ldg(grad_output + at) : 0;

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
  if (stores) masked[at] = sum + bias <= 0 ? 0 : gradient;
}

// Adds up each of kCount numbers over the lanes that differ in the bits from 2 to kDistance. As
// long as they can be halved a lane hands one half to its partner and keeps the other.
template <int kCount, int kDistance = 16>
__device__ void SumOverRows(float* v, unsigned lane) {
  if constexpr (kDistance >= 2 && kCount % 2 == 0) {
    const bool upper = (lane & kDistance) != 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float send = upper ? v[i] : v[i + kCount / 2];
      const float keep = upper ? v[i + kCount / 2] : v[i];
      v[i] = keep + __shfl_xor_sync(0xffffffffu, send, kDistance);
    }
    SumOverRows<kCount / 2, kDistance / 2>(v, lane);
  } else if constexpr (kDistance >= 2) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] += __shfl_xor_sync(0xffffffffu, v[i], kDistance);
    SumOverRows<kCount, kDistance / 2>(v, lane);
  }
}
// What a lane has of them in the end: an odd number of them, from First(lane) on, as have the lanes
// that differ in a bit of kSame.
template <int kCount>
struct AfterSum {
  static constexpr int kHalvings = kCount % 8 == 0 ? 3 : kCount % 4 == 0 ? 2 : kCount % 2 == 0;
  static constexpr unsigned kSame = (32 >> kHalvings) - 2;
  static __device__ unsigned First(unsigned lane) {
    return (lane >> (5 - kHalvings)) * (kCount >> kHalvings);
  }
};

// Warps have one of three tasks: vectors of input features of two rows of grad_x; two neighbouring
// vectors of kSome rows of grad_weights, 16 lanes along the depth of each; one of grad_biases.
// Nothing is shared; all that a thread needs is loaded at once. With kWhole the output features are
// a multiple of kMany and of kSome, and no load needs a condition.
template <int kWidth, bool kWhole>
__global__ void __launch_bounds__(kFewThreads)
    FewOutputs(const float* __restrict__ grad_output, const float* __restrict__ x,
               const float* __restrict__ weights, float* __restrict__ grad_x,
               float* __restrict__ grad_weights, float* __restrict__ grad_biases, unsigned batch,
               unsigned in, unsigned out) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned pairs = (batch + 1) / 2;

  if (blockIdx.y < pairs) {
    const unsigned k = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth;
    if (k >= in) return;
    const unsigned first = blockIdx.y * 2;
    const unsigned second = min(first + 1, batch - 1);
    Vector<kWidth> sums[2] = {};
#pragma unroll 1
    for (unsigned o = 0; o < out; o += kMany) {
      const float* of_first = grad_output + (first * out + o);
      const float* of_second = grad_output + (second * out + o);
      const unsigned of_weights = o * in + k;
      Vector<kWidth> w[kMany] = {};
      float g[2][kMany] = {};
#pragma unroll
      for (unsigned i = 0; i < kMany; ++i) {
        if (kWhole || o + i < out) {
          w[i] = Load<kWidth>(weights + (of_weights + i * in));
          g[0][i] = of_first[i];
          g[1][i] = of_second[i];
        }
      }
#pragma unroll
      for (unsigned i = 0; i < kMany; ++i) {
#pragma unroll
        for (unsigned j = 0; j < kWidth; ++j) {
          sums[0].at[j] += g[0][i] * w[i].at[j];
          sums[1].at[j] += g[1][i] * w[i].at[j];
        }
      }
    }
    Store<kWidth>(grad_x + (first * in + k), sums[0]);
    if (second != first) Store<kWidth>(grad_x + (second * in + k), sums[1]);
    return;
  }

  const unsigned task =
      ((blockIdx.y - pairs) * gridDim.x + blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const unsigned strips = (in + 2 * kWidth - 1) / (2 * kWidth);
  const unsigned parts = (out + kSome - 1) / kSome;
  const unsigned o = task % parts * kSome;
  const unsigned k = (task / parts * 2 + lane % 2) * kWidth;
  if (task < strips * parts) {
    float sums[kSome * kWidth] = {};  // number j * kSome + i is of input k + j, output o + i
#pragma unroll 1
    for (unsigned row = lane / 2; row < batch; row += 16 * kAhead) {
      Vector<kWidth> of_x[kAhead] = {};
      float g[kAhead][kSome] = {};
#pragma unroll
      for (unsigned r = 0; r < kAhead; ++r) {
        const unsigned b = row + r * 16;
        if (b < batch && k < in) {
          of_x[r] = Load<kWidth>(x + (b * in + k));
          const float* of_row = grad_output + (b * out + o);
#pragma unroll
          for (unsigned i = 0; i < kSome; ++i) {
            if (kWhole || o + i < out) g[r][i] = of_row[i];
          }
        }
      }
#pragma unroll
      for (unsigned r = 0; r < kAhead; ++r) {
#pragma unroll
        for (unsigned j = 0; j < kWidth; ++j) {
#pragma unroll
          for (unsigned i = 0; i < kSome; ++i) sums[j * kSome + i] += g[r][i] * of_x[r].at[j];
        }
      }
    }
    using After = AfterSum<kSome * kWidth>;
    SumOverRows<kSome * kWidth>(sums, lane);
    if ((lane & After::kSame) != 0 || k >= in) return;
    const unsigned j = After::First(lane) / kSome;
#pragma unroll
    for (unsigned i = 0; i < kSome; ++i) {
      if (kWhole || o + i < out) grad_weights[(o + i) * in + k + j] = sums[i];
    }
  } else if (task - strips * parts < out) {
    const unsigned mine = task - strips * parts;
    float sum = 0;
#pragma unroll 2
    for (unsigned b = lane; b < batch; b += 32) sum += grad_output[b * out + mine];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) grad_biases[mine] = sum;
  }
}

// Many outputs, at most 64 rows. Products are made by the tensor cores out of halves.

constexpr int kRows = 64;      // of x and grad_output; what is not there is zero
constexpr int kColumns = 128;  // of x and weights: a block's input features
constexpr int kPadding = 8;    // halves after each row: no bank conflicts
constexpr int kWarps = 8;

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

// Rows of a matrix in halves.
template <int kLines, int kLength>
struct Tile {
  __half upper[kLines][kLength + kPadding];
  __half lower[kLines][kLength + kPadding];
};

// 16 rows of kLength numbers, or fewer: what is not there is zero. A warp's.
template <int kLength>
struct Rows {
  static constexpr int kLanes = kLength / 4;
  static constexpr int kAtOnce = 32 / kLanes;
  static constexpr int kLoads = 16 / kAtOnce;
  static constexpr int kLine = kLength + kPadding;
  float4 at[kLoads];

  // `count` rows, from `from` on, of `length` numbers: 16 bytes a lane.
  __device__ void Load(const float* from, int stride, int count, int length) {
    const int lane = threadIdx.x % 32;
    const int first = lane / kLanes;
    if (lane % kLanes * 4 >= length) count = 0;
    const float* line = from + int64_t{first} * stride + lane % kLanes * 4;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      at[i] = make_float4(0, 0, 0, 0);
      if (first + i * kAtOnce < count) at[i] = __ldg(reinterpret_cast<const float4*>(line));
      line += kAtOnce * stride;
    }
  }

  // The largest finite magnitude; the numbers are read once more.
  static __device__ float LargestFinite(const float* from, int stride, int count, int length) {
    float largest = 0;
    for (int i = threadIdx.x % 32; i < 16 * kLength; i += 32) {
      if (i / kLength >= count || i % kLength >= length) continue;
      const float v = fabsf(from[int64_t{i / kLength} * stride + i % kLength]);
      if (v <= FLT_MAX) largest = fmaxf(largest, v);
    }
    return LargestOfWarp(largest);
  }

  // Splits them, to lines of kLine halves; the scale's inverse is returned. In pairs, of 16 columns
  // the neighbours 4 q and 4 q + 1 go to 2 q and 2 q + 1, the next two to 8 places further: so a
  // lane's four results of two products of 8 columns are neighbours.
  template <bool kPairs>
  __device__ float Store(__half* upper, __half* lower, const float* from, int stride, int count,
                         int length) const {
    const int lane = threadIdx.x % 32;
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) largest = Largest(largest, at[i]);
    largest = LargestOfWarp(largest);
    // An infinity spoils what it takes part in; the other numbers keep their scale.
    if (largest > FLT_MAX) largest = LargestFinite(from, stride, count, length);
    const Scale scale = ScaleOf(largest);
    const int c = lane % kLanes * 4;
    constexpr int kSecond = kPairs ? 8 : 2;
    const int to = lane / kLanes * kLine + (kPairs ? c / 16 * 16 + c % 16 / 2 : c);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const Split split = SplitOf(at[i], scale.up);
      const int line = to + i * kAtOnce * kLine;
      *reinterpret_cast<__half2*>(upper + line) = split.upper[0];
      *reinterpret_cast<__half2*>(upper + line + kSecond) = split.upper[1];
      *reinterpret_cast<__half2*>(lower + line) = split.lower[0];
      *reinterpret_cast<__half2*>(lower + line + kSecond) = split.lower[1];
    }
    return scale.down;
  }
};

template <int kOutputs>
struct Shared {
  Tile<kRows, kColumns> x;
  Tile<kOutputs, kColumns> weights[2];
  Tile<kRows, kOutputs> g[2];
  float x_down[kRows / 16];
  float weights_down[2][kOutputs / 16];
  float g_down[2][kRows / 16];
};

// sums += (upper + lower of a) * (upper + lower of b) * scales, for kLines times 16 lines of a and
// 16 columns, without lower * lower.
template <int kLines>
__device__ void MultiplySplit(float (&sums)[kLines][4][4], int n,
                              const unsigned (&a_upper)[kLines][4],
                              const unsigned (&a_lower)[kLines][4], const unsigned (&upper)[4],
                              const unsigned (&lower)[4], const float (&down)[kLines]) {
  float products[2][kLines][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int m = 0; m < kLines; ++m) {
      Multiply(products[i][m], a_upper[m], lower[2 * i], lower[2 * i + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int m = 0; m < kLines; ++m) {
      MultiplyAdd(products[i][m], a_lower[m], upper[2 * i], upper[2 * i + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int m = 0; m < kLines; ++m) {
      MultiplyAdd(products[i][m], a_upper[m], upper[2 * i], upper[2 * i + 1]);
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[m][n + i][j] += products[i][m][j] * down[m];
    }
  }
}

// One output in plain float32: halves have no place for infinities beside numbers.
__device__ __noinline__ float Plain(const float* x, const float* weights, int in) {
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < in; ++k) sum += x[k] * weights[k];
  return sum;
}

// Which of a tile's outputs, 64 rows of 32, ReLU lets pass. A warp makes 16 x 16 of them, out of
// what is in shared memory; the columns of x and weights lie there in the same order.
__device__ void MaskTile(const Shared<32>& shared, int buffer, const float* x, const float* weights,
                         const float (&bias)[2][2], uchar4 (*passes)[8], int o, int batch, int in,
                         int out) {
  const int lane = threadIdx.x % 32;
  const int row = threadIdx.x / 32 % 4 * 16;
  const int output = threadIdx.x / 128 * 16;
  const auto& w = shared.weights[buffer];
  float products[3][2][4] = {};  // upper * lower, lower * upper, upper * upper
#pragma unroll 2
  for (int s = 0; s < in; s += 16) {
    unsigned x_upper[4], x_lower[4], upper[4], lower[4];
    LoadMatrices(x_upper, &shared.x.upper[row + lane % 16][s + lane / 16 * 8]);
    LoadMatrices(x_lower, &shared.x.lower[row + lane % 16][s + lane / 16 * 8]);
    const int line = output + lane / 16 * 8 + lane % 8;
    LoadMatrices(upper, &w.upper[line][s + lane / 8 % 2 * 8]);
    LoadMatrices(lower, &w.lower[line][s + lane / 8 % 2 * 8]);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      MultiplyAdd(products[0][n], x_upper, lower[2 * n], lower[2 * n + 1]);
      MultiplyAdd(products[1][n], x_lower, upper[2 * n], upper[2 * n + 1]);
      MultiplyAdd(products[2][n], x_upper, upper[2 * n], upper[2 * n + 1]);
    }
  }
  const float down = shared.x_down[row / 16] * shared.weights_down[buffer][output / 16];
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = row + j / 2 * 8 + lane / 4;
      const int c = output + n * 8 + lane % 4 * 2 + j % 2;
      float sum = (products[0][n][j] + products[1][n][j] + products[2][n][j]) * down;
      if (!(fabsf(sum) <= FLT_MAX) && r < batch && o + c < out) {
        sum = Plain(x + int64_t{r} * in, weights + int64_t{o + c} * in, in);
      }
      reinterpret_cast<unsigned char*>(passes[r])[c] = !(sum + bias[n][j % 2] <= 0);
    }
  }
}

// A block has kColumns input features and every gridDim.y-th tile of kOutputs output features. It
// stores its tiles of grad_weights, and keeps its share of grad_x until the last. grad_output is
// masked already, or, if the block is to do that (kMasks), it has all input features, and stores
// what comes out.
template <int kOutputs, bool kMasks>
__global__ void __launch_bounds__(kWarps * 32, 1)
    ManyOutputs(const float* __restrict__ grad_output, const float* __restrict__ x,
                const float* __restrict__ weights, const float* __restrict__ biases, float* masked,
                float* __restrict__ shares, float* __restrict__ grad_weights, int batch, int in,
                int out) {
  constexpr int kLines = kOutputs / 32;  // of 16 output features, of a warp
  static_assert(!kMasks || kLines == 1, "a warp makes 16 x 16 of the layer's outputs");
  __shared__ uchar4 passes[kMasks ? kRows : 1][kOutputs / 4];
  extern __shared__ float4 memory[];
  auto& shared = *reinterpret_cast<Shared<kOutputs>*>(memory);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int group = warp % 4;
  const bool of_g = warp >= 4;
  const int column = blockIdx.x * kColumns;
  const int groups = (batch + 15) / 16;

  // This warp's part of grad_x, 32 rows, and of grad_weights, half a tile; of 32 columns both.
  const int row = warp / 4 * 32;
  const int my_output = warp / 4 * (kOutputs / 2);
  const int my_column = warp % 4 * 32;
  float of_grad_x[2][4][4] = {};
  float bias[2][2] = {};  // of the tile that is on its way, if the block masks

  // Four warps load grad_output and, once, x; the others load weights. In the first round `o`, the
  // tile that is on its way, is none.
  Rows<kColumns> wide;
  Rows<kOutputs> narrow;
  bool loads_wide = of_g || warp < kOutputs / 16;
  const int step = gridDim.y * kOutputs;
  for (int buffer = 0, next = blockIdx.y * kOutputs;; buffer ^= 1, next += step) {
    const int o = next - step;
    const auto wide_from = [&](int tile) {
      return (of_g ? x + int64_t{group} * 16 * in : weights + int64_t{tile + group * 16} * in) +
             column;
    };
    const auto narrow_from = [&](int tile) {
      return grad_output + int64_t{group} * 16 * out + tile;
    };
    const int rows = batch - group * 16;
    if (o >= 0) {
      if (loads_wide) {
        __half* upper =
            of_g ? shared.x.upper[group * 16] : shared.weights[buffer].upper[group * 16];
        __half* lower =
            of_g ? shared.x.lower[group * 16] : shared.weights[buffer].lower[group * 16];
        const float down = wide.template Store<true>(
            upper, lower, wide_from(o), in, of_g ? rows : out - o - group * 16, in - column);
        if (lane == 0) (of_g ? shared.x_down : shared.weights_down[buffer])[group] = down;
      }
      if constexpr (kMasks) {
        __syncthreads();
        MaskTile(shared, buffer, x, weights, bias, passes, o, batch, in, out);
        __syncthreads();
        if (of_g) {
#pragma unroll
          for (int i = 0; i < Rows<kOutputs>::kLoads; ++i) {
            const int r = group * 16 + lane / 8 + i * Rows<kOutputs>::kAtOnce;
            const int c = lane % 8;
            const uchar4 pass = passes[r][c];
            float4& v = narrow.at[i];
            v = make_float4(pass.x ? v.x : 0, pass.y ? v.y : 0, pass.z ? v.z : 0, pass.w ? v.w : 0);
            if (r < batch && o + c * 4 < out) {
              *reinterpret_cast<float4*>(masked + int64_t{r} * out + o + c * 4) = v;
            }
          }
        }
      }
      if (of_g) {
        loads_wide = false;
        const float down = narrow.template Store<false>(shared.g[buffer].upper[group * 16],
                                                        shared.g[buffer].lower[group * 16],
                                                        narrow_from(o), out, rows, out - o);
        if (lane == 0) shared.g_down[buffer][group] = down;
      }
    }
    if (next < out) {
      if (loads_wide) {
        wide.Load(wide_from(next), in, of_g ? rows : out - next - group * 16, in - column);
      }
      if (of_g) narrow.Load(narrow_from(next), out, rows, out - next);
#pragma unroll
      for (int i = 0; kMasks && i < 4; ++i) {
        const int output = next + my_output + i / 2 * 8 + lane % 4 * 2 + i % 2;
        bias[i / 2][i % 2] = output < out ? __ldg(biases + output) : 0;
      }
    }
    if (o < 0) continue;
    // With two buffers one barrier is enough: who is past it has seen all finish the other buffer.
    __syncthreads();
    const auto& g = shared.g[buffer];
    const auto& w = shared.weights[buffer];

    if (row < batch) {
#pragma unroll 1
      for (int s = 0; s < kOutputs / 16; ++s) {
        unsigned g_upper[2][4];
        unsigned g_lower[2][4];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          LoadMatrices(g_upper[m], &g.upper[row + m * 16 + lane % 16][s * 16 + lane / 16 * 8]);
          LoadMatrices(g_lower[m], &g.lower[row + m * 16 + lane % 16][s * 16 + lane / 16 * 8]);
        }
        const float w_down = shared.weights_down[buffer][s];
        const float down[2] = {shared.g_down[buffer][row / 16] * w_down,
                               shared.g_down[buffer][row / 16 + 1] * w_down};
#pragma unroll
        for (int n = 0; n < 4; n += 2) {
          unsigned upper[4];
          unsigned lower[4];
          const int c = my_column + n * 8 + lane / 16 * 8;
          LoadTransposed(upper, &w.upper[s * 16 + lane % 16][c]);
          LoadTransposed(lower, &w.lower[s * 16 + lane % 16][c]);
          MultiplySplit(of_grad_x, n, g_upper, g_lower, upper, lower, down);
        }
      }
    }

    float of_tile[kLines][4][4] = {};
#pragma unroll 1
    for (int s = 0; s < groups; ++s) {
      unsigned g_upper[kLines][4];
      unsigned g_lower[kLines][4];
      float down[kLines];
#pragma unroll
      for (int m = 0; m < kLines; ++m) {
        const int r = s * 16 + lane % 8 + lane / 16 * 8;
        const int c = my_output + m * 16 + lane / 8 % 2 * 8;
        LoadTransposed(g_upper[m], &g.upper[r][c]);
        LoadTransposed(g_lower[m], &g.lower[r][c]);
        down[m] = shared.g_down[buffer][s] * shared.x_down[s];
      }
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        unsigned upper[4];
        unsigned lower[4];
        const int c = my_column + n * 8 + lane / 16 * 8;
        LoadTransposed(upper, &shared.x.upper[s * 16 + lane % 16][c]);
        LoadTransposed(lower, &shared.x.lower[s * 16 + lane % 16][c]);
        MultiplySplit(of_tile, n, g_upper, g_lower, upper, lower, down);
      }
    }
    bool finite = true;
#pragma unroll
    for (int m = 0; m < kLines; ++m) {
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float4 v =
              make_float4(of_tile[m][n][2 * half], of_tile[m][n][2 * half + 1],
                          of_tile[m][n + 1][2 * half], of_tile[m][n + 1][2 * half + 1]);
          finite = finite && fabsf(v.x) <= FLT_MAX && fabsf(v.y) <= FLT_MAX &&
                   fabsf(v.z) <= FLT_MAX && fabsf(v.w) <= FLT_MAX;
          const int64_t line = o + my_output + m * 16 + half * 8 + lane / 4;
          const int c = column + my_column + n * 8 + lane % 4 * 4;
          if (line < out && c < in)
            __stcs(reinterpret_cast<float4*>(grad_weights + line * in + c), v);
        }
      }
    }
    if (!__all_sync(0xffffffffu, finite)) {
      // Halves have no place for infinities beside numbers.
      for (int i = 0; i < kLines * 16; ++i) {
        const int64_t line = o + my_output + i;
        const int c = column + my_column + lane;
        if (line >= out || c >= in) break;
        float sum = 0;
#pragma unroll 1
        for (int b = 0; b < batch; ++b) {
          const int64_t place = int64_t{b} * out + line;
          const float g = kMasks ? masked[place] : grad_output[place];
          sum += g * x[int64_t{b} * in + c];
        }
        grad_weights[line * in + c] = sum;
      }
    }
    if (next >= out) break;
  }

#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = row + m * 16 + half * 8 + lane / 4;
        const int c = column + my_column + n * 8 + lane % 4 * 4;
        if (r < batch && c < in) {
          const float4 v =
              make_float4(of_grad_x[m][n][2 * half], of_grad_x[m][n][2 * half + 1],
                          of_grad_x[m][n + 1][2 * half], of_grad_x[m][n + 1][2 * half + 1]);
          *reinterpret_cast<float4*>(shares + (int64_t{blockIdx.y} * batch + r) * in + c) = v;
        }
      }
    }
  }
}

// One number of grad_x in plain float32: halves have no place for infinities beside numbers.
__device__ __noinline__ float PlainGradX(const float* grad_output, const float* weights, int in,
                                         int out) {
  float sum = 0;
#pragma unroll 1
  for (int o = 0; o < out; ++o) sum += grad_output[o] * weights[int64_t{o} * in];
  return sum;
}

// grad_x from the blocks' shares, then grad_biases from the rows of grad_output; four numbers are
// added up by 1 << log_parts threads.
constexpr int kAddThreads = 256;

__global__ void __launch_bounds__(kAddThreads)
    AddShares(const float* __restrict__ shares, const float* __restrict__ grad_output,
              const float* __restrict__ weights, float* __restrict__ grad_x,
              float* __restrict__ grad_biases, int count, int batch, int in, int out,
              int log_parts) {
  __shared__ float4 parts[kAddThreads];
  const int places = kAddThreads >> log_parts;
  const int of_grad_x = batch * (in / 4);
  const int place = blockIdx.x * places + threadIdx.x % places;
  const bool biases = place >= of_grad_x;
  const bool works = place < of_grad_x + out / 4;
  const int stride = biases ? out / 4 : of_grad_x;
  const int addends = !works ? 0 : biases ? batch : count;
  const float4* from = biases ? reinterpret_cast<const float4*>(grad_output) + (place - of_grad_x)
                              : reinterpret_cast<const float4*>(shares) + place;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int i = threadIdx.x / places; i < addends; i += 1 << log_parts) {
    const float4 v = from[static_cast<int64_t>(i) * stride];
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= places || !works) return;
  for (int i = 1; i < 1 << log_parts; ++i) {
    const float4 v = parts[i * places + threadIdx.x];
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  if (biases) {
    reinterpret_cast<float4*>(grad_biases)[place - of_grad_x] = sum;
    return;
  }
  float* numbers = reinterpret_cast<float*>(&sum);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (fabsf(numbers[j]) <= FLT_MAX) continue;
    const int b = place / (in / 4);
    const int k = place % (in / 4) * 4 + j;
    numbers[j] = PlainGradX(grad_output + int64_t{b} * out, weights + k, in, out);
  }
  reinterpret_cast<float4*>(grad_x)[place] = sum;
}

// Few rows and many outputs: everything in one pass over the weights, in plain float32. A team's
// threads have four input features each: of all rows of x, of their share of grad_x, and of kAhead
// rows of weights, while the next are on their way. kAlone: a team is a warp, else a block.
constexpr int kFewRows = 4;
constexpr int kTeams = 8;  // of a block, if they are warps

template <bool kAlone, int kAhead>
__global__ void __launch_bounds__(kAlone ? kTeams * 32 : 1024)
    FewRows(const float* __restrict__ grad_output, const float* __restrict__ x,
            const float* __restrict__ weights, const float* __restrict__ biases,
            float* __restrict__ masked, float* __restrict__ grad_weights,
            float* __restrict__ shares, int batch, int in, int out) {
  constexpr int kSums = kAhead * kFewRows;  // number p * kFewRows + b is of output o + p, row b
  __shared__ float4 parts[2][32][kSums / 4];
  __shared__ float4 of_teams[kAlone ? kTeams : 1][kFewRows][32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int warps = blockDim.x / 32;
  const int k = (kAlone ? lane : threadIdx.x) * 4;
  const int teams = gridDim.x * (kAlone ? kTeams : 1);
  const int team = kAlone ? blockIdx.x * kTeams + warp : blockIdx.x;
  const int end = static_cast<int>((team + 1) * int64_t{out} / teams);
  int o = static_cast<int>(team * int64_t{out} / teams);

  const float4 zero = make_float4(0, 0, 0, 0);
  const auto weights_at = [&](int row) {
    return k < in && row < end
               ? __ldcs(reinterpret_cast<const float4*>(weights + int64_t{row} * in + k))
               : zero;
  };
  float4 next[kAhead];
#pragma unroll
  for (int p = 0; p < kAhead; ++p) next[p] = weights_at(o + p);
  float4 of_x[kFewRows];
  float4 of_grad_x[kFewRows];
#pragma unroll
  for (int b = 0; b < kFewRows; ++b) {
    of_x[b] = k < in && b < batch ? *reinterpret_cast<const float4*>(x + b * in + k) : zero;
    of_grad_x[b] = zero;
  }
  // The sum that this lane has in the end.
  const int mine = lane * kSums / 32;
  const int my_row = mine % kFewRows;

  for (int buffer = 0; o < end; o += kAhead, buffer ^= 1) {
    const int my_output = o + mine / kFewRows;
    const bool there = my_output < end && my_row < batch;
    const float bias = there ? __ldg(biases + my_output) : 0;
    const float gradient = there ? __ldg(grad_output + my_row * out + my_output) : 0;
    float4 w[kAhead];
    float sums[kSums];
#pragma unroll
    for (int p = 0; p < kAhead; ++p) {
      w[p] = next[p];
      next[p] = weights_at(o + kAhead + p);
    }
#pragma unroll
    for (int p = 0; p < kAhead; ++p) {
#pragma unroll
      for (int b = 0; b < kFewRows; ++b) {
        sums[p * kFewRows + b] =
            w[p].x * of_x[b].x + w[p].y * of_x[b].y + w[p].z * of_x[b].z + w[p].w * of_x[b].w;
      }
    }
    float sum = SumOverLanes<kSums>(sums, lane);
    if (!kAlone) {
      if (lane % (32 / kSums) == 0) reinterpret_cast<float*>(parts[buffer][warp])[mine] = sum;
      // With two buffers one barrier is enough: who is past it has seen all read the other buffer.
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) {
        const float4 part = lane < warps ? parts[buffer][lane][i] : zero;
        sums[i * 4] = part.x;
        sums[i * 4 + 1] = part.y;
        sums[i * 4 + 2] = part.z;
        sums[i * 4 + 3] = part.w;
      }
      sum = SumOverLanes<kSums>(sums, lane);
    }
    const float my_gradient = sum + bias <= 0 ? 0 : gradient;
    if (there && lane % (32 / kSums) == 0 && (kAlone || warp == 0)) {
      masked[my_row * out + my_output] = my_gradient;
    }
#pragma unroll
    for (int p = 0; p < kAhead; ++p) {
      float4 v = zero;
#pragma unroll
      for (int b = 0; b < kFewRows; ++b) {
        const float g = __shfl_sync(0xffffffffu, my_gradient, (p * kFewRows + b) * (32 / kSums));
        v.x += g * of_x[b].x;
        v.y += g * of_x[b].y;
        v.z += g * of_x[b].z;
        v.w += g * of_x[b].w;
        of_grad_x[b].x += g * w[p].x;
        of_grad_x[b].y += g * w[p].y;
        of_grad_x[b].z += g * w[p].z;
        of_grad_x[b].w += g * w[p].w;
      }
      if (k < in && o + p < end) {
        __stcs(reinterpret_cast<float4*>(grad_weights + int64_t{o + p} * in + k), v);
      }
    }
  }

  if (kAlone) {
#pragma unroll
    for (int b = 0; b < kFewRows; ++b) of_teams[warp][b][lane] = of_grad_x[b];
    __syncthreads();
    for (int i = threadIdx.x; i < batch * in; i += kTeams * 32) {
      float sum = 0;
#pragma unroll
      for (int t = 0; t < kTeams; ++t) {
        sum += reinterpret_cast<const float*>(of_teams[t][i / in])[i % in];
      }
      shares[int64_t{blockIdx.x} * batch * in + i] = sum;
    }
  } else if (k < in) {
#pragma unroll
    for (int b = 0; b < kFewRows; ++b) {
      if (b < batch) {
        *reinterpret_cast<float4*>(shares + (int64_t{blockIdx.x} * batch + b) * in + k) =
            of_grad_x[b];
      }
    }
  }
}

// The mask where there are many outputs: products of split halves again, along the depth.
namespace mask {

constexpr int kBatch = 64;   // rows of x of a block; what is not there is zero
constexpr int kDepth = 128;  // of a step
constexpr int kManyOutputs = 64 * 1024;
constexpr int kLeastSteps = 4;  // of a share

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

// A block makes 64 x kOutputs outputs: masks by them, or, if kWhole is not, makes a share of it, of
// `steps` steps of the depth.
template <int kOutputs, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, 1)
    ManySums(const float* __restrict__ x, const float* __restrict__ weights,
             const float* __restrict__ biases, const float* __restrict__ grad_output,
             float* __restrict__ result, int batch, int in, int out, int steps) {
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
  float gradient[kLines][kColumns / 2][2][4] = {};
  if (kWhole) {
#pragma unroll
    for (int i = 0; i < kLines * kColumns; ++i) {
      const int64_t b = first_row + row + i / kColumns * 16 + i % 2 * 8 + lane / 4;
      const int o = first_column + column + i % kColumns / 2 * 16 + lane % 4 * 4;
      if (b >= batch || o >= out) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        gradient[i / kColumns][i % kColumns / 2][i % 2][j] = __ldg(grad_output + b * out + o + j);
      }
    }
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
            finite = finite && fabsf(v[j]) <= FLT_MAX;
            v[j] = v[j] + bias[n / 2][j] <= 0 ? 0 : gradient[m][n / 2][half][j];
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
      const float sum = Plain(x + b * in, weights + int64_t{o} * in, in) + biases[o];
      to[b * out + o] = sum <= 0 ? 0 : grad_output[b * out + o];
    }
  }
}

// Adds up the shares of four outputs, in a fixed order, and masks.
__global__ void __launch_bounds__(128)
    AddShares(const float* __restrict__ shares, const float* __restrict__ x,
              const float* __restrict__ weights, const float* __restrict__ biases,
              const float* __restrict__ grad_output, float* __restrict__ masked, int count,
              int batch, int in, int out) {
  const int64_t all = static_cast<int64_t>(batch) * out;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x) * 4;
  if (at >= all) return;
  const int o = static_cast<int>(at % out);
  float bias[4];
  float gradient[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    bias[j] = __ldg(biases + o + j);
    gradient[j] = __ldg(grad_output + at + j);
  }
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
    v[j] = v[j] + bias[j] <= 0 ? 0 : gradient[j];
  }
  *reinterpret_cast<float4*>(masked + at) = make_float4(v[0], v[1], v[2], v[3]);
}

}  // namespace mask

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
  const float* whole_gradient;
  const float* biases;
  float* masked;
  const float* grad_output;  // masked
  const float* x;
  const float* weights;
  float* grad_x;
  float* grad_weights;
  float* grad_biases;
  int batch, in, out;
  torch::TensorOptions options;
  cudaStream_t stream;

  template <int kRows, int kCols>
  int64_t Teams() const {
    return static_cast<int64_t>((batch + kRows - 1) / kRows) * ((out + kCols - 1) / kCols);
  }

  // As many warps in a team as have work, but no more than most_team; `tiles` teams a block.
  template <int kRows, int kCols, int kAhead>
  void RunMask(int most_team, int tiles) const {
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
    (vectors ? MaskGradient<kRows, kCols, 4, kAhead>
             : MaskGradient<kRows, kCols, 1, kAhead>)<<<grid, threads, 0, stream>>>(
        x, weights, biases, whole_gradient, masked, batch, in, out, log_team);
  }

  template <int kOutputs, bool kWhole>
  void RunMaskOfMany() const {
    const int columns = (out + kOutputs - 1) / kOutputs;
    const int rows = (batch + mask::kBatch - 1) / mask::kBatch;
    const int steps = (in + mask::kDepth - 1) / mask::kDepth;
    const int wanted = (steps * columns * rows + kMostBlocks - 1) / kMostBlocks;
    const int each = kWhole ? steps : std::max(mask::kLeastSteps, wanted);
    const int groups = (steps + each - 1) / each;
    const auto kernel = mask::ManySums<kOutputs, kWhole>;
    const int shared = sizeof(mask::Shared<kOutputs>);
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const dim3 grid(columns, groups, rows);
    if (kWhole) {
      kernel<<<grid, kWarps * 32, shared, stream>>>(x, weights, biases, whole_gradient, masked,
                                                    batch, in, out, each);
      return;
    }
    torch::Tensor shares = torch::empty({groups, batch, out}, options);
    float* of_groups = shares.data_ptr<float>();
    kernel<<<grid, kWarps * 32, shared, stream>>>(x, weights, biases, whole_gradient, of_groups,
                                                  batch, in, out, each);
    const auto blocks = static_cast<unsigned>((int64_t{batch} * out + 511) / 512);
    mask::AddShares<<<blocks, 128, 0, stream>>>(of_groups, x, weights, biases, whole_gradient,
                                                masked, groups, batch, in, out);
  }

  bool MaskOfManyFits() const {
    const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weights);
    return batch > 8 && in > 0 && int64_t{batch} * out >= mask::kManyOutputs && in % 4 == 0 &&
           out % 4 == 0 && addresses % 16 == 0;
  }

  void Mask() const {
    if (MaskOfManyFits()) {
      if (in > mask::kLeastSteps * mask::kDepth) {
        RunMaskOfMany<128, false>();
      } else {
        RunMaskOfMany<32, true>();
      }
      return;
    }
    if (int64_t{batch} * out * in <= kFewProducts) {
      if (in <= 128 * kMostWarps) {
        RunMask<1, 1, 1>(kMostWarps, 4);
      } else {
        RunMask<1, 1, 2>(kMostWarps, 4);
      }
    } else if (Teams<4, 8>() >= 2 * kEnoughTeams) {
      RunMask<4, 8, 1>(in > 512 ? kTeamOfLarge : 4, 4);
    } else {
      RunMask<4, 2, 2>(kMostWarps, 1);
    }
  }

  bool RunFewOutputs() const {
    const int pairs = (batch + 1) / 2;
    if (out > kFewOutputs || pairs > 32768 || int64_t{std::max(batch, out)} * in > INT32_MAX) {
      return false;
    }
    const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weights);
    const int width = in % 4 == 0 && addresses % 16 == 0 ? 4 : 1;
    const int chunks = (in + width - 1) / width;
    const int threads = std::min((chunks + 31) / 32 * 32, kFewThreads);
    const int across = (chunks + threads - 1) / threads;
    const int parts = (out + kSome - 1) / kSome;
    const int warps = (chunks + 1) / 2 * parts + out;
    const int each = across * (threads / 32);
    const dim3 grid(across, pairs + (warps + each - 1) / each);
    const bool whole = width == 4 && out % kMany == 0;
    (whole        ? FewOutputs<4, true>
     : width == 4 ? FewOutputs<4, false>
                  : FewOutputs<1, false>)<<<grid, threads, 0, stream>>>(
        grad_output, x, weights, grad_x, grad_weights, grad_biases, batch, in, out);
    return true;
  }

  // The mask too is made here.
  bool RunFewRows() const {
    const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weights);
    if (batch > kFewRows || out <= kFewOutputs || in % 4 != 0 || out % 4 != 0 || in > 4096 ||
        addresses % 16 != 0) {
      return false;
    }
    const bool alone = in <= 128;
    const int threads = alone ? kTeams * 32 : (in / 4 + 31) / 32 * 32;
    const int blocks = alone ? std::min((out + kTeams * 4 - 1) / (kTeams * 4), kMostBlocks)
                             : std::min(out, kMostBlocks * std::max(1, 1024 / threads));
    torch::Tensor shares = torch::empty({blocks, batch, in}, options);
    (alone ? FewRows<true, 4> : FewRows<false, 2>)<<<blocks, threads, 0, stream>>>(
        whole_gradient, x, weights, biases, masked, grad_weights, shares.data_ptr<float>(), batch,
        in, out);
    RunAddShares(shares.data_ptr<float>(), blocks);
    return true;
  }

  void RunAddShares(const float* shares, int count) const {
    const int log_parts = count > 4 ? 3 : 2;
    const int places = kAddThreads >> log_parts;
    const int sums = (batch * in + out) / 4;
    AddShares<<<(sums + places - 1) / places, kAddThreads, 0, stream>>>(
        shares, grad_output, weights, grad_x, grad_biases, count, batch, in, out, log_parts);
  }

  template <int kOutputs, bool kMasks>
  void RunManyOutputs(int ranges) const {
    const int tiles = (out + kOutputs - 1) / kOutputs;
    const int each = (tiles * ranges + kMostBlocks - 1) / kMostBlocks;
    const int groups = (tiles + each - 1) / each;
    torch::Tensor shares = torch::empty({groups, batch, in}, options);
    const int shared = sizeof(Shared<kOutputs>);
    const auto kernel = ManyOutputs<kOutputs, kMasks>;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    kernel<<<dim3(ranges, groups), kWarps * 32, shared, stream>>>(
        kMasks ? whole_gradient : grad_output, x, weights, biases, masked, shares.data_ptr<float>(),
        grad_weights, batch, in, out);
    RunAddShares(shares.data_ptr<float>(), groups);
  }

  bool ManyOutputsFit() const {
    const auto addresses = reinterpret_cast<uintptr_t>(whole_gradient) |
                           reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weights);
    return batch <= kRows && in % 4 == 0 && out % 4 == 0 && addresses % 16 == 0;
  }

  // The mask too is made here, where a block has all input features.
  bool RunFewInputs() const {
    if (in > kColumns || out <= kFewOutputs || !ManyOutputsFit()) return false;
    RunManyOutputs<32, true>(1);
    return true;
  }

  bool RunManyOutputs() const {
    if (!ManyOutputsFit()) return false;
    const int ranges = (in + kColumns - 1) / kColumns;
    if (int64_t{ranges} * (out / 64) >= kMostBlocks) {
      RunManyOutputs<64, false>(ranges);
    } else {
      RunManyOutputs<32, false>(ranges);
    }
    return true;
  }

  static unsigned Tiles(int64_t lines, int64_t columns) {
    return static_cast<unsigned>(((lines + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile));
  }

  void RunAny() const {
    AnyProduct<<<Tiles(batch, in), 256, 0, stream>>>({grad_output, out, 1}, {weights, 1, in},
                                                     grad_x, batch, in, out);
    AnyProduct<<<Tiles(out, in), 256, 0, stream>>>({grad_output, 1, out}, {x, 1, in}, grad_weights,
                                                   out, in, batch);
    AnyColumnSums<<<(out + 7) / 8, 256, 0, stream>>>(grad_output, grad_biases, batch, out);
  }
};

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(grad_output.dim() == 2 && x.dim() == 2 && weights.dim() == 2,
              "grad_output, x and weights must be matrices");
  TORCH_CHECK(grad_output.size(0) == x.size(0) && grad_output.size(1) == weights.size(0) &&
                  x.size(1) == weights.size(1),
              "the shapes of grad_output, x and weights do not fit together");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int out = static_cast<int>(weights.size(0));
  auto masked = torch::empty_like(grad_output);
  auto grad_x = torch::empty_like(x);
  auto grad_weights = torch::empty_like(weights);
  auto grad_biases = torch::empty({out}, x.options());
  const Call call{grad_output.data_ptr<float>(),
                  biases.data_ptr<float>(),
                  masked.data_ptr<float>(),
                  masked.data_ptr<float>(),
                  x.data_ptr<float>(),
                  weights.data_ptr<float>(),
                  grad_x.data_ptr<float>(),
                  grad_weights.data_ptr<float>(),
                  grad_biases.data_ptr<float>(),
                  static_cast<int>(x.size(0)),
                  static_cast<int>(x.size(1)),
                  out,
                  x.options(),
                  at::cuda::getCurrentCUDAStream()};
  if (!call.RunFewRows() && !call.RunFewInputs()) {
    call.Mask();
    if (!call.RunFewOutputs() && !call.RunManyOutputs()) call.RunAny();
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a linear layer with ReLU");
}
