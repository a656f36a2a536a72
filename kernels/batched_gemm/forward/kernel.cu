// Batched matrix product on tensor cores: tiles of y, whose slices of a and b come through a ring
// of asynchronous copies, 128 bytes of a's rows at a time.
//
// 16-bit factors go to the tensor cores by ldmatrix, sums leave as 16 bytes a lane after an
// exchange among the four lanes of a row.
//
// Float32 stays float32: each number is split into two parts, and three products of parts make one.
// Sums leave the tensor cores, which truncate what they add, after 32 products.
//
//   Narrow matrices, and those that lie askew: two TF32 parts (Product).
//   Others: two halves, high = half(v) and low = half(v - high), for which tensor cores take half
//   the time. SplitLeft scales each row of a to [2^14, 2^15) by a power of two, and lays its halves
//   out in tiles that a bulk copy brings to PairProduct. There each thread splits those numbers of
//   b that it has copied, while it multiplies the slice before. A column begins with a power of two
//   that takes its first 32 numbers to [2^5, 2^6), and changes it at a slice that would not fit in
//   halves; sums are multiplied with its inverse as they leave the tensor cores.
//
// Small products whose rows lie askew are bound by one trip to memory: all threads ask for all they
// need at once (SmallProduct). 16-bit factors of many columns go to cuBLAS.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kSliceBytes = 128;  // of a row of a: 64 halves or 32 floats

// Tile of y of a block, and of a warp; how many slices are on their way or in use.
template <int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_, int kStages_, int kBlocks_>
struct Shape {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpColumns = kWarpColumns_;
  static constexpr int kStages = kStages_;
  static constexpr int kBlocks = kBlocks_;  // on a processor at once
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kColumns / kWarpColumns);
  static constexpr int kLeftBytes = kRows * kSliceBytes;
  static constexpr int kStageBytes = kLeftBytes + kColumns * kSliceBytes;
};

// tune: kStages in 2, 3, 4; kBlocks in 1, 2
using NarrowHalves = Shape<64, 64, 32, 32, 4, 3>;
using NarrowFloats = Shape<64, 32, 32, 16, 4, 3>;

struct Sizes {
  int batch, rows, columns, inner;
};

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes, the numbers from `left` on as zeros.
template <bool kAligned, class Raw>
__device__ void Copy(char* to, const Raw* from, int left, const Raw* valid) {
  if constexpr (kAligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)),
                 "l"(left > 0 ? from : valid), "r"(left > 0 ? 16 : 0));
  } else {
    Raw* const values = reinterpret_cast<Raw*>(to);
#pragma unroll
    for (int i = 0; i < static_cast<int>(16 / sizeof(Raw)); ++i) {
      values[i] = i < left ? __ldg(from + i) : Raw{};
    }
  }
}

template <bool kTransposed>
__device__ void LoadMatrices(uint32_t (&to)[4], const char* from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(SharedAddress(from))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(SharedAddress(from))
                 : "memory");
  }
}

template <class T>
__device__ void MultiplyHalves(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, at::Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

__device__ void MultiplyTf32(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ uint32_t Tf32(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}

template <int kCount>
__device__ void Split(uint32_t (&high)[kCount], uint32_t (&low)[kCount], int i, float v) {
  high[i] = Tf32(v);
  low[i] = Tf32(v - __uint_as_float(high[i]));
}

// Where the 16-byte unit of a row of a slice lies: units are permuted such that what a warp reads
// at once lies in different banks.
__device__ int PlaceLeft(int row, int unit) { return row * kSliceBytes + (unit ^ (row % 8)) * 16; }

template <class S, class T>
__device__ int PlaceRight(int k, int unit) {
  const int turn = std::is_same_v<T, float> ? k % 4 * 2 : k % 8;
  return k * S::kColumns * static_cast<int>(sizeof(T)) + (unit ^ turn) * 16;
}

// sums += a slice's product, for the warp's rows and columns from `row` and `column` of the tile
// on.
template <class S, class T>
__device__ void MultiplySlice(float (&sums)[S::kWarpRows / 16][S::kWarpColumns / 8][4],
                              const char* left, const char* right, int row, int column) {
  constexpr int kHeight = S::kWarpRows / 16, kWidth = S::kWarpColumns / 8;
  const int lane = threadIdx.x % 32;
  if constexpr (std::is_same_v<T, float>) {
    float parts[kHeight][kWidth][4] = {};
#pragma unroll
    for (int k = 0; k < 32; k += 8) {
      uint32_t high[kHeight][4], low[kHeight][4];
#pragma unroll
      for (int i = 0; i < kHeight; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const char* const at =
              left + PlaceLeft(row + i * 16 + lane / 4 + j % 2 * 8, k / 4 + j / 2);
          Split(high[i], low[i], j, reinterpret_cast<const float*>(at)[lane % 4]);
        }
      }
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        uint32_t b_high[2], b_low[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const char* const at =
              right + PlaceRight<S, T>(k + lane % 4 + i * 4, (column + j * 8) / 4 + lane / 16);
          Split(b_high, b_low, i, reinterpret_cast<const float*>(at)[lane / 4 % 4]);
        }
#pragma unroll
        for (int i = 0; i < kHeight; ++i) MultiplyTf32(parts[i][j], low[i], b_high);
#pragma unroll
        for (int i = 0; i < kHeight; ++i) MultiplyTf32(parts[i][j], high[i], b_low);
#pragma unroll
        for (int i = 0; i < kHeight; ++i) MultiplyTf32(parts[i][j], high[i], b_high);
      }
    }
#pragma unroll
    for (int i = 0; i < kHeight * kWidth * 4; ++i) (&sums[0][0][0])[i] += (&parts[0][0][0])[i];
  } else {
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      uint32_t a[kHeight][4];
#pragma unroll
      for (int i = 0; i < kHeight; ++i) {
        LoadMatrices<false>(a[i], left + PlaceLeft(row + i * 16 + lane % 16, k / 8 + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < kWidth; j += 2) {
        uint32_t b[4];
        LoadMatrices<true>(
            b, right + PlaceRight<S, T>(k + lane % 16, (column + j * 8) / 8 + lane / 16));
#pragma unroll
        for (int i = 0; i < kHeight; ++i) {
          MultiplyHalves<T>(sums[i][j], a[i], b[0], b[1]);
          MultiplyHalves<T>(sums[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
}

template <class T>
__device__ uint32_t Pack(float a, float b) {
  if constexpr (std::is_same_v<T, at::Half>) {
    const __half2 pair = __floats2half2_rn(a, b);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

// Each of four lanes has two numbers of each of four tiles: gives each a tile's eight.
__device__ uint4 Exchange(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
  const bool odd = threadIdx.x % 2 != 0;
  const bool upper = threadIdx.x / 2 % 2 != 0;
  uint32_t words[4] = {w0, w1, w2, w3};
#pragma unroll
  for (int i = 0; i < 4; i += 2) {  // lanes 2n and 2n + 1: even tiles to the one, odd to the other
    const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[i + 1], 1);
    words[i] = odd ? got : words[i];
    words[i + 1] = odd ? words[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // lanes n and n + 2: the first two tiles to the one
    const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + 2], 2);
    words[i] = upper ? got : words[i];
    words[i + 2] = upper ? words[i + 2] : got;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

template <class T, class Raw, class S, bool kAligned>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    Product(const Raw* __restrict__ a, const Raw* __restrict__ b, T* __restrict__ y, Sizes sizes) {
  constexpr int kPerUnit = 16 / sizeof(T);
  constexpr int kDepth = kSliceBytes / sizeof(T);
  constexpr int kRightUnits = S::kColumns / kPerUnit;  // in a row of b
  constexpr int kHeight = S::kWarpRows / 16, kWidth = S::kWarpColumns / 8;
  extern __shared__ __align__(128) char shared[];
  const int thread = threadIdx.x;
  const int lane = thread % 32;
  const int tile_row = static_cast<int>(blockIdx.y) * S::kRows;
  const int tile_column = static_cast<int>(blockIdx.x) * S::kColumns;
  const int row = thread / 32 / (S::kColumns / S::kWarpColumns) * S::kWarpRows;
  const int column = thread / 32 % (S::kColumns / S::kWarpColumns) * S::kWarpColumns;
  const int slices = (sizes.inner + kDepth - 1) / kDepth;

  for (int64_t member = blockIdx.z; member < sizes.batch; member += gridDim.z) {
    const Raw* const my_a = a + (member * sizes.rows + tile_row) * sizes.inner;
    const Raw* const my_b = b + member * sizes.inner * sizes.columns + tile_column;
    // What a thread copies of each slice: the same units of rows of a and b that lie evenly apart.
    constexpr int kLeftStep = S::kThreads / 8, kRightStep = S::kThreads / kRightUnits;
    static_assert(kLeftStep % 8 == 0 && S::kRows % kLeftStep == 0);
    static_assert(kRightStep % 8 == 0 && kDepth % kRightStep == 0);
    const int64_t left_step = static_cast<int64_t>(kLeftStep) * sizes.inner;
    const int64_t right_step = static_cast<int64_t>(kRightStep) * sizes.columns;
    const int left_to = PlaceLeft(thread / 8, thread % 8);
    const int right_to =
        S::kLeftBytes + PlaceRight<S, T>(thread / kRightUnits, thread % kRightUnits);
    const int left_rows = sizes.rows - tile_row - thread / 8;
    const int right_left = sizes.columns - tile_column - thread % kRightUnits * kPerUnit;
    int left_left = sizes.inner - thread % 8 * kPerUnit;
    int right_rows = sizes.inner - thread / kRightUnits;
    const Raw* left_from =
        my_a + static_cast<int64_t>(thread / 8) * sizes.inner + thread % 8 * kPerUnit;
    const Raw* right_from = my_b + static_cast<int64_t>(thread / kRightUnits) * sizes.columns +
                            thread % kRightUnits * kPerUnit;
    const auto copy = [&](int slice) {  // called for one slice after the other
      if (slice < slices) {
        char* const stage = shared + slice % S::kStages * S::kStageBytes;
#pragma unroll
        for (int j = 0; j < S::kRows / kLeftStep; ++j) {
          Copy<kAligned>(stage + left_to + j * kLeftStep * kSliceBytes, left_from + j * left_step,
                         j * kLeftStep < left_rows ? left_left : 0, a);
        }
#pragma unroll
        for (int j = 0; j < kDepth / kRightStep; ++j) {
          Copy<kAligned>(
              stage + right_to + j * kRightStep * S::kColumns * static_cast<int>(sizeof(T)),
              right_from + j * right_step, j * kRightStep < right_rows ? right_left : 0, b);
        }
        left_from += kDepth;
        right_from += static_cast<int64_t>(kDepth) * sizes.columns;
        left_left -= kDepth;
        right_rows -= kDepth;
      }
      asm volatile("cp.async.commit_group;" ::: "memory");
    };

#pragma unroll
    for (int i = 0; i < S::kStages - 1; ++i) copy(i);
    float sums[kHeight][kWidth][4] = {};
    for (int slice = 0; slice < slices; ++slice) {
      asm volatile("cp.async.wait_group %0;" ::"n"(S::kStages - 2) : "memory");
      __syncthreads();
      copy(slice + S::kStages - 1);
      const char* const stage = shared + slice % S::kStages * S::kStageBytes;
      MultiplySlice<S, T>(sums, stage, stage + S::kLeftBytes, row, column);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");

#pragma unroll
    for (int i = 0; i < 2 * kHeight; ++i) {
      const int y_row = tile_row + row + i * 8 + lane / 4;
      T* const to = y + (member * sizes.rows + y_row) * sizes.columns;
      const auto sum = [&](int j, int of_pair) { return sums[i / 2][j][i % 2 * 2 + of_pair]; };
      if constexpr (kAligned && sizeof(T) == 2) {
#pragma unroll
        for (int j = 0; j < kWidth; j += 4) {
          const uint4 eight = Exchange(
              Pack<T>(sum(j, 0), sum(j, 1)), Pack<T>(sum(j + 1, 0), sum(j + 1, 1)),
              Pack<T>(sum(j + 2, 0), sum(j + 2, 1)), Pack<T>(sum(j + 3, 0), sum(j + 3, 1)));
          const int y_column = tile_column + column + (j + lane % 4) * 8;
          if (y_row < sizes.rows && y_column < sizes.columns) {
            *reinterpret_cast<uint4*>(to + y_column) = eight;
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const int y_column = tile_column + column + j * 8 + lane % 4 * 2;
          if (y_row >= sizes.rows || y_column >= sizes.columns) continue;
          if constexpr (kAligned) {
            *reinterpret_cast<float2*>(to + y_column) = make_float2(sum(j, 0), sum(j, 1));
          } else {
            to[y_column] = static_cast<T>(sum(j, 0));
            if (y_column + 1 < sizes.columns) to[y_column + 1] = static_cast<T>(sum(j, 1));
          }
        }
      }
    }
    __syncthreads();
  }
}

// Float32 as pairs of halves.

constexpr int kPairRows = 128;  // of a block, 32 of each of its warps
constexpr int kPairColumns = 64;
constexpr int kPairThreads = 128;
constexpr int kPairSlice = 32;                                            // depth
constexpr int kPairQuads = kPairSlice * kPairColumns / 4 / kPairThreads;  // float4s of b a thread
constexpr int kSplitThreads = 128;

// The largest power of two up to m > 0, in floating-point operations alone (Rump, 2009); for m from
// 2^-102 on.
__device__ float PowerOfTwo(float m) {
  constexpr float kDown = 1.0f / 16777216.0f;        // 2^-24: the product must not overflow
  const float q = __fmul_rn(m * kDown, 8388609.0f);  // 2^23 + 1
  return __fsub_rn(q, __fmul_rn(q, 0.99999994f)) * 16777216.0f;
}

constexpr float kLeast = 1e-30f;          // rows of zeros have a power of two as well
constexpr float kTopOfLeft = 16384.0f;    // where the largest number of a row of a goes
constexpr float kTopOfRight = 32.0f;      // where the largest of the first 32 of a column of b goes
constexpr float kLargestHalf = 65504.0f;  // beyond which a column gets another power

__device__ float4 Times(float4 v, float4 f) {
  return make_float4(v.x * f.x, v.y * f.y, v.z * f.z, v.w * f.w);
}

__device__ float4 LargerOf(float4 v, float4 w) {
  return make_float4(fmaxf(v.x, fabsf(w.x)), fmaxf(v.y, fabsf(w.y)), fmaxf(v.z, fabsf(w.z)),
                     fmaxf(v.w, fabsf(w.w)));
}

__device__ void InitBarrier(uint32_t barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

// One thread copies for all, who wait for the barrier's phase of that parity.
__device__ void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ void WaitFor(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ __half2 AsHalves(uint32_t bits) { return reinterpret_cast<const __half2&>(bits); }

__device__ void SplitPair(float a, float b, uint32_t& high, uint32_t& low) {
  const __half2 h = __floats2half2_rn(a, b);
  const __half2 l = __floats2half2_rn(a - __low2float(h), b - __high2float(h));
  high = reinterpret_cast<const uint32_t&>(h);
  low = reinterpret_cast<const uint32_t&>(l);
}

// Rows of a as halves: members in tiles of kPairRows rows; of a tile, slice by slice, its rows of
// 32 high parts and 32 low ones. What lies beyond the ends of a is zero. A block a row.
__global__ void __launch_bounds__(kSplitThreads)
    SplitLeft(const float* __restrict__ a, char* __restrict__ to, float* __restrict__ scales,
              Sizes sizes) {
  __shared__ float of_warps[kSplitThreads / 32];
  const int tiles = (sizes.rows - 1) / kPairRows + 1;
  const int slices = (sizes.inner - 1) / kPairSlice + 1;
  const int row = static_cast<int>(blockIdx.x % (tiles * kPairRows));
  const int64_t member = blockIdx.x / (tiles * kPairRows);
  const float* const mine = a + (member * sizes.rows + row) * sizes.inner;
  const int end = row < sizes.rows ? sizes.inner : 0;
  const auto quad = [&](int k) {
    return k < end ? *reinterpret_cast<const float4*>(mine + k) : make_float4(0, 0, 0, 0);
  };
  float4 larger = make_float4(kLeast, kLeast, kLeast, kLeast);
#pragma unroll 4
  for (int k = threadIdx.x * 4; k < end; k += kSplitThreads * 4) larger = LargerOf(larger, quad(k));
  float most = fmaxf(fmaxf(larger.x, larger.y), fmaxf(larger.z, larger.w));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, distance));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kSplitThreads / 32; ++warp) most = fmaxf(most, of_warps[warp]);
  const float power = PowerOfTwo(most);
  const float factor = kTopOfLeft / power;
  const float4 factors = make_float4(factor, factor, factor, factor);
  if (threadIdx.x == 0) scales[blockIdx.x] = power * (1.0f / kTopOfLeft);

  char* const tile =
      to + static_cast<int64_t>(blockIdx.x / kPairRows) * slices * kPairRows * kSliceBytes;
#pragma unroll 2
  for (int unit = threadIdx.x; unit < slices * 4; unit += kSplitThreads) {
    const float4 v = Times(quad(unit * 8), factors), w = Times(quad(unit * 8 + 4), factors);
    uint4 high, low;
    SplitPair(v.x, v.y, high.x, low.x);
    SplitPair(v.z, v.w, high.y, low.y);
    SplitPair(w.x, w.y, high.z, low.z);
    SplitPair(w.z, w.w, high.w, low.w);
    char* const slice = tile + static_cast<int64_t>(unit / 4) * kPairRows * kSliceBytes;
    *reinterpret_cast<uint4*>(slice + PlaceLeft(row % kPairRows, unit % 4)) = high;
    *reinterpret_cast<uint4*>(slice + PlaceLeft(row % kPairRows, unit % 4 + 4)) = low;
  }
}

// What PairProduct keeps in shared memory, twice: what is used, and what comes.
struct PairShared {
  char a[2][kPairRows * kSliceBytes];
  float4 raw[2][kPairQuads][kPairThreads];  // of b; each thread reads what it has copied
  char b[2][2][kPairSlice * kSliceBytes];   // high parts, low parts: a row of 64 for each k
  float scales[2][kPairColumns];            // what sums of a column are multiplied with
  uint64_t landed[2];                       // barriers that say that a is there
};

// Turns a row's 16-byte units such that eight rows of a unit lie in different banks, and four rows
// of two units as well.
__device__ int TurnOfPairs(int k) { return k % 4 * 2 + k / 4 % 2; }

__global__ void __launch_bounds__(kPairThreads, 2)
    PairProduct(const char* __restrict__ a, const float* __restrict__ scales_of_a,
                const float* __restrict__ b, float* __restrict__ y, Sizes sizes) {
  constexpr int kTiles = kPairColumns / 8;
  extern __shared__ __align__(128) char shared_bytes[];
  PairShared& shared = *reinterpret_cast<PairShared*>(shared_bytes);
  const int thread = threadIdx.x;
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int slices = (sizes.inner - 1) / kPairSlice + 1;
  const int row_tiles = (sizes.rows - 1) / kPairRows + 1;
  const int64_t tile = blockIdx.x;  // of a
  const int64_t member = tile / row_tiles;
  const int first_row = static_cast<int>(tile % row_tiles) * kPairRows;
  const int first_column = static_cast<int>(blockIdx.y) * kPairColumns;

  // A warp splits 16 columns: four lanes a row of them, so eight rows at once.
  const int my_k = lane / 4;
  const int my_column = warp * 16 + lane % 4 * 4;
  const bool inside = first_column + my_column < sizes.columns;
  const float* const b_from =
      b + (member * sizes.inner + my_k) * sizes.columns + first_column + my_column;
  const auto copy_b = [&](int slice, int buffer) {
    const int k = slice * kPairSlice;
    const int left = inside ? sizes.inner - k - my_k : 0;
#pragma unroll
    for (int q = 0; q < kPairQuads; ++q) {
      Copy<true>(reinterpret_cast<char*>(&shared.raw[buffer][q][thread]),
                 b_from + static_cast<int64_t>(k + q * 8) * sizes.columns, left - q * 8, b);
    }
  };
  constexpr uint32_t kBytesOfA = kPairRows * kSliceBytes;
  const auto copy_a = [&](int slice, int buffer) {
    if (thread != 0 || slice >= slices) return;
    CopyBulk(SharedAddress(shared.a[buffer]), a + (tile * slices + slice) * kBytesOfA, kBytesOfA,
             SharedAddress(&shared.landed[buffer]));
  };

  float4 factors = {};   // of this thread's columns
  float4 inverses = {};  // of these
  __half2 most = AsHalves(0);
  const int split_at =
      my_k * kSliceBytes + ((my_column / 8) ^ TurnOfPairs(my_k)) * 16 + lane % 2 * 8;
  const auto split = [&](int q, int buffer) {
    const float4 v = Times(shared.raw[buffer][q][thread], factors);
    uint2 high, low;
    SplitPair(v.x, v.y, high.x, low.x);
    SplitPair(v.z, v.w, high.y, low.y);
    most = __hmax2(most, __hmax2(__habs2(AsHalves(high.x)), __habs2(AsHalves(high.y))));
    *reinterpret_cast<uint2*>(shared.b[buffer][0] + split_at + q * 8 * kSliceBytes) = high;
    *reinterpret_cast<uint2*>(shared.b[buffer][1] + split_at + q * 8 * kSliceBytes) = low;
  };
  const auto store_scales = [&](int buffer) {
    if (lane < 4) *reinterpret_cast<float4*>(&shared.scales[buffer][my_column]) = inverses;
  };
  // Once more, where a column needs another power of two.
  const auto rescale = [&](int buffer) {
    float4 larger = make_float4(kLeast, kLeast, kLeast, kLeast);
#pragma unroll
    for (int q = 0; q < kPairQuads; ++q) larger = LargerOf(larger, shared.raw[buffer][q][thread]);
    const auto adjust = [&](float largest, float& factor, float& inverse) {
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
      }
      if (factor != 0.0f && largest * factor <= kLargestHalf) return;
      const float power = PowerOfTwo(largest);
      factor = kTopOfRight / power;
      inverse = power * (1.0f / kTopOfRight);
    };
    adjust(larger.x, factors.x, inverses.x);
    adjust(larger.y, factors.y, inverses.y);
    adjust(larger.z, factors.z, inverses.z);
    adjust(larger.w, factors.w, inverses.w);
#pragma unroll 1
    for (int q = 0; q < kPairQuads; ++q) split(q, buffer);
    store_scales(buffer);
  };

  if (thread == 0) {
    InitBarrier(SharedAddress(&shared.landed[0]));
    InitBarrier(SharedAddress(&shared.landed[1]));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  copy_a(0, 0);
  copy_b(0, 0);
  copy_b(1, 1);
  asm volatile("cp.async.wait_all;" ::: "memory");
  rescale(0);

  // Which rows this lane names in ldmatrix, and which units of them. Constants in the bits of a
  // unit's number commute with its turn.
  const int a_lane = PlaceLeft(warp * 32 + lane % 16, lane / 16);
  const int b_lane = lane % 16 * kSliceBytes + ((lane / 16) ^ TurnOfPairs(lane)) * 16;
  float sums[2][kTiles][4] = {};
  for (int slice = 0; slice < slices; ++slice) {
    const int buffer = slice % 2;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    copy_a(slice + 1, buffer ^ 1);
    copy_b(slice + 2, buffer);
    WaitFor(SharedAddress(&shared.landed[buffer]), slice / 2 % 2);
    most = AsHalves(0);

    uint32_t high[2][2][4], low[2][2][4];  // of a: [16 of the depth][16 rows]
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const char* const at = shared.a[buffer] + i * 16 * kSliceBytes;
        LoadMatrices<false>(high[step][i], at + (a_lane ^ (step * 32)));
        LoadMatrices<false>(low[step][i], at + (a_lane ^ (step * 32 + 64)));
      }
    }
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      float parts[2][2][4] = {}, small[2][2][4] = {};
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        uint32_t b_high[4], b_low[4];
        const int at = (b_lane ^ (pair * 32)) + step * 16 * kSliceBytes;
        LoadMatrices<true>(b_high, shared.b[buffer][0] + at);
        LoadMatrices<true>(b_low, shared.b[buffer][1] + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          MultiplyHalves<at::Half>(small[i / 2][i % 2], low[step][i / 2], b_high[i % 2 * 2],
                                   b_high[i % 2 * 2 + 1]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          MultiplyHalves<at::Half>(parts[i / 2][i % 2], high[step][i / 2], b_high[i % 2 * 2],
                                   b_high[i % 2 * 2 + 1]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          MultiplyHalves<at::Half>(small[i / 2][i % 2], high[step][i / 2], b_low[i % 2 * 2],
                                   b_low[i % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 scale = *reinterpret_cast<const float2*>(
            &shared.scales[buffer][(2 * pair + j) * 8 + lane % 4 * 2]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float(&sum)[4] = sums[i][2 * pair + j];
          sum[0] += (parts[i][j][0] + small[i][j][0]) * scale.x;
          sum[1] += (parts[i][j][1] + small[i][j][1]) * scale.y;
          sum[2] += (parts[i][j][2] + small[i][j][2]) * scale.x;
          sum[3] += (parts[i][j][3] + small[i][j][3]) * scale.y;
        }
      }
      if (pair < kPairQuads) split(pair, buffer ^ 1);
    }
    store_scales(buffer ^ 1);
    const bool fits = fmaxf(__low2float(most), __high2float(most)) <= kLargestHalf;
    if (__any_sync(0xffffffffu, !fits)) rescale(buffer ^ 1);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");

#pragma unroll
  for (int i = 0; i < 4; ++i) {  // rows of this lane
    const int of_tile = warp * 32 + i * 8 + lane / 4;
    if (first_row + of_tile >= sizes.rows) break;
    const float scale = scales_of_a[tile * kPairRows + of_tile];
    float* const to = y + (member * sizes.rows + first_row + of_tile) * sizes.columns;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int column = first_column + j * 8 + lane % 4 * 2;
      if (column >= sizes.columns) break;
      const float* const sum = &sums[i / 2][j][i % 2 * 2];
      *reinterpret_cast<float2*>(to + column) = make_float2(sum[0] * scale, sum[1] * scale);
    }
  }
}

static void LaunchPairs(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  static_assert(kPairQuads <= kPairColumns / 16);
  const Sizes sizes = {static_cast<int>(y.size(0)), static_cast<int>(y.size(1)),
                       static_cast<int>(y.size(2)), static_cast<int>(a.size(2))};
  const int64_t tiles = static_cast<int64_t>(sizes.batch) * ((sizes.rows - 1) / kPairRows + 1);
  const int64_t slices = (sizes.inner - 1) / kPairSlice + 1;
  auto split =
      torch::empty({tiles, slices * kPairRows * kSliceBytes}, a.options().dtype(torch::kUInt8));
  auto scales = torch::empty({tiles * kPairRows}, a.options());
  char* const halves = static_cast<char*>(split.data_ptr());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  SplitLeft<<<static_cast<unsigned>(tiles * kPairRows), kSplitThreads, 0, stream>>>(
      a.data_ptr<float>(), halves, scales.data_ptr<float>(), sizes);
  C10_CUDA_CHECK(cudaFuncSetAttribute(PairProduct, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(sizeof(PairShared))));
  const dim3 grid(static_cast<unsigned>(tiles),
                  static_cast<unsigned>((sizes.columns - 1) / kPairColumns + 1));
  PairProduct<<<grid, kPairThreads, sizeof(PairShared), stream>>>(
      halves, scales.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), sizes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class T, class S, bool kAligned>
static void LaunchShape(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  using Raw = std::conditional_t<std::is_same_v<T, float>, float, uint16_t>;
  const auto kernel = Product<T, Raw, S, kAligned>;
  constexpr int kBytes = S::kStages * S::kStageBytes;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const Sizes sizes = {static_cast<int>(y.size(0)), static_cast<int>(y.size(1)),
                       static_cast<int>(y.size(2)), static_cast<int>(a.size(2))};
  const dim3 grid(static_cast<unsigned>((sizes.columns - 1) / S::kColumns + 1),
                  static_cast<unsigned>((sizes.rows - 1) / S::kRows + 1),
                  static_cast<unsigned>(std::min(sizes.batch, 65535)));
  kernel<<<grid, S::kThreads, kBytes, at::cuda::getCurrentCUDAStream()>>>(
      static_cast<const Raw*>(a.data_ptr()), static_cast<const Raw*>(b.data_ptr()),
      static_cast<T*>(y.data_ptr()), sizes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// 16-bit factors of many columns: cuBLAS, at memory's limit, which kernels of mma.sync were not
// (33 us against 25 for 32 members of 1024 x 1024 x 128).
template <class T>
static void LaunchLibrary(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  constexpr cudaDataType kType = std::is_same_v<T, at::Half> ? CUDA_R_16F : CUDA_R_16BF;
  const int rows = static_cast<int>(y.size(1)), columns = static_cast<int>(y.size(2));
  const int inner = static_cast<int>(a.size(2));
  const float one = 1.0f, zero = 0.0f;
  // cuBLAS counts columns first: its product is y's transpose, of b's by a's.
  TORCH_CHECK(cublasGemmStridedBatchedEx(
                  at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_N, columns, rows,
                  inner, &one, b.data_ptr(), kType, columns, int64_t{inner} * columns, a.data_ptr(),
                  kType, inner, int64_t{rows} * inner, &zero, y.data_ptr(), kType, columns,
                  int64_t{rows} * columns, static_cast<int>(y.size(0)), CUBLAS_COMPUTE_32F,
                  CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS,
              "cuBLAS failed");
}

// Float32, so narrow and shallow that a member's b and many rows of a fit in shared memory: a block
// asks for all of them at once, in parts of the depth, and multiplies each part when it is there.

constexpr int kStripColumns = 32;
constexpr int kStripPart = 64;        // of the depth
constexpr int kStripParts = 4;        // at most
constexpr int kStripWarps = 16;       // at most, of 16 rows each
constexpr int kStripRightPitch = 40;  // floats: what a warp reads lies in different banks
constexpr int kMaxStripBytes = 220 * 1024;

struct Strip {
  Sizes sizes;
  int rows;   // of a block, a multiple of 16
  int depth;  // a multiple of 8
  int pitch;  // floats of a row of a in shared memory: depth + 4, for the same reason
};

template <int kPending>
__device__ void WaitForAllBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__global__ void __launch_bounds__(32 * kStripWarps)
    StripProduct(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y,
                 Strip p) {
  extern __shared__ __align__(128) char shared[];
  float* const left = reinterpret_cast<float*>(shared);  // [rows][pitch]
  float* const right = left + p.rows * p.pitch;          // [depth][kStripRightPitch]
  const int thread = threadIdx.x;
  const int threads = blockDim.x;
  const int lane = thread % 32;
  const int row = thread / 32 * 16 + lane / 4;
  const int first_row = static_cast<int>(blockIdx.x) * p.rows;
  const int rows_here = p.sizes.rows - first_row;
  const int inner = p.sizes.inner;
  const int columns = p.sizes.columns;
  const int64_t member = blockIdx.y;
  const float* const my_a = a + (member * p.sizes.rows + first_row) * inner;
  const float* const my_b = b + member * inner * columns;

#pragma unroll 1
  for (int part = 0; part < kStripParts; ++part) {
    const int begin = part * kStripPart;
    const int depth = min(p.depth - begin, kStripPart);  // none where it is not above zero
    const int k = begin + thread % 16 * 4;
    if (thread % 16 * 4 < depth) {
      for (int i = thread / 16; i < p.rows; i += threads / 16) {
        const bool valid = i < rows_here && k < inner;
        Copy<true>(reinterpret_cast<char*>(left + i * p.pitch + k), my_a + i * inner + k,
                   valid ? 1 : 0, a);
      }
    }
    for (int i = thread; i < depth * 8; i += threads) {
      const int of_depth = begin + i / 8;
      const int column = i % 8 * 4;
      const bool valid = of_depth < inner && column < columns;
      Copy<true>(reinterpret_cast<char*>(right + of_depth * kStripRightPitch + column),
                 my_b + of_depth * columns + column, valid ? 1 : 0, b);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  float sums[4][4] = {};
  const float* const my_left = left + row * p.pitch + lane % 4;
  const float* const my_right = right + lane % 4 * kStripRightPitch + lane / 4;
#pragma unroll 1
  for (int part = 0; part < kStripParts; ++part) {
    if (part == 0) {
      WaitForAllBut<3>();
    } else if (part == 1) {
      WaitForAllBut<2>();
    } else if (part == 2) {
      WaitForAllBut<1>();
    } else {
      WaitForAllBut<0>();
    }
    __syncthreads();
    const int end = min(p.depth, (part + 1) * kStripPart);
#pragma unroll 1
    for (int begin = part * kStripPart; begin < end; begin += 32) {
      float parts[4][4] = {};
#pragma unroll
      for (int step = 0; step < 32; step += 8) {
        const int k = begin + step;
        if (k >= end) break;
        uint32_t high[4], low[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          Split(high, low, j, my_left[j % 2 * 8 * p.pitch + k + j / 2 * 4]);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          uint32_t b_high[2], b_low[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            Split(b_high, b_low, i, my_right[(k + i * 4) * kStripRightPitch + j * 8]);
          }
          MultiplyTf32(parts[j], low, b_high);
          MultiplyTf32(parts[j], high, b_low);
          MultiplyTf32(parts[j], high, b_high);
        }
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) (&sums[0][0])[i] += (&parts[0][0])[i];
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (row + i * 8 >= rows_here) break;
    float* const to = y + (member * p.sizes.rows + first_row + row + i * 8) * columns;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = j * 8 + lane % 4 * 2;
      if (column < columns) {
        *reinterpret_cast<float2*>(to + column) = make_float2(sums[j][i * 2], sums[j][i * 2 + 1]);
      }
    }
  }
}

static bool IsStrip(const torch::Tensor& y, int64_t depth) {
  return y.size(2) <= kStripColumns && depth <= kStripParts * kStripPart && y.size(0) <= 65535;
}

static void LaunchStrips(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  Strip p;
  p.sizes = {static_cast<int>(y.size(0)), static_cast<int>(y.size(1)), static_cast<int>(y.size(2)),
             static_cast<int>(a.size(2))};
  p.depth = (p.sizes.inner + 7) / 8 * 8;
  p.pitch = p.depth + 4;
  const int tiles = (p.sizes.rows - 1) / 16 + 1;
  const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  int strips = std::max(1, std::min(tiles, processors / p.sizes.batch));
  const auto bytes = [&] {
    p.rows = ((tiles - 1) / strips + 1) * 16;
    return (p.rows * p.pitch + p.depth * kStripRightPitch) * static_cast<int>(sizeof(float));
  };
  while (bytes() > kMaxStripBytes || p.rows > 16 * kStripWarps) ++strips;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(StripProduct, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes()));
  const dim3 grid(static_cast<unsigned>((p.sizes.rows - 1) / p.rows + 1),
                  static_cast<unsigned>(p.sizes.batch));
  StripProduct<<<grid, p.rows * 2, bytes(), at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// A small product of rows that lie askew: a lane for each number of y, a warp for each part of the
// depth. All loads of a thread are on their way at once, up to a depth of kSmallParts *
// kSmallBatch.

constexpr int kSmallParts = 16;
constexpr int kSmallBatch = 16;
constexpr int64_t kMaxSmall = int64_t{1} << 23;  // multiplications

template <class T>
__global__ void __launch_bounds__(32 * kSmallParts)
    SmallProduct(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y, Sizes sizes) {
  __shared__ float parts[kSmallParts][32];
  const int lane = threadIdx.x % 32;
  const int part = threadIdx.x / 32;
  const int place = static_cast<int>(blockIdx.x) * 32 + lane;  // in y
  const bool inside = place < sizes.batch * sizes.rows * sizes.columns;
  const int row = place / sizes.columns;  // of all members
  const int end = inside ? sizes.inner * (part + 1) / kSmallParts : 0;
  float sum = 0.0f;
  for (int begin = sizes.inner * part / kSmallParts; begin < end; begin += kSmallBatch) {
    const T* const left = a + row * sizes.inner + begin;
    const T* const right =
        b + (row / sizes.rows * sizes.inner + begin) * sizes.columns + place % sizes.columns;
    float l[kSmallBatch], r[kSmallBatch];
#pragma unroll
    for (int i = 0; i < kSmallBatch; ++i) {
      const bool valid = begin + i < end;
      l[i] = valid ? static_cast<float>(left[i]) : 0.0f;
      r[i] = valid ? static_cast<float>(right[i * sizes.columns]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kSmallBatch; ++i) sum += l[i] * r[i];
  }
  parts[part][lane] = sum;
  __syncthreads();
  if (part != 0 || !inside) return;
#pragma unroll
  for (int i = 1; i < kSmallParts; ++i) sum += parts[i][lane];
  y[place] = static_cast<T>(sum);
}

template <class T>
static void LaunchSmall(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  const Sizes sizes = {static_cast<int>(y.size(0)), static_cast<int>(y.size(1)),
                       static_cast<int>(y.size(2)), static_cast<int>(a.size(2))};
  SmallProduct<T><<<static_cast<unsigned>((y.numel() - 1) / 32 + 1), 32 * kSmallParts, 0,
                    at::cuda::getCurrentCUDAStream()>>>(a.data_ptr<T>(), b.data_ptr<T>(),
                                                        y.data_ptr<T>(), sizes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class T>
static void Launch(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor& y) {
  constexpr bool kFloats = std::is_same_v<T, float>;
  using Narrow = std::conditional_t<kFloats, NarrowFloats, NarrowHalves>;
  const bool aligned = a.size(2) * static_cast<int64_t>(sizeof(T)) % 16 == 0 &&
                       b.size(2) * static_cast<int64_t>(sizeof(T)) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(a.data_ptr()) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(b.data_ptr()) % 16 == 0;
  if (!aligned) {
    const bool small = y.numel() <= kMaxSmall / std::max<int64_t>(a.size(2), 1) &&
                       a.numel() <= kMaxSmall && b.numel() <= kMaxSmall;
    return small ? LaunchSmall<T>(a, b, y) : LaunchShape<T, Narrow, false>(a, b, y);
  }
  if constexpr (kFloats) {
    if (IsStrip(y, a.size(2))) return LaunchStrips(a, b, y);
  }
  if (y.size(2) <= Narrow::kColumns) return LaunchShape<T, Narrow, true>(a, b, y);
  if constexpr (kFloats) {
    LaunchPairs(a, b, y);
  } else {
    LaunchLibrary<T>(a, b, y);
  }
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
  if (a.size(2) == 0) return y.zero_();  // cuBLAS refuses
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
