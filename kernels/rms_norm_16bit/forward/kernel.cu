// RMS normalisation of rows, computed in float32. x is read once.
//  - Rows, OddRows: the numbers of a row stay in registers, kItems vectors of 16 bytes for a
//    thread. All loads of Rows, those of the weights among them, are issued before the sum. A part
//    of a warp, a warp or a block shares a row. Where there are few rows, every vector has its own
//    thread, because only latency counts.
//  - RowOnChip: longer rows (Hopper). A cluster of 1 to 16 blocks keeps a row in registers and
//    shared memory.
//  - RowByNumbers: short rows of odd lengths, if they are few, or aligned otherwise.
//  - RowInLoops: whatever is longer or aligned otherwise.
// Rows of odd lengths begin anywhere in a vector. Vectors are taken at their borders, and the rest
// of a row on either side by single numbers. Their weights are cut out of two vectors.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kWarpThreads = 128;  // of a block whose warps take rows of their own; tune: 64, 128
constexpr int kChipThreads = 256;  // of RowOnChip
constexpr int kChipWarps = kChipThreads / 32;
constexpr int kHeld = 4;         // vectors of each of these threads in registers
constexpr int kChunk = 512;      // vectors of a bulk copy to shared memory
constexpr int kFewChunks = 2;    // of a block, before more blocks share the row
constexpr int kMostChunks = 27;  // of a block
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

// The sum over the block's threads, for all of them. To be called once.
__device__ float OfBlock(float value, float* partial) {
  value = OfWarp(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return OfWarp(lane < blockDim.x / 32 ? partial[lane] : 0);
}

// Adds the squares of a vector's numbers.
template <typename Format>
__device__ void Add(float& squares, uint4 v) {
  float x[Format::kEach];
  Format::Widen(v, x);
#pragma unroll
  for (const float number : x) squares += number * number;
}

// A vector times `scale` and the weights.
template <typename Format>
__device__ uint4 Result(uint4 vector, const float (&weights)[Format::kEach], float scale) {
  float v[Format::kEach];
  Format::Widen(vector, v);
#pragma unroll
  for (int e = 0; e < Format::kEach; ++e) v[e] *= scale * weights[e];
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

// What the L2 cache drops first are then lines of y, which it has to write anyway.
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

// kLanes threads of a warp, or all of a block, for each row of at most kItems whole vectors of a
// thread. (One kernel for all rows is slower: the compiler then loads weights after the sum.)
template <typename Format, int kLanes, int kItems>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 : kWarpThreads)
    Rows(const uint4* __restrict__ x, const uint4* __restrict__ weights, uint4* __restrict__ y,
         int rows, int vectors, float eps) {
  constexpr int kEach = Format::kEach;
  __shared__ float partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  const int64_t start = static_cast<int64_t>(row) * vectors + lane;
  const int end = row < rows ? vectors - lane : 0;
  const uint64_t policy = StayPolicy();
  uint4 value[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = make_uint4(0, 0, 0, 0);
    if (item * lanes < end) value[item] = Load(x + start + item * lanes, policy);
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes < end) weight[item] = weights[lane + item * lanes];
  }
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    Add<Format>(squares, value[item]);
    StayPacked(value[item]);
  }
  if constexpr (kLanes == kWholeBlock) {
    squares = OfBlock(squares, partial);
  } else {
    squares = OfWarp<kLanes>(squares);
  }
  const float scale = rsqrtf(squares / (kEach * static_cast<float>(vectors)) + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes >= end) continue;
    float w[kEach];
    Format::Widen(weight[item], w);
    y[start + item * lanes] = Result<Format>(value[item], w, scale);
  }
}

// The same for rows of odd lengths.
template <typename Format, int kLanes, int kItems>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 : kWarpThreads)
    OddRows(const typename Format::Number* __restrict__ x,
            const typename Format::Number* __restrict__ weights,
            typename Format::Number* __restrict__ y, int rows, int features, float eps) {
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  __shared__ float partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  const Span<kEach, false> span(static_cast<int64_t>(row) * features, row < rows ? features : 0);
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
  const bool has_extra = lane < span.extra;
  const int extra = span.Extra(lane);
  float single = 0, weight_of_single = 0;
  if (has_extra) {
    single = static_cast<float>(x[span.start + extra]);
    weight_of_single = static_cast<float>(weights[span.head + extra]);
  }
  float squares = single * single;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    Add<Format>(squares, value[item]);
    StayPacked(value[item]);
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
    float w[kEach];
    Weights<Format, false>(weights, span.head + (lane + item * lanes) * kEach, features, w);
    to[item * lanes] = Result<Format>(value[item], w, scale);
  }
  if (has_extra) y[span.start + extra] = static_cast<T>(single * scale * weight_of_single);
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
__device__ void Send(float part, float* to, uint64_t* barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there, barrier;\nmapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %3, [barrier];\n}" ::"r"(
          SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(block), "f"(part)
      : "memory");
}
#endif

// The sum of `many` parts, for all threads of a warp.
__device__ float OfAll(const float* parts, int many) {
  float sum = 0;
  for (int i = threadIdx.x % 32; i < many; i += 32) sum += parts[i];
  return OfWarp(sum);
}

// A block, or a cluster of them, for each row. The first vectors of a block's piece go to
// registers, the others to shared memory. The warps of a cluster send each other their sums.
template <typename Format, bool kWhole>
__global__ void __launch_bounds__(kChipThreads, 5)
    RowOnChip(const typename Format::Number* __restrict__ x,
              const typename Format::Number* __restrict__ weights,
              typename Format::Number* __restrict__ y, int features, float eps, int blocks) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using T = typename Format::Number;
  constexpr int kEach = Format::kEach;
  extern __shared__ uint4 piece[];
  __shared__ uint64_t arrived[kMostChunks], exchanged;
  __shared__ float partial[kMostBlocks * kChipWarps];
  const int rank = static_cast<int>(blockIdx.x % blocks);
  const Span<kEach, kWhole> span(static_cast<int64_t>(blockIdx.x / blocks) * features, features);
  const int first = static_cast<int>(static_cast<int64_t>(span.units) * rank / blocks);
  const int end = static_cast<int>(static_cast<int64_t>(span.units) * (rank + 1) / blocks);
  const int count = end - first;
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start) + first;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + first;
  const bool has_extra = rank == 0 && threadIdx.x < span.extra;
  const int extra = span.Extra(threadIdx.x);

  const int shared = max(count - kHeld * kChipThreads, 0);
  const int chunks = (shared + kChunk - 1) / kChunk;
  const uint64_t policy = StayPolicy();
  if (threadIdx.x < chunks) {
    const int start = threadIdx.x * kChunk;
    const int bytes = min(shared - start, kChunk) * static_cast<int>(sizeof(uint4));
    uint64_t* const barrier = arrived + threadIdx.x;
    Await(barrier, bytes);
    Copy(piece + start, from + kHeld * kChipThreads + start, bytes, barrier, policy);
  }
  uint4 held[kHeld];
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int i = item * kChipThreads + threadIdx.x;
    held[item] = i < count ? Load(from + i, policy) : make_uint4(0, 0, 0, 0);
  }
  const float single = has_extra ? static_cast<float>(x[span.start + extra]) : 0;
  if (blocks > 1) {
    if (threadIdx.x == 0) {
      Await(&exchanged, blocks * kChipWarps * static_cast<int>(sizeof(float)));
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  __syncthreads();

  float squares = single * single;
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    Add<Format>(squares, held[item]);
    StayPacked(held[item]);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitFor(arrived + chunk);
#pragma unroll
    for (int item = 0; item < kChunk / kChipThreads; ++item) {
      const int i = chunk * kChunk + item * kChipThreads + threadIdx.x;
      if (i < shared) Add<Format>(squares, piece[i]);
    }
  }
  uint4 weight[kHeld];
  if constexpr (kWhole) {
    const auto* const first_weight = reinterpret_cast<const uint4*>(weights) + first;
#pragma unroll
    for (int item = 0; item < kHeld; ++item) {
      const int i = item * kChipThreads + threadIdx.x;
      if (i < count) weight[item] = first_weight[i];
    }
  }
  squares = OfWarp(squares);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (blocks > 1) {
    // The other blocks must have begun before their shared memory is written to.
    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (lane < blocks) Send(squares, partial + rank * kChipWarps + warp, &exchanged, lane);
    WaitFor(&exchanged);
  } else {
    if (lane == 0) partial[warp] = squares;
    __syncthreads();
  }
  squares = OfAll(partial, blocks * kChipWarps);

  const float scale = rsqrtf(squares / static_cast<float>(features) + eps);
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int i = item * kChipThreads + threadIdx.x;
    if (i >= count) continue;
    float w[kEach];
    if constexpr (kWhole) {
      Format::Widen(weight[item], w);
    } else {
      Weights<Format, false>(weights, span.head + (first + i) * kEach, features, w);
    }
    to[i] = Result<Format>(held[item], w, scale);
  }
#pragma unroll(kWhole ? 4 : 2)
  for (int i = kHeld * kChipThreads + threadIdx.x; i < count; i += kChipThreads) {
    float w[kEach];
    Weights<Format, kWhole>(weights, span.head + (first + i) * kEach, features, w);
    to[i] = Result<Format>(piece[i - kHeld * kChipThreads], w, scale);
  }
  if (has_extra) {
    y[span.start + extra] =
        static_cast<T>(single * scale * static_cast<float>(weights[span.head + extra]));
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
    RowByNumbers(const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y,
                 int features, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features + threadIdx.x;
  x += start;
  y += start;
  weights += threadIdx.x;
  T value[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < features) {
      value[item] = x[item * kThreads];
      weight[item] = weights[item * kThreads];
    }
  }
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads >= features) continue;
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

// One block for each row, of any length and alignment; the row is read twice.
template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y,
               int64_t features, float eps) {
  const int64_t start = blockIdx.x * features;
  float squares = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float value = static_cast<float>(x[start + i]);
    squares += value * value;
  }
  const float length = static_cast<float>(features);
  const float scale = rsqrtf(BlockSum<kLoopThreads>(squares) / length + eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    y[start + i] =
        static_cast<T>(static_cast<float>(x[start + i]) * scale * static_cast<float>(weights[i]));
  }
}

// Everything of one call.
struct Call {
  const void *x, *weights;
  void* y;
  int64_t features;
  int rows;
  float eps;
  cudaStream_t stream;
};

template <typename Format, bool kWhole, int kLanes, int kItems>
static void InRegisters(const Call& call) {
  using T = typename Format::Number;
  const auto features = static_cast<int>(call.features), vectors = features / Format::kEach;
  const bool block = kLanes == kWholeBlock;
  const int threads = block ? (vectors + 32 * kItems - 1) / (32 * kItems) * 32 : kWarpThreads;
  const int rows = block ? 1 : threads / kLanes;  // of a block
  const auto blocks = static_cast<unsigned>((int64_t{call.rows} + rows - 1) / rows);
  if constexpr (kWhole) {
    Rows<Format, kLanes, kItems><<<blocks, threads, 0, call.stream>>>(
        static_cast<const uint4*>(call.x), static_cast<const uint4*>(call.weights),
        static_cast<uint4*>(call.y), call.rows, vectors, call.eps);
  } else {
    OddRows<Format, kLanes, kItems><<<blocks, threads, 0, call.stream>>>(
        static_cast<const T*>(call.x), static_cast<const T*>(call.weights), static_cast<T*>(call.y),
        call.rows, features, call.eps);
  }
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

// A row for each cluster. False if it is too long, or if the GPU has no place for such clusters.
template <typename Format, bool kWhole>
static bool OnChip(const Call& call, int processors) {
  using T = typename Format::Number;
  const int64_t vectors = call.features / Format::kEach;
  int blocks = 1;
  while (blocks < kMostBlocks && (vectors > blocks * (kFewChunks * kChunk + kHeld * kChipThreads) ||
                                  int64_t{call.rows} * blocks <= processors)) {
    blocks *= 2;
  }
  const int64_t others =
      std::max<int64_t>((vectors + blocks - 1) / blocks - kHeld * kChipThreads, 0);
  const int64_t chunks = (others + kChunk - 1) / kChunk;
  if (chunks > kMostChunks || int64_t{call.rows} * blocks >= int64_t{1} << 31) return false;
  const auto kernel = RowOnChip<Format, kWhole>;
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(int64_t{call.rows} * blocks), 1, 1};
  config.blockDim = {kChipThreads, 1, 1};
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
                                    static_cast<const T*>(call.weights), static_cast<T*>(call.y),
                                    static_cast<int>(call.features), call.eps, blocks));
  return true;
}

template <typename T, int kThreads, int kItems>
static void ByNumbers(const Call& call) {
  RowByNumbers<T, kThreads, kItems><<<call.rows, kThreads, 0, call.stream>>>(
      static_cast<const T*>(call.x), static_cast<const T*>(call.weights), static_cast<T*>(call.y),
      static_cast<int>(call.features), call.eps);
}

static bool Aligned(const void* x) { return reinterpret_cast<uintptr_t>(x) % sizeof(uint4) == 0; }

template <typename Format>
static void Launch(const Call& call) {
  using T = typename Format::Number;
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int processors = device->multiProcessorCount;
  constexpr int64_t kMost = 1536;  // vectors in registers
  const bool few = call.features / Format::kEach * call.rows <= int64_t{processors} * 2048;
  const bool aligned = Aligned(call.x) && Aligned(call.y);
  const bool whole = aligned && Aligned(call.weights) && call.features % Format::kEach == 0;
  if (whole && InRegisters<Format, true>(call, kMost, few)) return;
  if ((!aligned || few) && call.features <= 128) {
    ByNumbers<T, 32, 4>(call);
  } else if ((!aligned || few) && call.features <= 1024) {
    ByNumbers<T, 256, 4>(call);
  } else if ((!aligned || few) && call.features <= 4096) {
    ByNumbers<T, 512, 8>(call);
  } else if (aligned && !whole && InRegisters<Format, false>(call, kMost, few)) {
    return;
  } else if (aligned && device->major >= 9 &&
             (whole ? OnChip<Format, true>(call, processors)
                    : OnChip<Format, false>(call, processors))) {
    return;
  } else {
    RowInLoops<T><<<call.rows, kLoopThreads, 0, call.stream>>>(
        static_cast<const T*>(call.x), static_cast<const T*>(call.weights), static_cast<T*>(call.y),
        call.features, call.eps);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0),
              "weights must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const int64_t features = weights.numel(), rows = x.numel() / features;
  TORCH_CHECK(rows < (int64_t{1} << 31), "x has too many rows");
  const Call call{x.data_ptr(),
                  weights.data_ptr(),
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

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "RMS normalisation"); }
