// Residual and RMS normalisation of rows: the sum, rounded to its type, is stored and normalised.
// x and the residual are read once.
//  - Rows: the sums of a row stay in registers, kItems vectors of 16 bytes for a thread, and all
//    loads, those of the weights among them, are issued first. A part of a warp, a warp or a block
//    shares a row. Where there are few rows, every vector has its own thread, because only latency
//    counts.
//  - RowInCluster: few long rows (Hopper). A cluster of 4 or 8 blocks has one vector for each
//    thread, and each warp sends its sum of squares to all of its blocks.
//  - RowInParts: longer rows. One block, or a cluster of up to 16 (Hopper), keeps the sums of a row
//    in shared memory.
//  - RowByNumbers: short rows of odd lengths, if they are few, or aligned otherwise.
//  - RowInLoops: whatever is longer or aligned otherwise.
// Rows of odd lengths begin anywhere in a vector. Vectors are taken at their borders, and the rest
// of a row on either side by single numbers. Their weights are cut out of two vectors.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

constexpr int kWarpThreads = 128;  // of a block whose warps take rows of their own; tune: 64, 128
constexpr int kPartThreads = 512;  // of RowInParts, at most
constexpr int kLoopThreads = 256;
constexpr int kWholeBlock = 1024;  // in place of a number of lanes: all threads of the block
constexpr int kMostBlocks = 16;    // of a cluster

// A sum that keeps denormal numbers, which operators lose with --use_fast_math.
__device__ float Sum(float a, float b) {
  float sum;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

// The formats, and how vectors of 16 bytes are added, become float32 and come back.
struct Float {
  using Number = float;
  static constexpr int kEach = 4;
  static __device__ unsigned Add(unsigned a, unsigned b) {
    return __float_as_uint(Sum(__uint_as_float(a), __uint_as_float(b)));
  }
  static __device__ uint4 Add(uint4 a, uint4 b) {
    return make_uint4(Add(a.x, b.x), Add(a.y, b.y), Add(a.z, b.z), Add(a.w, b.w));
  }
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
  static __device__ uint4 Add(uint4 a, uint4 b) {
    Vector v, w;
    v.bits = a;
    w.bits = b;
#pragma unroll
    for (int p = 0; p < 4; ++p) v.pairs[p] = __hadd2(v.pairs[p], w.pairs[p]);
    return v.bits;
  }
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

// The sum of `many` parts, at most kLanes, for all threads of a warp.
template <int kLanes>
__device__ float OfParts(const float* parts, int many) {
  const int lane = threadIdx.x % kLanes;
  return OfWarp<kLanes>(lane < many ? parts[lane] : 0);
}

// The sum over the block's threads, for all of them. To be called once.
__device__ float OfBlock(float value, float* partial) {
  value = OfWarp(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return OfParts<32>(partial, blockDim.x / 32);
}

// Adds the squares of a vector's numbers.
template <typename Format>
__device__ void AddSquares(float& squares, uint4 v) {
  float x[Format::kEach];
  Format::Widen(v, x);
#pragma unroll
  for (const float number : x) squares += number * number;
}

// A row as whole vectors of kSize numbers at their borders, and up to kSize - 1 single numbers on
// either side, the `extra` ones. kWhole: there are none of these.
template <int kSize, bool kWhole>
struct Span {
  int64_t start;  // number, the first of the first vector
  int units, head, extra;

  // `many` numbers from the number `first` on.
  __device__ Span(int64_t first, int many) {
    head = kWhole ? 0 : min(static_cast<int>(-first & (kSize - 1)), many);
    start = first + head;
    units = (many - head) / kSize;
    extra = kWhole ? 0 : many - units * kSize;
  }
  // Number i < extra, counted from `start`.
  __device__ int Extra(int i) const { return i < head ? i - head : units * kSize + i - head; }
};

// The weights of a vector, from the one of number i on. kWhole: they are a vector, too. If not,
// they are cut out of the two vectors that hold them, unless these reach beyond the weights.
template <typename Format, bool kWhole>
__device__ void Weights(const typename Format::Number* weights, int i, int features,
                        float (&wide)[Format::kEach]) {
  constexpr int kEach = Format::kEach;
  const auto* const first = weights + i;
  if constexpr (kWhole) {
    Format::Widen(*reinterpret_cast<const uint4*>(first), wide);
  } else {
    const auto shift = static_cast<int>(reinterpret_cast<uintptr_t>(first) % sizeof(uint4));
    const int before = shift / static_cast<int>(sizeof(*first));
    if (i >= before && i - before + 2 * kEach <= features) {
      const auto* const from = reinterpret_cast<const uint4*>(first - before);
      const uint4 a = from[0], b = from[1];
      // Words from `shift` bytes on, which are the same for a whole row.
      const int bits = shift % 4 * 8;
      const auto cut = [&](unsigned c, unsigned d, unsigned e, unsigned f, unsigned g) {
        Format::Widen(make_uint4(__funnelshift_r(c, d, bits), __funnelshift_r(d, e, bits),
                                 __funnelshift_r(e, f, bits), __funnelshift_r(f, g, bits)),
                      wide);
      };
      if (shift < 4) {
        cut(a.x, a.y, a.z, a.w, b.x);
      } else if (shift < 8) {
        cut(a.y, a.z, a.w, b.x, b.y);
      } else if (shift < 12) {
        cut(a.z, a.w, b.x, b.y, b.z);
      } else {
        cut(a.w, b.x, b.y, b.z, b.w);
      }
    } else {
#pragma unroll
      for (int e = 0; e < kEach; ++e) wide[e] = static_cast<float>(first[e]);
    }
  }
}

// What the L2 cache drops first are then lines of results, which it has to write anyway.
__device__ uint64_t StayPolicy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  return policy;
}

__device__ uint4 Load(const uint4* from, uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from), "l"(policy));
  return v;
}
// kLanes threads of a warp, or all of a block, for each row of at most kItems vectors of a thread.
template <typename Format, bool kWhole, int kLanes, int kItems>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 : kWarpThreads)
    Rows(const typename Format::Number* __restrict__ x,
         const typename Format::Number* __restrict__ residual,
         const typename Format::Number* __restrict__ weights,
         typename Format::Number* __restrict__ y, typename Format::Number* __restrict__ total,
         int rows, int features, float eps) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  __shared__ float partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  const Span<kEach, kWhole> span(static_cast<int64_t>(row) * features, row < rows ? features : 0);
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start) + lane;
  const auto* const from_residual = reinterpret_cast<const uint4*>(residual + span.start) + lane;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + lane;
  auto* const to_total = reinterpret_cast<uint4*>(total + span.start) + lane;
  const int end = span.units - lane;
  const uint64_t policy = StayPolicy();
  uint4 value[kItems], other[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = other[item] = make_uint4(0, 0, 0, 0);
    if (item * lanes < end) {
      value[item] = Load(from + item * lanes, policy);
      other[item] = Load(from_residual + item * lanes, policy);
    }
  }
  if constexpr (kWhole) {
    const auto* const first = reinterpret_cast<const uint4*>(weights) + lane;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (item * lanes < end) weight[item] = first[item * lanes];
    }
  }
  const bool has_extra = !kWhole && lane < span.extra;
  const int extra = span.Extra(lane);
  float single = 0, weight_of_single = 0;
  if (has_extra) {
    const int64_t i = span.start + extra;
    const T sum = static_cast<T>(Sum(static_cast<float>(x[i]), static_cast<float>(residual[i])));
    total[i] = sum;
    single = static_cast<float>(sum);
    weight_of_single = static_cast<float>(weights[span.head + extra]);
  }
  float squares = single * single;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = Format::Add(value[item], other[item]);
    StayPacked(value[item]);
    if (item * lanes < end) to_total[item * lanes] = value[item];
    AddSquares<Format>(squares, value[item]);
  }
  if constexpr (kLanes == kWholeBlock) {
    squares = OfBlock(squares, partial);
  } else {
    squares = OfWarp<kLanes>(squares);
  }
  const float scale = rsqrtf(squares / static_cast<float>(features) + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes >= end) continue;
    float v[kEach], w[kEach];
    Format::Widen(value[item], v);
    if constexpr (kWhole) {
      Format::Widen(weight[item], w);
    } else {
      Weights<Format, false>(weights, span.head + (lane + item * lanes) * kEach, features, w);
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] *= scale * w[e];
    to[item * lanes] = Format::Narrow(v);
  }
  if (has_extra) y[span.start + extra] = static_cast<T>(single * scale * weight_of_single);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// What the blocks of a cluster tell each other, once: each sends its part to the shared memory of
// all, itself included, and waits for as many.
struct Exchange {
  float parts[kMostBlocks];
  uint64_t barrier;

  // By all threads of the cluster.
  __device__ void Start() {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(&barrier))
                   : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // Relaxed, since only barriers were written: anything stronger would fence all of memory.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  }
  // All blocks must have begun before their shared memory is written to.
  __device__ void Begun() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
  // By one warp.
  __device__ void Send(float part, int rank, int blocks) {
    const int lane = threadIdx.x % 32;
    const uint32_t mine = SharedAddress(&barrier);
    if (lane == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mine),
                   "r"(static_cast<int>(sizeof(float)) * blocks)
                   : "memory");
    }
    if (lane < blocks) {
      uint32_t to, its_barrier;
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(to)
          : "r"(SharedAddress(&parts[rank])), "r"(lane));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(mine), "r"(lane));
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
          "f"(part), "r"(its_barrier)
          : "memory");
    }
  }
  __device__ void Wait() {
    uint32_t complete;
    do {
      asm volatile(
          "{\n.reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
          "selp.b32 %0, 1, 0, p;\n}"
          : "=r"(complete)
          : "r"(SharedAddress(&barrier))
          : "memory");
    } while (complete == 0);
  }
};
#endif

// A block, or (kShared) a cluster of blocks, for each row. A block keeps its part, of at most
// `part` numbers, in shared memory, where a thread reads only what it has written itself.
// kWhole: rows are whole vectors.
template <typename Format, bool kWhole, bool kShared>
__global__ void __launch_bounds__(kPartThreads, 1536 / kPartThreads)
    RowInParts(const typename Format::Number* __restrict__ x,
               const typename Format::Number* __restrict__ residual,
               const typename Format::Number* __restrict__ weights,
               typename Format::Number* __restrict__ y, typename Format::Number* __restrict__ total,
               int features, int part, float eps) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  extern __shared__ uint4 held[];
  __shared__ float partial[32];
  int rank = 0, blocks = 1;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ Exchange exchange;
  if constexpr (kShared) {
    rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
    blocks = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  }
#endif
  const int first = rank * part;
  const Span<kEach, kWhole> span(static_cast<int64_t>(blockIdx.x / blocks) * features + first,
                                 max(min(part, features - first), 0));
  const auto* const first_x = reinterpret_cast<const uint4*>(x + span.start);
  const auto* const first_residual = reinterpret_cast<const uint4*>(residual + span.start);
  auto* const to = reinterpret_cast<uint4*>(y + span.start);
  auto* const to_total = reinterpret_cast<uint4*>(total + span.start);
  const int threads = static_cast<int>(blockDim.x);
  const bool has_extra = threadIdx.x < span.extra;
  const int extra = span.Extra(threadIdx.x);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) exchange.Start();
#endif
  float squares = 0;
  const uint64_t policy = StayPolicy();
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    const uint4 sum = Format::Add(Load(first_x + i, policy), Load(first_residual + i, policy));
    held[i] = sum;
    to_total[i] = sum;
    float v[kEach];
    Format::Widen(sum, v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) squares += v[e] * v[e];
  }
  float single = 0;
  if (has_extra) {
    const int64_t i = span.start + extra;
    const T sum = static_cast<T>(Sum(static_cast<float>(x[i]), static_cast<float>(residual[i])));
    total[i] = sum;
    single = static_cast<float>(sum);
    squares += single * single;
  }
  squares = OfBlock(squares, partial);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) {
    exchange.Begun();
    if (threadIdx.x < 32) exchange.Send(squares, rank, blocks);
    exchange.Wait();
    squares = OfParts<kMostBlocks>(exchange.parts, blocks);
  }
#endif
  const float scale = rsqrtf(squares / static_cast<float>(features) + eps);
#pragma unroll(kWhole ? 4 : 2)
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float v[kEach], w[kEach];
    Format::Widen(held[i], v);
    Weights<Format, kWhole>(weights, first + span.head + i * kEach, features, w);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] *= scale * w[e];
    to[i] = Format::Narrow(v);
  }
  if (has_extra) {
    y[span.start + extra] =
        static_cast<T>(single * scale * static_cast<float>(weights[first + span.head + extra]));
  }
}

// What a cluster of RowInCluster has at most.
constexpr int kClusterBlocks = 8;
constexpr int kClusterThreads = 512;  // of a block

// A load that stays where it is.
__device__ uint4 LoadNow(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

// A cluster for each row of whole vectors, where only latency counts: one vector for each thread.
// All loads are issued first, and each warp sends its sum of squares to all blocks.
template <typename Format>
__global__ void __launch_bounds__(kClusterThreads)
    RowInCluster(const typename Format::Number* __restrict__ x,
                 const typename Format::Number* __restrict__ residual,
                 const typename Format::Number* __restrict__ weights,
                 typename Format::Number* __restrict__ y,
                 typename Format::Number* __restrict__ total, int features, float eps) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kEach = Format::kEach;
  __shared__ float parts[kClusterBlocks * kClusterThreads / 32];
  __shared__ uint64_t barrier;
  const int rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
  const int blocks = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  const int vectors = features / kEach;
  const int unit = rank * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  const int64_t place = static_cast<int64_t>(blockIdx.x / blocks) * vectors + unit;
  const bool active = unit < vectors;
  uint4 value = make_uint4(0, 0, 0, 0), other = value, weight = value;
  if (active) {
    value = LoadNow(reinterpret_cast<const uint4*>(x) + place);
    other = LoadNow(reinterpret_cast<const uint4*>(residual) + place);
    weight = LoadNow(reinterpret_cast<const uint4*>(weights) + unit);
  }
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int many = blocks * warps;  // parts
  const uint32_t mine = SharedAddress(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mine) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mine),
                 "r"(static_cast<int>(sizeof(float)) * many)
                 : "memory");
  }
  __syncwarp();
  // Relaxed, since only barriers were written.
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  value = Format::Add(value, other);
  StayPacked(value);
  float squares = 0;
  AddSquares<Format>(squares, value);
  squares = OfWarp(squares);
  // All blocks must have begun before their shared memory is written to.
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane < blocks) {
    uint32_t to_part, its_barrier;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to_part)
        : "r"(SharedAddress(&parts[rank * warps + static_cast<int>(threadIdx.x / 32)])), "r"(lane));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(mine), "r"(lane));
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to_part),
        "f"(squares), "r"(its_barrier)
        : "memory");
  }
  __syncwarp();
  if (active) reinterpret_cast<uint4*>(total)[place] = value;
  uint32_t complete;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
        "selp.b32 %0, 1, 0, p;\n}"
        : "=r"(complete)
        : "r"(mine)
        : "memory");
  } while (complete == 0);
  __syncwarp();
  float sum = 0;
#pragma unroll
  for (int item = 0; item < kClusterBlocks * kClusterThreads / 32 / 32; ++item) {
    if (lane + item * 32 < many) sum += parts[lane + item * 32];
  }
  sum = OfWarp(sum);
  const float scale = rsqrtf(sum / static_cast<float>(features) + eps);
  if (active) {
    float v[kEach], w[kEach];
    Format::Widen(value, v);
    Format::Widen(weight, w);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] *= scale * w[e];
    reinterpret_cast<uint4*>(y)[place] = Format::Narrow(v);
  }
#endif
}

// The sum over a block of known size, for all of its threads. To be called once.
template <int kThreads>
__device__ float BlockSum(float value) {
  constexpr int kWarps = kThreads / 32;
  value = OfWarp(value);
  if constexpr (kWarps > 1) {
    __shared__ float partial[kWarps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) value += partial[warp];
  }
  return value;
}

// One block for each row of at most kThreads * kItems numbers, of any alignment.
template <typename T, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowByNumbers(const T* __restrict__ x, const T* __restrict__ residual,
                 const T* __restrict__ weights, T* __restrict__ y, T* __restrict__ total,
                 int features, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features + threadIdx.x;
  x += start;
  residual += start;
  y += start;
  total += start;
  weights += threadIdx.x;
  T value[kItems], other[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < features) {
      value[item] = x[item * kThreads];
      other[item] = residual[item * kThreads];
      weight[item] = weights[item * kThreads];
    }
  }
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads >= features) continue;
    value[item] =
        static_cast<T>(Sum(static_cast<float>(value[item]), static_cast<float>(other[item])));
    total[item * kThreads] = value[item];
    squares += static_cast<float>(value[item]) * static_cast<float>(value[item]);
  }
  const float mean = BlockSum<kThreads>(squares) / static_cast<float>(features);
  const float scale = rsqrtf(mean + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < features) {
      y[item * kThreads] = static_cast<T>(static_cast<float>(value[item]) * scale *
                                          static_cast<float>(weight[item]));
    }
  }
}

// One block for each row, of any length and alignment; a thread reads the
// sums again that it has stored itself.
template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const T* __restrict__ x, const T* __restrict__ residual,
               const T* __restrict__ weights, T* __restrict__ y, T* __restrict__ total,
               int64_t features, float eps) {
  const int64_t start = blockIdx.x * features;
  float squares = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const T value = static_cast<T>(
        Sum(static_cast<float>(x[start + i]), static_cast<float>(residual[start + i])));
    total[start + i] = value;
    squares += static_cast<float>(value) * static_cast<float>(value);
  }
  const float length = static_cast<float>(features);
  const float scale = rsqrtf(BlockSum<kLoopThreads>(squares) / length + eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    y[start + i] = static_cast<T>(static_cast<float>(total[start + i]) * scale *
                                  static_cast<float>(weights[i]));
  }
}

// Everything of one call.
struct Call {
  const void *x, *residual, *weights;
  void *y, *total;
  int64_t features;
  int rows;
  float eps;
  cudaStream_t stream;
};

template <typename Format, bool kWhole, int kLanes, int kItems>
static void InRegisters(const Call& call) {
  using T = typename Format::Number;
  const auto vectors = static_cast<int>(call.features / Format::kEach);
  const bool block = kLanes == kWholeBlock;
  const int threads =
      block ? std::max((vectors + 32 * kItems - 1) / (32 * kItems), 1) * 32 : kWarpThreads;
  const int rows = block ? 1 : threads / kLanes;  // of a block
  const auto blocks = static_cast<unsigned>((int64_t{call.rows} + rows - 1) / rows);
  Rows<Format, kWhole, kLanes, kItems><<<blocks, threads, 0, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.residual),
      static_cast<const T*>(call.weights), static_cast<T*>(call.y), static_cast<T*>(call.total),
      call.rows, static_cast<int>(call.features), call.eps);
}

// False if rows are too long. `few`: only latency counts.
template <typename Format, bool kWhole>
static bool InRegisters(const Call& call, int64_t most, bool few) {
  const int64_t vectors = call.features / Format::kEach;
  if (vectors > most) return false;
  if (vectors <= 16) {
    InRegisters<Format, kWhole, 16, 1>(call);
  } else if (vectors <= 32) {
    InRegisters<Format, kWhole, 32, 1>(call);
  } else if (vectors <= 1024 && few) {
    InRegisters<Format, kWhole, kWholeBlock, 1>(call);
  } else if (vectors <= 64) {
    InRegisters<Format, kWhole, 32, 2>(call);
  } else if (vectors <= 128) {
    InRegisters<Format, kWhole, 32, 4>(call);
  } else {
    InRegisters<Format, kWhole, kWholeBlock, kWhole ? 3 : 4>(call);
  }
  return true;
}

// A launch in clusters of `blocks`, or without any. False if the GPU has no place for such
// clusters.
template <typename... Parameters, typename... Arguments>
static bool InClusters(void (*kernel)(Parameters...), int64_t grid, int blocks, int threads,
                       size_t shared, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  attributes[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
  attributes[1].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(grid), 1, 1};
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
    int active = 0;
    C10_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active, kernel, &config));
    if (active == 0) return false;
  }
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
  return true;
}

// A long row in one block's shared memory, or in that of up to 16. False if it is too long, or if
// the GPU has no place for such clusters.
template <typename Format, bool kWhole>
static bool InParts(const Call& call, const cudaDeviceProp& device) {
  using T = typename Format::Number;
  const int64_t features = call.features, bytes = features * sizeof(T);
  if (features >= int64_t{1} << 31) return false;
  const int most = device.major >= 9 ? kMostBlocks : 1;
  const int64_t of_block = (bytes <= 256 * 1024 ? 16 : 64) * 1024;
  int blocks = 1;
  while (blocks < most && (bytes > blocks * of_block ||
                           int64_t{call.rows} * blocks * 2 <= device.multiProcessorCount)) {
    blocks *= 2;
  }
  const int64_t unit = int64_t{blocks} * Format::kEach;
  const int part = static_cast<int>((features + unit - 1) / unit * Format::kEach);
  const size_t shared = part * sizeof(T);
  if (shared + 1024 > device.sharedMemPerBlockOptin) return false;
  const auto kernel =
      blocks > 1 ? RowInParts<Format, kWhole, true> : RowInParts<Format, kWhole, false>;
  return InClusters(kernel, int64_t{call.rows} * blocks, blocks,
                    shared <= 16 * 1024 ? 256 : kPartThreads, shared, call.stream,
                    static_cast<const T*>(call.x), static_cast<const T*>(call.residual),
                    static_cast<const T*>(call.weights), static_cast<T*>(call.y),
                    static_cast<T*>(call.total), static_cast<int>(features), part, call.eps);
}

template <typename T, int kThreads, int kItems>
static void ByNumbers(const Call& call) {
  RowByNumbers<T, kThreads, kItems><<<call.rows, kThreads, 0, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.residual),
      static_cast<const T*>(call.weights), static_cast<T*>(call.y), static_cast<T*>(call.total),
      static_cast<int>(call.features), call.eps);
}

// A few long rows of whole vectors, each by a cluster. False if there are too many, or if they are
// too short or too long.
template <typename Format>
static bool InCluster(const Call& call, const cudaDeviceProp& device) {
  using T = typename Format::Number;
  const int64_t vectors = call.features / Format::kEach;
  if (device.major < 9 || vectors <= 512 || vectors > kClusterBlocks * kClusterThreads) {
    return false;
  }
  int blocks = 4;
  while (blocks < kClusterBlocks && vectors > blocks * 256) blocks *= 2;
  if (int64_t{call.rows} * blocks > device.multiProcessorCount) return false;
  const int64_t share = (vectors + blocks - 1) / blocks;
  const int threads = static_cast<int>((share + 31) / 32 * 32);
  return InClusters(RowInCluster<Format>, int64_t{call.rows} * blocks, blocks, threads, 0,
                    call.stream, static_cast<const T*>(call.x),
                    static_cast<const T*>(call.residual), static_cast<const T*>(call.weights),
                    static_cast<T*>(call.y), static_cast<T*>(call.total),
                    static_cast<int>(call.features), call.eps);
}

static bool Aligned(const void* x) { return reinterpret_cast<uintptr_t>(x) % sizeof(uint4) == 0; }

template <typename Format>
static void Launch(const Call& call) {
  using T = typename Format::Number;
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int processors = device->multiProcessorCount;
  constexpr int64_t kMost = 1024;  // vectors in registers
  const bool few = call.features / Format::kEach * call.rows <= int64_t{processors} * 2048;
  const bool aligned =
      Aligned(call.x) && Aligned(call.residual) && Aligned(call.y) && Aligned(call.total);
  const bool whole = aligned && Aligned(call.weights) && call.features % Format::kEach == 0;
  if (whole && few && InCluster<Format>(call, *device)) return;
  if (whole && InRegisters<Format, true>(call, kMost, few)) return;
  if ((!aligned || few) && call.features <= 128) {
    ByNumbers<T, 32, 4>(call);
  } else if ((!aligned || few) && call.features <= 1024) {
    ByNumbers<T, 256, 4>(call);
  } else if ((!aligned || few) && call.features <= 4096) {
    ByNumbers<T, 512, 8>(call);
  } else if (aligned && !whole && InRegisters<Format, false>(call, kMost, few)) {
    return;
  } else if (aligned && (whole ? InParts<Format, true>(call, *device)
                               : InParts<Format, false>(call, *device))) {
    return;
  } else {
    RowInLoops<T><<<call.rows, kLoopThreads, 0, call.stream>>>(
        static_cast<const T*>(call.x), static_cast<const T*>(call.residual),
        static_cast<const T*>(call.weights), static_cast<T*>(call.y), static_cast<T*>(call.total),
        call.features, call.eps);
  }
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor residual,
                                                 torch::Tensor weights, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0),
              "weights must be as long as the last dimension of x");
  TORCH_CHECK(x.sizes() == residual.sizes(), "x and residual must be of one size");
  TORCH_CHECK(x.scalar_type() == residual.scalar_type() && x.scalar_type() == weights.scalar_type(),
              "x, residual and weights must be of one type");
  x = x.contiguous();
  residual = residual.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty_like(x), total = torch::empty_like(x);
  if (y.numel() == 0) return {y, total};
  const int64_t features = weights.numel(), rows = x.numel() / features;
  TORCH_CHECK(rows < (int64_t{1} << 31), "x has too many rows");
  const Call call{
      x.data_ptr(),           residual.data_ptr(),     weights.data_ptr(),
      y.data_ptr(),           total.data_ptr(),        features,
      static_cast<int>(rows), static_cast<float>(eps), at::cuda::getCurrentCUDAStream()};
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
  return {y, total};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Residual and RMS normalisation");
}
