// Softmax of rows, computed in float32 and bound by memory: x is read once, in vectors of 16
// bytes, and y written once.
//  - FewRows: rows of up to 1024 columns, where they are so few that only latency counts.
//  - RowsInWords: many rows of up to 256 columns that are not whole vectors, half a warp for each.
//  - Rows: up to 16,384 columns. The numbers of a row stay in the registers of half a warp, a warp
//    or a block from the maximum to the result. Rows need not begin at a vector's border: up to
//    seven elements at either end, in vectors that a row may share with its neighbours, go singly.
//  - RowAhead: float32 rows of up to 32,768 columns. One block on each multiprocessor goes from row
//    to row, and has the next one on its way to shared memory.
//  - RowInParts: long rows. One block, or a cluster of 2 to 16, keeps a row in shared memory.
//  - RowInLoops: whatever is longer or aligned otherwise.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kWordLanes = 16;       // of RowsInWords, for each row; tune: kWordLanes in 8, 16, 32
constexpr int kWordThreads = 128;    // tune: kWordThreads in 128, 256
constexpr int kAheadThreads = 1024;  // of RowAhead
constexpr int kAheadItems = 8;       // vectors in registers, and as many in shared memory
constexpr int kPartThreads = 512;    // of RowInParts, at most
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
  float largest, sum;
};

constexpr float kLeast = -3.402823466e38f;

// The combination over kLanes neighbours, for all of them.
template <int kLanes>
__device__ Parts OfLanes(Parts mine) {
  const float largest = OfWarp<kLanes>(mine.largest, Largest());
  return {largest, OfWarp<kLanes>(mine.sum * __expf(mine.largest - largest), Sum())};
}

// The combination over `many` parts, at most kLanes, for all threads of a warp.
template <int kLanes>
__device__ Parts OfParts(const Parts* parts, int many) {
  const int lane = threadIdx.x % kLanes;
  return OfLanes<kLanes>(lane < many ? parts[lane] : Parts{kLeast, 0});
}

// The combination over the block's threads, for all of them. Calls take turns between two
// `partial`: who writes to one has passed the barrier after which its last reader has gone on.
__device__ Parts OfBlock(Parts mine, Parts* partial) {
  mine = OfLanes<32>(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  __syncthreads();
  return OfParts<32>(partial, blockDim.x / 32);
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
  float largest = kWarps > 1 ? kLeast : -INFINITY;
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
  uint4 vectors[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    vectors[item] = Lowest<Format>();
    if (lane + item * lanes < span.units) vectors[item] = from[item * lanes];
  }
  typename Format::Bits single = Format::kLowest;
  if (lane < span.extra) single = x[span.start + span.Extra(lane)];

  float value[kItems][kSize];
  float extra = Format::Wide(single);
  Parts parts{fmaxf(extra, kLeast), 0};
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

// Long float32 rows, up to 4 * kAheadThreads * kAheadItems columns. The blocks, one on each
// multiprocessor, go from row to row: one is in their registers, and the next is on its way to
// shared memory meanwhile, where a thread waits for what it will compute itself. A thread takes
// exponentials around its own largest number.
__global__ void __launch_bounds__(kAheadThreads, 1)
    RowAhead(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  extern __shared__ float4 ahead[];
  __shared__ Parts partial[2][kAheadThreads / 32];
  float4* const mine = ahead + threadIdx.x;
  float next_extra = -INFINITY;
  // What the L2 cache drops first are then lines of y, which it has to write anyway.
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  const auto fetch = [&](int row) {
    const Span<4> span(static_cast<int64_t>(row) * columns, columns);
    const auto* from = reinterpret_cast<const float4*>(x + span.start) + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      if (threadIdx.x + item * kAheadThreads < span.units) {
        const auto to =
            static_cast<uint32_t>(__cvta_generic_to_shared(mine + item * kAheadThreads));
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to),
                     "l"(from + item * kAheadThreads), "l"(policy)
                     : "memory");
      }
    }
    __pipeline_commit();
    if (threadIdx.x < span.extra) next_extra = x[span.start + span.Extra(threadIdx.x)];
  };
  fetch(blockIdx.x);
  int turn = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
    const Span<4> span(static_cast<int64_t>(row) * columns, columns);
    __pipeline_wait_prior(0);
    float4 value[kAheadItems];
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      const bool inside = threadIdx.x + item * kAheadThreads < span.units;
      value[item] = inside ? mine[item * kAheadThreads]
                           : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
    float extra = threadIdx.x < span.extra ? next_extra : -INFINITY;
    if (row + gridDim.x < rows) fetch(row + gridDim.x);

    Parts parts{fmaxf(extra, kLeast), 0};
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      const float4 v = value[item];
      parts.largest = fmaxf(parts.largest, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    parts.sum = extra = __expf(extra - parts.largest);
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      float4& v = value[item];
      v = make_float4(__expf(v.x - parts.largest), __expf(v.y - parts.largest),
                      __expf(v.z - parts.largest), __expf(v.w - parts.largest));
      parts.sum += (v.x + v.y) + (v.z + v.w);
    }
    const Parts all = OfBlock(parts, partial[turn]);
    const float scale = __expf(parts.largest - all.largest) / all.sum;
    auto* const to = reinterpret_cast<float4*>(y + span.start) + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      const float4 v = value[item];
      if (threadIdx.x + item * kAheadThreads < span.units) {
        to[item * kAheadThreads] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
      }
    }
    if (threadIdx.x < span.extra) y[span.start + span.Extra(threadIdx.x)] = extra * scale;
  }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// What the blocks of a cluster tell each other, once: each sends its part to the shared memory of
// all, itself included, and waits for as many.
struct Exchange {
  Parts parts[kMostBlocks];
  uint64_t barrier;

  // By all threads of the cluster.
  __device__ void Start() {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(&barrier))
                   : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // Relaxed, as nobody has written anything but barriers: otherwise a fence for all of memory.
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  }
  // By one warp.
  __device__ void Send(Parts part, int rank, int blocks) {
    const int lane = threadIdx.x % 32;
    const uint32_t mine = SharedAddress(&barrier);
    if (lane == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mine),
                   "r"(static_cast<int>(sizeof(Parts)) * blocks)
                   : "memory");
    }
    if (lane < blocks) {
      uint32_t to, its_barrier;
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(to)
          : "r"(SharedAddress(&parts[rank])), "r"(lane));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(mine), "r"(lane));
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::
              "r"(to),
          "f"(part.largest), "f"(part.sum), "r"(its_barrier)
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
// `part` columns, in shared memory, where a thread waits only for what it will compute itself.
// Exponentials are taken twice, first around the largest number that the thread has seen so far.
template <typename Format, bool kShared>
__global__ void __launch_bounds__(kPartThreads, 1536 / kPartThreads)
    RowInParts(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
               int columns, int part) {
  constexpr int kSize = kEach<Format>;
  constexpr int kTogether = 16 / kSize;  // vectors
  constexpr int kStages = 4;
  extern __shared__ uint4 held[];
  __shared__ Parts partial[32];
  int rank = 0, blocks = 1;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ Exchange exchange;
  if constexpr (kShared) {
    rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
    blocks = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  }
#endif
  const int first = rank * part;
  const Span<kSize> span(static_cast<int64_t>(blockIdx.x / blocks) * columns + first,
                         max(min(part, columns - first), 0));
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start);
  auto* const to = reinterpret_cast<uint4*>(y + span.start);
  const int threads = static_cast<int>(blockDim.x);
  const int step = kTogether * threads;
  const int of_stage = (span.units + kStages * step - 1) / (kStages * step) * step;
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    const int end = min((stage + 1) * of_stage, span.units);
    for (int i = stage * of_stage + threadIdx.x; i < end; i += threads) {
      __pipeline_memcpy_async(held + i, from + i, sizeof(uint4));
    }
    __pipeline_commit();
  }
  const int64_t extra = span.start + span.Extra(threadIdx.x);
  typename Format::Bits single = Format::kLowest;
  if (threadIdx.x < span.extra) single = x[extra];
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) exchange.Start();
#endif

  Parts parts{fmaxf(Format::Wide(single), kLeast), 0};
  parts.sum = __expf(Format::Wide(single) - parts.largest);
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    __pipeline_wait_prior(kStages - 1 - stage);
    const int end = min((stage + 1) * of_stage, span.units);
    for (int i = stage * of_stage + threadIdx.x; i < end; i += step) {
      float value[kTogether][kSize];
      float largest = parts.largest;
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        Widen<Format>(i + j * threads < end ? held[i + j * threads] : Lowest<Format>(), value[j]);
#pragma unroll
        for (int e = 0; e < kSize; ++e) largest = fmaxf(largest, value[j][e]);
      }
      parts = {largest, parts.sum * __expf(parts.largest - largest)};
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
#pragma unroll
        for (int e = 0; e < kSize; ++e) parts.sum += __expf(value[j][e] - largest);
      }
    }
  }
  parts = OfBlock(parts, partial);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) {
    if (threadIdx.x < 32) exchange.Send(parts, rank, blocks);
    exchange.Wait();
    parts = OfParts<kMostBlocks>(exchange.parts, blocks);
  }
#endif
  const float scale = 1 / parts.sum;
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float value[kSize];
    Widen<Format>(held[i], value);
    Vector<Format> v;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      v.at[e] = Format::Narrow(__expf(value[e] - parts.largest) * scale);
    }
    to[i] = v.whole;
  }
  if (threadIdx.x < span.extra) {
    y[extra] = Format::Narrow(__expf(Format::Wide(single) - parts.largest) * scale);
  }
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
  static constexpr int kAheadBytes = kAheadThreads * kAheadItems * sizeof(float4);
  void Ahead(int processors) const {
    if constexpr (sizeof(Bits) == 4) {
      C10_CUDA_CHECK(
          cudaFuncSetAttribute(RowAhead, cudaFuncAttributeMaxDynamicSharedMemorySize, kAheadBytes));
      RowAhead<<<std::min(static_cast<int>(rows), processors), kAheadThreads, kAheadBytes,
                 stream>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y),
                           static_cast<int>(rows), Width());
    }
  }
  int64_t Part(int blocks) const {
    return (columns + blocks * kSize - 1) / (blocks * kSize) * kSize;
  }
  // False if the GPU has no place for such clusters.
  template <bool kShared>
  bool InParts(int blocks, int threads) const {
    const auto kernel = RowInParts<Format, kShared>;
    const int part = static_cast<int>(Part(blocks));
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    attributes[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
    attributes[1].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
    cudaLaunchConfig_t config{};
    config.gridDim = {static_cast<unsigned>(rows * blocks), 1, 1};
    config.blockDim = {static_cast<unsigned>(threads), 1, 1};
    config.dynamicSmemBytes = part * sizeof(Bits);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = kShared ? 2 : 0;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(config.dynamicSmemBytes)));
    if (blocks > 8) {
      C10_CUDA_CHECK(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
      int active = 0;
      C10_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active, kernel, &config));
      if (active == 0) return false;
    }
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, x, y, Width(), part));
    return true;
  }
  // A long row in one block's shared memory, or in that of up to 16. False if it is too long.
  bool InParts(const cudaDeviceProp& device) const {
    if (columns >= int64_t{1} << 31) return false;
    const int64_t bytes = columns * sizeof(Bits);
    const int64_t of_block = (bytes <= 128 * 1024 ? 128 : 32) * 1024;
    const bool few = rows <= device.multiProcessorCount;  // then a row is for several
    const int most = device.major >= 9 ? kMostBlocks : 1;
    int blocks = 1;
    while (blocks < most &&
           (bytes > blocks * of_block || rows * blocks <= device.multiProcessorCount)) {
      blocks *= 2;
    }
    const int64_t of_part = Part(blocks) * sizeof(Bits);
    if (of_part + 1024 > static_cast<int64_t>(device.sharedMemPerBlockOptin)) return false;
    int threads = 128;
    while (threads < kPartThreads && of_part > threads * (few || blocks == 1 ? 64 : 256)) {
      threads *= 2;
    }
    return blocks > 1 ? InParts<true>(blocks, threads) : InParts<false>(1, threads);
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
  } else if (aligned && columns <= 256) {
    call.template InRegisters<16, 16, 128>();
  } else if (aligned && columns <= 512) {
    call.template InRegisters<32, 16, 128>();
  } else if (aligned && columns <= 2048) {
    call.template InRegisters<kWholeBlock, 16, 128>();
  } else if (aligned && columns <= 16384) {
    call.template InRegisters<kWholeBlock, 32, 512>();
  } else if (aligned && sizeof(Bits) == 4 && columns <= 4 * kAheadThreads * kAheadItems &&
             rows > processors &&
             device->sharedMemPerBlockOptin >= Call<Format>::kAheadBytes + 1024) {
    call.Ahead(processors);
  } else if (!aligned || !call.InParts(*device)) {
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
