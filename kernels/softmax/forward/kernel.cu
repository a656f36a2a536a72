// Softmax of rows, computed in float32 and bound by memory: x is read once, in vectors of 16
// bytes, and y written once.
//  - FewRows: rows of up to 1024 columns, where they are so few that only latency counts.
//  - RowsInWords: many rows of up to 256 columns, half a warp for each.
//  - RowInRegisters: one block for each row, whose numbers stay in registers from the maximum to
//    the result. Rows need not begin at a vector's border: a row's first and last vector, which it
//    may share with its neighbours, go by single elements.
//  - RowAhead: float32 rows of up to 32,768 columns. One block on each multiprocessor goes from row
//    to row, and has the next one on its way to shared memory.
//  - RowPacked: rows of 16-bit numbers that are too long for registers once they are float32. They
//    stay there as they came.
//  - RowInLoops: whatever is longer or aligned otherwise.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
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
constexpr int kPackedItems = 7;      // of RowPacked
constexpr int kLoopThreads = 512;

// The formats: their bits, and how pairs of them become float32 and come back.
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
};
struct BFloat16 {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xff80;
  static __device__ float Wide(Bits x) { return __bfloat162float(__ushort_as_bfloat16(x)); }
  static __device__ Bits Narrow(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
};

template <typename Format>
constexpr int kEach = sizeof(uint4) / sizeof(typename Format::Bits);

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

// The combination over the block's threads, for all of them. Calls take turns between two
// `partial`: who writes to one has passed the barrier after which its last reader has gone on.
template <int kThreads>
__device__ Parts OfBlock(Parts mine, Parts* partial) {
  constexpr int kWarps = kThreads / 32;
  const float of_warp = OfWarp(mine.largest, Largest());
  const float sum = OfWarp(mine.sum * __expf(mine.largest - of_warp), Sum());
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = {of_warp, sum};
  __syncthreads();
  const int lane = threadIdx.x % 32;
  const Parts part = lane < kWarps ? partial[lane] : Parts{kLeast, 0};
  const float largest = OfWarp(part.largest, Largest());
  return {largest, OfWarp(part.sum * __expf(part.largest - largest), Sum())};
}

// A row as whole units (vectors, words) of kSize elements at their borders, and up to kSize - 1
// single elements on either side, the `extra` ones.
template <int kSize>
struct Span {
  int64_t start;  // element, the first of the first unit
  int units, head, extra;

  __device__ Span(int64_t row, int columns) {
    const int64_t first = row * columns;
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

// A row in vectors, the first of which may begin in the row before.
template <typename Format>
struct Row {
  static constexpr int kSize = kEach<Format>;
  int64_t start;  // element, a border of vectors
  int shift;      // elements from there to the row's first
  int columns;

  __device__ Row(int64_t row, int columns) : columns(columns) {
    start = row * columns;
    shift = static_cast<int>(start % kSize);
    start -= shift;
  }
  __device__ bool Inside(int vector) const {
    return vector * kSize >= shift && (vector + 1) * kSize <= shift + columns;
  }
  __device__ bool Holds(int element) const { return element >= shift && element < shift + columns; }
};

template <typename Format>
__device__ Vector<Format> Load(const typename Format::Bits* x, const Row<Format>& row, int vector) {
  constexpr int kSize = kEach<Format>;
  Vector<Format> v;
  x += row.start + vector * kSize;
  if (row.Inside(vector)) {
    v.whole = *reinterpret_cast<const uint4*>(x);
  } else {
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      v.at[e] = row.Holds(vector * kSize + e) ? x[e] : Format::kLowest;
    }
  }
  return v;
}

template <typename Format>
__device__ void Store(typename Format::Bits* y, const Row<Format>& row, int vector,
                      const float (&result)[kEach<Format>]) {
  constexpr int kSize = kEach<Format>;
  Vector<Format> v;
#pragma unroll
  for (int e = 0; e < kSize; ++e) v.at[e] = Format::Narrow(result[e]);
  y += row.start + vector * kSize;
  if (row.Inside(vector)) {
    *reinterpret_cast<uint4*>(y) = v.whole;
  } else {
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      if (row.Holds(vector * kSize + e)) y[e] = v.at[e];
    }
  }
}

// One block for each row of at most kThreads * kItems vectors.
template <typename Format, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowInRegisters(const typename Format::Bits* __restrict__ x,
                   typename Format::Bits* __restrict__ y, int columns) {
  constexpr int kSize = kEach<Format>;
  const Row<Format> row(blockIdx.x, columns);
  float value[kItems][kSize];
  float largest = -INFINITY;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const Vector<Format> v = Load<Format>(x, row, threadIdx.x + item * kThreads);
#pragma unroll
    for (int e = 0; e < kSize; ++e) value[item][e] = Format::Wide(v.at[e]);
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) largest = fmaxf(largest, value[item][e]);
  }
  largest = OfBlock<kThreads>(largest, Largest());
  float sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) sum += value[item][e] = __expf(value[item][e] - largest);
  }
  const float scale = 1 / OfBlock<kThreads>(sum, Sum());
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) value[item][e] *= scale;
    Store<Format>(y, row, threadIdx.x + item * kThreads, value[item]);
  }
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
    const Span<4> span(row, columns);
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
    const Span<4> span(row, columns);
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
    const Parts all = OfBlock<kAheadThreads>(parts, partial[turn]);
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

// Keeps the compiler from holding on to the elements as float32, in twice the registers.
__device__ void StayPacked(uint4& v) { asm("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

// Long rows of 16-bit numbers, one block for each. The numbers stay in registers as they came. A
// thread sums exponentials around its own largest number while others still wait for theirs; they
// are taken anew, around the row's largest, when they are stored.
template <typename Format, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowPacked(const typename Format::Bits* __restrict__ x, typename Format::Bits* __restrict__ y,
              int columns) {
  __shared__ Parts partial[kThreads / 32];
  const Span<kEach<Format>> span(blockIdx.x, columns);
  const auto* from = reinterpret_cast<const uint4*>(x + span.start) + threadIdx.x;
  auto* const to = reinterpret_cast<uint4*>(y + span.start) + threadIdx.x;
  const int extra = span.Extra(threadIdx.x);
  uint4 value[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < span.units) value[item] = from[item * kThreads];
  }
  typename Format::Bits single = Format::kLowest;
  if (threadIdx.x < span.extra) single = x[span.start + extra];

  Parts parts{kLeast, 0};
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads >= span.units) continue;
    Vector<Format> v;
    v.whole = value[item];
    float largest = parts.largest;
#pragma unroll
    for (int e = 0; e < kEach<Format>; ++e) largest = fmaxf(largest, Format::Wide(v.at[e]));
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kEach<Format>; ++e) sum += __expf(Format::Wide(v.at[e]) - largest);
    parts = {largest, parts.sum * __expf(parts.largest - largest) + sum};
    StayPacked(value[item]);
  }
  if (threadIdx.x < span.extra) {
    const float largest = fmaxf(parts.largest, Format::Wide(single));
    parts = {largest,
             parts.sum * __expf(parts.largest - largest) + __expf(Format::Wide(single) - largest)};
  }
  parts = OfBlock<kThreads>(parts, partial);
  const float scale = 1 / parts.sum;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads >= span.units) continue;
    Vector<Format> v;
    v.whole = value[item];
#pragma unroll
    for (int e = 0; e < kEach<Format>; ++e) {
      v.at[e] = Format::Narrow(__expf(Format::Wide(v.at[e]) - parts.largest) * scale);
    }
    to[item * kThreads] = v.whole;
  }
  if (threadIdx.x < span.extra) {
    y[span.start + extra] = Format::Narrow(__expf(Format::Wide(single) - parts.largest) * scale);
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
  const Span<Word::kSize> span(row, row < rows ? columns : 0);
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
  template <int kThreads, int kItems>
  void InRegisters() const {
    RowInRegisters<Format, kThreads, kItems><<<Blocks(1), kThreads, 0, stream>>>(x, y, Width());
  }
  void Long(int processors) const {
    if constexpr (sizeof(Bits) == 2) {
      RowPacked<Format, 1024, kPackedItems><<<Blocks(1), 1024, 0, stream>>>(x, y, Width());
    } else {
      constexpr int kBytes = kAheadThreads * kAheadItems * sizeof(float4);
      C10_CUDA_CHECK(
          cudaFuncSetAttribute(RowAhead, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
      RowAhead<<<std::min(static_cast<int>(rows), processors), kAheadThreads, kBytes, stream>>>(
          reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), static_cast<int>(rows),
          Width());
    }
  }
};

template <typename Format>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  using Bits = typename Format::Bits;
  const int64_t columns = x.size(x.dim() - 1), rows = x.numel() / columns;
  TORCH_CHECK(rows < (int64_t{1} << 31), "x has too many rows");
  const Call<Format> call{static_cast<const Bits*>(x.data_ptr()), static_cast<Bits*>(y.data_ptr()),
                          rows, columns, at::cuda::getCurrentCUDAStream()};
  const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const bool aligned = reinterpret_cast<uintptr_t>(call.x) % sizeof(uint4) == 0 &&
                       reinterpret_cast<uintptr_t>(call.y) % sizeof(uint4) == 0;
  // Where rows do not begin at borders of vectors, most touch one vector more than they fill.
  const bool whole = aligned && columns % kEach<Format> == 0;
  const int64_t extra = whole ? 0 : kEach<Format>;
  const int64_t vectors = aligned ? (columns + extra) / kEach<Format> + (extra > 0) : INT64_MAX;
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
  } else if (aligned && columns <= 128) {
    call.template Narrow<128>();
  } else if (aligned && columns <= 224) {
    call.template Narrow<224>();
  } else if (aligned && columns <= 256) {
    call.template Narrow<256>();
  } else if (vectors <= 512) {
    call.template InRegisters<128, 4>();
  } else if (vectors <= 1024) {
    call.template InRegisters<256, 4>();
  } else if (vectors <= 2048) {
    call.template InRegisters<512, 4>();
  } else if (sizeof(Bits) == 4 && vectors <= 4096) {
    call.template InRegisters<512, 32 / kEach<Format>>();
  } else if (aligned && columns <= int64_t{1024} * kEach<Format> *
                                       (sizeof(Bits) == 4 ? kAheadItems : kPackedItems)) {
    call.Long(processors);
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
