// Inclusive prefix sums of rows, bound by memory: x is read once, in vectors of 16 bytes, and y
// written once; no row needs another launch or another block.
//  - RowsInWarps: rows of up to 512 columns. A warp (or half of one, for up to 64) has a whole row
//    in registers, so that nobody waits at a barrier.
//  - RowInBlock: longer ones. A block takes a row in chunks of kThreads * kItems vectors; "pieces"
//    of 32 vectors are scanned in a warp's registers, their totals across the block. Rows of up to
//    4096 columns are one chunk, and take one barrier; up to 1024 columns the blocks are small, and
//    rows of later blocks come while those of the first leave. Tensors that do not begin at a
//    vector's border go in single elements.
//  - RowInStream: long rows that come in whole vectors. All chunks of the row are asked for at
//    once, by bulk copies to shared memory (a ring, should the row be longer), so that results of
//    one chunk leave while those after it still come.
// Rows need not begin at a vector's border: a row's first and last vector, which it may share with
// its neighbours, go by single elements.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <type_traits>

constexpr int kRowThreads = 256;   // tune: kRowThreads in 256, 512; of RowInBlock
constexpr int kRowItems = 4;       // tune: kRowItems in 2, 4
constexpr int kFewThreads = 128;   // tune: kFewThreads in 64, 128; the same, up to 1024 columns
constexpr int kFewItems = 2;       // tune: kFewItems in 2, 4
constexpr int kWarpThreads = 128;  // of RowsInWarps
constexpr int kStreamThreads = 1024;
constexpr int kStages = 8;  // chunks of RowInStream on their way or in use
constexpr int kChunkBytes = kStreamThreads * 16;

// 16 bytes, or one element. Integers are added modulo 2^32, as unsigned ones.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T at[kWidth];
};

// With the hint evict_last: what the L2 drops first are then lines of y, which it has to write
// anyway, and reads and writes disturb each other less.
template <typename T, int kWidth>
__device__ Vector<T, kWidth> Fetch(const Vector<T, kWidth>* from) {
  if constexpr (kWidth == 1) {
    return *from;
  } else {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
    uint4 v;
    asm volatile("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from), "l"(policy));
    return reinterpret_cast<const Vector<T, kWidth>&>(v);
  }
}

// A row in vectors, the first of which may begin in the row before.
template <int kWidth>
struct Row {
  int64_t start;  // element, a border of vectors
  int shift;      // elements from there to the row's first
  int64_t end;    // elements from there to the row's end

  __device__ Row(int64_t row, int64_t columns) {
    start = row * columns;
    shift = static_cast<int>(start % kWidth);
    start -= shift;
    end = shift + columns;
  }
};

// kWhole: rows begin and end at borders of vectors.
template <bool kWhole, typename T, int kWidth>
__device__ Vector<T, kWidth> Load(const T* x, const Row<kWidth>& row, int64_t vector) {
  Vector<T, kWidth> v = {};
  const int64_t first = vector * kWidth;
  x += row.start + first;
  if (kWhole ? first < row.end : first >= row.shift && first + kWidth <= row.end) {
    v = Fetch(reinterpret_cast<const Vector<T, kWidth>*>(x));
  } else if constexpr (!kWhole) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (first + e >= row.shift && first + e < row.end) v.at[e] = x[e];
    }
  }
  return v;
}

template <bool kWhole, typename T, int kWidth>
__device__ void Store(T* y, const Row<kWidth>& row, int64_t vector, const Vector<T, kWidth>& v) {
  const int64_t first = vector * kWidth;
  y += row.start + first;
  if (kWhole ? first < row.end : first >= row.shift && first + kWidth <= row.end) {
    *reinterpret_cast<Vector<T, kWidth>*>(y) = v;
  } else if constexpr (!kWhole) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if (first + e >= row.shift && first + e < row.end) y[e] = v.at[e];
    }
  }
}

// Prefix sums over groups of kLanes lanes.
template <int kLanes, typename T>
__device__ T Scan(T value) {
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const T other = __shfl_up_sync(~0u, value, distance, kLanes);
    if (static_cast<int>(threadIdx.x % kLanes) >= distance) value += other;
  }
  return value;
}

// The vector becomes its prefix sums; returns the sums over a group's lanes, up to this one.
template <int kLanes, typename T, int kWidth>
__device__ T ScanVector(Vector<T, kWidth>& v) {
#pragma unroll
  for (int e = 1; e < kWidth; ++e) v.at[e] += v.at[e - 1];
  return Scan<kLanes>(v.at[kWidth - 1]);
}

// Adds what stands before this lane's vector: all before the group, and the lanes before. (Not by
// subtraction from the lane's own sum: an infinity must not reach what stands before it.)
template <int kLanes, typename T, int kWidth>
__device__ void AddBefore(Vector<T, kWidth>& v, T of_lanes, T before) {
  const T others = __shfl_up_sync(~0u, of_lanes, 1, kLanes);
  if (threadIdx.x % kLanes != 0) before += others;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) v.at[e] += before;
}

// A group of kLanes lanes for each kRows rows of at most kLanes * kItems vectors.
template <typename T, bool kWhole, int kLanes, int kItems, int kRows>
__global__ void __launch_bounds__(kWarpThreads)
    RowsInWarps(const T* __restrict__ x, T* __restrict__ y, int64_t rows, int columns) {
  constexpr int kGroups = kWarpThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kGroups * kRows) + threadIdx.x / kLanes;
  Vector<T, 4> value[kRows][kItems] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first + r * kGroups >= rows) continue;
    const Row<4> row(first + r * kGroups, columns);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      value[r][item] = Load<kWhole>(x, row, lane + item * kLanes);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    T of_lanes[kItems];
#pragma unroll
    for (int item = 0; item < kItems; ++item) of_lanes[item] = ScanVector<kLanes>(value[r][item]);
    T before = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      AddBefore<kLanes>(value[r][item], of_lanes[item], before);
      before += __shfl_sync(~0u, of_lanes[item], kLanes - 1, kLanes);
    }
    if (first + r * kGroups >= rows) continue;
    const Row<4> row(first + r * kGroups, columns);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      Store<kWhole>(y, row, lane + item * kLanes, value[r][item]);
    }
  }
}

template <typename T, int kWidth, bool kWhole, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowInBlock(const T* __restrict__ x, T* __restrict__ y, int64_t columns) {
  constexpr int kWarps = kThreads / 32;
  constexpr int kPieces = kWarps * kItems;  // of a chunk
  static_assert(kPieces <= 32);
  constexpr bool kOneChunk = kWhole && kWidth == 4;  // longer rows take RowInStream
  __shared__ T totals[2][kPieces];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Row<kWidth> row(blockIdx.x, columns);
  Vector<T, kWidth> value[kItems], next[kItems];
  const auto load = [&](Vector<T, kWidth>(&to)[kItems], int64_t chunk) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      to[item] = Load<kWhole>(x, row, chunk + threadIdx.x + item * kThreads);
    }
  };
  load(value, 0);
  T before_chunk = 0;
  int buffer = 0;
  for (int64_t chunk = 0; chunk * kWidth < row.end; chunk += kThreads * kItems) {
    if constexpr (!kOneChunk) load(next, chunk + kThreads * kItems);
    T of_lanes[kItems];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      of_lanes[item] = ScanVector<32>(value[item]);
      if (lane == 31) totals[buffer][item * kWarps + warp] = of_lanes[item];
    }
    __syncthreads();
    const T of_pieces = Scan<32>(lane < kPieces ? totals[buffer][lane] : T(0));
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int piece = item * kWarps + warp;
      const T others = __shfl_sync(~0u, of_pieces, piece - 1);
      AddBefore<32>(value[item], of_lanes[item], before_chunk + (piece > 0 ? others : T(0)));
      Store<kWhole>(y, row, chunk + threadIdx.x + item * kThreads, value[item]);
    }
    if constexpr (kOneChunk) break;
    before_chunk += __shfl_sync(~0u, of_pieces, 31);
    buffer ^= 1;  // so that one barrier a chunk will do
#pragma unroll
    for (int item = 0; item < kItems; ++item) value[item] = next[item];
  }
}

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void InitBarrier(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(barrier)) : "memory");
}

// Copies to shared memory; the barrier's phase ends when all bytes have come.
__device__ void CopyIn(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

__device__ void WaitFor(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

template <typename T>
__global__ void __launch_bounds__(kStreamThreads)
    RowInStream(const T* __restrict__ x, T* __restrict__ y, int64_t columns) {
  constexpr int64_t kColumns = kStreamThreads * 4;  // of a chunk
  extern __shared__ __align__(128) char ring[];
  __shared__ uint64_t landed[kStages];
  __shared__ T totals[2][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  const auto chunks = static_cast<int>((columns + kColumns - 1) / kColumns);
  const auto copy = [&](int chunk) {
    const int64_t left = columns - chunk * kColumns;
    const auto bytes = static_cast<uint32_t>((left < kColumns ? left : kColumns) * sizeof(T));
    CopyIn(ring + chunk % kStages * kChunkBytes, x + chunk * kColumns, bytes,
           &landed[chunk % kStages]);
  };
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : landed) InitBarrier(&barrier);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int chunk = 0; chunk < kStages && chunk < chunks; ++chunk) copy(chunk);
  }
  __syncthreads();

  T before_chunk = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitFor(&landed[chunk % kStages], chunk / kStages % 2);
    const int64_t mine = chunk * kColumns + threadIdx.x * 4;
    Vector<T, 4> value = {};
    if (mine < columns) {
      value =
          reinterpret_cast<const Vector<T, 4>*>(ring + chunk % kStages * kChunkBytes)[threadIdx.x];
    }
    const T of_lanes = ScanVector<32>(value);
    if (lane == 31) totals[chunk % 2][warp] = of_lanes;
    __syncthreads();
    // All have read their vectors: the chunk's place is free.
    if (threadIdx.x == 0 && chunk + kStages < chunks) copy(chunk + kStages);
    const T of_warps = Scan<32>(totals[chunk % 2][lane]);
    const T others = __shfl_sync(~0u, of_warps, warp - 1);
    AddBefore<32>(value, of_lanes, before_chunk + (warp > 0 ? others : T(0)));
    if (mine < columns) *reinterpret_cast<Vector<T, 4>*>(y + mine) = value;
    before_chunk += __shfl_sync(~0u, of_warps, 31);
  }
}

static unsigned Blocks(int64_t rows, int of_block) {
  const int64_t blocks = (rows + of_block - 1) / of_block;
  TORCH_CHECK(blocks < (int64_t{1} << 31), "x has too many rows");
  return static_cast<unsigned>(blocks);
}

template <typename T, bool kWhole, int kLanes, int kItems, int kRows>
static void LaunchInWarps(const T* x, T* y, int64_t rows, int64_t columns) {
  RowsInWarps<T, kWhole, kLanes, kItems, kRows>
      <<<Blocks(rows, kWarpThreads / kLanes * kRows), kWarpThreads, 0,
         at::cuda::getCurrentCUDAStream()>>>(x, y, rows, static_cast<int>(columns));
}

template <typename T, int kWidth, bool kWhole, int kThreads = kRowThreads, int kItems = kRowItems>
static void LaunchInBlock(const T* x, T* y, int64_t rows, int64_t columns) {
  RowInBlock<T, kWidth, kWhole, kThreads, kItems>
      <<<Blocks(rows, 1), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(x, y, columns);
}

template <typename T, bool kWhole>
static void LaunchInVectors(const T* x, T* y, int64_t rows, int64_t columns) {
  // Where rows do not begin at borders of vectors, some touch one vector more than they fill.
  const int64_t vectors = kWhole ? columns / 4 : (columns + 6) / 4;
  if (vectors <= 16) {
    LaunchInWarps<T, kWhole, 16, 1, 2>(x, y, rows, columns);
  } else if (vectors <= 32) {
    LaunchInWarps<T, kWhole, 32, 1, 2>(x, y, rows, columns);
  } else if (vectors <= 128) {
    LaunchInWarps<T, kWhole, 32, 4, 1>(x, y, rows, columns);
  } else if (vectors <= kFewThreads * kFewItems) {
    LaunchInBlock<T, 4, kWhole, kFewThreads, kFewItems>(x, y, rows, columns);
  } else if (!kWhole || vectors <= kRowThreads * kRowItems) {
    LaunchInBlock<T, 4, kWhole>(x, y, rows, columns);
  } else {
    constexpr int kBytes = kStages * kChunkBytes;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(RowInStream<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    RowInStream<T><<<Blocks(rows, 1), kStreamThreads, kBytes, at::cuda::getCurrentCUDAStream()>>>(
        x, y, columns);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  const int64_t columns = x.size(x.dim() - 1), rows = x.numel() / columns;
  const auto* from = static_cast<const T*>(x.data_ptr());
  auto* to = static_cast<T*>(y.data_ptr());
  const bool aligned =
      reinterpret_cast<uintptr_t>(from) % 16 == 0 && reinterpret_cast<uintptr_t>(to) % 16 == 0;
  if (aligned && columns % 4 == 0) {
    LaunchInVectors<T, true>(from, to, rows, columns);
  } else if (aligned) {
    LaunchInVectors<T, false>(from, to, rows, columns);
  } else {
    LaunchInBlock<T, 1, true>(from, to, rows, columns);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.dim() >= 1, "x must have rows");
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, y);
      break;
    case torch::kInt32:
      Launch<uint32_t>(x, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32 or int32");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Prefix sums of rows"); }
