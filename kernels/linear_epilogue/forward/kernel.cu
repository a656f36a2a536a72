// Linear layer with bias, activation and residual on Hopper: TMA, mbarriers and wgmma.
//
// The product is made transposed: the left factor of wgmma is 128 columns of b, the right one up to
// 256 rows of a. So few rows of a make a narrow product, and nothing else changes. A block has one
// warp that loads (a ring of stages of 64 of the depth) and two warpgroups that multiply, 64
// columns of y each. Either factor may lie along the depth or across it: the descriptors say which.
//
// Many rows: a block of each SM takes one tile after the other, in an order in which blocks that
// run together share rows and columns. Two neighbours along the columns share the rows of a, half
// of which each loads for both (multicast). A tile of the residual comes through the ring, too,
// behind the last of the depth. Results leave through shared memory, while the next tile's stages
// arrive.
//
// Few rows: two blocks of a cluster share the depth of a tile, if there are enough SMs. Their sums
// are added up in shared memory, in a fixed order. Up to 16 rows and 4224 columns: LinearFew.
//
// Factors whose rows do not begin at multiples of 16 bytes are copied first.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

// Smooth: x / (1 + exp(-(linear * x + cubic * x^3))), which is SiLU or GELU by tanh, as
// (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)). Otherwise x, but at least `low`: ReLU or nothing.
struct Activation {
  bool smooth;
  float low, linear, cubic;
};

template <bool kSmooth>
__device__ float Activate(float x, const Activation& activation) {
  if constexpr (!kSmooth) return x < activation.low ? activation.low : x;  // NaN stays
  const float inner = fminf(fmaxf(x, -1e4f), 1e4f);  // zero times infinity would be NaN
  const float power = inner * fmaf(inner * inner, -activation.cubic, -activation.linear);
  return x / (1.0f + __expf(power));
}

constexpr int kDepth = 64;     // 128 bytes: what a row of a box has
constexpr int kColumns = 128;  // of a tile of y
constexpr int kGroups = 2;     // warpgroups that multiply, 64 columns each
constexpr int kThreads = 128 * kGroups + 32;
constexpr int kLeftBytes = kColumns * kDepth * 2;
constexpr int kTogether = 8;              // tiles of rows that are gone through side by side
constexpr int kMostSplit = 2;             // blocks that share the depth of a tile
constexpr int kSumStride = kColumns + 4;  // of sums that blocks exchange; keeps banks apart

// Tiles of kRows rows of y; whether the factors' rows of 128 bytes lie across the depth.
template <class T_, int kRows_, bool kLeftAcross_, bool kRightAcross_>
struct Tile {
  using T = T_;
  static constexpr int kRows = kRows_;
  static constexpr bool kLeftAcross = kLeftAcross_, kRightAcross = kRightAcross_;
  static constexpr int kStageBytes = kLeftBytes + kRows * kDepth * 2;
  // Results leave a warpgroup some rows at a time, by two buffers in turns.
  static constexpr int kPassRows = std::min(kRows, 64);
  static constexpr int kBuffers = kRows > kPassRows ? 2 : 1;
  static constexpr int kPassBytes = kPassRows * 128;
  static constexpr int kResultBytes = kGroups * kBuffers * kPassBytes;
  static constexpr int kStages = std::min(12, (224 * 1024 - kResultBytes) / kStageBytes);
  // Blocks that share the depth of a tile use fewer stages. Sums of others arrive behind these.
  static constexpr bool kMaySplit = kRows <= 64;
  static constexpr int kReceivedBytes = kMaySplit ? (kRows + 8) * kSumStride * 4 : 0;
  static constexpr int kSplitStages = kStages - (kReceivedBytes + kStageBytes - 1) / kStageBytes;

  struct Shared {
    alignas(1024) uint8_t stages[kStages][kStageBytes];
    alignas(1024) uint8_t results[kResultBytes];
    uint64_t full[kStages], empty[kStages], received;
  };
  static_assert(!kMaySplit || kRows * kSumStride * 4 <= kSplitStages * kStageBytes);
};

struct Shape {
  int rows, columns;
  int steps;                    // of the depth
  int row_tiles, column_tiles;  // column_tiles: of a whole cluster
  int share, split;             // blocks of a cluster, along the columns and along the depth
  Activation activation;
  bool bulk_store;
  int64_t bias_step, residual_row;
};

struct Maps {
  CUtensorMap left, right, y, residual;
};

template <class T>
struct Epilogue {
  const T *bias, *residual;  // may be null
  T* y;
};

template <class T>
__device__ uint32_t Pack(float low, float high) {
  if constexpr (std::is_same_v<T, at::Half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

template <class T>
__device__ float2 Unpack(uint32_t pair) {
  if constexpr (std::is_same_v<T, at::Half>) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
  } else {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
  }
}

// to[r * stride + k] = the element (r, k) of a matrix with any strides.
template <class T>
__global__ void __launch_bounds__(256)
    Repack(const T* __restrict__ from, int64_t row_step, int64_t column_step, int64_t rows,
           int64_t columns, T* __restrict__ to, int64_t stride) {
  const bool along_rows = row_step < column_step;  // neighbours in memory are of one column
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; i < rows * columns;
       i += static_cast<int64_t>(gridDim.x) * 256) {
    const int64_t r = along_rows ? i % rows : i / columns;
    const int64_t k = along_rows ? i / rows : i % columns;
    to[r * stride + k] = from[r * row_step + k * column_step];
  }
}

template <class T>
__device__ float4 FourAt(const T* p) {
  const uint2 pairs = *reinterpret_cast<const uint2*>(p);
  const float2 low = Unpack<T>(pairs.x), high = Unpack<T>(pairs.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// The same place in another block of the cluster.
__device__ uint32_t AddressIn(uint32_t address, int block) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
__device__ int ClusterRank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Relaxed: orders no accesses.
__device__ void ArriveCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ void WaitCluster() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void InitBarrier(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(count));
}
__device__ void WaitFor(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void ArriveIn(uint64_t* barrier, int block) {
  asm volatile(
      "mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(AddressIn(SharedAddress(barrier), block))
      : "memory");
}
__device__ void ExpectBytes(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ void LoadBox(const void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(x), "r"(y), "r"(SharedAddress(barrier))
      : "memory");
}
// To the same place in all blocks of the mask.
__device__ void LoadBoxFor(const void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y,
                           int mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(x), "r"(y), "r"(SharedAddress(barrier)), "h"(static_cast<uint16_t>(mask))
      : "memory");
}
// To another block of the cluster, whose barrier counts the bytes.
__device__ void SendBytes(const void* to, const void* from, uint64_t* barrier, int bytes,
                          int block) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(AddressIn(SharedAddress(to), block)),
      "r"(SharedAddress(from)), "r"(bytes), "r"(AddressIn(SharedAddress(barrier), block))
      : "memory");
}
__device__ void StoreBox(const CUtensorMap& map, const void* from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(x), "r"(y), "r"(SharedAddress(from))
      : "memory");
}
// The numbers are constants: a variable one would claim all sixteen barriers.
__device__ void SyncGroups() { asm volatile("bar.sync 1, %0;" ::"n"(128 * kGroups) : "memory"); }
__device__ void SyncGroup(int group) {
  if (group == 0) {
    asm volatile("bar.sync 2, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
  }
}

// Rows of 128 bytes, swizzled; groups of eight rows are 1024 bytes apart. `step`: bytes between
// pieces of 64 elements, if rows lie across the depth.
__device__ uint64_t MatrixAt(const void* p, uint32_t step) {
  return (SharedAddress(p) & 0x3ffff) >> 4 | static_cast<uint64_t>(step >> 4) << 16 | 64ull << 32 |
         1ull << 62;
}

#define CUPEL_R8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define CUPEL_R16 CUPEL_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define CUPEL_R32 \
  CUPEL_R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CUPEL_R64                                                                           \
  CUPEL_R32                                                                                 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CUPEL_R128                                                                             \
  CUPEL_R64                                                                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "    \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, " \
  "%99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, "  \
  "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CUPEL_D8(d, i)                                                                            \
  "+f"(d[i + 0]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define CUPEL_D16(d, i) CUPEL_D8(d, i), CUPEL_D8(d, i + 8)
#define CUPEL_D32(d, i) CUPEL_D16(d, i), CUPEL_D16(d, i + 16)
#define CUPEL_D64(d, i) CUPEL_D32(d, i), CUPEL_D32(d, i + 32)
#define CUPEL_D128(d, i) CUPEL_D64(d, i), CUPEL_D64(d, i + 64)
// d = a b or d += a b, 64 rows wide as d has registers times two.
#define CUPEL_MULTIPLY(n, type, registers, a, b, adds, a_across, b_across)                       \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n     \
  "k16.f32." type "." type " {" registers "}, " a ", " b ", adds, 1, 1, " a_across ", " b_across \
  ";\n}"

template <class Tile>
__device__ void Multiply(float (&d)[Tile::kRows / 2], uint64_t a, uint64_t b, int adds) {
  constexpr bool kIsHalf = std::is_same_v<typename Tile::T, at::Half>;
  constexpr int kA = Tile::kLeftAcross, kB = Tile::kRightAcross;
  if constexpr (Tile::kRows == 16) {
    if constexpr (kIsHalf) {
      asm volatile(CUPEL_MULTIPLY("16", "f16", CUPEL_R8, "%8", "%9", "%10", "%11", "%12")
                   : CUPEL_D8(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    } else {
      asm volatile(CUPEL_MULTIPLY("16", "bf16", CUPEL_R8, "%8", "%9", "%10", "%11", "%12")
                   : CUPEL_D8(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    }
  } else if constexpr (Tile::kRows == 32) {
    if constexpr (kIsHalf) {
      asm volatile(CUPEL_MULTIPLY("32", "f16", CUPEL_R16, "%16", "%17", "%18", "%19", "%20")
                   : CUPEL_D16(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    } else {
      asm volatile(CUPEL_MULTIPLY("32", "bf16", CUPEL_R16, "%16", "%17", "%18", "%19", "%20")
                   : CUPEL_D16(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    }
  } else if constexpr (Tile::kRows == 64) {
    if constexpr (kIsHalf) {
      asm volatile(CUPEL_MULTIPLY("64", "f16", CUPEL_R32, "%32", "%33", "%34", "%35", "%36")
                   : CUPEL_D32(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    } else {
      asm volatile(CUPEL_MULTIPLY("64", "bf16", CUPEL_R32, "%32", "%33", "%34", "%35", "%36")
                   : CUPEL_D32(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    }
  } else if constexpr (Tile::kRows == 128) {
    if constexpr (kIsHalf) {
      asm volatile(CUPEL_MULTIPLY("128", "f16", CUPEL_R64, "%64", "%65", "%66", "%67", "%68")
                   : CUPEL_D64(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    } else {
      asm volatile(CUPEL_MULTIPLY("128", "bf16", CUPEL_R64, "%64", "%65", "%66", "%67", "%68")
                   : CUPEL_D64(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    }
  } else if constexpr (Tile::kRows == 256) {
    if constexpr (kIsHalf) {
      asm volatile(CUPEL_MULTIPLY("256", "f16", CUPEL_R128, "%128", "%129", "%130", "%131", "%132")
                   : CUPEL_D128(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    } else {
      asm volatile(CUPEL_MULTIPLY("256", "bf16", CUPEL_R128, "%128", "%129", "%130", "%131", "%132")
                   : CUPEL_D128(d, 0)
                   : "l"(a), "l"(b), "r"(adds), "n"(kA), "n"(kB));
    }
  }
}
__device__ void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Where a tile begins, and which steps of the depth a block takes.
struct Work {
  int row, column, begin, end;

  template <class Tile>
  static __device__ Work Of(const Shape& shape, int index, int rank) {
    const int at_once = kTogether * shape.column_tiles;
    const int first = index / at_once * kTogether, place = index % at_once;
    const int together = min(kTogether, shape.row_tiles - first);
    const int part = rank / shape.share;
    Work work;
    work.row = (first + place % together) * Tile::kRows;
    work.column = (place / together * shape.share + rank % shape.share) * kColumns;
    work.begin = static_cast<int>(static_cast<int64_t>(shape.steps) * part / shape.split);
    work.end = static_cast<int>(static_cast<int64_t>(shape.steps) * (part + 1) / shape.split);
    return work;
  }
};

// The place in a ring of stages, and how often it has been gone round.
struct Place {
  int stages;
  int stage = 0, parity = 0;

  __device__ void Advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The loader: one thread.
template <class Tile>
__device__ void LoadTiles(typename Tile::Shared& shared, const Maps& maps, const Shape& shape,
                          bool residual, int rank, int first, int clusters) {
  constexpr int kPieceBytes = 64 * kDepth * 2;
  const int mine = rank % shape.share;
  const int mask = ((1 << shape.share) - 1) << (rank - mine);
  const int rows = Tile::kRows / shape.share;  // of a that this block loads
  Place place{shape.split > 1 ? Tile::kSplitStages : Tile::kStages};
  for (int index = first; index < shape.row_tiles * shape.column_tiles; index += clusters) {
    const Work work = Work::Of<Tile>(shape, index, rank);
    for (int step = work.begin; step < work.end; ++step, place.Advance()) {
      uint64_t* const full = &shared.full[place.stage];
      WaitFor(&shared.empty[place.stage], place.parity ^ 1);
      ExpectBytes(full, Tile::kStageBytes);
      uint8_t* const left = shared.stages[place.stage];
      uint8_t* const right = left + kLeftBytes;
      const int depth = step * kDepth;
      if constexpr (Tile::kLeftAcross) {
#pragma unroll
        for (int i = 0; i < kColumns / 64; ++i) {
          LoadBox(left + i * kPieceBytes, maps.left, full, work.column + i * 64, depth);
        }
      } else {
        LoadBox(left, maps.left, full, depth, work.column);
      }
      if constexpr (Tile::kRightAcross) {
        for (int piece = mine; piece < Tile::kRows / 64; piece += shape.share) {
          uint8_t* const to = right + piece * kPieceBytes;
          if (shape.share > 1) {
            LoadBoxFor(to, maps.right, full, work.row + piece * 64, depth, mask);
          } else {
            LoadBox(to, maps.right, full, work.row + piece * 64, depth);
          }
        }
      } else if (shape.share > 1) {
        LoadBoxFor(right + mine * rows * 128, maps.right, full, depth, work.row + mine * rows,
                   mask);
      } else {
        LoadBox(right, maps.right, full, depth, work.row);
      }
    }
    if (!residual) continue;
    for (int group = 0; group < kGroups; ++group, place.Advance()) {
      WaitFor(&shared.empty[place.stage], place.parity ^ 1);
      ExpectBytes(&shared.full[place.stage], Tile::kRows * 128);
      LoadBox(shared.stages[place.stage], maps.residual, &shared.full[place.stage],
              work.column + group * 64, work.row);
    }
  }
  // The block must not exit before its neighbour has released the last stages.
  if (shape.share > 1) {
    for (int i = 0; i < Tile::kStages; ++i, place.Advance()) {
      WaitFor(&shared.empty[place.stage], place.parity ^ 1);
    }
  }
}

template <class Tile>
__global__ void __launch_bounds__(kThreads, 1)
    Linear(const __grid_constant__ Maps maps, const Shape shape,
           const Epilogue<typename Tile::T> epilogue) {
  using T = typename Tile::T;
  constexpr int kRows = Tile::kRows, kStages = Tile::kStages;
  extern __shared__ __align__(1024) uint8_t dynamic[];
  auto& shared = *reinterpret_cast<typename Tile::Shared*>(dynamic);
  const int cluster = shape.share * shape.split;
  const int rank = cluster > 1 ? ClusterRank() : 0;
  const int mine = rank % shape.share, part = rank / shape.share;
  const int first = static_cast<int>(blockIdx.x) / cluster;
  const int clusters = static_cast<int>(gridDim.x) / cluster;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = threadIdx.x % 32;
  const bool residual = epilogue.residual != nullptr && shape.split == 1;
  if (threadIdx.x == 128 * kGroups) {
    PrefetchMap(maps.left);
    PrefetchMap(maps.right);
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(&shared.full[i], 1);
      InitBarrier(&shared.empty[i], 4 * kGroups * shape.share);
    }
    InitBarrier(&shared.received, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  // The loader does not wait for the others of its block.
  __syncwarp();
  if (warp == 4 * kGroups) {
    asm volatile("bar.arrive 4, %0;" ::"n"(kThreads) : "memory");
  } else {
    asm volatile("bar.sync 4, %0;" ::"n"(kThreads) : "memory");
  }
  if (cluster > 1) ArriveCluster();
  if (shape.share > 1) WaitCluster();  // others use this block's barriers from now on

  if (warp == 4 * kGroups) {
    if (lane == 0) LoadTiles<Tile>(shared, maps, shape, residual, rank, first, clusters);
    __syncwarp();
  } else {
    const int group = warp / 4;
    const bool is_storer = threadIdx.x % 128 == 0;
    // The lanes of a warp tell all blocks that write to this block's stages.
    const auto release = [&](int stage) {
      if (lane < shape.share) ArriveIn(&shared.empty[stage], part * shape.share + lane);
    };
    // Of the first stage; addresses count in 16 bytes.
    const uint64_t lefts = MatrixAt(shared.stages[0] + group * (kLeftBytes / kGroups), 8192);
    const uint64_t rights = MatrixAt(shared.stages[0] + kLeftBytes, 8192);
    float sums[kRows / 2] = {};
    Place place{shape.split > 1 ? Tile::kSplitStages : kStages};
    for (int index = first; index < shape.row_tiles * shape.column_tiles; index += clusters) {
      const Work work = Work::Of<Tile>(shape, index, rank);
      int before = 0;
      for (int step = work.begin; step < work.end; ++step, place.Advance()) {
        WaitFor(&shared.full[place.stage], place.parity);
        FenceProducts();
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k) {
          const int at = place.stage * (Tile::kStageBytes / 16);
          Multiply<Tile>(sums, lefts + (at + k * (Tile::kLeftAcross ? 128 : 2)),
                         rights + (at + k * (Tile::kRightAcross ? 128 : 2)),
                         step > work.begin || k > 0);
        }
        CommitProducts();
        WaitForProducts<1>();
        if (step > work.begin) release(before);
        before = place.stage;
      }
      WaitForProducts<0>();
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
      release(before);

      if (Tile::kMaySplit && shape.split > 1) {
        SyncGroups();  // nobody reads stages any more
        float* const to = reinterpret_cast<float*>(shared.stages);
        const int column = warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) {
          const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
          to[row * kSumStride + column + i / 2 % 2 * 8] = sums[i];
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        break;
      }

      // A thread has two columns.
      float bias[2] = {};
      if (epilogue.bias != nullptr) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int column = work.column + warp * 16 + h * 8 + lane / 4;
          if (column < shape.columns) {
            bias[h] = static_cast<float>(epilogue.bias[column * shape.bias_step]);
          }
        }
      }
      const uint8_t* addends = nullptr;
      if (residual) {
        for (int other = 0; other < group; ++other, place.Advance()) {
          WaitFor(&shared.full[place.stage], place.parity);
          release(place.stage);
        }
        WaitFor(&shared.full[place.stage], place.parity);
        addends = shared.stages[place.stage];
      }
      // Where a lane's row of an 8x8 matrix begins: 16 rows of y, 16 columns at a time.
      const int line = lane / 16 * 8 + lane % 8;
      const int at = line * 128 + ((warp % 4 * 2 + lane / 8 % 2) ^ (line % 8)) * 16;
      const auto finish = [&](auto smooth) {
        constexpr bool kSmooth = decltype(smooth)::value;
#pragma unroll
        for (int pass = 0; pass < kRows / Tile::kPassRows; ++pass) {
          uint8_t* const results =
              shared.results + (group * Tile::kBuffers + pass % Tile::kBuffers) * Tile::kPassBytes;
          if (is_storer) {
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Tile::kBuffers - 1) : "memory");
          }
          SyncGroup(group);  // earlier results have left
#pragma unroll
          for (int i = 0; i < Tile::kPassRows / 16; ++i) {
            const int block = pass * (Tile::kPassRows / 16) + i;
            uint32_t added[4] = {};
            if (addends != nullptr) {
              asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                           : "=r"(added[0]), "=r"(added[1]), "=r"(added[2]), "=r"(added[3])
                           : "r"(SharedAddress(addends + block * 2048 + at))
                           : "memory");
            }
            uint32_t packed[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const float2 more = Unpack<T>(added[j]);
              const float* const two = &sums[block * 8 + j * 2];
              packed[j] =
                  Pack<T>(Activate<kSmooth>(two[0] + bias[j % 2], shape.activation) + more.x,
                          Activate<kSmooth>(two[1] + bias[j % 2], shape.activation) + more.y);
            }
            asm volatile(
                "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                    SharedAddress(results + i * 2048 + at)),
                "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                : "memory");
          }
          const int row = work.row + pass * Tile::kPassRows, column = work.column + group * 64;
          if (shape.bulk_store) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            SyncGroup(group);
            if (is_storer) {
              if (row < shape.rows && column < shape.columns)
                StoreBox(maps.y, results, column, row);
              asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
          } else {
            SyncGroup(group);
            for (int j = threadIdx.x % 128; j < Tile::kPassRows * 64; j += 128) {
              const int r = j / 64, c = j % 64;
              if (row + r < shape.rows && column + c < shape.columns) {
                epilogue.y[static_cast<int64_t>(row + r) * shape.columns + column + c] =
                    *reinterpret_cast<const T*>(results + r * 128 + ((c / 8) ^ (r % 8)) * 16 +
                                                c % 8 * 2);
              }
            }
          }
        }
      };
      if (shape.activation.smooth) {
        finish(std::true_type());
      } else {
        finish(std::false_type());
      }
      if (residual) {
        for (int other = group; other < kGroups; ++other, place.Advance()) {
          if (other > group) WaitFor(&shared.full[place.stage], place.parity);
          release(place.stage);
        }
      }
    }
    if (is_storer) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }

  if (Tile::kMaySplit && shape.split > 1) {
    // Each block adds up some rows, which the others send.
    if (shape.share == 1) WaitCluster();
    __syncthreads();
    const auto first_of = [&](int block) { return kRows * block / shape.split; };
    const int begin = first_of(part), rows = first_of(part + 1) - begin;
    constexpr int kRowBytes = kSumStride * 4;
    if (threadIdx.x == 0) {
      ExpectBytes(&shared.received, rows * kRowBytes * (shape.split - 1));
      for (int other = 0; other < shape.split; ++other) {
        if (other == part) continue;
        const int from = first_of(other), count = first_of(other + 1) - from;
        SendBytes(shared.stages[Tile::kSplitStages] +
                      (part < other ? part : part - 1) * count * kRowBytes,
                  shared.stages[0] + from * kRowBytes, &shared.received, count * kRowBytes,
                  other * shape.share + mine);
      }
    }
    const Work work = Work::Of<Tile>(shape, first, rank);
    const float* const own = reinterpret_cast<const float*>(shared.stages[0]) + begin * kSumStride;
    const float* const received = reinterpret_cast<const float*>(shared.stages[Tile::kSplitStages]);
    WaitFor(&shared.received, 0);
    const int items = rows * (kColumns / 4);
    const bool whole = shape.columns % 4 == 0;  // four columns exist if one does, and are aligned
    constexpr int kBatch = 2;
    for (int i = threadIdx.x; i < items; i += kBatch * kThreads) {
      float4 sums[kBatch] = {};
      for (int other = 0; other < shape.split; ++other) {
        const float* const from =
            other == part ? own : received + (other < part ? other : other - 1) * rows * kSumStride;
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int item = i + j * kThreads;
          if (item >= items) continue;
          const float4 more = *reinterpret_cast<const float4*>(
              from + item / (kColumns / 4) * kSumStride + item % (kColumns / 4) * 4);
          sums[j].x += more.x, sums[j].y += more.y, sums[j].z += more.z, sums[j].w += more.w;
        }
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int item = i + j * kThreads;
        const int row = work.row + begin + item / (kColumns / 4);
        const int column = work.column + item % (kColumns / 4) * 4;
        if (item >= items || row >= shape.rows || column >= shape.columns) continue;
        const T* const addends = epilogue.residual == nullptr
                                     ? nullptr
                                     : epilogue.residual + row * shape.residual_row + column;
        T* const to = epilogue.y + static_cast<int64_t>(row) * shape.columns + column;
        float values[4] = {sums[j].x, sums[j].y, sums[j].z, sums[j].w};
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (epilogue.bias != nullptr && column + c < shape.columns) {
            values[c] += static_cast<float>(epilogue.bias[(column + c) * shape.bias_step]);
          }
          values[c] = shape.activation.smooth ? Activate<true>(values[c], shape.activation)
                                              : Activate<false>(values[c], shape.activation);
        }
        if (whole) {
          if (addends != nullptr) {
            const float4 more = FourAt(addends);
            values[0] += more.x, values[1] += more.y, values[2] += more.z, values[3] += more.w;
          }
          *reinterpret_cast<uint2*>(to) =
              make_uint2(Pack<T>(values[0], values[1]), Pack<T>(values[2], values[3]));
        } else {
          for (int c = 0; c < 4 && column + c < shape.columns; ++c) {
            if (addends != nullptr) values[c] += static_cast<float>(addends[c]);
            to[c] = static_cast<T>(values[c]);
          }
        }
      }
    }
  }
  if (cluster > 1) {  // other blocks may still use this one's memory
    ArriveCluster();
    WaitCluster();
  }
}
#else
template <class Tile>
__global__ void Linear(const __grid_constant__ Maps, const Shape,
                       const Epilogue<typename Tile::T>) {
  __trap();  // code for Hopper without its own instructions (sm_90 instead of sm_90a)
}
#endif

// --- Few rows
//
// Up to 16 rows of a are the left factor of mma.sync, 8 columns of b the right one. A block makes
// kUnits times 8 columns, such that as many blocks as there are SMs make all; its warps share the
// depth. A tensor core may add up in any order: a lane takes 16 bytes in a row, of a and of b
// alike, for two products. So a lane multiplies just what it has copied itself, asynchronously, and
// waits for nobody until warps add up their sums.

constexpr int kFewWarps = 16;
constexpr int kFewThreads = 32 * kFewWarps;
constexpr int kFewRows = 16;
constexpr int kFewUnits = 4;           // at most
constexpr int kFewBytes = 192 * 1024;  // of shared memory
constexpr int kFewDepth = 8192;
constexpr int kPiece = 512;  // bytes: 8 rows of 64, 16 bytes each lane

template <class T>
__device__ void MultiplyAdd(float (&sums)[4], uint4 upper, uint4 lower, uint4 b) {
  const uint32_t a[4][2] = {
      {upper.x, lower.x}, {upper.y, lower.y}, {upper.z, lower.z}, {upper.w, lower.w}};
  const uint32_t weights[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    if constexpr (std::is_same_v<T, at::Half>) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i + 1][0]), "r"(a[i + 1][1]), "r"(weights[i]),
            "r"(weights[i + 1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
          "%7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i + 1][0]), "r"(a[i + 1][1]), "r"(weights[i]),
            "r"(weights[i + 1]));
    }
  }
}

template <class T, int kUnits, int kRowGroups>
__global__ void __launch_bounds__(kFewThreads, 1)
    LinearFew(const T* __restrict__ a, int64_t a_row, const T* __restrict__ b, int64_t b_column,
              int depth, const Shape shape, const Epilogue<T> epilogue) {
  constexpr int kStep = 32;  // of the depth, of a warp
  constexpr int kPieces = kUnits + kRowGroups;
  constexpr int kStages = kFewBytes / (kFewWarps * kPieces * kPiece);
  constexpr int kWidth = 8 * kUnits;
  extern __shared__ __align__(1024) uint8_t dynamic[];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int first = static_cast<int>(blockIdx.x) * kWidth;

  // This warp's steps. Those of neighbours lie side by side, for the sake of the memory's pages.
  const int steps = (depth + kStep - 1) / kStep;
  const int begin = static_cast<int>(static_cast<int64_t>(steps) * warp / kFewWarps);
  const int end = static_cast<int>(static_cast<int64_t>(steps) * (warp + 1) / kFewWarps);
  const int row = lane / 4;
  uint8_t* const place = dynamic + warp * kPieces * kPiece + lane * 16;
  const auto copy_piece = [](uint8_t* to, const T* from, const T* valid, int left) {
    // The numbers from `left` on are zeros.
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address),
                 "l"(left > 0 ? from : valid), "r"(left > 0 ? min(left, 8) * 2 : 0)
                 : "memory");
  };
  const auto copy = [&](int step) {
    if (step < end) {
      const int k = step * kStep + lane % 4 * 8;
      uint8_t* const to = place + (step - begin) % kStages * (kFewWarps * kPieces * kPiece);
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const int64_t column = first + u * 8 + row;
        copy_piece(to + u * kPiece, b + column * b_column + k, b,
                   column < shape.columns ? depth - k : 0);
      }
#pragma unroll
      for (int i = 0; i < kRowGroups; ++i) {
        copy_piece(to + (kUnits + i) * kPiece, a + (i * 8 + row) * a_row + k, a,
                   i * 8 + row < shape.rows ? depth - k : 0);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) copy(begin + i);
  float sums[kUnits][4] = {};
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    const uint8_t* const from = place + (step - begin) % kStages * (kFewWarps * kPieces * kPiece);
    const auto piece = [&](int i) { return *reinterpret_cast<const uint4*>(from + i * kPiece); };
    const uint4 upper = piece(kUnits);
    const uint4 lower = kRowGroups > 1 ? piece(kUnits + kRowGroups - 1) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) MultiplyAdd<T>(sums[u], upper, lower, piece(u));
    copy(step + kStages - 1);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  constexpr int kWide = kWidth + 2;  // keeps rows in different banks
  float* const of_warps = reinterpret_cast<float*>(dynamic);
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int i = 0; i < kRowGroups; ++i) {
      float* const to = of_warps + (warp * kFewRows + row + i * 8) * kWide + u * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sums[u][2 * i], sums[u][2 * i + 1]);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 8 * kRowGroups * kWidth; i += kFewThreads) {
    const int y_row = i / kWidth, column = first + i % kWidth;
    if (y_row >= shape.rows || column >= shape.columns) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kFewWarps; ++w)
      sum += of_warps[(w * kFewRows + y_row) * kWide + i % kWidth];
    if (epilogue.bias != nullptr) {
      sum += static_cast<float>(epilogue.bias[column * shape.bias_step]);
    }
    sum = shape.activation.smooth ? Activate<true>(sum, shape.activation)
                                  : Activate<false>(sum, shape.activation);
    if (epilogue.residual != nullptr) {
      sum += static_cast<float>(epilogue.residual[y_row * shape.residual_row + column]);
    }
    epilogue.y[static_cast<int64_t>(y_row) * shape.columns + column] = static_cast<T>(sum);
  }
}

// A matrix whose rows go along the depth (element (r, k) at data[r * stride + k]), or across it
// (data[k * stride + r]).
template <class T>
struct Factor {
  const T* data;
  int64_t rows, depth, stride;
  bool across;
  torch::Tensor copy;
};

template <class T>
static torch::Tensor Repacked(const torch::Tensor& x, int64_t rows, int64_t depth, int64_t row_step,
                              int64_t depth_step, int64_t stride) {
  auto copy = torch::empty({rows, stride}, x.options());
  const int64_t blocks = std::min<int64_t>((rows * depth - 1) / 256 + 1, 65535);
  Repack<T><<<static_cast<unsigned>(blocks), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), row_step, depth_step, rows, depth, copy.data_ptr<T>(), stride);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return copy;
}

template <class T>
static Factor<T> FactorOf(const torch::Tensor& x, int row_dim, bool may_lie_across) {
  Factor<T> factor{x.data_ptr<T>(), x.size(row_dim), x.size(1 - row_dim), 0, false, {}};
  const int64_t padded_depth = (factor.depth + 7) / 8 * 8;
  const int64_t padded_rows = (factor.rows + 7) / 8 * 8;
  // The stride of a dimension of size one says nothing.
  const int64_t row_step = factor.rows > 1 ? x.stride(row_dim) : padded_depth;
  const int64_t depth_step = factor.depth > 1 ? x.stride(1 - row_dim) : padded_rows;
  const bool aligned = reinterpret_cast<uintptr_t>(factor.data) % 16 == 0;
  const auto fits = [&](int64_t stride, int64_t width) {
    return stride % 8 == 0 && stride >= width;
  };
  if (aligned && (depth_step == 1 || factor.depth == 1) && fits(row_step, factor.depth)) {
    factor.stride = row_step;
  } else if (may_lie_across && aligned && (row_step == 1 || factor.rows == 1) &&
             fits(depth_step, factor.rows)) {
    factor.stride = depth_step;
    factor.across = true;
  } else {
    factor.copy = Repacked<T>(x, factor.rows, factor.depth, x.stride(row_dim),
                              x.stride(1 - row_dim), padded_depth);
    factor.data = factor.copy.template data_ptr<T>();
    factor.stride = padded_depth;
  }
  return factor;
}

// Rows of `width` elements, in boxes of 64 elements of box_rows rows.
template <class T>
static CUtensorMap MapOf(const T* data, int64_t width, int64_t rows, int64_t stride, int box_rows) {
  CUtensorMap map;
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)}, steps[] = {1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map,
                             std::is_same_v<T, at::BFloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                             2, const_cast<T*>(data), dims, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "a tensor map was refused");
  return map;
}

template <class T>
struct Call {
  Factor<T> left, right;  // columns of b, rows of a
  Shape shape;
  Epilogue<T> epilogue;
  int depth;

  template <int kRows, bool kLeftAcross, bool kRightAcross>
  void LaunchTiles() {
    using Tile = ::Tile<T, kRows, kLeftAcross, kRightAcross>;
    const auto kernel = Linear<Tile>;
    constexpr int kBytes = sizeof(typename Tile::Shared);
    // Before the tensor maps: it makes sure that this thread has a context.
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    shape.steps = (depth - 1) / kDepth + 1;
    shape.row_tiles = (shape.rows - 1) / kRows + 1;
    const int column_tiles = (shape.columns - 1) / kColumns + 1;
    const int tiles = shape.row_tiles * column_tiles;
    // Sharing pays if blocks take several tiles, and saves a quarter of a per cent then.
    shape.share = kRows == 256 && tiles > processors && column_tiles > 1 ? 2 : 1;
    shape.split = 1;
    if (Tile::kMaySplit) {
      shape.split = std::clamp(std::min(processors / tiles, shape.steps / 4), 1, kMostSplit);
    }
    shape.column_tiles = (column_tiles - 1) / shape.share + 1;
    const int cluster = shape.share * shape.split;
    const int works = shape.row_tiles * shape.column_tiles;
    const int clusters =
        shape.split > 1 ? works : std::min(works, std::max(processors / cluster, 1));

    const auto map_of = [](const Factor<T>& factor, bool across, int box_rows) {
      return across ? MapOf(factor.data, factor.rows, factor.depth, factor.stride, kDepth)
                    : MapOf(factor.data, factor.depth, factor.rows, factor.stride, box_rows);
    };
    Maps maps;
    maps.left = map_of(left, kLeftAcross, kColumns);
    maps.right = map_of(right, kRightAcross, kRows / shape.share);
    maps.y = maps.residual = maps.left;
    if (shape.bulk_store) {
      maps.y = MapOf<T>(epilogue.y, shape.columns, shape.rows, shape.columns, Tile::kPassRows);
    }
    if (epilogue.residual != nullptr) {
      maps.residual =
          MapOf(epilogue.residual, shape.columns, shape.rows, shape.residual_row, kRows);
    }
    cudaLaunchAttribute of_cluster = {};
    of_cluster.id = cudaLaunchAttributeClusterDimension;
    of_cluster.val.clusterDim.x = static_cast<unsigned>(cluster);
    of_cluster.val.clusterDim.y = of_cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(clusters * cluster));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = kBytes;
    config.stream = at::cuda::getCurrentCUDAStream();
    config.attrs = &of_cluster;
    config.numAttrs = cluster > 1 ? 1 : 0;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, maps, shape, epilogue));
  }

  template <int kUnits>
  void LaunchFew() {
    const auto kernel = shape.rows > 8 ? LinearFew<T, kUnits, 2> : LinearFew<T, kUnits, 1>;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kFewBytes));
    kernel<<<static_cast<unsigned>((shape.columns - 1) / (8 * kUnits) + 1), kFewThreads, kFewBytes,
             at::cuda::getCurrentCUDAStream()>>>(right.data, right.stride, left.data, left.stride,
                                                 depth, shape, epilogue);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  template <int kRows>
  void Launch() {
    if constexpr (kRows >= 128) {
      if (right.across) {
        return left.across ? LaunchTiles<kRows, true, true>() : LaunchTiles<kRows, false, true>();
      }
    }
    return left.across ? LaunchTiles<kRows, true, false>() : LaunchTiles<kRows, false, false>();
  }
};

constexpr int kCopiedRows = 64;  // of a that lie across the depth

template <class T>
static void Dispatch(const torch::Tensor& a, const torch::Tensor& b,
                     const c10::optional<torch::Tensor>& bias,
                     const c10::optional<torch::Tensor>& residual, const Activation& activation,
                     torch::Tensor& y) {
  Call<T> call = {};
  call.left = FactorOf<T>(b, 1, true);
  call.right = FactorOf<T>(a, 0, a.size(0) > kCopiedRows);
  call.shape.rows = static_cast<int>(y.size(0));
  call.shape.columns = static_cast<int>(y.size(1));
  call.depth = static_cast<int>(a.size(1));
  call.shape.activation = activation;
  call.shape.bulk_store = y.size(1) % 8 == 0;
  call.shape.bias_step = bias ? bias->stride(0) : 0;
  call.epilogue = {bias ? bias->data_ptr<T>() : nullptr, nullptr, y.data_ptr<T>()};
  Factor<T> addend;
  if (residual) {
    addend = FactorOf<T>(*residual, 0, false);
    call.epilogue.residual = addend.data;
    call.shape.residual_row = addend.stride;
  }
  const int rows = call.shape.rows;
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t units = (call.shape.columns - 1) / (8 * processors) + 1;
  if (rows <= kFewRows && call.depth <= kFewDepth && !call.left.across && units <= kFewUnits) {
    if (units == 1) return call.template LaunchFew<1>();
    if (units == 2) return call.template LaunchFew<2>();
    return units == 3 ? call.template LaunchFew<3>() : call.template LaunchFew<4>();
  }
  if (rows <= 16) return call.template Launch<16>();
  if (rows <= 32) return call.template Launch<32>();
  if (rows <= 64) return call.template Launch<64>();
  // The time of a step of the depth, measured on an H200, times the tiles of a block.
  const auto time = [&](int64_t tile_rows, int64_t of_step) {
    const int64_t tiles = ((rows - 1) / tile_rows + 1) * ((call.shape.columns - 1) / kColumns + 1);
    return ((tiles - 1) / processors + 1) * of_step;
  };
  const int64_t narrow = time(64, 29), middle = time(128, 39), wide = time(256, 68);
  if (!call.right.across && narrow < middle && narrow < wide) return call.template Launch<64>();
  if (middle < wide) return call.template Launch<128>();
  call.template Launch<256>();
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b, c10::optional<torch::Tensor> bias,
                      c10::optional<torch::Tensor> residual, std::string activation) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
              "the shapes of a and b do not fit together");
  const auto type = a.scalar_type();
  TORCH_CHECK(b.scalar_type() == type && (!bias || bias->scalar_type() == type) &&
                  (!residual || residual->scalar_type() == type),
              "all tensors must be of one type");
  auto y = torch::empty({a.size(0), b.size(1)}, a.options());
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == b.size(1)),
              "bias must have an element for each column");
  TORCH_CHECK(!residual || residual->sizes() == y.sizes(), "residual must be like the result");
  TORCH_CHECK(activation == "none" || activation == "relu" || activation == "gelu_tanh" ||
                  activation == "silu",
              "activation must be none, relu, gelu_tanh or silu");
  constexpr float kTwice = 1.5957691216f;  // 2 sqrt(2 / pi)
  const Activation kind = activation == "silu" ? Activation{true, 0.0f, 1.0f, 0.0f}
                          : activation == "gelu_tanh"
                              ? Activation{true, 0.0f, kTwice, 0.044715f * kTwice}
                          : activation == "relu" ? Activation{false, 0.0f, 0.0f, 0.0f}
                                                 : Activation{false, -INFINITY, 0.0f, 0.0f};
  TORCH_CHECK(at::cuda::getCurrentDeviceProperties()->major == 9, "the kernel needs Hopper");
  constexpr int64_t kMost = (int64_t{1} << 31) - 512;
  TORCH_CHECK(a.size(0) < kMost && a.size(1) < kMost && b.size(1) < kMost, "a matrix is too large");
  if (y.numel() == 0) return y;
  if (a.size(1) == 0) {  // a sum of nothing is zero
    a = torch::zeros({a.size(0), 8}, a.options());
    b = torch::zeros({8, b.size(1)}, b.options());
  }
  if (type == torch::kBFloat16) {
    Dispatch<at::BFloat16>(a, b, bias, residual, kind, y);
  } else {
    TORCH_CHECK(type == torch::kFloat16, "a must be float16 or bfloat16");
    Dispatch<at::Half>(a, b, bias, residual, kind, y);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer"); }
