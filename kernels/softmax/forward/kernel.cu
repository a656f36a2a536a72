// Softmax of rows, computed in float32 and bound by memory: x is read once, in vectors of 16
// bytes, and y written once.
//  - FewRows: rows of up to 1024 columns, where they are so few that only latency counts.
//  - RowsInWords: many rows of up to 256 columns that are not whole vectors, half a warp for each.
//  - Rows: up to 16,384 columns. The numbers of a row stay in the registers of half a warp, a warp
//    or a block from the maximum to the result. Rows need not begin at a vector's border: up to
//    seven elements at either end, in vectors that a row may share with its neighbours, go singly.
//  - RowOnChip: longer rows (Hopper). A cluster of 1 to 16 blocks keeps a row in registers and
//    shared memory. Several blocks on each multiprocessor, at different stages, keep the memory
//    busy in both directions.
//  - RowInLoops: whatever is longer or aligned otherwise.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kWordLanes = 16;     // of RowsInWords, for each row; tune: kWordLanes in 8, 16, 32
constexpr int kWordThreads = 128;  // tune: kWordThreads in 128, 256
constexpr int kChipThreads = 256;  // of RowOnChip
constexpr int kChipWarps = kChipThreads / 32;
constexpr int kHeld = 4;         // vectors of each of these threads in registers
constexpr int kChunk = 512;      // vectors of a bulk copy to shared memory
constexpr int kFewChunks = 2;    // of a block, before more blocks share the row
constexpr int kMostChunks = 27;  // of a block
constexpr int kLoopThreads = 512;
constexpr int kMostBlocks = 16;    // of a cluster
constexpr int kWholeBlock = 1024;  // in place of a number of lanes: all threads of the block

// The formats: their bits, and how they become float32 and come back.
struct Float {
  using Bits = unsigned;
  static constexpr Bits kLowest = 0xff800000;
  static __device__ float Wide(Bits x) { return __uint_as_float(x); }
  static __device__ Bits Narrow(float x) { return __float_as_uint(x); }
};
struct Half {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xfc00;
  static __device__ float Wide(Bits x) { return __half2float(__ushort_as_half(x)); }
  static __device__ Bits Narrow(float x) { return __half_as_ushort(__float2half_rn(x)); }
  static __device__ float2 WidePair(unsigned x) {
    return __half22float2(*reinterpret_cast<const __half2*>(&x));
  }
};
struct BFloat16 {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xff80;
  static __device__ float Wide(Bits x) { return __bfloat162float(__ushort_as_bfloat16(x)); }
  static __device__ Bits Narrow(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
  static __device__ float2 WidePair(unsigned x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000));
  }
};

template <typename Format>
constexpr int kEach = sizeof(uint4) / sizeof(typename Format::Bits);

// A vector of 16 bytes in float32.
template <typename Format>
__device__ void Widen(uint4 v, float (&wide)[kEach<Format>]) {
  if constexpr (kEach<Format> == 4) {
    wide[0] = __uint_as_float(v.x);
    wide[1] = __uint_as_float(v.y);
    wide[2] = __uint_as_float(v.z);
    wide[3] = __uint_as_float(v.w);
  } else {
    const unsigned words[] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = Format::WidePair(words[i]);
      wide[2 * i] = pair.x;
      wide[2 * i + 1] = pair.y;
    }
  }
}

// A vector of -infinity.
template <typename Format>
__device__ uint4 Lowest() {
  constexpr unsigned kWord = kEach<Format> == 4 ? Format::kLowest : Format::kLowest * 0x10001u;
  return make_uint4(kWord, kWord, kWord, kWord);
}

// Elements that are loaded and stored together.
template <typename Format, typename Whole>
union Pack {
  static constexpr int kSize = sizeof(Whole) / sizeof(typename Format::Bits);
  Whole whole;
  typename Format::Bits at[kSize];
};

template <typename Format>
using Vector = Pack<Format, uint4>;

struct Largest {
  static constexpr float kNeutral = -INFINITY;
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  static constexpr float kNeutral = 0;
  __device__ float operator()(float a, float b) const { return a + b; }
};

// The combination over kLanes neighbours, for all of them.
template <int kLanes = 32, typename Combine>
__device__ float OfWarp(float value, Combine combine) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    value = combine(value, __shfl_xor_sync(~0u, value, lanes));
  }
  return value;
}

// The combination over the block's threads, for all of them. To be called once for each Combine.
template <int kThreads, typename Combine>
__device__ float OfBlock(float value, Combine combine) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float partial[kWarps];
  value = OfWarp(value, combine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return OfWarp(lane < kWarps ? partial[lane] : Combine::kNeutral, combine);
}

// Of the numbers that a thread, warp or block has seen: the largest, and the sum of exp(x -
// largest). Where all are -infinity, the largest is still a number: no difference is a NaN.
struct Parts {
  static constexpr float kLeast = -3.402823466e38f;
  float largest = kLeast, sum = 0;

  __device__ void Add(const Parts& other) {
    const float most = fmaxf(largest, other.largest);
    sum = sum * __expf(largest - most) + other.sum * __expf(other.largest - most);
    largest = most;
  }
  template <typename Format>
  __device__ void Add(uint4 v) {
    float x[kEach<Format>];
    Widen<Format>(v, x);
    float most = largest;
#pragma unroll
    for (float element : x) most = fmaxf(most, element);
    sum *= __expf(largest - most);
#pragma unroll
    for (float element : x) sum += __expf(element - most);
    largest = most;
  }
};

// exp(x - largest) * scale for each x of a vector.
template <typename Format>
__device__ uint4 Result(uint4 v, float largest, float scale) {
  float x[kEach<Format>];
  Widen<Format>(v, x);
  Vector<Format> result;
#pragma unroll
  for (int e = 0; e < kEach<Format>; ++e) {
    result.at[e] = Format::Narrow(__expf(x[e] - largest) * scale);
  }
  return result.whole;
}

// The combination over kLanes neighbours, for all of them.
template <int kLanes>
__device__ Parts OfLanes(Parts mine) {
  const float largest = OfWarp<kLanes>(mine.largest, Largest());
  return {largest, OfWarp<kLanes>(mine.sum * __expf(mine.largest - largest), Sum())};
}

// The combination over the block's threads, for all of them. To be called once.
__device__ Parts OfBlock(Parts mine, Parts* partial) {
  mine = OfLanes<32>(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return OfLanes<32>(lane < blockDim.x / 32 ? partial[lane] : Parts());
}

// A row, or a part of one, as whole units (vectors, words) of kSize elements at their borders, and
// up to kSize - 1 single elements on either side, the `extra` ones.
template <int kSize>
struct Span {
  int64_t start;  // element, the first of the first unit
  int units, head, extra;

  // `columns` elements from the element `first` on.
  __device__ Span(int64_t first, int columns) {
    head = min(static_cast<int>(-first & (kSize - 1)), columns);
    start = first + head;
    units = (columns - head) / kSize;
    extra = columns - units * kSize;
  }
  // Element i < extra, counted from `start`.
  __device__ int Extra(int i) const { return i < head ? i - head : units * kSize + i - head; }
};

// Few rows: kLanes threads, of one warp or all of a block, for each row of at most kLanes * kItems
// columns, of any alignment. Every number is asked for at once. A warp takes exponentials around
// its own largest number, so that one barrier is enough.
template <typename Format, int kLanes, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    FewRows(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
            int rows, int columns) {
  constexpr int kWide = kLanes < 32 ? kLanes : 32;
  constexpr int kWarps = kLanes / kWide;  // that share a row
  const int row = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int end = row < rows ? columns : 0;
  const int64_t start = static_cast<int64_t>(row) * columns + lane;
  x += start;
  y += start;
  typename Format::Bits bits[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    bits[item] = lane + item * kLanes < end ? x[item * kLanes] : Format::kLowest;
  }
  float value[kItems];
  float largest = kWarps > 1 ? Parts::kLeast : -INFINITY;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = Format::Wide(bits[item]);
    largest = fmaxf(largest, value[item]);
  }
  largest = OfWarp<kWide>(largest, Largest());
  float sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) sum += value[item] = __expf(value[item] - largest);
  sum = OfWarp<kWide>(sum, Sum());
  float scale = 1 / sum;
  if constexpr (kWarps > 1) {
    __shared__ Parts partial[kWarps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = {largest, sum};
    __syncthreads();
    float of_row = partial[0].largest;
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) of_row = fmaxf(of_row, partial[warp].largest);
    sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      sum += partial[warp].sum * __expf(partial[warp].largest - of_row);
    }
    scale = __expf(largest - of_row) / sum;
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (lane + item * kLanes < end) y[item * kLanes] = Format::Narrow(value[item] * scale);
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

// kLanes threads of a warp, or all of a block, for each row of at most kItems vectors of a thread.
// A thread takes exponentials around its own largest number.
template <typename Format, int kLanes, int kItems, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads,
                                  (kItems * kEach<Format> > 16 ? 1024 : 1536) / kMostThreads)
    Rows(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
         int rows, int columns) {
  constexpr int kSize = kEach<Format>;
  __shared__ Parts partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  const Span<kSize> span(static_cast<int64_t>(row) * columns, row < rows ? columns : 0);
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start) + lane;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + lane;
  const uint64_t policy = StayPolicy();
  uint4 vectors[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    vectors[item] = Lowest<Format>();
    if (lane + item * lanes < span.units) vectors[item] = Load(from + item * lanes, policy);
  }
  typename Format::Bits single = Format::kLowest;
  if (lane < span.extra) single = x[span.start + span.Extra(lane)];

  float value[kItems][kSize];
  float extra = Format::Wide(single);
  Parts parts{fmaxf(extra, Parts::kLeast), 0};
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    Widen<Format>(vectors[item], value[item]);
#pragma unroll
    for (int e = 0; e < kSize; ++e) parts.largest = fmaxf(parts.largest, value[item][e]);
  }
  parts.sum = extra = __expf(extra - parts.largest);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      parts.sum += value[item][e] = __expf(value[item][e] - parts.largest);
    }
  }
  Parts all;
  if constexpr (kLanes == kWholeBlock) {
    all = OfBlock(parts, partial);
  } else {
    all = OfLanes<kLanes>(parts);
  }
  const float scale = __expf(parts.largest - all.largest) / all.sum;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    Vector<Format> v;
#pragma unroll
    for (int e = 0; e < kSize; ++e) v.at[e] = Format::Narrow(value[item][e] * scale);
    if (lane + item * lanes < span.units) to[item * lanes] = v.whole;
  }
  if (lane < span.extra) y[span.start + span.Extra(lane)] = Format::Narrow(extra * scale);
}

// Keeps the compiler from holding on to the elements as float32, in twice the registers.
__device__ void StayPacked(uint4& v) { asm("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

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
__device__ void Send(const Parts& parts, Parts* to, uint64_t* barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there, barrier;\nmapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, "
      "[barrier];\n}" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(block), "f"(parts.largest), "f"(parts.sum)
      : "memory");
}

#endif

// The combination over `many` parts, for all threads of a warp.
__device__ Parts OfAll(const Parts* parts, int many) {
  Parts mine;
  for (int i = threadIdx.x % 32; i < many; i += 32) mine.Add(parts[i]);
  return OfLanes<32>(mine);
}

// A block, or a cluster of them, for each row. The first vectors of a block's piece go to
// registers, the others to shared memory. Threads add up exponentials around their own largest
// number as they arrive, and the warps of a cluster send each other their sums.
template <typename Format>
__global__ void __launch_bounds__(kChipThreads)
    RowOnChip(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
              int columns, int blocks) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ uint4 piece[];
  __shared__ uint64_t arrived[kMostChunks], exchanged;
  __shared__ Parts partial[kMostBlocks * kChipWarps];
  const int rank = static_cast<int>(blockIdx.x % blocks);
  const Span<kEach<Format>> span(static_cast<int64_t>(blockIdx.x / blocks) * columns, columns);
  const int first = static_cast<int>(static_cast<int64_t>(span.units) * rank / blocks);
  const int end = static_cast<int>(static_cast<int64_t>(span.units) * (rank + 1) / blocks);
  const int count = end - first;
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start) + first;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + first;
  const bool has_extra = rank == 0 && threadIdx.x < span.extra;
  const int64_t extra = span.start + span.Extra(threadIdx.x);

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
    held[item] = i < count ? Load(from + i, policy) : Lowest<Format>();
  }
  const float single = Format::Wide(has_extra ? x[extra] : Format::kLowest);
  if (blocks > 1) {
    if (threadIdx.x == 0) {
      Await(&exchanged, blocks * kChipWarps * static_cast<int>(sizeof(Parts)));
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  __syncthreads();

  Parts parts{fmaxf(single, Parts::kLeast), 0};
  parts.sum = __expf(single - parts.largest);
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    parts.Add<Format>(held[item]);
    StayPacked(held[item]);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitFor(arrived + chunk);
#pragma unroll
    for (int item = 0; item < kChunk / kChipThreads; ++item) {
      const int i = chunk * kChunk + item * kChipThreads + threadIdx.x;
      parts.Add<Format>(i < shared ? piece[i] : Lowest<Format>());
    }
  }
  parts = OfLanes<32>(parts);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (blocks > 1) {
    // The other blocks must have begun before their shared memory is written to.
    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (lane < blocks) Send(parts, partial + rank * kChipWarps + warp, &exchanged, lane);
    WaitFor(&exchanged);
  } else {
    if (lane == 0) partial[warp] = parts;
    __syncthreads();
  }
  parts = OfAll(partial, blocks * kChipWarps);

  const float scale = 1 / parts.sum;
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int i = item * kChipThreads + threadIdx.x;
    if (i < count) to[i] = Result<Format>(held[item], parts.largest, scale);
  }
#pragma unroll 2
  for (int i = threadIdx.x; i < shared; i += kChipThreads) {
    to[kHeld * kChipThreads + i] = Result<Format>(piece[i], parts.largest, scale);
  }
  if (has_extra) y[extra] = Format::Narrow(__expf(single - parts.largest) * scale);
#endif
}

// Many rows of at most kColumns, kWordLanes threads for each, word by word.
template <typename Format, int kColumns>
__global__ void __launch_bounds__(kWordThreads)
    RowsInWords(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
                int64_t rows, int columns) {
  using Bits = typename Format::Bits;
  using Word = Pack<Format, unsigned>;
  constexpr int kItems = kColumns / Word::kSize / kWordLanes;
  const int lane = threadIdx.x % kWordLanes;
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * (kWordThreads / kWordLanes) + threadIdx.x / kWordLanes;
  const Span<Word::kSize> span(row * columns, row < rows ? columns : 0);
  const auto* from = reinterpret_cast<const unsigned*>(x + span.start) + lane;
  auto* const to = reinterpret_cast<unsigned*>(y + span.start) + lane;
  const bool has_extra = Word::kSize > 1 && lane < span.extra;
  Word words[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (lane + item * kWordLanes < span.units) words[item].whole = from[item * kWordLanes];
  }
  Bits single = Format::kLowest;
  if (has_extra) single = x[span.start + span.Extra(lane)];

  float value[kItems][Word::kSize];
  float extra = Format::Wide(single);
  float largest = extra;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const bool inside = lane + item * kWordLanes < span.units;
#pragma unroll
    for (int e = 0; e < Word::kSize; ++e) {
      value[item][e] = inside ? Format::Wide(words[item].at[e]) : -INFINITY;
      largest = fmaxf(largest, value[item][e]);
    }
  }
  largest = OfWarp<kWordLanes>(largest, Largest());
  extra = __expf(extra - largest);
  float sum = extra;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < Word::kSize; ++e) {
      sum += value[item][e] = __expf(value[item][e] - largest);
    }
  }
  const float scale = 1 / OfWarp<kWordLanes>(sum, Sum());
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    Word word;
#pragma unroll
    for (int e = 0; e < Word::kSize; ++e) word.at[e] = Format::Narrow(value[item][e] * scale);
    if (lane + item * kWordLanes < span.units) to[item * kWordLanes] = word.whole;
  }
  if (has_extra) y[span.start + span.Extra(lane)] = Format::Narrow(extra * scale);
}

// One block for each row, of any length and alignment; the row is read three times.
template <typename Format>
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
               int64_t columns) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float largest = -INFINITY;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < columns; i += kLoopThreads) {
    largest = fmaxf(largest, Format::Wide(x[i]));
  }
  largest = OfBlock<kLoopThreads>(largest, Largest());
  float sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < columns; i += kLoopThreads) {
    sum += __expf(Format::Wide(x[i]) - largest);
  }
  const float scale = 1 / OfBlock<kLoopThreads>(sum, Sum());
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < columns; i += kLoopThreads) {
    y[i] = Format::Narrow(__expf(Format::Wide(x[i]) - largest) * scale);
  }
}

// Everything of one call.
template <typename Format>
struct Call {
  using Bits = typename Format::Bits;
  static constexpr int kSize = kEach<Format>;
  const Bits* x;
  Bits* y;
  int64_t rows, columns;
  cudaStream_t stream;

  int Width() const { return static_cast<int>(columns); }
  unsigned Blocks(int rows_of_block) const {
    return static_cast<unsigned>((rows + rows_of_block - 1) / rows_of_block);
  }
  template <int kLanes, int kThreads, int kItems>
  void Few() const {
    FewRows<Format, kLanes, kThreads, kItems>
        <<<Blocks(kThreads / kLanes), kThreads, 0, stream>>>(x, y, static_cast<int>(rows), Width());
  }
  template <int kColumns>
  void Narrow() const {
    RowsInWords<Format, kColumns>
        <<<Blocks(kWordThreads / kWordLanes), kWordThreads, 0, stream>>>(x, y, rows, Width());
  }
  template <int kLanes, int kNumbers, int kMostThreads>
  void InRegisters() const {
    const bool block = kLanes == kWholeBlock;
    const int threads = block ? (Width() + 32 * kNumbers - 1) / (32 * kNumbers) * 32 : kMostThreads;
    Rows<Format, kLanes, kNumbers / kSize, kMostThreads>
        <<<Blocks(block ? 1 : threads / kLanes), threads, 0, stream>>>(x, y, static_cast<int>(rows),
                                                                       Width());
  }
  // False if rows are too long. The fewest numbers are chosen that threads can have and that leave
  // few of them idle.
  bool InRegisters() const {
    const auto of_block = [&](int numbers) {
      return (columns + 32 * numbers - 1) / (32 * numbers) * numbers;
    };
    if (columns <= 256) {
      InRegisters<16, 16, 128>();
    } else if (columns <= 384) {
      InRegisters<16, 24, 128>();
    } else if (columns <= 512) {
      InRegisters<32, 16, 128>();
    } else if (columns <= 768) {
      InRegisters<32, 24, 128>();
    } else if (columns > 1024 && columns <= 1280) {
      InRegisters<32, 40, 128>();
    } else if (columns <= 2048) {
      InRegisters<kWholeBlock, 16, 128>();
    } else if (columns <= 12288 && of_block(24) < of_block(32)) {
      InRegisters<kWholeBlock, 24, 512>();
    } else if (columns <= 16384) {
      InRegisters<kWholeBlock, 32, 512>();
    } else {
      return false;
    }
    return true;
  }
  // A row for each cluster. False if it is too long, or if the GPU has no place for such clusters.
  bool OnChip(int processors) const {
    const int64_t vectors = columns / kSize;
    int blocks = 1;
    while (blocks < kMostBlocks &&
           (vectors > blocks * (kFewChunks * kChunk + kHeld * kChipThreads) ||
            rows * blocks <= processors)) {
      blocks *= 2;
    }
    const int64_t others =
        std::max<int64_t>((vectors + blocks - 1) / blocks - kHeld * kChipThreads, 0);
    const int64_t chunks = (others + kChunk - 1) / kChunk;
    if (chunks > kMostChunks || rows * blocks >= int64_t{1} << 31) return false;
    const auto kernel = RowOnChip<Format>;
    cudaLaunchAttribute size{};
    size.id = cudaLaunchAttributeClusterDimension;
    size.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = {static_cast<unsigned>(rows * blocks), 1, 1};
    config.blockDim = {kChipThreads, 1, 1};
    config.dynamicSmemBytes = chunks * kChunk * sizeof(uint4);
    config.stream = stream;
    config.attrs = &size;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(config.dynamicSmemBytes)));
    if (blocks > 8) {
      C10_CUDA_CHECK(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
      int active = 0;
      C10_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active, kernel, &config));
      if (active == 0) return false;
    }
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, x, y, Width(), blocks));
    return true;
  }
};

template <typename Format>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  using Bits = typename Format::Bits;
  const int64_t columns = x.size(x.dim() - 1), rows = x.numel() / columns;
  TORCH_CHECK(rows < (int64_t{1} << 31), "x has too many rows");
  const Call<Format> call{static_cast<const Bits*>(x.data_ptr()), static_cast<Bits*>(y.data_ptr()),
                          rows, columns, at::cuda::getCurrentCUDAStream()};
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int processors = device->multiProcessorCount;
  const bool aligned = reinterpret_cast<uintptr_t>(call.x) % sizeof(uint4) == 0 &&
                       reinterpret_cast<uintptr_t>(call.y) % sizeof(uint4) == 0;
  const bool whole = aligned && columns % kEach<Format> == 0;
  const bool few = x.numel() <= int64_t{processors} * 8192 && (!whole || columns <= 256);
  if (few && columns <= 8) {
    call.template Few<8, 128, 1>();
  } else if (few && columns <= 32) {
    call.template Few<32, 128, 1>();
  } else if (few && columns <= 128) {
    call.template Few<32, 128, 4>();
  } else if (few && columns <= 512) {
    call.template Few<128, 128, 4>();
  } else if (few && columns <= 1024) {
    call.template Few<256, 256, 4>();
  } else if (aligned && !whole && columns <= 128) {
    call.template Narrow<128>();
  } else if (aligned && !whole && columns <= 224) {
    call.template Narrow<224>();
  } else if (aligned && !whole && columns <= 256) {
    call.template Narrow<256>();
  } else if (aligned && (call.InRegisters() || (device->major >= 9 && call.OnChip(processors)))) {
    return;
  } else {
    RowInLoops<Format><<<call.Blocks(1), kLoopThreads, 0, call.stream>>>(call.x, call.y, columns);
  }
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.dim() >= 1, "x must have rows");
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<Float>(x, y);
      break;
    case torch::kFloat16:
      Launch<Half>(x, y);
      break;
    case torch::kBFloat16:
      Launch<BFloat16>(x, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Softmax of rows"); }
