// Layer normalisation of rows, computed in float32. x is read once. The variance is that of the
// distances from the mean, so that large means cost no digits: warps take it around their own
// means, and blocks, or clusters of them, put these together. For whole vectors of 16-bit numbers a
// single reduction around the row's first number is exact enough.
//  - Rows: the numbers of a row stay in registers, kItems vectors of 16 bytes for a thread; weights
//    and biases wait in shared memory. A part of a warp, a warp or a block shares a row.
//  - RowOfBlock: few rows of whole vectors of 16-bit numbers. A block of at most 8 warps has a row.
//  - RowOnChip: longer rows (Hopper). A cluster of 1 to 16 blocks keeps a row in registers and
//    shared memory.
//  - RowAtOnce: few rows, where only latency counts, and short rows that are aligned otherwise. All
//    is asked for together.
//  - RowInLoops: whatever is longer or aligned otherwise.
// Rows of odd lengths begin anywhere in a vector. Vectors are taken at their borders, and the rest
// of a row on either side by single numbers. Their weights are cut out of two vectors.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kWarpThreads = 128;  // of a block whose warps take rows of their own; tune: 64, 128
constexpr int kHeld = 4;           // vectors of each of these threads in registers
constexpr int kChunk = 512;        // vectors of a bulk copy to shared memory
constexpr int kPiece = 2048;       // vectors of a block, before more blocks share the row
constexpr int kMostChunks = 27;    // of a block
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
  // A normalised vector, with weights and biases as vectors.
  static __device__ uint4 Normal(uint4 x, uint4 weights, uint4 biases, float scale, float shift) {
    float v[kEach], w[kEach], b[kEach];
    Widen(x, v);
    Widen(weights, w);
    Widen(biases, b);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = (v[e] * scale + shift) * w[e] + b[e];
    return Narrow(v);
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
  // A normalised vector, with weights and biases as vectors; pair by pair, to save registers.
  static __device__ uint4 Normal(uint4 x, uint4 weights, uint4 biases, float scale, float shift) {
    Vector v, w, b;
    v.bits = x;
    w.bits = weights;
    b.bits = biases;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 number = Wide(v.pairs[p]);
      const float2 weight = Wide(w.pairs[p]);
      const float2 bias = Wide(b.pairs[p]);
      NarrowPair(make_float2((number.x * scale + shift) * weight.x + bias.x,
                             (number.y * scale + shift) * weight.y + bias.y),
                 v.pairs[p]);
    }
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

// Of some numbers: how many they are, their mean, and the sum of the squares of distances from it.
struct alignas(16) Moments {
  float count, mean, squares;
};

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

// The moments of all numbers of kLanes neighbours, for all of them.
template <int kLanes = 32>
__device__ Moments OfWarp(const Moments& part) {
  const float count = OfWarp<kLanes>(part.count);
  const float mean = count > 0 ? OfWarp<kLanes>(part.count * part.mean) / count : 0;
  const float distance = part.mean - mean;
  return {count, mean, OfWarp<kLanes>(part.squares + part.count * distance * distance)};
}

// The same, where it is known that the kLanes neighbours have `total` numbers (or none).
template <int kLanes>
__device__ Moments OfRow(const Moments& part, float total) {
  const float mean = OfWarp<kLanes>(part.count * part.mean) / total;
  const float distance = part.mean - mean;
  return {total, mean, OfWarp<kLanes>(part.squares + part.count * distance * distance)};
}

// Those of `many` parts.
__device__ Moments OfAll(const Moments* parts, int many) {
  const int lane = threadIdx.x % 32;
  float count = 0, sum = 0, squares = 0;
  for (int i = lane; i < many; i += 32) {
    count += parts[i].count;
    sum += parts[i].count * parts[i].mean;
  }
  count = OfWarp(count);
  const float mean = OfWarp(sum) / count;
  for (int i = lane; i < many; i += 32) {
    const float distance = parts[i].mean - mean;
    squares += parts[i].squares + parts[i].count * distance * distance;
  }
  return {count, mean, OfWarp(squares)};
}

// Sums over the numbers that a thread has seen, around the mean of the first m of them, a vector.
// That is no more than sqrt(n / m) deviations away from the mean of all n, so the variance is right
// to some n / m units of float32's last place.
struct Sums {
  float pivot = 0, count = 0, sum = 0, squares = 0;

  template <int kMany>
  __device__ void Add(const float (&x)[kMany]) {
    if (count == 0) {
#pragma unroll
      for (const float number : x) pivot += number * (1.0f / kMany);
    }
    count += kMany;
#pragma unroll
    for (const float number : x) {
      const float distance = number - pivot;
      sum += distance;
      squares += distance * distance;
    }
  }
  template <typename Format>
  __device__ void Add(uint4 v) {
    float x[Format::kEach];
    Format::Widen(v, x);
    Add(x);
  }
  __device__ Moments Result() const {
    const float mean = count > 0 ? sum / count : 0;
    return {count, pivot + mean, squares - sum * mean};
  }
};

// Adds the distances of a vector's numbers from the pivot of their row, and the squares of these.
template <typename Format>
__device__ void AddAround(uint4 v, float pivot, float& sum, float& squares) {
  float x[Format::kEach];
  Format::Widen(v, x);
#pragma unroll
  for (const float number : x) {
    const float distance = number - pivot;
    sum += distance;
    squares += distance * distance;
  }
}

// Rounding may make a sum of squares negative. A NaN stays one.
__device__ float NotNegative(float squares) { return squares < 0 ? 0 : squares; }

// Both sums over kLanes neighbours, for all of them, in one round of shuffles.
template <int kLanes>
__device__ void BothOfWarp(float& sum, float& squares) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    const float other_sum = __shfl_xor_sync(~0u, sum, lanes);
    const float other_squares = __shfl_xor_sync(~0u, squares, lanes);
    sum += other_sum;
    squares += other_squares;
  }
}

// A normalised vector, with `scale` and `shift` of its row.
template <typename Format>
__device__ uint4 Result(uint4 vector, float scale, float shift,
                        const float (&weights)[Format::kEach],
                        const float (&biases)[Format::kEach]) {
  float v[Format::kEach];
  Format::Widen(vector, v);
#pragma unroll
  for (int e = 0; e < Format::kEach; ++e) v[e] = (v[e] * scale + shift) * weights[e] + biases[e];
  return Format::Narrow(v);
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

// The weights (or biases) of a vector, from the one of number i on. kWhole: they are a vector, too.
// If not, they are cut out of the two vectors that hold them, unless these reach beyond the
// weights.
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

// What the L2 cache drops first are then lines of y, which it has to write anyway.
__device__ uint64_t StayPolicy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  return policy;
}

// Copies to shared memory through the L1 cache, where the SM's other blocks find the same vector.
__device__ void CopyThroughL1(uint4* to, const uint4* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}

// What is read once leaves the L1 cache to weights and biases.
__device__ uint4 Load(const uint4* from, uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from), "l"(policy));
  return v;
}

// kLanes threads of a warp, or all of a block, for each row of at most kItems vectors of a thread.
template <typename Format, bool kWhole, int kLanes, int kItems>
__global__ void __launch_bounds__((kLanes != kWholeBlock ? kWarpThreads
                                   : kItems == 1         ? 1024
                                                         : 512),
                                  (kLanes == kWholeBlock ? (kItems == 1 ? 1 : 2)
                                   : kItems > 5          ? 6
                                   : !kWhole             ? 8
                                   : kItems > 3          ? 10
                                                         : 16))
    Rows(const typename Format::Number* __restrict__ x,
         const typename Format::Number* __restrict__ weights,
         const typename Format::Number* __restrict__ biases,
         typename Format::Number* __restrict__ y, int rows, int features, float eps) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  constexpr int kWide = kLanes < 32 ? kLanes : 32;
  extern __shared__ uint4 staged[];  // weights and biases of whole vectors
  __shared__ Moments partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  const int vectors = features / kEach;
  const Span<kEach, kWhole> span(static_cast<int64_t>(row) * features, row < rows ? features : 0);
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start) + lane;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + lane;
  const int end = span.units - lane;
  const uint64_t policy = StayPolicy();
  uint4 value[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = make_uint4(0, 0, 0, 0);
    if (item * lanes < end) value[item] = Load(from + item * lanes, policy);
  }
  if constexpr (kWhole) {
    const auto* const first_weight = reinterpret_cast<const uint4*>(weights);
    const auto* const first_bias = reinterpret_cast<const uint4*>(biases);
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
      CopyThroughL1(staged + i, first_weight + i);
      CopyThroughL1(staged + vectors + i, first_bias + i);
    }
    __pipeline_commit();
  }
  const bool has_extra = !kWhole && lane < span.extra;
  const int extra = span.Extra(lane);
  const float single = has_extra ? static_cast<float>(x[span.start + extra]) : 0;

  Moments moments;
  if constexpr (kWhole && kEach == 8 && kLanes != kWholeBlock) {
    // Around the first number of the row, which is no more than sqrt(features) deviations away from
    // the mean: exact enough for 16 bits.
    float first[kEach];
    Format::Widen(make_uint4(__shfl_sync(~0u, value[0].x, 0, kWide), 0, 0, 0), first);
    const float pivot = first[0];
    float sum = 0, squares = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (item * lanes < end) AddAround<Format>(value[item], pivot, sum, squares);
      StayPacked(value[item]);
    }
    BothOfWarp<kWide>(sum, squares);
    const float offset = sum / static_cast<float>(features);
    moments =
        Moments{static_cast<float>(features), pivot + offset, NotNegative(squares - sum * offset)};
  } else {
    Sums sums;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (item * lanes < end) sums.Add<Format>(value[item]);
      StayPacked(value[item]);
    }
    if (has_extra) {
      const float numbers[] = {single};
      sums.Add(numbers);
    }
    if constexpr (kLanes == kWholeBlock) {
      moments = OfBlock(OfWarp<kWide>(sums.Result()), partial);
    } else {
      moments = OfRow<kWide>(sums.Result(), static_cast<float>(features));
    }
  }
  const float scale = rsqrtf(moments.squares / static_cast<float>(features) + eps);
  const float shift = -moments.mean * scale;

  if constexpr (kWhole) {
    __pipeline_wait_prior(0);
    if (kLanes != kWholeBlock) __syncthreads();  // otherwise, each uses what it has copied
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes >= end) continue;
    const int i = lane + item * lanes;
    if constexpr (kWhole) {
      to[item * lanes] = Format::Normal(value[item], staged[i], staged[vectors + i], scale, shift);
    } else {
      float w[kEach], b[kEach];
      Weights<Format, false>(weights, span.head + i * kEach, features, w);
      Weights<Format, false>(biases, span.head + i * kEach, features, b);
      to[item * lanes] = Result<Format>(value[item], scale, shift, w, b);
    }
  }
  if (has_extra) {
    const int i = span.head + extra;
    y[span.start + extra] = static_cast<T>(
        (single * scale + shift) * static_cast<float>(weights[i]) + static_cast<float>(biases[i]));
  }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// A barrier that opens when `bytes` bytes have arrived.
__device__ void Await(uint64_t* barrier, int bytes) {
  const uint32_t address = SharedAddress(barrier);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}

__device__ void WaitFor(uint64_t* barrier) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra AGAIN;\n}" ::"r"(SharedAddress(barrier))
      : "memory");
}

__device__ void Copy(uint4* to, const uint4* from, int bytes, uint64_t* barrier, uint64_t policy) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier)), "l"(policy)
      : "memory");
}

// Writes to the shared memory of a block of the cluster, and counts the bytes at its barrier.
__device__ void Send(const Moments& part, Moments* to, uint64_t* barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there, barrier;\nmapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %3}, "
      "[barrier];\n}" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(block), "f"(part.count), "f"(part.mean), "f"(part.squares)
      : "memory");
}
#endif

// A block, or a cluster of them, for each row. The first vectors of a block's piece go to
// registers, the others to shared memory. The warps of a cluster send each other their sums.
template <typename Format, bool kWhole, int kThreads>
__global__ void __launch_bounds__(kThreads)
    RowOnChip(const typename Format::Number* __restrict__ x,
              const typename Format::Number* __restrict__ weights,
              const typename Format::Number* __restrict__ biases,
              typename Format::Number* __restrict__ y, int features, float eps, int blocks) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  constexpr int kWarps = kThreads / 32;
  extern __shared__ uint4 piece[];
  __shared__ uint64_t arrived[kMostChunks], exchanged;
  __shared__ Moments partial[kMostBlocks * kWarps];
  const int rank = static_cast<int>(blockIdx.x % blocks);
  const Span<kEach, kWhole> span(static_cast<int64_t>(blockIdx.x / blocks) * features, features);
  const int first = static_cast<int>(static_cast<int64_t>(span.units) * rank / blocks);
  const int end = static_cast<int>(static_cast<int64_t>(span.units) * (rank + 1) / blocks);
  const int count = end - first;
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start) + first;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + first;
  const bool has_extra = rank == 0 && threadIdx.x < span.extra;
  const int extra = span.Extra(threadIdx.x);

  const int shared = max(count - kHeld * kThreads, 0);
  const int chunks = (shared + kChunk - 1) / kChunk;
  const uint64_t policy = StayPolicy();
  if (threadIdx.x < chunks) {
    const int start = threadIdx.x * kChunk;
    const int bytes = min(shared - start, kChunk) * static_cast<int>(sizeof(uint4));
    uint64_t* const barrier = arrived + threadIdx.x;
    Await(barrier, bytes);
    Copy(piece + start, from + kHeld * kThreads + start, bytes, barrier, policy);
  }
  uint4 held[kHeld];
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int i = item * kThreads + threadIdx.x;
    held[item] = i < count ? Load(from + i, policy) : make_uint4(0, 0, 0, 0);
  }
  const float single = has_extra ? static_cast<float>(x[span.start + extra]) : 0;
  if (blocks > 1) {
    if (threadIdx.x == 0) {
      Await(&exchanged, blocks * kWarps * static_cast<int>(sizeof(Moments)));
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  __syncthreads();

  Sums sums;
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    if (item * kThreads + threadIdx.x < count) sums.Add<Format>(held[item]);
    StayPacked(held[item]);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitFor(arrived + chunk);
#pragma unroll
    for (int item = 0; item < kChunk / kThreads; ++item) {
      const int i = chunk * kChunk + item * kThreads + threadIdx.x;
      if (i < shared) sums.Add<Format>(piece[i]);
    }
  }
  if (has_extra) {
    const float numbers[] = {single};
    sums.Add(numbers);
  }
  uint4 weight[kHeld], bias[kHeld];
  if constexpr (kWhole) {
    const auto* const first_weight = reinterpret_cast<const uint4*>(weights) + first;
    const auto* const first_bias = reinterpret_cast<const uint4*>(biases) + first;
#pragma unroll
    for (int item = 0; item < kHeld; ++item) {
      const int i = item * kThreads + threadIdx.x;
      if (i >= count) continue;
      weight[item] = first_weight[i];
      bias[item] = first_bias[i];
    }
  }
  Moments moments = OfWarp(sums.Result());
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (blocks > 1) {
    // The other blocks must have begun before their shared memory is written to.
    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (lane < blocks) Send(moments, partial + rank * kWarps + warp, &exchanged, lane);
    WaitFor(&exchanged);
  } else {
    if (lane == 0) partial[warp] = moments;
    __syncthreads();
  }
  moments = OfAll(partial, blocks * kWarps);

  const float scale = rsqrtf(moments.squares / static_cast<float>(features) + eps);
  const float shift = -moments.mean * scale;
  const auto number = [&](int i) { return span.head + (first + i) * kEach; };
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int i = item * kThreads + threadIdx.x;
    if (i >= count) continue;
    float w[kEach], b[kEach];
    if constexpr (kWhole) {
      Format::Widen(weight[item], w);
      Format::Widen(bias[item], b);
    } else {
      Weights<Format, false>(weights, number(i), features, w);
      Weights<Format, false>(biases, number(i), features, b);
    }
    to[i] = Result<Format>(held[item], scale, shift, w, b);
  }
#pragma unroll(kWhole ? 4 : 2)
  for (int i = kHeld * kThreads + threadIdx.x; i < count; i += kThreads) {
    float w[kEach], b[kEach];
    Weights<Format, kWhole>(weights, number(i), features, w);
    Weights<Format, kWhole>(biases, number(i), features, b);
    to[i] = Result<Format>(piece[i - kHeld * kThreads], scale, shift, w, b);
  }
  if (has_extra) {
    const int i = span.head + extra;
    y[span.start + extra] = static_cast<T>(
        (single * scale + shift) * static_cast<float>(weights[i]) + static_cast<float>(biases[i]));
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

// Few rows of whole vectors of 16-bit numbers: a block of at most 8 warps for each row, kItems
// vectors for a thread. All is asked for together, and the sums need a single reduction.
constexpr int kMostWarps = 8;

template <typename Format, int kItems>
__global__ void __launch_bounds__(32 * kMostWarps)
    RowOfBlock(const typename Format::Number* __restrict__ x,
               const typename Format::Number* __restrict__ weights,
               const typename Format::Number* __restrict__ biases,
               typename Format::Number* __restrict__ y, int features, float inverse, float eps) {
  constexpr int kEach = Format::kEach;
  __shared__ float4 partial[kMostWarps / 2];  // the two sums of two warps
  const int thread = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features;
  const auto* const from = reinterpret_cast<const uint4*>(x + start) + thread;
  const auto* const from_weights = reinterpret_cast<const uint4*>(weights) + thread;
  const auto* const from_biases = reinterpret_cast<const uint4*>(biases) + thread;
  auto* const to = reinterpret_cast<uint4*>(y + start) + thread;
  const int end = features / kEach - thread;
  uint4 value[kItems], weight[kItems], bias[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = make_uint4(0, 0, 0, 0);
    if (item * step < end) value[item] = from[item * step];
  }
  const float pivot = static_cast<float>(x[start]);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    weight[item] = bias[item] = make_uint4(0, 0, 0, 0);
    if (item * step < end) {
      weight[item] = from_weights[item * step];
      bias[item] = from_biases[item * step];
    }
  }
  // The places of warps that the block does not have.
  auto* const sums = reinterpret_cast<float2*>(partial);
  if (thread >= step / 32 && thread < kMostWarps) sums[thread] = make_float2(0, 0);

  float sum = 0, squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * step < end) AddAround<Format>(value[item], pivot, sum, squares);
  }
  BothOfWarp<32>(sum, squares);
  if (thread % 32 == 0) sums[thread / 32] = make_float2(sum, squares);
  __syncthreads();
  sum = squares = 0;
#pragma unroll
  for (int i = 0; i < kMostWarps / 2; ++i) {
    const float4 two = partial[i];
    sum += two.x + two.z;
    squares += two.y + two.w;
  }
  const float offset = sum * inverse;
  const float mean = pivot + offset;
  const float scale = rsqrtf(NotNegative(squares - sum * offset) * inverse + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * step >= end) continue;
    float v[kEach], w[kEach], b[kEach];
    Format::Widen(value[item], v);
    Format::Widen(weight[item], w);
    Format::Widen(bias[item], b);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = (v[e] - mean) * scale * w[e] + b[e];
    to[item * step] = Format::Narrow(v);
  }
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

template <typename Format, bool kWhole, int kLanes, int kItems>
static void InRegisters(const Call& call) {
  using T = typename Format::Number;
  const auto vectors = static_cast<int>(call.features / Format::kEach);
  const bool block = kLanes == kWholeBlock;
  const int threads = block ? (vectors + 32 * kItems - 1) / (32 * kItems) * 32 : kWarpThreads;
  const int rows = block ? 1 : threads / kLanes;  // of a block
  const auto blocks = static_cast<unsigned>((int64_t{call.rows} + rows - 1) / rows);
  const size_t shared = kWhole ? 2 * vectors * sizeof(uint4) : 0;
  const auto kernel = Rows<Format, kWhole, kLanes, kItems>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)));
  kernel<<<blocks, threads, shared, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
      static_cast<const T*>(call.biases), static_cast<T*>(call.y), call.rows,
      static_cast<int>(call.features), call.eps);
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
  } else if (few && vectors <= 1024) {
    InRegisters<Format, kWhole, kWholeBlock, 1>(call);
  } else if (vectors <= 64) {
    InRegisters<Format, kWhole, 32, 2>(call);
  } else if (vectors <= 96) {
    InRegisters<Format, kWhole, 32, 3>(call);
  } else if (vectors <= 160) {
    InRegisters<Format, kWhole, 32, 5>(call);
  } else if (vectors <= 256) {
    InRegisters<Format, kWhole, kWhole ? 32 : kWholeBlock, kWhole ? 8 : 2>(call);
  } else {
    InRegisters<Format, kWhole, kWholeBlock, 4>(call);
  }
  return true;
}

// A row for each cluster. False if it is too long, or if the GPU has no place for such clusters.
template <typename Format, bool kWhole, int kThreads>
static bool OnChip(const Call& call, int processors) {
  using T = typename Format::Number;
  const int64_t vectors = call.features / Format::kEach;
  int blocks = 1;
  while (blocks < kMostBlocks &&
         (vectors > blocks * kPiece || int64_t{call.rows} * blocks <= processors)) {
    blocks *= 2;
  }
  // Long pieces are for more threads.
  if (kThreads == 128 && vectors > blocks * kPiece)
    return OnChip<Format, kWhole, 256>(call, processors);
  const int64_t others = std::max<int64_t>((vectors + blocks - 1) / blocks - kHeld * kThreads, 0);
  const int64_t chunks = (others + kChunk - 1) / kChunk;
  if (chunks > kMostChunks || int64_t{call.rows} * blocks >= int64_t{1} << 31) return false;
  const auto kernel = RowOnChip<Format, kWhole, kThreads>;
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(int64_t{call.rows} * blocks), 1, 1};
  config.blockDim = {kThreads, 1, 1};
  config.dynamicSmemBytes = chunks * kChunk * sizeof(uint4);
  config.stream = call.stream;
  config.attrs = &size;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(config.dynamicSmemBytes)));
  if (blocks > 8) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    int active = 0;
    C10_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active, kernel, &config));
    if (active == 0) return false;
  }
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<const T*>(call.x),
                                    static_cast<const T*>(call.weights),
                                    static_cast<const T*>(call.biases), static_cast<T*>(call.y),
                                    static_cast<int>(call.features), call.eps, blocks));
  return true;
}

template <typename T, int kWidth, int kThreads, int kItems>
static void AtOnce(const Call& call) {
  RowAtOnce<T, kWidth, kThreads, kItems><<<call.rows, kThreads, 0, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
      static_cast<const T*>(call.biases), static_cast<T*>(call.y), static_cast<int>(call.features),
      call.eps);
}

template <typename Format, int kItems>
static void OfOneBlock(const Call& call) {
  using T = typename Format::Number;
  const auto vectors = static_cast<int>(call.features / Format::kEach);
  const int threads = (vectors + 32 * kItems - 1) / (32 * kItems) * 32;
  RowOfBlock<Format, kItems><<<call.rows, threads, 0, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
      static_cast<const T*>(call.biases), static_cast<T*>(call.y), static_cast<int>(call.features),
      1.0f / static_cast<float>(call.features), call.eps);
}

static bool Aligned(const void* x) { return reinterpret_cast<uintptr_t>(x) % sizeof(uint4) == 0; }

template <typename Format>
static void Launch(const Call& call) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int processors = device->multiProcessorCount;
  constexpr int64_t kMost = 1024;  // vectors in registers
  const int64_t vectors = call.features / kEach;
  const bool few = vectors * call.rows <= int64_t{processors} * 2048;
  const bool aligned = Aligned(call.x) && Aligned(call.y);
  const bool whole =
      aligned && Aligned(call.weights) && Aligned(call.biases) && call.features % kEach == 0;
  if constexpr (kEach == 8) {
    if (whole && few && vectors > 32 && vectors <= 128 * kMostWarps) {
      if (vectors <= 32 * kMostWarps) {
        OfOneBlock<Format, 1>(call);
      } else if (vectors <= 64 * kMostWarps) {
        OfOneBlock<Format, 2>(call);
      } else {
        OfOneBlock<Format, 4>(call);
      }
      return;
    }
  }
  if (whole && few && vectors > 512 && vectors <= 1024) {
    AtOnce<T, kEach, 1024, 1>(call);
  } else if (whole && few && vectors > 256 && vectors <= 512) {
    AtOnce<T, kEach, 512, 1>(call);
  } else if (whole && few && vectors > 128 && vectors <= 256) {
    AtOnce<T, kEach, 256, 1>(call);
  } else if (whole && few && vectors > 32 && vectors <= 128) {
    AtOnce<T, kEach, 128, 1>(call);
  } else if (whole && InRegisters<Format, true>(call, kMost, few)) {
    return;
  } else if ((!aligned || few) && call.features <= 128) {
    AtOnce<T, 1, 32, 4>(call);
  } else if ((!aligned || few) && call.features <= 1024) {
    AtOnce<T, 1, 256, 4>(call);
  } else if ((!aligned || few) && call.features <= 4096) {
    AtOnce<T, 1, 1024, 4>(call);
  } else if (aligned && !whole && InRegisters<Format, false>(call, kMost, few)) {
    return;
  } else if (aligned && device->major >= 9 &&
             (whole ? OnChip<Format, true, 128>(call, processors)
                    : OnChip<Format, false, 128>(call, processors))) {
    return;
  } else {
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
