// Feed-forward block of Llama in float32, on tensor cores that multiply halves.
//
// A number v, scaled into the range of halves by a power of two, is split into high = half(v) and
// low = half(v - high), 22 bits and a sign. Three products, low * high, high * low and high * high,
// are as exact as float32; 16-bit tensor cores make them in half the time of three TF32 products.
// Tensor cores truncate what they add up, so a sum leaves them after every 32 products, for
// accumulators in float32 registers.
//
//   Split    rows of x, each scaled to [2^14, 2^15) as a whole, become halves in global memory: for
//            every 32 columns, a "chunk", 32 high parts and then 32 low ones (128 bytes). They lie
//            as Product wants them in shared memory, so that one bulk copy brings a block's chunk.
//   Product  of these with weights. A block makes kRows rows times 16 kPairs columns, a warp 32
//            rows. Weights come as float32 by asynchronous copies, a chunk at a time; each thread
//            splits what it has copied while it multiplies the chunk before. A row of weights
//            begins with a power of two that takes its first 32 numbers to [2^5, 2^6), and changes
//            it at a chunk that would not fit in halves; sums of 32 products are multiplied with
//            its inverse as they leave the tensor cores. So no size of weights overflows.
//            For x, columns of gate and of up take turns, eight each: silu(gate) * up is made in
//            registers, for 56 columns a block, since 14336 / 56 = 256 blocks of 256 rows fill 132
//            processors twice by 97 %.
//   Split    of hidden, Product with down: 128 columns, and where that gives too few blocks, parts
//            of the depth, which Add sums up in order.
//
// Where rows of weights are aligned, a Hopper GPU takes WideProduct instead: a warpgroup has 64
// rows of weights, the left factor, which each lane reads, splits and keeps in registers, and 256
// rows of x in shared memory. A third warpgroup loads both with tensor maps, four chunks ahead.
//
// Small problems, where these launches would take longer than the products, are two launches of
// ordinary multiply-adds, SmallProduct: the second begins early and fetches its weights meanwhile.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kWarps = 8;            // tune: kWarps in 4, 8; of a block of Product
constexpr int kBlocks = 8 / kWarps;  // of Product on a processor at once
constexpr int kWarpRows = 32;
constexpr int kRows = kWarps * kWarpRows;  // of a block
constexpr int kThreads = kWarps * 32;
constexpr int kChunk = 32;          // depth between barriers, and between the sums in tensor cores
constexpr int kLine = 128;          // bytes of a row of a chunk: 32 high halves, 32 low ones
constexpr int kUnits = kLine / 16;  // of 16 bytes, and lanes that copy a row of 32 floats
constexpr int kRowsAtOnce = kThreads / kUnits;
constexpr int kGatedPairs = 7;  // 16 columns each: 56 of gate, 56 of up
constexpr int kDownPairs = 8;   // tune: kDownPairs in 4, 6, 7, 8
constexpr int kAddThreads = 256;
constexpr int kSplitThreads = 256;
constexpr int kSplitUnit = 8;                // halves in 16 bytes
constexpr int64_t kSmallProducts = 4 << 20;  // of a matrix, at most
constexpr int kSmallRows = 2;
constexpr int kSmallColumns = 32;  // a lane each
constexpr int kSmallDepth = 128;   // between barriers
constexpr int kSmallWarps = 8;
constexpr int kSmallParts = kSmallWarps / kSmallRows;  // of the depth: a warp has one, of a row

// What Product keeps in shared memory, twice: what is used, and what comes.
template <int kPairs>
struct Shared {
  static constexpr int kQuads = (16 * kPairs + kRowsAtOnce - 1) / kRowsAtOnce;
  static constexpr int kColumns = kQuads * kRowsAtOnce;  // some without use where these do not fit

  char x[2][kRows * kLine];
  float4 raw[2][kQuads][kThreads];  // weights; each thread reads what it has copied
  char weights[2][kColumns * kLine];
  float scales[2][kColumns];        // what sums of a row of weights are multiplied with
  float factors[kQuads][kThreads];  // what weights have been multiplied with, of this thread's rows
  uint64_t landed[2];               // barriers that say that x is there
};

// A matrix of split rows, in tiles of kRows: of each, chunk by chunk, its rows of kLine bytes. And
// what to multiply each row with.
struct SplitMatrix {
  const char* data;
  const float* scales;
  int chunks;
};

struct Weights {
  const float* gate;  // or down
  const float* up;
  int64_t rows;
  int columns;
};

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Zeros where it is not valid.
template <int kBytes>
__device__ void CopyAsync(uint32_t to, const void* from, bool valid) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 4 : 0));
  }
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

// Four matrices of 8 x 8 halves; each lane names a row of 16 bytes.
__device__ void LoadMatrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

__device__ void MultiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The largest power of two up to m > 0, in floating-point operations alone (Rump, 2009); for m from
// 2^-102 on.
__device__ float PowerOfTwo(float m) {
  constexpr float kDown = 1.0f / 16777216.0f;        // 2^-24: the product must not overflow
  const float q = __fmul_rn(m * kDown, 8388609.0f);  // 2^23 + 1
  return __fsub_rn(q, __fmul_rn(q, 0.99999994f)) * 16777216.0f;
}

constexpr float kLeast = 1e-30f;          // rows of zeros have a power of two as well
constexpr float kTopOfX = 16384.0f;       // where the largest number of a row goes
constexpr float kTopOfWeights = 32.0f;    // where the largest of the first 32 goes
constexpr float kLargestHalf = 65504.0f;  // beyond which a row of weights gets another power

__device__ float LargestOf(float4 v) {
  return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

__device__ __half2 AsHalves(uint32_t bits) { return reinterpret_cast<const __half2&>(bits); }

__device__ void SplitPair(float a, float b, uint32_t& high, uint32_t& low) {
  const __half2 h = __floats2half2_rn(a, b);
  const __half2 l = __floats2half2_rn(a - __low2float(h), b - __high2float(h));
  high = reinterpret_cast<const uint32_t&>(h);
  low = reinterpret_cast<const uint32_t&>(l);
}

__device__ float4 operator*(float4 v, float factor) {
  return make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
}

__device__ void SplitQuad(float4 v, uint2& high, uint2& low) {
  SplitPair(v.x, v.y, high.x, low.x);
  SplitPair(v.z, v.w, high.y, low.y);
}

// Where a row's 16-byte unit lies: units are permuted, so that 8 rows of one unit, which ldmatrix
// reads at once, lie in different banks.
__device__ int Place(int row, int unit) { return row * kLine + (unit ^ (row % 8)) * 16; }

// Rows of `from` as a SplitMatrix; rows and columns beyond its end are zero. A block a row.
// kWide: for WideProduct, whose copies permute the units. All chunks of a row lie one after
// another, and of 16 columns the pairs 0, 2, 4 and 6 come first and then 1, 3, 5 and 7.
template <bool kAligned, bool kWide>
__global__ void __launch_bounds__(kSplitThreads)
    Split(const float* __restrict__ from, int64_t rows, int64_t columns, char* __restrict__ to,
          float* __restrict__ scales, int chunks) {
  __shared__ float of_warps[kSplitThreads / 32];
  const int64_t row = blockIdx.x;
  const float* const mine = from + row * columns;
  const int64_t end = row < rows ? columns : 0;
  const auto quad = [&](int64_t k) {
    float4 v = {};
    if constexpr (kAligned) {
      if (k < end) v = *reinterpret_cast<const float4*>(mine + k);
    } else {
      if (k < end) v.x = mine[k];
      if (k + 1 < end) v.y = mine[k + 1];
      if (k + 2 < end) v.z = mine[k + 2];
      if (k + 3 < end) v.w = mine[k + 3];
    }
    return v;
  };

  float most = kLeast;
#pragma unroll 4
  for (int64_t k = threadIdx.x * 4; k < end; k += kSplitThreads * 4) {
    most = fmaxf(most, LargestOf(quad(k)));
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, distance));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kSplitThreads / 32; ++warp) most = fmaxf(most, of_warps[warp]);
  const float power = PowerOfTwo(most);
  const float factor = kTopOfX / power;
  if (threadIdx.x == 0) scales[row] = power * (1.0f / kTopOfX);

  if constexpr (kWide) {
    char* const line = to + row * chunks * kLine;
#pragma unroll 2
    for (int unit = threadIdx.x; unit < chunks * (kChunk / kSplitUnit); unit += kSplitThreads) {
      uint32_t high[4], low[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t k = static_cast<int64_t>(unit / 2) * 16 + i * 4 + unit % 2 * 2;
        float2 v = {};
        if constexpr (kAligned) {
          if (k < end) v = *reinterpret_cast<const float2*>(mine + k);
        } else {
          if (k < end) v.x = mine[k];
          if (k + 1 < end) v.y = mine[k + 1];
        }
        SplitPair(v.x * factor, v.y * factor, high[i], low[i]);
      }
      char* const place = line + static_cast<int64_t>(unit / 4) * kLine + unit % 4 * 16;
      *reinterpret_cast<uint4*>(place) = make_uint4(high[0], high[1], high[2], high[3]);
      *reinterpret_cast<uint4*>(place + kLine / 2) = make_uint4(low[0], low[1], low[2], low[3]);
    }
    return;
  }

  char* const tile = to + row / kRows * chunks * kRows * kLine;
#pragma unroll 2
  for (int unit = threadIdx.x; unit < chunks * (kChunk / kSplitUnit); unit += kSplitThreads) {
    const int64_t k = static_cast<int64_t>(unit) * kSplitUnit;
    uint2 high[2], low[2];
    SplitQuad(quad(k) * factor, high[0], low[0]);
    SplitQuad(quad(k + 4) * factor, high[1], low[1]);
    char* const of_chunk = tile + static_cast<int64_t>(unit / 4) * kRows * kLine;
    const int of_tile = static_cast<int>(row % kRows);
    *reinterpret_cast<uint4*>(of_chunk + Place(of_tile, unit % 4)) =
        make_uint4(high[0].x, high[0].y, high[1].x, high[1].y);
    *reinterpret_cast<uint4*>(of_chunk + Place(of_tile, unit % 4 + 4)) =
        make_uint4(low[0].x, low[0].y, low[1].x, low[1].y);
  }
}

// y[r, c] = x[r] . down[c], or silu(x[r] . gate[c]) * (x[r] . up[c]) where kGated. The z-th block
// multiplies the z-th part of the depth, into the z-th of the matrices at y.
template <int kPairs, bool kGated, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocks)
    Product(SplitMatrix x, Weights weights, float* __restrict__ y, int64_t rows) {
  constexpr int kTiles = 2 * kPairs;  // of 8 columns
  constexpr int kColumns = 16 * kPairs;
  constexpr int kOutputs = kGated ? kColumns / 2 : kColumns;
  using Buffers = Shared<kPairs>;
  constexpr int kQuads = Buffers::kQuads;
  extern __shared__ __align__(128) char bytes[];
  Buffers& shared = *reinterpret_cast<Buffers*>(bytes);
  const int thread = threadIdx.x;
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kRows;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * kOutputs;
  const int begin = static_cast<int>(static_cast<int64_t>(x.chunks) * blockIdx.z / gridDim.z);
  const int end = static_cast<int>(static_cast<int64_t>(x.chunks) * (blockIdx.z + 1) / gridDim.z);

  // Eight lanes copy a row of weights, four rows a warp: such that the halves of any two of these
  // eights lie in different banks. Of a tile's rows, eight of gate and eight of up take turns.
  const int quad_row = warp / 2 * 8 + warp % 2 * 2 + lane / 8 % 2 * 4 + lane / 16;
  const int quad_k = lane % 8 * 4;
  constexpr int kStep = kGated ? kRowsAtOnce / 2 : kRowsAtOnce;  // rows of a matrix at once
  const bool is_up = kGated && quad_row / 8 % 2 != 0;
  const int64_t weights_row = first_column + (kGated ? quad_row / 16 * 8 + quad_row % 8 : quad_row);
  const float* const weights_from =
      (is_up ? weights.up : weights.gate) + weights_row * weights.columns + quad_k;
  int valid_quads = 0;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const bool of_tile = q * kRowsAtOnce + quad_row < kColumns;
    if (of_tile && weights_row + q * kStep < weights.rows) valid_quads = q + 1;
  }
  const auto copy_weights = [&](int chunk, int buffer) {
    const int k = chunk * kChunk;
    const uint32_t to = SharedAddress(&shared.raw[buffer][0][thread]);
    constexpr int kWidth = kAligned ? 4 : 1;
#pragma unroll
    for (int i = 0; i < 4; i += kWidth) {
      const int valid = chunk < end && k + quad_k + i < weights.columns ? valid_quads : 0;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        CopyAsync<4 * kWidth>(
            to + q * kThreads * 16 + i * 4,
            weights_from + k + i + q * kStep * static_cast<int64_t>(weights.columns), q < valid);
      }
    }
  };

  constexpr uint32_t kBytesOfX = kRows * kLine;
  const char* const x_from = x.data + static_cast<int64_t>(blockIdx.x) * x.chunks * kBytesOfX;
  const auto copy_x = [&](int chunk, int buffer) {
    if (thread != 0 || chunk >= end) return;
    CopyBulk(SharedAddress(shared.x[buffer]), x_from + static_cast<int64_t>(chunk) * kBytesOfX,
             kBytesOfX, SharedAddress(&shared.landed[buffer]));
  };

  // Splits this thread's q-th four weights of a chunk for the whole block.
  char* const split_to = shared.weights[0] + Place(quad_row, lane % 8 / 2) + lane % 2 * 8;
  char* const low_to = shared.weights[0] + Place(quad_row, lane % 8 / 2 + 4) + lane % 2 * 8;
  __half2 most = AsHalves(0);  // of a chunk's scaled weights
  const auto store = [&](int q, int buffer, float4 v) {
    uint2 high, low;
    SplitQuad(v, high, low);
    most = __hmax2(most, __hmax2(__habs2(AsHalves(high.x)), __habs2(AsHalves(high.y))));
    const int offset =
        buffer * static_cast<int>(sizeof(shared.weights[0])) + q * kRowsAtOnce * kLine;
    *reinterpret_cast<uint2*>(split_to + offset) = high;
    *reinterpret_cast<uint2*>(low_to + offset) = low;
  };
  const auto split = [&](int q, int buffer) {
    store(q, buffer, shared.raw[buffer][q][thread] * shared.factors[q][thread]);
    float* const scale = &shared.scales[0][q * kRowsAtOnce + quad_row];
    if (lane % 8 == 0) scale[buffer * Buffers::kColumns] = scale[(buffer ^ 1) * Buffers::kColumns];
  };
  // Once more, where a row of weights needs another power of two.
  const auto rescale = [&](int buffer, bool first) {
#pragma unroll 1
    for (int q = 0; q < kQuads; ++q) {
      const float4 v = shared.raw[buffer][q][thread];
      float largest = fmaxf(LargestOf(v), kLeast);
#pragma unroll
      for (int distance = 4; distance > 0; distance /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
      }
      if (first || !(largest * shared.factors[q][thread] <= kLargestHalf)) {
        const float power = PowerOfTwo(largest);
        shared.factors[q][thread] = kTopOfWeights / power;
        if (lane % 8 == 0) {
          shared.scales[buffer][q * kRowsAtOnce + quad_row] = power * (1.0f / kTopOfWeights);
        }
        store(q, buffer, v * (kTopOfWeights / power));
      }
    }
  };

  if (thread == 0) {
    InitBarrier(SharedAddress(&shared.landed[0]));
    InitBarrier(SharedAddress(&shared.landed[1]));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  copy_x(begin, 0);
  copy_weights(begin, 0);
  copy_weights(begin + 1, 1);
  asm volatile("cp.async.wait_all;" ::: "memory");
  rescale(0, true);

  // Which rows this lane names in ldmatrix, and which units of them: these differ by depth in the
  // bits 1 and 2 of the unit's number, which the permutation leaves to exclusive or.
  const int x_lane = Place(warp * kWarpRows + lane % 16, lane / 16);
  const int w_lane = Place(lane % 8 + lane / 16 * 8, lane / 8 % 2);

  float sums[2][kTiles][4] = {};
  for (int chunk = begin; chunk < end; ++chunk) {
    const int buffer = (chunk - begin) % 2;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    copy_x(chunk + 1, buffer ^ 1);
    copy_weights(chunk + 2, buffer);
    WaitFor(SharedAddress(&shared.landed[buffer]), (chunk - begin) / 2 % 2);

    uint32_t high[2][2][4], low[2][2][4];  // of x: [16 of the depth][16 rows]
    const uint32_t x_at = SharedAddress(shared.x[buffer]);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t at = x_at + (x_lane ^ (step * 32)) + i * 16 * kLine;
        LoadMatrices(high[step][i], at);
        LoadMatrices(low[step][i], x_at + (x_lane ^ (step * 32 + 64)) + i * 16 * kLine);
      }
    }
    const uint32_t w_at = SharedAddress(shared.weights[buffer]);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      float parts[2][2][4] = {};
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        uint32_t w_high[4], w_low[4];
        LoadMatrices(w_high, w_at + (w_lane ^ (step * 32)) + pair * 16 * kLine);
        LoadMatrices(w_low, w_at + (w_lane ^ (step * 32 + 64)) + pair * 16 * kLine);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          MultiplyAdd(parts[i / 2][i % 2], low[step][i / 2], w_high[i % 2 * 2],
                      w_high[i % 2 * 2 + 1]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          MultiplyAdd(parts[i / 2][i % 2], high[step][i / 2], w_low[i % 2 * 2],
                      w_low[i % 2 * 2 + 1]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          MultiplyAdd(parts[i / 2][i % 2], high[step][i / 2], w_high[i % 2 * 2],
                      w_high[i % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int tile = 2 * pair + j;
        const float2 scale =
            *reinterpret_cast<const float2*>(&shared.scales[buffer][tile * 8 + lane % 4 * 2]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          sums[i][tile][0] += parts[i][j][0] * scale.x;
          sums[i][tile][1] += parts[i][j][1] * scale.y;
          sums[i][tile][2] += parts[i][j][2] * scale.x;
          sums[i][tile][3] += parts[i][j][3] * scale.y;
        }
      }
#pragma unroll
      for (int q = pair * kQuads / kPairs; q < (pair + 1) * kQuads / kPairs; ++q) {
        split(q, buffer ^ 1);
      }
    }
    const bool fits = fmaxf(__low2float(most), __high2float(most)) <= kLargestHalf;
    if (__any_sync(0xffffffffu, !fits)) rescale(buffer ^ 1, false);
    most = AsHalves(0);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");

  const int64_t columns = weights.rows;
  const bool in_pairs = columns % 2 == 0;  // and a tile begins at an even column
  y += static_cast<int64_t>(blockIdx.z) * rows * columns;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // rows of this lane
    const int64_t row = first_row + warp * kWarpRows + i * 8 + lane / 4;
    if (row >= rows) break;
    const float scale = x.scales[row];
#pragma unroll
    for (int tile = 0; tile < kOutputs / 8; ++tile) {
      const float* const sum = &sums[i / 2][kGated ? 2 * tile : tile][i % 2 * 2];
      float2 out = make_float2(sum[0] * scale, sum[1] * scale);
      if constexpr (kGated) {
        const float* const up = &sums[i / 2][2 * tile + 1][i % 2 * 2];
        out.x = out.x / (1.0f + __expf(-out.x)) * (up[0] * scale);
        out.y = out.y / (1.0f + __expf(-out.y)) * (up[1] * scale);
      }
      const int64_t column = first_column + tile * 8 + lane % 4 * 2;
      float* const place = y + row * columns + column;
      if (in_pairs) {
        if (column < columns) *reinterpret_cast<float2*>(place) = out;
      } else {
        if (column < columns) place[0] = out.x;
        if (column + 1 < columns) place[1] = out.y;
      }
    }
  }
}

// On Hopper, the same with wgmma, which takes the weights, the left factor, from registers: who
// splits them multiplies them.

constexpr int kTokens = 256;  // rows of x in a tile
constexpr int kPart = 64;     // rows of x in a product
constexpr int kQuarters = kTokens / kPart;
constexpr int kWideOutputs = 128;  // rows of weights in a tile; half of gate, half of up for x
constexpr int kWideThreads = 384;  // two warpgroups multiply, a third loads
constexpr int kStages = 4;
constexpr int kTokenBytes = kTokens * kLine;
constexpr int kWideStage = kTokenBytes + kWideOutputs * kLine;

struct WideShared {
  alignas(1024) uint8_t stages[kStages][kWideStage];  // of x, then of weights as they are
  uint64_t full[kStages], empty[kStages];
};

struct WideMaps {
  CUtensorMap x, weights, up;
};

struct WideShape {
  int64_t rows, columns;
  int chunks, row_tiles, column_tiles, parts;
  const float* scales;  // of rows of x

  __host__ __device__ int Works() const { return row_tiles * column_tiles * parts; }
};

// A tile, and the chunks that are its part of the depth. Tiles of the same weights follow one
// another.
struct WideWork {
  int row_tile, column_tile, part, begin, end;

  __device__ WideWork(const WideShape& shape, int index) {
    row_tile = index % shape.row_tiles;
    column_tile = index / shape.row_tiles % shape.column_tiles;
    part = index / shape.row_tiles / shape.column_tiles;
    begin = static_cast<int>(static_cast<int64_t>(shape.chunks) * part / shape.parts);
    end = static_cast<int>(static_cast<int64_t>(shape.chunks) * (part + 1) / shape.parts);
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
// The place in a ring of stages, and how often it has been gone round.
struct WidePlace {
  int stage = 0, parity = 0;

  __device__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ void InitBarrier(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(count));
}
__device__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
__device__ void ExpectBytes(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ void LoadBox(const void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(x), "r"(y), "r"(SharedAddress(barrier))
      : "memory");
}

// Rows of 128 bytes, swizzled; groups of eight rows are 1024 bytes apart.
__device__ uint64_t MatrixAt(const void* p) {
  return (SharedAddress(p) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define CUPEL_D8(d, i)                                                                            \
  "+f"(d[i + 0]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
// d = a b or d += a b: 64 rows of weights, 64 rows of x, a depth of 16.
__device__ void WideMultiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n}"
      : CUPEL_D8(d, 0), CUPEL_D8(d, 8), CUPEL_D8(d, 16), CUPEL_D8(d, 24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
__device__ void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler moves no access to these registers across this place.
template <int kCount>
__device__ void Pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// By one thread.
template <bool kGated>
__device__ void LoadTiles(WideShared& shared, const WideMaps& maps, const WideShape& shape) {
  WidePlace place;
  for (int index = blockIdx.x; index < shape.Works(); index += gridDim.x) {
    const WideWork work(shape, index);
    for (int chunk = work.begin; chunk < work.end; ++chunk, place.Advance()) {
      uint64_t* const full = &shared.full[place.stage];
      uint8_t* const x = shared.stages[place.stage];
      uint8_t* const weights = x + kTokenBytes;
      WaitFor(SharedAddress(&shared.empty[place.stage]), place.parity ^ 1);
      ExpectBytes(full, kWideStage);
      LoadBox(x, maps.x, full, chunk * (kLine / 2), work.row_tile * kTokens);
      if constexpr (kGated) {
        const int row = work.column_tile * (kWideOutputs / 2);
        LoadBox(weights, maps.weights, full, chunk * kChunk, row);
        LoadBox(weights + kWideOutputs / 2 * kLine, maps.up, full, chunk * kChunk, row);
      } else {
        LoadBox(weights, maps.weights, full, chunk * kChunk, work.column_tile * kWideOutputs);
      }
    }
  }
}

// The weights of a lane: of 16 columns of two rows four times four side by side. WideProduct calls
// any 16 columns the depth of a product; Split has put those of x in the same order.
struct WideWeights {
  uint32_t high[2][4], low[2][4];  // [16 of the depth]
  float factors[2], scales[2];     // of two rows, as in Product

  // at: what this lane has of the first row; the second is `next` bytes away.
  __device__ static float4 Read(uint32_t at, int row, int step, int next) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"((at ^ (step * 64)) + row * next)
                 : "memory");
    return v;
  }
  // Whether all fit in halves.
  __device__ bool Split(uint32_t at, int next) {
    __half2 most = AsHalves(0);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        uint2 h, l;
        SplitQuad(Read(at, row, step, next) * factors[row], h, l);
        most = __hmax2(most, __hmax2(__habs2(AsHalves(h.x)), __habs2(AsHalves(h.y))));
        high[step][row] = h.x, high[step][row + 2] = h.y;
        low[step][row] = l.x, low[step][row + 2] = l.y;
      }
    }
    return fmaxf(__low2float(most), __high2float(most)) <= kLargestHalf;
  }
  // Once more, where a row needs another power of two.
  __device__ void Rescale(uint32_t at, int next, bool first) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float largest = fmaxf(
          fmaxf(LargestOf(Read(at, row, 0, next)), LargestOf(Read(at, row, 1, next))), kLeast);
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      if (first || !(largest * factors[row] <= kLargestHalf)) {
        const float power = PowerOfTwo(largest);
        factors[row] = kTopOfWeights / power;
        scales[row] = power * (1.0f / kTopOfWeights);
      }
    }
    Split(at, next);
  }
};

// As Product; a warpgroup has 64 rows of weights and all rows of x, of which 64 at a time are
// multiplied while the sums of the 64 before are added up.
template <bool kGated>
__global__ void __launch_bounds__(kWideThreads, 1)
    WideProduct(const __grid_constant__ WideMaps maps, const __grid_constant__ WideShape shape,
                float* __restrict__ y) {
  extern __shared__ __align__(1024) uint8_t dynamic[];
  auto& shared = *reinterpret_cast<WideShared*>(dynamic);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(&shared.full[i], 1);
      InitBarrier(&shared.empty[i], 8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  // 128 * 40 + 256 * 232 registers are as many as the 384 * 168 of the launch.
  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 8 && lane == 0) LoadTiles<kGated>(shared, maps, shape);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");

  // Rows 2 i and 2 i + 1 of eight rows of a product are four rows apart in shared memory, such that
  // the numbers which eight lanes read at once lie in different banks.
  const int place_of_row = lane / 8 | (lane / 4 % 2) << 2;
  const int first_row = warp * (kGated ? 8 : 16) + place_of_row;
  constexpr int kNext = (kGated ? kWideOutputs / 2 : 8) * kLine;  // to the other row of the lane
  const uint32_t of_weights = SharedAddress(shared.stages[0]) + kTokenBytes + first_row * kLine +
                              (lane % 4 ^ place_of_row) * 16;
  const uint64_t of_x = MatrixAt(shared.stages[0]);

  WideWeights weights;
  float sums[kQuarters][kPart / 2], parts[2][kPart / 2] = {};
  const auto multiply = [&](int stage, int quarter) {
    const uint64_t b = of_x + stage * (kWideStage / 16) + quarter * (kPart * kLine / 16);
    FenceProducts();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      WideMultiply(parts[quarter % 2], weights.low[step], b + step * 2, step);
      WideMultiply(parts[quarter % 2], weights.high[step], b + step * 2 + 4, 1);
      WideMultiply(parts[quarter % 2], weights.high[step], b + step * 2, 1);
    }
    CommitProducts();
  };
  const auto add = [&](int quarter, const float(&scales)[2]) {
    float(&part)[kPart / 2] = parts[quarter % 2];
    Pin(part);
#pragma unroll
    for (int i = 0; i < kPart / 2; ++i) sums[quarter][i] += part[i] * scales[i / 2 % 2];
  };

  WidePlace place;
  for (int index = blockIdx.x; index < shape.Works(); index += gridDim.x) {
    const WideWork work(shape, index);
#pragma unroll
    for (int i = 0; i < kPart / 2; ++i) {
#pragma unroll
      for (int quarter = 0; quarter < kQuarters; ++quarter) sums[quarter][i] = 0;
      parts[(kQuarters - 1) % 2][i] = 0;
    }
    weights.factors[0] = weights.factors[1] = weights.scales[0] = weights.scales[1] = 0;
    float before[2] = {};  // scales of the chunk whose last quarter is not added yet
    for (int chunk = work.begin; chunk < work.end; ++chunk, place.Advance()) {
      const int stage = place.stage;
      WaitFor(SharedAddress(&shared.full[stage]), place.parity);
      const uint32_t at = of_weights + stage * kWideStage;
      const bool first = chunk == work.begin;
      const bool fits = weights.Split(at, kNext);
      if (__any_sync(~0u, !fits) || first) weights.Rescale(at, kNext, first);
      multiply(stage, 0);
      WaitForProducts<1>();  // says nothing new, but the compiler wants it
      add(kQuarters - 1, before);
#pragma unroll
      for (int quarter = 1; quarter < kQuarters; ++quarter) {
        multiply(stage, quarter);
        WaitForProducts<1>();
        add(quarter - 1, weights.scales);
      }
      // The weights' registers must be free before the next are split.
      WaitForProducts<0>();
      Pin(parts[(kQuarters - 1) % 2]);
      if (lane == 0) Arrive(&shared.empty[stage]);
      before[0] = weights.scales[0], before[1] = weights.scales[1];
    }
    add(kQuarters - 1, before);

    const int64_t column =
        static_cast<int64_t>(work.column_tile) * (kGated ? kWideOutputs / 2 : kWideOutputs) +
        first_row;
    const int64_t first_token = static_cast<int64_t>(work.row_tile) * kTokens + lane % 4 * 2;
    float* const to = y + work.part * shape.rows * shape.columns + column;
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int64_t token = first_token + i * 8 + j;
        if (token >= shape.rows) continue;
        const float scale = shape.scales[token];
        const float* const sum = &sums[i * 8 / kPart][i % (kPart / 8) * 4 + j];
        float* const line = to + token * shape.columns;
        if constexpr (kGated) {
          const float gate = sum[0] * scale;
          if (column < shape.columns) line[0] = gate / (1.0f + __expf(-gate)) * (sum[2] * scale);
        } else {
          if (column < shape.columns) line[0] = sum[0] * scale;
          if (column + 8 < shape.columns) line[8] = sum[2] * scale;
        }
      }
    }
  }
}
#else
template <bool kGated>
__global__ void WideProduct(const __grid_constant__ WideMaps maps,
                            const __grid_constant__ WideShape shape, float* __restrict__ y) {}
#endif

// The sum of `parts` arrays of `size` numbers that lie one after another.
template <class Vector>
__global__ void __launch_bounds__(kAddThreads)
    Add(const Vector* __restrict__ from, int parts, int64_t size, Vector* __restrict__ to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAddThreads + threadIdx.x;
  if (i >= size) return;
  Vector sum = from[i];
#pragma unroll 4
  for (int part = 1; part < parts; ++part) {
    const Vector other = from[part * size + i];
    if constexpr (sizeof(Vector) == sizeof(float)) {
      sum += other;
    } else {
      sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
    }
  }
  to[i] = sum;
}

// Some rows of kSmallDepth numbers in shared memory; the padding parts their banks.
template <int kCount>
struct SmallRows {
  float at[kCount][kSmallDepth + 1];

  // Rows `first` and following, from column k on; what is not in the matrix is zero.
  __device__ void Copy(const float* from, int64_t first, int64_t rows, int depth, int k) {
    const int lane = threadIdx.x % 32;
#pragma unroll 4
    for (int row = threadIdx.x / 32; row < kCount; row += kSmallWarps) {
      const float* const line = from + (first + row) * depth + k;
#pragma unroll
      for (int i = lane; i < kSmallDepth; i += 32) {
        if (k + i - lane >= depth) break;
        CopyAsync<4>(SharedAddress(&at[row][i]), line + i, first + row < rows && k + i < depth);
      }
    }
  }
};

// As Product, of numbers as they are.
template <bool kGated>
__global__ void __launch_bounds__(kSmallWarps * 32)
    SmallProduct(const float* x, const float* weights, const float* up, float* y, int64_t rows,
                 int64_t columns, int depth) {
  __shared__ SmallRows<kSmallRows> of_x;
  __shared__ SmallRows<kSmallColumns> of_weights[kGated ? 2 : 1];
  __shared__ float2 parts[kSmallWarps][kSmallColumns];
  const auto across = static_cast<unsigned>((columns + kSmallColumns - 1) / kSmallColumns);
  const int64_t first_row = int64_t{blockIdx.x / across} * kSmallRows;
  const int64_t first_column = int64_t{blockIdx.x % across} * kSmallColumns;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int row = warp % kSmallRows;

  asm volatile("griddepcontrol.launch_dependents;");
  float2 sums = {};
  for (int k = 0; k < depth; k += kSmallDepth) {
    if (k > 0) __syncthreads();
    of_weights[0].Copy(weights, first_column, columns, depth, k);
    if constexpr (kGated) of_weights[1].Copy(up, first_column, columns, depth, k);
    // What the launch before has written is not read before here.
    if (k == 0) asm volatile("griddepcontrol.wait;" ::: "memory");
    of_x.Copy(x, first_row, rows, depth, k);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const int here = min(kSmallDepth, depth - k);
    const int begin = here * (warp / kSmallRows) / kSmallParts;
    const int end = here * (warp / kSmallRows + 1) / kSmallParts;
#pragma unroll 8
    for (int i = begin; i < end; ++i) {
      const float v = of_x.at[row][i];
      sums.x += v * of_weights[0].at[lane][i];
      if constexpr (kGated) sums.y += v * of_weights[1].at[lane][i];
    }
  }
  if constexpr (kSmallParts > 1) {
    parts[warp][lane] = sums;
    __syncthreads();
    if (warp >= kSmallRows) return;
#pragma unroll
    for (int part = 1; part < kSmallParts; ++part) {
      sums.x += parts[part * kSmallRows + warp][lane].x;
      sums.y += parts[part * kSmallRows + warp][lane].y;
    }
  }
  if (first_row + row >= rows || first_column + lane >= columns) return;
  if constexpr (kGated) sums.x = sums.x / (1.0f + __expf(-sums.x)) * sums.y;
  y[(first_row + row) * columns + first_column + lane] = sums.x;
}

static int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool IsAligned(const torch::Tensor& tensor) {
  return tensor.size(tensor.dim() - 1) % 4 == 0 &&
         reinterpret_cast<uintptr_t>(tensor.data_ptr<float>()) % 16 == 0;
}

// A SplitMatrix and the tensors that hold it.
struct SplitTensor {
  torch::Tensor data, scales;
  SplitMatrix matrix;
};

static SplitTensor SplitRows(const torch::Tensor& from, int64_t rows, bool wide,
                             cudaStream_t stream) {
  const int64_t columns = from.numel() / rows;
  const int64_t padded = Ceil(rows, kRows) * kRows;
  const int64_t chunks = Ceil(columns, kChunk);
  SplitTensor to;
  to.data = torch::empty({padded, chunks * kLine}, from.options().dtype(torch::kUInt8));
  to.scales = torch::empty({padded}, from.options());
  to.matrix = {static_cast<const char*>(to.data.data_ptr()), to.scales.data_ptr<float>(),
               static_cast<int>(chunks)};
  const auto kernel = wide ? (IsAligned(from) ? Split<true, true> : Split<false, true>)
                           : (IsAligned(from) ? Split<true, false> : Split<false, false>);
  kernel<<<static_cast<unsigned>(padded), kSplitThreads, 0, stream>>>(
      from.data_ptr<float>(), rows, columns, static_cast<char*>(to.data.data_ptr()),
      to.scales.data_ptr<float>(), static_cast<int>(chunks));
  return to;
}

template <int kPairs, bool kGated>
static void LaunchProduct(const SplitMatrix& x, const Weights& weights, bool aligned, float* y,
                          int64_t rows, int parts, cudaStream_t stream) {
  const auto kernel = aligned ? Product<kPairs, kGated, true> : Product<kPairs, kGated, false>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(sizeof(Shared<kPairs>))));
  const dim3 grid(static_cast<unsigned>(Ceil(rows, kRows)),
                  static_cast<unsigned>(Ceil(weights.rows, kGated ? 8 * kPairs : 16 * kPairs)),
                  static_cast<unsigned>(parts));
  kernel<<<grid, kThreads, sizeof(Shared<kPairs>), stream>>>(x, weights, y, rows);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Into how many parts to cut the depth: the fewest chunks one after another, where a block costs
// some 4 more, and a number of a part to be added as much as is written and read in its time.
static int PartsOf(int64_t tiles, int64_t size, int chunks, int at_once) {
  constexpr double kBytesInAChunksTime = 5e6;
  const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount * at_once;
  int best = 1;
  double least = 0;
  for (int parts = 1; parts <= 16 && parts <= chunks; ++parts) {
    double cost = static_cast<double>(Ceil(tiles * parts, processors) * (Ceil(chunks, parts) + 4));
    if (parts > 1) cost += static_cast<double>(8 * parts * size) / kBytesInAChunksTime;
    if (parts == 1 || cost < least) {
      best = parts;
      least = cost;
    }
  }
  return best;
}

// Rows of `width` elements, in boxes of 128 bytes of box_rows rows.
static CUtensorMap MapOf(const void* data, CUtensorMapDataType type, int element_bytes,
                         int64_t width, int64_t rows, int box_rows) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(width * element_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(kLine / element_bytes),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map, type, 2, const_cast<void*>(data), sizes, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "a tensor map was refused");
  return map;
}

template <bool kGated>
static void LaunchWide(const SplitMatrix& x, const torch::Tensor& weights, const torch::Tensor& up,
                       float* y, int64_t rows, int parts, cudaStream_t stream) {
  constexpr int kOutputs = kGated ? kWideOutputs / 2 : kWideOutputs;
  constexpr int kBytes = sizeof(WideShared);
  C10_CUDA_CHECK(cudaFuncSetAttribute(WideProduct<kGated>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto of_weights = [](const torch::Tensor& w) {
    return MapOf(w.data_ptr<float>(), CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, w.size(1), w.size(0),
                 kOutputs);
  };
  WideMaps maps;
  maps.x = MapOf(x.data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
                 static_cast<int64_t>(x.chunks) * (kLine / 2), rows, kTokens);
  maps.weights = of_weights(weights);
  maps.up = of_weights(up);
  WideShape shape;
  shape.rows = rows;
  shape.columns = weights.size(0);
  shape.chunks = x.chunks;
  shape.row_tiles = static_cast<int>(Ceil(rows, kTokens));
  shape.column_tiles = static_cast<int>(Ceil(shape.columns, kOutputs));
  shape.parts = parts;
  shape.scales = x.scales;
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t works = int64_t{1} * shape.row_tiles * shape.column_tiles * parts;
  TORCH_CHECK(works < (int64_t{1} << 31) - processors, "the result is too large");
  const auto blocks = static_cast<unsigned>(std::min(works, processors));
  WideProduct<kGated><<<blocks, kWideThreads, kBytes, stream>>>(maps, shape, y);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// A launch that may begin before the one in front of it has ended, if it is not the first.
template <bool kGated>
static void LaunchSmall(const torch::Tensor& x, const torch::Tensor& weights,
                        const torch::Tensor& up, torch::Tensor& y, cudaStream_t stream) {
  const int64_t columns = weights.size(0);
  const int64_t rows = y.numel() / columns;
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(Ceil(rows, kSmallRows) * Ceil(columns, kSmallColumns)));
  config.blockDim = dim3(kSmallWarps * 32);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = kGated ? 0 : 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(
      &config, SmallProduct<kGated>, static_cast<const float*>(x.data_ptr<float>()),
      static_cast<const float*>(weights.data_ptr<float>()),
      static_cast<const float*>(up.data_ptr<float>()), y.data_ptr<float>(), rows, columns,
      static_cast<int>(weights.size(1))));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_proj, torch::Tensor up_proj,
                      torch::Tensor down_proj) {
  TORCH_CHECK(x.dim() == 3 && gate_proj.dim() == 2 && up_proj.dim() == 2 && down_proj.dim() == 2,
              "x must have three dimensions and the projections be matrices");
  TORCH_CHECK(gate_proj.sizes() == up_proj.sizes() && x.size(2) == gate_proj.size(1) &&
                  down_proj.size(1) == gate_proj.size(0),
              "the shapes of x and the projections do not fit together");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && gate_proj.scalar_type() == torch::kFloat32 &&
                  up_proj.scalar_type() == torch::kFloat32 &&
                  down_proj.scalar_type() == torch::kFloat32,
              "x and the projections must be float32");
  if (x.numel() == 0 || down_proj.numel() == 0) {
    return torch::zeros({x.size(0), x.size(1), down_proj.size(0)}, x.options());
  }
  x = x.contiguous();
  gate_proj = gate_proj.contiguous();
  up_proj = up_proj.contiguous();
  down_proj = down_proj.contiguous();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int64_t rows = x.size(0) * x.size(1);
  const int64_t middle = gate_proj.size(0);
  const int64_t columns = down_proj.size(0);
  TORCH_CHECK(std::max({rows, middle, columns, x.size(2)}) < int64_t{1} << 30,
              "x and the projections must have less than 2^30 rows and columns");

  auto hidden = torch::empty({rows, middle}, x.options());
  auto y = torch::empty({x.size(0), x.size(1), columns}, x.options());
  if (rows * middle <= kSmallProducts && rows * columns <= kSmallProducts &&
      rows * middle * std::max(columns, x.size(2)) <= kSmallProducts) {
    LaunchSmall<true>(x, gate_proj, up_proj, hidden, stream);
    LaunchSmall<false>(hidden, down_proj, down_proj, y, stream);
    return y;
  }

  const bool wide = at::cuda::getCurrentDeviceProperties()->major == 9 && IsAligned(gate_proj) &&
                    IsAligned(up_proj) && IsAligned(down_proj);
  const SplitTensor split_x = SplitRows(x, rows, wide, stream);
  if (wide) {
    LaunchWide<true>(split_x.matrix, gate_proj, up_proj, hidden.data_ptr<float>(), rows, 1, stream);
  } else {
    LaunchProduct<kGatedPairs, true>(split_x.matrix,
                                     {gate_proj.data_ptr<float>(), up_proj.data_ptr<float>(),
                                      middle, static_cast<int>(x.size(2))},
                                     IsAligned(gate_proj) && IsAligned(up_proj),
                                     hidden.data_ptr<float>(), rows, 1, stream);
  }

  const SplitTensor split_hidden = SplitRows(hidden, rows, wide, stream);
  const int64_t tiles = wide ? Ceil(rows, kTokens) * Ceil(columns, kWideOutputs)
                             : Ceil(rows, kRows) * Ceil(columns, 16 * kDownPairs);
  const int parts = PartsOf(tiles, rows * columns, split_hidden.matrix.chunks, wide ? 1 : kBlocks);
  auto sums = parts > 1 ? torch::empty({parts, rows, columns}, x.options()) : y;
  if (wide) {
    LaunchWide<false>(split_hidden.matrix, down_proj, down_proj, sums.data_ptr<float>(), rows,
                      parts, stream);
  } else {
    LaunchProduct<kDownPairs, false>(
        split_hidden.matrix,
        {down_proj.data_ptr<float>(), nullptr, columns, static_cast<int>(middle)},
        IsAligned(down_proj), sums.data_ptr<float>(), rows, parts, stream);
  }
  if (parts == 1) return y;
  const int64_t size = rows * columns;
  if (size % 4 == 0) {
    Add<float4><<<static_cast<unsigned>(Ceil(size / 4, kAddThreads)), kAddThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(sums.data_ptr<float>()), parts, size / 4,
        reinterpret_cast<float4*>(y.data_ptr<float>()));
  } else {
    Add<float><<<static_cast<unsigned>(Ceil(size, kAddThreads)), kAddThreads, 0, stream>>>(
        sums.data_ptr<float>(), parts, size, y.data_ptr<float>());
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Feed-forward block of Llama");
}
