// Layer normalisation of rows, computed in float32. x is read once. The variance is that of the
// distances from the mean, so that large means cost no digits: warps take it around their own
// means, and blocks, or clusters of them, put these together.
//  - Rows: the numbers of a row stay in registers, kItems vectors of 16 bytes for a thread; weights
//    and biases wait in shared memory. A part of a warp, a warp or a block shares a row.
//  - RowInParts: rows of up to 64 KB, and long ones that are not whole vectors. One block, or a
//    cluster of up to 16, keeps a row in shared memory.
//  - RowAhead: longer rows. Clusters of up to 16 blocks go from row to row.
//  - RowAtOnce: few rows, where only latency counts, and those that do not come in aligned vectors.
//    All is asked for together.
//  - RowInLoops: rows that are too long or aligned otherwise.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kWarpThreads = 128;  // of a block whose warps take rows of their own; tune: 64, 128
constexpr int kPartThreads = 512;  // of RowInParts, at most
constexpr int kAheadItems = 4;     // of RowAhead, vectors of a thread
constexpr int kLoopThreads = 256;
constexpr int kWholeBlock = 1024;  // in place of a number of lanes: all threads of the block
constexpr int kMostBlocks = 16;    // of a cluster

// The formats, and how a vector of 16 bytes becomes float32 and comes back.
struct Float {
  using Number = float;
  static constexpr int kEach = 4;
  static __device__ void Widen(uint4 v, float (&wide)[kEach]) {
    wide[0] = __uint_as_float(v.x);
    wide[1] = __uint_as_float(v.y);
    wide[2] = __uint_as_float(v.z);
    wide[3] = __uint_as_float(v.w);
  }
  static __device__ uint4 Narrow(const float (&wide)[kEach]) {
    return make_uint4(__float_as_uint(wide[0]), __float_as_uint(wide[1]), __float_as_uint(wide[2]),
                      __float_as_uint(wide[3]));
  }
};

__device__ float2 Wide(__half2 pair) { return __half22float2(pair); }
__device__ float2 Wide(__nv_bfloat162 pair) {
  const unsigned word = *reinterpret_cast<const unsigned*>(&pair);
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000));
}
__device__ void NarrowPair(float2 wide, __half2& pair) { pair = __float22half2_rn(wide); }
__device__ void NarrowPair(float2 wide, __nv_bfloat162& pair) {
  pair = __float22bfloat162_rn(wide);
}

template <typename T, typename Pair>
struct Format16 {
  using Number = T;
  static constexpr int kEach = 8;
  union Vector {
    uint4 bits;
    Pair pairs[4];
    __device__ Vector() {}
  };
  static __device__ void Widen(uint4 bits, float (&wide)[kEach]) {
    Vector v;
    v.bits = bits;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 pair = Wide(v.pairs[p]);
      wide[2 * p] = pair.x;
      wide[2 * p + 1] = pair.y;
    }
  }
  static __device__ uint4 Narrow(const float (&wide)[kEach]) {
    Vector v;
#pragma unroll
    for (int p = 0; p < 4; ++p) NarrowPair(make_float2(wide[2 * p], wide[2 * p + 1]), v.pairs[p]);
    return v.bits;
  }
};
using Half = Format16<at::Half, __half2>;
using BFloat16 = Format16<at::BFloat16, __nv_bfloat162>;

// Without a branch.
__device__ void CopyAsync(uint4* to, const uint4* from, bool really) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n"
      "@p cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(
          static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(static_cast<int>(really))
      : "memory");
}

// Keeps the compiler from holding on to the numbers as float32, in twice the registers.
__device__ void StayPacked(uint4& v) { asm("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

template <int kLanes = 32>
__device__ float OfWarp(float value) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(~0u, value, lanes);
  }
  return value;
}

// Of some numbers: how many they are, their mean, and the sum of the squares of distances from it.
struct alignas(16) Moments {
  float count, mean, squares;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// What the blocks of a cluster tell each other about a row: each sends its part to the shared
// memory of all, itself included, and waits for as many. Rows take turns between two places: a
// block sends for the row after next when it has had all parts of the next one, whose senders have
// read those of this one.
struct Exchange {
  Moments parts[2][kMostBlocks];
  uint64_t barriers[2];

  // By all threads of the cluster.
  __device__ void Start() {
    if (threadIdx.x == 0) {
      for (uint64_t& barrier : barriers) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(&barrier))
                     : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // Relaxed, as nobody has written anything but barriers: otherwise a fence for all of memory.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  }
  // By one warp.
  __device__ void Send(Moments part, int turn, int rank, int blocks) {
    const int lane = threadIdx.x % 32;
    const uint32_t mine = SharedAddress(&barriers[turn]);
    if (lane == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mine),
                   "r"(static_cast<int>(sizeof(Moments)) * blocks)
                   : "memory");
    }
    if (lane < blocks) {
      uint32_t to, its_barrier;
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(to)
          : "r"(SharedAddress(&parts[turn][rank])), "r"(lane));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(mine), "r"(lane));
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %1}, "
          "[%4];" ::"r"(to),
          "f"(part.count), "f"(part.mean), "f"(part.squares), "r"(its_barrier)
          : "memory");
    }
  }
  __device__ void Wait(int turn, int phase) {
    uint32_t complete;
    do {
      asm volatile(
          "{\n.reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.b32 %0, 1, 0, p;\n}"
          : "=r"(complete)
          : "r"(SharedAddress(&barriers[turn])), "r"(phase)
          : "memory");
    } while (complete == 0);
  }
};
#endif

// The moments of all numbers of `many` parts, at most kLanes, for all threads of a warp.
template <int kLanes>
__device__ Moments OfParts(const Moments* parts, int many) {
  const int lane = threadIdx.x % kLanes;
  const Moments part = lane < many ? parts[lane] : Moments{0, 0, 0};
  const float count = OfWarp<kLanes>(part.count);
  const float mean = OfWarp<kLanes>(part.count * part.mean) / count;
  const float distance = part.mean - mean;
  return {count, mean, OfWarp<kLanes>(part.squares + part.count * distance * distance)};
}

// The moments of all numbers of the block, for all threads. `mine` are the warp's. To be called
// once.
__device__ Moments OfBlock(Moments mine, Moments* partial) {
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  __syncthreads();
  return OfParts<32>(partial, blockDim.x / 32);
}

// A row, or a part of one, as whole vectors of kSize numbers at their borders, and up to kSize - 1
// single numbers on either side, the `extra` ones.
template <int kSize>
struct Span {
  int64_t start;  // number, the first of the first vector
  int units, head, extra;

  // `many` numbers from the number `first` on.
  __device__ Span(int64_t first, int many) {
    head = min(static_cast<int>(-first & (kSize - 1)), many);
    start = first + head;
    units = (many - head) / kSize;
    extra = many - units * kSize;
  }
  // Number i < extra, counted from `start`.
  __device__ int Extra(int i) const { return i < head ? i - head : units * kSize + i - head; }
};

// The weights (or biases) of a vector. Those of rows that are not whole vectors may lie anywhere.
template <typename Format, bool kWhole>
__device__ void Weights(const typename Format::Number* weights, float (&wide)[Format::kEach]) {
  if constexpr (kWhole) {
    Format::Widen(*reinterpret_cast<const uint4*>(weights), wide);
  } else {
#pragma unroll
    for (int e = 0; e < Format::kEach; ++e) wide[e] = static_cast<float>(weights[e]);
  }
}

// kLanes threads of a warp, or all of a block, for each row of at most kItems vectors of a thread.
template <typename Format, int kLanes, int kItems>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 : kWarpThreads)
    Rows(const uint4* __restrict__ x, const uint4* __restrict__ weights,
         const uint4* __restrict__ biases, uint4* __restrict__ y, int rows, int vectors,
         float eps) {
  constexpr int kEach = Format::kEach;
  constexpr int kWide = kLanes < 32 ? kLanes : 32;
  extern __shared__ uint4 staged[];  // weights and biases
  __shared__ Moments partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    __pipeline_memcpy_async(staged + i, weights + i, sizeof(uint4));
    __pipeline_memcpy_async(staged + vectors + i, biases + i, sizeof(uint4));
  }
  __pipeline_commit();
  const int64_t start = static_cast<int64_t>(row) * vectors + lane;
  const int end = row < rows ? vectors - lane : 0;
  uint4 value[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = make_uint4(0, 0, 0, 0);
    if (item * lanes < end) value[item] = x[start + item * lanes];
  }

  const float length = kEach * static_cast<float>(vectors);
  float sum = 0, count = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    float v[kEach];
    Format::Widen(value[item], v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) sum += v[e];
    StayPacked(value[item]);
    count += item * lanes < end ? kEach : 0;
  }
  sum = OfWarp<kWide>(sum);
  // A warp of a block may have fewer numbers than others, or none.
  count = kLanes == kWholeBlock ? OfWarp(count) : length;
  Moments moments{count, count > 0 ? sum / count : 0, 0};
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes >= end) continue;
    float v[kEach];
    Format::Widen(value[item], v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      moments.squares += (v[e] - moments.mean) * (v[e] - moments.mean);
    }
    StayPacked(value[item]);
  }
  moments.squares = OfWarp<kWide>(moments.squares);
  if constexpr (kLanes == kWholeBlock) moments = OfBlock(moments, partial);
  const float scale = rsqrtf(moments.squares / length + eps);

  __pipeline_wait_prior(0);
  if constexpr (kLanes != kWholeBlock) __syncthreads();  // otherwise, each uses what it has copied
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes >= end) continue;
    float v[kEach], w[kEach], b[kEach];
    Format::Widen(value[item], v);
    Format::Widen(staged[lane + item * lanes], w);
    Format::Widen(staged[vectors + lane + item * lanes], b);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = (v[e] - moments.mean) * scale * w[e] + b[e];
    y[start + item * lanes] = Format::Narrow(v);
  }
}

// A block, or (kShared) a cluster of blocks, for each row. A block keeps its part, of at most
// `part` numbers, in shared memory, where a thread waits only for what it will compute itself.
// kWhole: rows are whole vectors.
template <typename Format, bool kWhole, bool kShared>
__global__ void __launch_bounds__(kPartThreads, 1536 / kPartThreads)
    RowInParts(const typename Format::Number* __restrict__ x,
               const typename Format::Number* __restrict__ weights,
               const typename Format::Number* __restrict__ biases,
               typename Format::Number* __restrict__ y, int features, int part, float eps) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  extern __shared__ uint4 held[];
  __shared__ Moments partial[32];
  int rank = 0, blocks = 1;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ Exchange exchange;
  if constexpr (kShared) {
    rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
    blocks = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  }
#endif
  const int first = rank * part;
  const Span<kEach> span(static_cast<int64_t>(blockIdx.x / blocks) * features + first,
                         max(min(part, features - first), 0));
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start);
  auto* const to = reinterpret_cast<uint4*>(y + span.start);
  weights += first + span.head;
  biases += first + span.head;
  const int threads = static_cast<int>(blockDim.x);
  for (int i = threadIdx.x; i < span.units; i += threads) {
    __pipeline_memcpy_async(held + i, from + i, sizeof(uint4));
  }
  __pipeline_commit();
  const bool has_extra = !kWhole && threadIdx.x < span.extra;
  const int extra = span.Extra(threadIdx.x);
  const float single = has_extra ? static_cast<float>(x[span.start + extra]) : 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) exchange.Start();
#endif
  __pipeline_wait_prior(0);
  float sum = single, count = has_extra ? 1 : 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float v[kEach];
    Format::Widen(held[i], v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) sum += v[e];
    count += kEach;
  }
  sum = OfWarp(sum);
  count = OfWarp(count);
  Moments moments{count, count > 0 ? sum / count : 0, 0};
  if (has_extra) moments.squares = (single - moments.mean) * (single - moments.mean);
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float v[kEach];
    Format::Widen(held[i], v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      moments.squares += (v[e] - moments.mean) * (v[e] - moments.mean);
    }
  }
  moments.squares = OfWarp(moments.squares);
  moments = OfBlock(moments, partial);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) {
    if (threadIdx.x < 32) exchange.Send(moments, 0, rank, blocks);
    exchange.Wait(0, 0);
    moments = OfParts<kMostBlocks>(exchange.parts[0], blocks);
  }
#endif
  const float scale = rsqrtf(moments.squares / static_cast<float>(features) + eps);
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float v[kEach], w[kEach], b[kEach];
    Format::Widen(held[i], v);
    Weights<Format, kWhole>(weights + i * kEach, w);
    Weights<Format, kWhole>(biases + i * kEach, b);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = (v[e] - moments.mean) * scale * w[e] + b[e];
    to[i] = Format::Narrow(v);
  }
  if (has_extra) {
    y[span.start + extra] =
        static_cast<T>((single - moments.mean) * scale * static_cast<float>(weights[extra]) +
                       static_cast<float>(biases[extra]));
  }
}

// A cluster of blocks for each row, each of which has a part of at most `part` vectors. All
// clusters that run at a time go from row to row: the numbers of one are in registers, and the next
// is on its way to shared memory, where weights and biases stay. A thread waits only for what it
// will compute itself.
template <typename Format>
__global__ void __launch_bounds__(1024)
    RowAhead(const uint4* __restrict__ x, const uint4* __restrict__ weights,
             const uint4* __restrict__ biases, uint4* __restrict__ y, int rows, int vectors,
             int part, float eps) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kEach = Format::kEach;
  extern __shared__ uint4 staged[];
  __shared__ Moments partial[2][32];
  __shared__ Exchange exchange;
  const int rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
  const int blocks = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  exchange.Start();
  const int threads = static_cast<int>(blockDim.x);
  const int first = rank * part + static_cast<int>(threadIdx.x);
  const int end = min(part, vectors - rank * part) - static_cast<int>(threadIdx.x);
  const int step = static_cast<int>(gridDim.x) / blocks;
  int row = static_cast<int>(blockIdx.x) / blocks;
  x += first;
  y += first;
  weights += first;
  biases += first;
  const int each = kAheadItems * threads;
  uint4* const mine = staged + threadIdx.x;
  uint4* const next = mine + 2 * each;
  const auto fetch = [&](int row) {
    const uint4* const from = x + static_cast<int64_t>(row) * vectors;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      CopyAsync(next + item * threads, from + item * threads, item * threads < end);
    }
    __pipeline_commit();
  };
  fetch(row);
#pragma unroll
  for (int item = 0; item < kAheadItems; ++item) {
    CopyAsync(mine + item * threads, weights + item * threads, item * threads < end);
    CopyAsync(mine + each + item * threads, biases + item * threads, item * threads < end);
  }
  __pipeline_commit();
  const float length = kEach * static_cast<float>(vectors);
  float count = 0;  // of numbers of this warp
#pragma unroll
  for (int item = 0; item < kAheadItems; ++item) count += item * threads < end ? kEach : 0;
  count = OfWarp(count);
  for (int turn = 0, phase = 0; row < rows; row += step) {
    __pipeline_wait_prior(0);
    uint4 value[kAheadItems];
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      value[item] = item * threads < end ? next[item * threads] : make_uint4(0, 0, 0, 0);
    }
    if (row + step < rows) fetch(row + step);

    float sum = 0;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      float v[kEach];
      Format::Widen(value[item], v);
#pragma unroll
      for (int e = 0; e < kEach; ++e) sum += v[e];
      StayPacked(value[item]);
    }
    sum = OfWarp(sum);
    Moments moments{count, count > 0 ? sum / count : 0, 0};
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      if (item * threads >= end) continue;
      float v[kEach];
      Format::Widen(value[item], v);
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        moments.squares += (v[e] - moments.mean) * (v[e] - moments.mean);
      }
      StayPacked(value[item]);
    }
    moments.squares = OfWarp(moments.squares);
    if (threadIdx.x % 32 == 0) partial[turn][threadIdx.x / 32] = moments;
    __syncthreads();
    if (threadIdx.x < 32) {
      exchange.Send(OfParts<32>(partial[turn], threads / 32), turn, rank, blocks);
    }
    exchange.Wait(turn, phase);
    moments = OfParts<kMostBlocks>(exchange.parts[turn], blocks);
    phase ^= turn;
    turn ^= 1;
    const float scale = rsqrtf(moments.squares / length + eps);
    uint4* const to = y + static_cast<int64_t>(row) * vectors;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      if (item * threads >= end) continue;
      float v[kEach], w[kEach], b[kEach];
      Format::Widen(value[item], v);
      Format::Widen(mine[item * threads], w);
      Format::Widen(mine[each + item * threads], b);
#pragma unroll
      for (int e = 0; e < kEach; ++e) v[e] = (v[e] - moments.mean) * scale * w[e] + b[e];
      to[item * threads] = Format::Narrow(v);
    }
  }
#endif
}

// Numbers that are loaded and stored together.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T at[kWidth];
};

// The sum over the block's threads, for all of them. To be called once for each kTurn.
template <int kThreads, int kTurn>
__device__ float BlockSum(float value) {
  __shared__ float partial[kThreads / 32];
  value = OfWarp(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
#pragma unroll
  for (const float part : partial) value += part;
  return value;
}

// One block for each row of at most kThreads * kItems packs.
template <typename T, int kWidth, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowAtOnce(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
              T* __restrict__ y, int features, float eps) {
  using Numbers = Pack<T, kWidth>;
  constexpr int kStep = kThreads * kWidth;
  const int first = threadIdx.x * kWidth;
  const int end = features - first;
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features + first;
  x += start;
  y += start;
  weights += first;
  biases += first;
  Numbers value[kItems] = {}, weight[kItems], bias[kItems];
  float count = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * kStep < end) {
      value[item] = *reinterpret_cast<const Numbers*>(x + item * kStep);
      weight[item] = *reinterpret_cast<const Numbers*>(weights + item * kStep);
      bias[item] = *reinterpret_cast<const Numbers*>(biases + item * kStep);
      count += kWidth;
    }
  }
  count = OfWarp(count);

  float sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum += static_cast<float>(value[item].at[e]);
  }
  sum = OfWarp(sum);
  // A warp may have fewer numbers than others, or none.
  Moments moments{count, count > 0 ? sum / count : 0, 0};
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float distance = static_cast<float>(value[item].at[e]) - moments.mean;
      if (item * kStep < end) moments.squares += distance * distance;
    }
  }
  moments.squares = OfWarp(moments.squares);
  if constexpr (kThreads > 32) {
    __shared__ Moments partial[kThreads / 32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = moments;
    __syncthreads();
    moments = OfParts<kThreads / 32>(partial, kThreads / 32);
  }
  const float scale = rsqrtf(moments.squares / static_cast<float>(features) + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * kStep >= end) continue;
    Numbers result;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float normal = (static_cast<float>(value[item].at[e]) - moments.mean) * scale;
      result.at[e] = static_cast<T>(normal * static_cast<float>(weight[item].at[e]) +
                                    static_cast<float>(bias[item].at[e]));
    }
    *reinterpret_cast<Numbers*>(y + item * kStep) = result;
  }
}

// One block for each row, of any length and alignment; the row is read three times.
template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
               T* __restrict__ y, int64_t features, float eps) {
  const int64_t start = blockIdx.x * features;
  const float length = static_cast<float>(features);
  float sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    sum += static_cast<float>(x[start + i]);
  }
  const float mean = BlockSum<kLoopThreads, 0>(sum) / length;
  sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float distance = static_cast<float>(x[start + i]) - mean;
    sum += distance * distance;
  }
  const float scale = rsqrtf(BlockSum<kLoopThreads, 1>(sum) / length + eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float normal = (static_cast<float>(x[start + i]) - mean) * scale;
    y[start + i] =
        static_cast<T>(normal * static_cast<float>(weights[i]) + static_cast<float>(biases[i]));
  }
}

// Everything of one call.
struct Call {
  const void *x, *weights, *biases;
  void* y;
  int64_t features;
  int rows;
  float eps;
  cudaStream_t stream;
};

// A launch of `groups` clusters of `blocks`, or of single blocks; if they `stay`, of at most as
// many as run at a time. False if the GPU has no place for such clusters.
template <typename... Parameters, typename... Arguments>
static bool InClusters(void (*kernel)(Parameters...), int64_t groups, int blocks, int threads,
                       size_t shared, bool stay, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  attributes[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
  attributes[1].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(groups * blocks), 1, 1};
  config.blockDim = {static_cast<unsigned>(threads), 1, 1};
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = blocks > 1 ? 2 : 0;
  // 48 KB, from which on this is necessary, include what the kernel has of its own.
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)));
  if (blocks > 8) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  if (blocks > 8 || stay) {
    int active = 0;
    C10_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active, kernel, &config));
    if (active == 0) return false;
    if (stay) {  // all have as many rows, or one less
      const int64_t turns = (groups + active - 1) / active;
      groups = (groups + turns - 1) / turns;
      config.gridDim.x = static_cast<unsigned>(groups * blocks);
    }
  }
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
  return true;
}

template <typename Format, int kLanes, int kItems>
static void InRegisters(const Call& call) {
  const int vectors = static_cast<int>(call.features / Format::kEach);
  const bool block = kLanes == kWholeBlock;
  const int threads = block ? (vectors + 32 * kItems - 1) / (32 * kItems) * 32 : kWarpThreads;
  const int rows_of_block = block ? 1 : threads / kLanes;
  InClusters(Rows<Format, kLanes, kItems>, (int64_t{call.rows} + rows_of_block - 1) / rows_of_block,
             1, threads, 2 * vectors * sizeof(uint4), false, call.stream,
             static_cast<const uint4*>(call.x), static_cast<const uint4*>(call.weights),
             static_cast<const uint4*>(call.biases), static_cast<uint4*>(call.y), call.rows,
             vectors, call.eps);
}

template <typename Format, bool kWhole, bool kShared>
static bool InParts(const Call& call, int blocks, int part) {
  using T = typename Format::Number;
  const size_t bytes = part * sizeof(T);
  const int threads = bytes <= 32 * 1024 ? 256 : kPartThreads;
  return InClusters(RowInParts<Format, kWhole, kShared>, call.rows, blocks, threads, bytes, false,
                    call.stream, static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
                    static_cast<const T*>(call.biases), static_cast<T*>(call.y),
                    static_cast<int>(call.features), part, call.eps);
}

// A long row in the registers of several blocks. False if it is too long, or if the GPU has no
// place for them.
template <typename Format>
static bool Ahead(const Call& call, int64_t vectors) {
  int blocks = 2;
  while (blocks < kMostBlocks && vectors > blocks * 2048) blocks *= 2;
  if (vectors > int64_t{blocks} * 1024 * kAheadItems) return false;
  const int part = static_cast<int>((vectors + blocks - 1) / blocks);
  const int threads = (part + 32 * kAheadItems - 1) / (32 * kAheadItems) * 32;
  return InClusters(RowAhead<Format>, call.rows, blocks, threads,
                    3 * kAheadItems * threads * sizeof(uint4), true, call.stream,
                    static_cast<const uint4*>(call.x), static_cast<const uint4*>(call.weights),
                    static_cast<const uint4*>(call.biases), static_cast<uint4*>(call.y), call.rows,
                    static_cast<int>(vectors), part, call.eps);
}

// A long row in one block's shared memory, or in that of up to 16. False if it is too long.
template <typename Format, bool kWhole>
static bool InParts(const Call& call, const cudaDeviceProp& device) {
  const int64_t features = call.features, bytes = features * sizeof(typename Format::Number);
  if (features >= int64_t{1} << 31) return false;
  const int most = device.major >= 9 ? kMostBlocks : 1;
  int blocks = 1;
  while (blocks < most && bytes > blocks * 64 * 1024) blocks *= 2;
  const int64_t unit = int64_t{blocks} * Format::kEach;
  const int64_t part = (features + unit - 1) / unit * Format::kEach;
  if (part * sizeof(typename Format::Number) + 1024 > device.sharedMemPerBlockOptin) return false;
  return blocks > 1 ? InParts<Format, kWhole, true>(call, blocks, static_cast<int>(part))
                    : InParts<Format, kWhole, false>(call, 1, static_cast<int>(part));
}

template <typename T, int kWidth, int kThreads, int kItems>
static void AtOnce(const Call& call) {
  RowAtOnce<T, kWidth, kThreads, kItems><<<call.rows, kThreads, 0, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
      static_cast<const T*>(call.biases), static_cast<T*>(call.y), static_cast<int>(call.features),
      call.eps);
}

static bool Aligned(const void* x) { return reinterpret_cast<uintptr_t>(x) % sizeof(uint4) == 0; }

template <typename Format>
static void Launch(const Call& call) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int64_t most = int64_t{device->multiProcessorCount} * 2048;  // threads at a time
  const int64_t vectors = call.features / kEach;
  const bool aligned = Aligned(call.x) && Aligned(call.y);
  const bool whole =
      aligned && Aligned(call.weights) && Aligned(call.biases) && call.features % kEach == 0;
  const bool few = vectors * call.rows <= most;
  if (whole && vectors <= 16) {
    InRegisters<Format, 16, 1>(call);
  } else if (whole && vectors <= 32) {
    InRegisters<Format, 32, 1>(call);
  } else if (whole && vectors <= 128 && few) {
    AtOnce<T, kEach, 128, 1>(call);
  } else if (whole && vectors <= 256 && few) {
    AtOnce<T, kEach, 256, 1>(call);
  } else if (whole && vectors <= 512 && few) {
    AtOnce<T, kEach, 512, 1>(call);
  } else if (whole && vectors <= 1024 && few) {
    AtOnce<T, kEach, 1024, 1>(call);
  } else if (whole && vectors <= 64) {
    InRegisters<Format, 32, 2>(call);
  } else if (whole && vectors <= 96) {
    InRegisters<Format, 32, 3>(call);
  } else if (whole && vectors <= 160) {
    InRegisters<Format, 32, 5>(call);
  } else if (whole && vectors <= 256) {
    InRegisters<Format, 32, 8>(call);
  } else if (whole && vectors <= 1024) {
    InRegisters<Format, kWholeBlock, 4>(call);
  } else if (whole && vectors > 4096 && device->major >= 9 && Ahead<Format>(call, vectors)) {
    return;
  } else if (whole && InParts<Format, true>(call, *device)) {
    return;
  } else if (call.features <= 128) {
    AtOnce<T, 1, 32, 4>(call);
  } else if (call.features <= 1024) {
    AtOnce<T, 1, 256, 4>(call);
  } else if (call.features <= 4096) {
    AtOnce<T, 1, 1024, 4>(call);
  } else if (!aligned || !InParts<Format, false>(call, *device)) {
    RowInLoops<T><<<call.rows, kLoopThreads, 0, call.stream>>>(
        static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
        static_cast<const T*>(call.biases), static_cast<T*>(call.y), call.features, call.eps);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0) &&
                  biases.sizes() == weights.sizes(),
              "weights and biases must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type() && x.scalar_type() == biases.scalar_type(),
              "x, weights and biases must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const int64_t features = weights.numel(), rows = x.numel() / features;
  TORCH_CHECK(rows < (int64_t{1} << 31), "x has too many rows");
  const Call call{x.data_ptr(),
                  weights.data_ptr(),
                  biases.data_ptr(),
                  y.data_ptr(),
                  features,
                  static_cast<int>(rows),
                  static_cast<float>(eps),
                  at::cuda::getCurrentCUDAStream()};
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<Float>(call);
      break;
    case torch::kFloat16:
      Launch<Half>(call);
      break;
    case torch::kBFloat16:
      Launch<BFloat16>(call);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Layer normalisation"); }
