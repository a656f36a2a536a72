// RMS normalisation of rows, computed in float32. x is read once.
//  - Rows: the numbers of a row stay in registers, kItems vectors of 16 bytes for a thread, and all
//    loads, those of the weights among them, are issued before the sum. How many threads share a
//    row is a matter of the shape: a part of a warp where it is that short, a block, or a cluster
//    of up to 16 blocks. Where there are few rows, every vector has its own thread, because only
//    latency counts.
//  - RowAhead: longer rows. Clusters of up to 16 blocks go from row to row.
//  - RowInParts: long rows that are not whole vectors, and long ones on GPUs without clusters. One
//    block, or a cluster of up to 16, keeps a row in shared memory.
//  - RowByNumbers: other rows that do not come in aligned vectors.
//  - RowInLoops: those that are too long or aligned otherwise.
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

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// What the blocks of a cluster tell each other about a row: each sends its part to the shared
// memory of all, itself included, and waits for as many. Rows take turns between two places: a
// block sends for the row after next when it has had all parts of the next one, whose senders have
// read those of this one.
struct Exchange {
  float parts[2][kMostBlocks];
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
  __device__ void Send(float part, int turn, int rank, int blocks) {
    const int lane = threadIdx.x % 32;
    const uint32_t mine = SharedAddress(&barriers[turn]);
    if (lane == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mine),
                   "r"(static_cast<int>(sizeof(float)) * blocks)
                   : "memory");
    }
    if (lane < blocks) {
      uint32_t to, its_barrier;
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(to)
          : "r"(SharedAddress(&parts[turn][rank])), "r"(lane));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(its_barrier) : "r"(mine), "r"(lane));
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
          "f"(part), "r"(its_barrier)
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

// The weights of a vector. Those of rows that are not whole vectors may lie anywhere.
template <typename Format, bool kWhole>
__device__ void Weights(const typename Format::Number* weights, float (&wide)[Format::kEach]) {
  if constexpr (kWhole) {
    Format::Widen(*reinterpret_cast<const uint4*>(weights), wide);
  } else {
#pragma unroll
    for (int e = 0; e < Format::kEach; ++e) wide[e] = static_cast<float>(weights[e]);
  }
}

// kLanes threads of a warp, or all of a block, for each row of at most kItems vectors of a thread;
// or (kShared) a cluster of blocks, each of which has a part of at most `part` vectors.
template <typename Format, int kLanes, int kItems, bool kShared>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 : kWarpThreads)
    Rows(const uint4* __restrict__ x, const uint4* __restrict__ weights, uint4* __restrict__ y,
         int rows, int vectors, int part, float eps) {
  constexpr int kEach = Format::kEach;
  __shared__ float partial[32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  int rank = 0, blocks = 1;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ Exchange exchange;
  if constexpr (kShared) {
    rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
    blocks = static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  }
#endif
  const int row =
      static_cast<int>(blockIdx.x / blocks * (blockDim.x / lanes) + threadIdx.x / lanes);
  const int lane = threadIdx.x % lanes;
  const int first = rank * part + lane;
  const int64_t start = static_cast<int64_t>(row) * vectors + first;
  const int end = row < rows ? min(part, vectors - rank * part) - lane : 0;
  uint4 value[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = make_uint4(0, 0, 0, 0);
    if (item * lanes < end) value[item] = x[start + item * lanes];
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes < end) weight[item] = weights[first + item * lanes];
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) exchange.Start();
#endif
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    float v[kEach];
    Format::Widen(value[item], v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) squares += v[e] * v[e];
    StayPacked(value[item]);
  }
  const float length = kEach * static_cast<float>(vectors);
  if constexpr (kLanes == kWholeBlock) {
    squares = OfBlock(squares, partial);
  } else {
    squares = OfWarp<kLanes>(squares);
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) {
    if (threadIdx.x < 32) exchange.Send(squares, 0, rank, blocks);
    exchange.Wait(0, 0);
    squares = OfParts<kMostBlocks>(exchange.parts[0], blocks);
  }
#endif
  const float scale = rsqrtf(squares / length + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (item * lanes >= end) continue;
    float v[kEach], w[kEach];
    Format::Widen(value[item], v);
    Format::Widen(weight[item], w);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] *= scale * w[e];
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
               typename Format::Number* __restrict__ y, int features, int part, float eps) {
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
  const Span<kEach> span(static_cast<int64_t>(blockIdx.x / blocks) * features + first,
                         max(min(part, features - first), 0));
  const auto* const from = reinterpret_cast<const uint4*>(x + span.start);
  auto* const to = reinterpret_cast<uint4*>(y + span.start);
  weights += first + span.head;
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
  float squares = single * single;
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float v[kEach];
    Format::Widen(held[i], v);
#pragma unroll
    for (int e = 0; e < kEach; ++e) squares += v[e] * v[e];
  }
  squares = OfBlock(squares, partial);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  if constexpr (kShared) {
    if (threadIdx.x < 32) exchange.Send(squares, 0, rank, blocks);
    exchange.Wait(0, 0);
    squares = OfParts<kMostBlocks>(exchange.parts[0], blocks);
  }
#endif
  const float scale = rsqrtf(squares / static_cast<float>(features) + eps);
#pragma unroll 4
  for (int i = threadIdx.x; i < span.units; i += threads) {
    float v[kEach], w[kEach];
    Format::Widen(held[i], v);
    Weights<Format, kWhole>(weights + i * kEach, w);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] *= scale * w[e];
    to[i] = Format::Narrow(v);
  }
  if (has_extra) {
    y[span.start + extra] = static_cast<T>(single * scale * static_cast<float>(weights[extra]));
  }
}

// A cluster of blocks for each row, each of which has a part of at most `part` vectors. All
// clusters that run at a time go from row to row: the numbers of one are in registers, and the next
// is on its way to shared memory, where the weights stay. A thread waits only for what it will
// compute itself.
template <typename Format>
__global__ void __launch_bounds__(1024)
    RowAhead(const uint4* __restrict__ x, const uint4* __restrict__ weights, uint4* __restrict__ y,
             int rows, int vectors, int part, float eps) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kEach = Format::kEach;
  extern __shared__ uint4 staged[];
  __shared__ float partial[2][32];
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
  const int each = kAheadItems * threads;
  uint4* const mine = staged + threadIdx.x;
  uint4* const next = mine + each;
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
  }
  __pipeline_commit();
  const float length = kEach * static_cast<float>(vectors);
  for (int turn = 0, phase = 0; row < rows; row += step) {
    __pipeline_wait_prior(0);
    uint4 value[kAheadItems];
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      value[item] = item * threads < end ? next[item * threads] : make_uint4(0, 0, 0, 0);
    }
    if (row + step < rows) fetch(row + step);

    float squares = 0;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      float v[kEach];
      Format::Widen(value[item], v);
#pragma unroll
      for (int e = 0; e < kEach; ++e) squares += v[e] * v[e];
      StayPacked(value[item]);
    }
    squares = OfWarp(squares);
    if (threadIdx.x % 32 == 0) partial[turn][threadIdx.x / 32] = squares;
    __syncthreads();
    if (threadIdx.x < 32) {
      exchange.Send(OfParts<32>(partial[turn], threads / 32), turn, rank, blocks);
    }
    exchange.Wait(turn, phase);
    squares = OfParts<kMostBlocks>(exchange.parts[turn], blocks);
    phase ^= turn;
    turn ^= 1;
    const float scale = rsqrtf(squares / length + eps);
    uint4* const to = y + static_cast<int64_t>(row) * vectors;
#pragma unroll
    for (int item = 0; item < kAheadItems; ++item) {
      if (item * threads >= end) continue;
      float v[kEach], w[kEach];
      Format::Widen(value[item], v);
      Format::Widen(mine[item * threads], w);
#pragma unroll
      for (int e = 0; e < kEach; ++e) v[e] *= scale * w[e];
      to[item * threads] = Format::Narrow(v);
    }
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
    const bool inside = threadIdx.x + item * kThreads < features;
    const float v = inside ? static_cast<float>(value[item]) : 0;
    squares += v * v;
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

template <typename Format, int kLanes, int kItems, bool kShared = false>
static bool InRegisters(const Call& call, int blocks = 1) {
  const int vectors = static_cast<int>(call.features / Format::kEach);
  const int part = (vectors + blocks - 1) / blocks;
  const bool block = kLanes == kWholeBlock;
  const int threads = block ? (part + 32 * kItems - 1) / (32 * kItems) * 32 : kWarpThreads;
  const int rows_of_block = block ? 1 : threads / kLanes;
  const int64_t groups = (int64_t{call.rows} + rows_of_block - 1) / rows_of_block;
  return InClusters(Rows<Format, kLanes, kItems, kShared>, groups, blocks, threads, 0, false,
                    call.stream, static_cast<const uint4*>(call.x),
                    static_cast<const uint4*>(call.weights), static_cast<uint4*>(call.y), call.rows,
                    vectors, part, call.eps);
}

template <typename Format, bool kWhole, bool kShared>
static bool InParts(const Call& call, int blocks, int part) {
  using T = typename Format::Number;
  const size_t bytes = part * sizeof(T);
  const int threads = bytes <= 32 * 1024 ? 256 : kPartThreads;
  return InClusters(RowInParts<Format, kWhole, kShared>, call.rows, blocks, threads, bytes, false,
                    call.stream, static_cast<const T*>(call.x), static_cast<const T*>(call.weights),
                    static_cast<T*>(call.y), static_cast<int>(call.features), part, call.eps);
}

// A row in the registers of several blocks. False if the GPU has no place for them.
template <typename Format>
static bool InRegistersOfCluster(const Call& call, int64_t vectors) {
  int blocks = 4;
  while (blocks < kMostBlocks && vectors > blocks * 512) blocks *= 2;
  return InRegisters<Format, kWholeBlock, 4, true>(call, blocks);
}

// A long row in the registers of several blocks. False if it is too long, or if the GPU has no
// place for them.
template <typename Format>
static bool Ahead(const Call& call, int64_t vectors) {
  int blocks = 2;
  while (blocks < kMostBlocks && vectors > blocks * 4096) blocks *= 2;
  if (vectors > int64_t{blocks} * 1024 * kAheadItems) return false;
  const int part = static_cast<int>((vectors + blocks - 1) / blocks);
  const int threads = (part + 32 * kAheadItems - 1) / (32 * kAheadItems) * 32;
  return InClusters(
      RowAhead<Format>, call.rows, blocks, threads, 2 * kAheadItems * threads * sizeof(uint4), true,
      call.stream, static_cast<const uint4*>(call.x), static_cast<const uint4*>(call.weights),
      static_cast<uint4*>(call.y), call.rows, static_cast<int>(vectors), part, call.eps);
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
  const int64_t most = int64_t{device->multiProcessorCount} * 2048;  // threads at a time
  const int64_t vectors = call.features / Format::kEach;
  const bool aligned = Aligned(call.x) && Aligned(call.y);
  const bool whole = aligned && Aligned(call.weights) && call.features % Format::kEach == 0;
  if (whole && vectors <= 16) {
    InRegisters<Format, 16, 1>(call);
  } else if (whole && vectors <= 32) {
    InRegisters<Format, 32, 1>(call);
  } else if (whole && vectors <= 1024 && vectors * call.rows <= most) {
    InRegisters<Format, kWholeBlock, 1>(call);
  } else if (whole && vectors <= 64) {
    InRegisters<Format, 32, 2>(call);
  } else if (whole && vectors <= 128) {
    InRegisters<Format, 32, 4>(call);
  } else if (whole && vectors <= 1536) {
    InRegisters<Format, kWholeBlock, 3>(call);
  } else if (whole && vectors <= 16384 && device->major >= 9 &&
             InRegistersOfCluster<Format>(call, vectors)) {
    return;
  } else if (whole && vectors > 16384 && device->major >= 9 && Ahead<Format>(call, vectors)) {
    return;
  } else if (whole && InParts<Format, true>(call, *device)) {
    return;
  } else if (call.features <= 128) {
    ByNumbers<T, 32, 4>(call);
  } else if (call.features <= 1024) {
    ByNumbers<T, 256, 4>(call);
  } else if (call.features <= 4096) {
    ByNumbers<T, 512, 8>(call);
  } else if (!aligned || !InParts<Format, false>(call, *device)) {
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
