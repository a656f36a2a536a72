// Linear layer with bias, activation and residual on Hopper: TMA, mbarriers and wgmma.
//
// Many rows (Linear): the product is made transposed. The left factor of wgmma is 128 columns of b,
// the right one 128 or 256 rows of a, so a bias is two numbers of a thread. A block has a thread
// that loads (a ring of stages of 64 of the depth) and two warpgroups that multiply, 64 columns of
// y each. Either factor may lie along the depth or across it: the descriptors say which. Blocks
// stay and take one tile after the other, in an order in which blocks that run together share rows
// and columns. With 256 rows two neighbours along the columns share the rows of a, half of which
// each loads for both (multicast). A tile of the residual comes through the ring, too, behind the
// last of the depth. Results leave through shared memory while the next tile is multiplied.
//
// If there are SMs for it, two blocks of a cluster share the depth of a tile of 128 rows. Each
// sends the other one half of its sums.
//
// Few rows, and b along the depth (LinearFew): tiles of up to 128 rows and so few columns that each
// SM has one. Or two SMs share the depth of a tile with twice as many columns.
//
// One row, and b along the depth (LinearOne): no tensor cores, b goes straight to registers.
//
// What a kernel does only once is slow, since its instructions come from memory: on an H200, about
// nine cycles each. So there are no divisions before the first load.
//
// Factors whose rows do not begin at multiples of 16 bytes are copied first, and an a with up to 64
// rows that lies across the depth.
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

// kAtLeast: x, but at least `low`. kSilu: x / (1 + 2^(linear * x)). kGelu, by tanh: x / (1 + 2^z),
// z = linear * x + cubic * x^3, since (1 + tanh(t)) / 2 = 1 / (1 + exp(-2 t)).
enum Kind { kNone, kAtLeast, kSilu, kGelu };
struct Activation {
  Kind kind;
  float low, linear, cubic;
};

template <Kind kKind>
__device__ float Activate(float x, const Activation& activation) {
  if constexpr (kKind == kNone) return x;
  if constexpr (kKind == kAtLeast) {
    float y;  // NaN stays
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(activation.low));
    return y;
  }
  const float factor =
      kKind == kSilu ? activation.linear : fmaf(x * x, activation.cubic, activation.linear);
  // exp2f and a division would take three times as many instructions. The power is off by two units
  // in the last place at most (that of exp2f, too), the inverse by one. Results below 1e-35 may
  // become zero.
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * factor));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return x * inverse;
}

// Calls f(std::integral_constant<Kind, kind>()).
template <class F>
__device__ void WithKind(Kind kind, const F& f) {
  switch (kind) {
    case kNone:
      return f(std::integral_constant<Kind, kNone>());
    case kAtLeast:
      return f(std::integral_constant<Kind, kAtLeast>());
    case kSilu:
      return f(std::integral_constant<Kind, kSilu>());
    case kGelu:
      return f(std::integral_constant<Kind, kGelu>());
  }
}

// Divides numbers below 2^31. The GPU has no instruction for that, and when a kernel begins, each
// further instruction takes time, for it comes from memory.
struct Divisor {
  int value;
  uint32_t inverse;

  static Divisor Of(int value) {
    return {value, static_cast<uint32_t>(std::min<uint64_t>(
                       (uint64_t{1} << 32) / static_cast<uint64_t>(value), UINT32_MAX))};
  }
  __device__ int Divide(int number, int& rest) const {
    int result = static_cast<int>(__umulhi(static_cast<uint32_t>(number), inverse));
    rest = number - result * value;
    if (rest >= value) ++result, rest -= value;
    return result;
  }
};

constexpr int kDepth = 64;                     // 128 bytes: what a row of a box has
constexpr int kColumns = 128;                  // of a tile of y
constexpr int kGroups = 2;                     // warpgroups that multiply, 64 columns each
constexpr int kThreads = 128 * (kGroups + 1);  // and the loader with its idle neighbours
constexpr int kLeftBytes = kColumns * kDepth * 2;
constexpr int kTogether = 8;      // tiles of rows that are gone through side by side
constexpr int kAlignment = 1024;  // of what is swizzled

// Tiles of kRows rows of y; whether the factors' rows of 128 bytes lie across the depth.
template <class T_, int kRows_, bool kLeftAcross_, bool kRightAcross_>
struct Tile {
  using T = T_;
  static constexpr int kRows = kRows_;
  static constexpr bool kLeftAcross = kLeftAcross_, kRightAcross = kRightAcross_;
  static constexpr int kStageBytes = kLeftBytes + kRows * kDepth * 2;
  // Results leave a warpgroup some rows at a time, by two buffers in turns.
  static constexpr int kPassRows = std::min(kRows / 2, 64);
  static constexpr int kPassBytes = kPassRows * 128;
  static constexpr int kResultBytes = kGroups * 2 * kPassBytes;
  static constexpr int kStages = std::min(12, (224 * 1024 - kResultBytes) / kStageBytes);
  static constexpr int kPasses = kRows / kPassRows;
  // Two blocks may share the depth of a small tile. Sums arrive in the place of results.
  static constexpr bool kIsSmall = kRows <= 128;
  static_assert(!kIsSmall || kRows / 2 * kColumns * 4 <= kResultBytes);

  struct Shared {
    alignas(1024) uint8_t stages[kStages][kStageBytes];
    alignas(1024) uint8_t results[kResultBytes];
    uint64_t full[kStages], empty[kStages];
    uint64_t started;
  };
};

struct Shape {
  int rows, columns;
  int steps;                    // of the depth
  int row_tiles, column_tiles;  // column_tiles: of a whole cluster
  int share, split;            // blocks of a cluster, along the columns and along the depth: 1 or 2
  int loaded_rows;             // of a, if these are all and at most half of a small tile; or 0
  Divisor side_by_side, last;  // tiles of kTogether rows of tiles, and those rows at the end
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
__device__ void ArriveCluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ void ReleaseCluster() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ void WaitCluster() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
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
// To the same place in both blocks of a cluster.
__device__ void LoadBoxFor(const void* to, const CUtensorMap& map, uint64_t* barrier, int x,
                           int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(x), "r"(y), "r"(SharedAddress(barrier)), "h"(static_cast<uint16_t>(3))
      : "memory");
}
// To another block of the cluster.
__device__ void SendFour(uint32_t to, const float* four) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(four[0]),
               "f"(four[1]), "f"(four[2]), "f"(four[3])
               : "memory");
}
__device__ void StoreBox(const CUtensorMap& map, const void* from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(x), "r"(y), "r"(SharedAddress(from))
      : "memory");
}
// The numbers are constants: a variable one would claim all sixteen barriers.
__device__ void SyncGroups() { asm volatile("bar.sync 4, %0;" ::"n"(128 * kGroups) : "memory"); }
__device__ void SyncGroup(int group) {
  if (group == 0) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 128;" ::: "memory");
  }
}

// The loader's warp does not wait for the first `kCount` threads, which wait for its barriers.
template <int kCount>
__device__ void BeginBlock(int warp) {
  __syncwarp();
  if (warp < kCount / 32) {
    asm volatile("bar.sync 3, %0;" ::"n"(kCount + 32) : "memory");
  } else if (warp == kCount / 32) {
    asm volatile("bar.arrive 3, %0;" ::"n"(kCount + 32) : "memory");
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
#define CUPEL_R24 CUPEL_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define CUPEL_R32 CUPEL_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define CUPEL_R40 CUPEL_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CUPEL_R48 CUPEL_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define CUPEL_R56 CUPEL_R48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define CUPEL_R64 CUPEL_R56 ", %56, %57, %58, %59, %60, %61, %62, %63"
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
#define CUPEL_D24(d, i) CUPEL_D16(d, i), CUPEL_D8(d, i + 16)
#define CUPEL_D32(d, i) CUPEL_D24(d, i), CUPEL_D8(d, i + 24)
#define CUPEL_D40(d, i) CUPEL_D32(d, i), CUPEL_D8(d, i + 32)
#define CUPEL_D48(d, i) CUPEL_D40(d, i), CUPEL_D8(d, i + 40)
#define CUPEL_D56(d, i) CUPEL_D48(d, i), CUPEL_D8(d, i + 48)
#define CUPEL_D64(d, i) CUPEL_D56(d, i), CUPEL_D8(d, i + 56)
#define CUPEL_D128(d, i) CUPEL_D64(d, i), CUPEL_D64(d, i + 64)
// 64 rows of a times n columns of b.
#define CUPEL_MULTIPLY(n, type, registers, a, b, adds, a_across, b_across)                       \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n     \
  "k16.f32." type "." type " {" registers "}, " a ", " b ", adds, 1, 1, " a_across ", " b_across \
  ";\n}"

// The instruction for kWide columns, of which `d` has half as many registers.
#define CUPEL_CASE(wide, registers, a, b, adds, a_across, b_across)                                \
  if constexpr (kWide == wide && kIsHalf) {                                                        \
    asm volatile(CUPEL_MULTIPLY(#wide, "f16", CUPEL_R##registers, a, b, adds, a_across, b_across)  \
                 : CUPEL_D##registers(d, 0)                                                        \
                 : "l"(left), "l"(right), "r"(sums), "n"(kA), "n"(kB));                            \
  } else if constexpr (kWide == wide) {                                                            \
    asm volatile(CUPEL_MULTIPLY(#wide, "bf16", CUPEL_R##registers, a, b, adds, a_across, b_across) \
                 : CUPEL_D##registers(d, 0)                                                        \
                 : "l"(left), "l"(right), "r"(sums), "n"(kA), "n"(kB));                            \
  }

// d = left right, or d += left right if `sums`.
template <class T, int kA, int kB, int kCount>
__device__ void Multiply(float (&d)[kCount], uint64_t left, uint64_t right, int sums) {
  constexpr bool kIsHalf = std::is_same_v<T, at::Half>;
  constexpr int kWide = 2 * kCount;
  CUPEL_CASE(16, 8, "%8", "%9", "%10", "%11", "%12")
  CUPEL_CASE(32, 16, "%16", "%17", "%18", "%19", "%20")
  CUPEL_CASE(48, 24, "%24", "%25", "%26", "%27", "%28")
  CUPEL_CASE(64, 32, "%32", "%33", "%34", "%35", "%36")
  CUPEL_CASE(80, 40, "%40", "%41", "%42", "%43", "%44")
  CUPEL_CASE(96, 48, "%48", "%49", "%50", "%51", "%52")
  CUPEL_CASE(112, 56, "%56", "%57", "%58", "%59", "%60")
  CUPEL_CASE(128, 64, "%64", "%65", "%66", "%67", "%68")
  CUPEL_CASE(256, 128, "%128", "%129", "%130", "%131", "%132")
}
#undef CUPEL_CASE
__device__ void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Where a block is in its cluster.
struct Member {
  int cluster, clusters;  // which one, of how many
  int rank, mine, part;   // of the block; along the columns, and along the depth

  static __device__ Member Of(const Shape& shape) {
    const int pair = shape.share + shape.split > 2 ? 1 : 0;
    Member member = {static_cast<int>(blockIdx.x) >> pair, static_cast<int>(gridDim.x) >> pair, 0};
    if (pair > 0) member.rank = ClusterRank();
    member.mine = shape.share > 1 ? member.rank : 0;
    member.part = shape.split > 1 ? member.rank : 0;
    return member;
  }
};

// Where a tile begins, and which steps of the depth a block takes.
struct Work {
  int row, column, begin, end;

  template <class Tile>
  static __device__ Work Of(const Shape& shape, int index, const Member& member) {
    int place, row;
    const int group = shape.side_by_side.Divide(index, place);
    int column = place / kTogether;
    if (group * kTogether + kTogether <= shape.row_tiles) {
      row = place % kTogether;
    } else {
      column = shape.last.Divide(place, row);
    }
    Work work;
    work.row = (group * kTogether + row) * Tile::kRows;
    work.column = (column * shape.share + member.mine) * kColumns;
    const int half = shape.steps / 2;
    work.begin = member.part > 0 ? half : 0;
    work.end = shape.split > 1 && member.part == 0 ? half : shape.steps;
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
                          bool residual, const Member& member) {
  constexpr int kPieceBytes = 64 * kDepth * 2;
  constexpr int kHalf = Tile::kRows / 2;
  const int part_rows = shape.split > 1 ? kHalf : Tile::kRows;  // of y that this block makes
  Place place{Tile::kStages};
#pragma unroll 1
  for (int index = member.cluster; index < shape.row_tiles * shape.column_tiles;
       index += member.clusters) {
    const Work work = Work::Of<Tile>(shape, index, member);
#pragma unroll 1
    for (int step = work.begin; step < work.end; ++step, place.Advance()) {
      uint64_t* const full = &shared.full[place.stage];
      WaitFor(&shared.empty[place.stage], place.parity ^ 1);
      ExpectBytes(full, Tile::kIsSmall && shape.loaded_rows > 0
                            ? kLeftBytes + shape.loaded_rows * 128
                            : Tile::kStageBytes);
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
        constexpr int kPieces = Tile::kRows / 64;
#pragma unroll 1
        for (int piece = 0; piece < kPieces; ++piece) {
          uint8_t* const to = right + piece * kPieceBytes;
          if (shape.share == 1) {  // a block that makes the last rows has them first
            LoadBox(to, maps.right, full, work.row + (piece ^ member.part * (kPieces / 2)) * 64,
                    depth);
          } else if (piece % 2 == member.mine) {
            LoadBoxFor(to, maps.right, full, work.row + piece * 64, depth);
          }
        }
      } else if (Tile::kIsSmall && shape.loaded_rows > 0) {
        LoadBox(right + member.part * kHalf * 128, maps.right, full, depth, 0);
      } else if (shape.share > 1) {
        LoadBoxFor(right + member.mine * kHalf * 128, maps.right, full, depth,
                   work.row + member.mine * kHalf);
      } else if (shape.split > 1) {
        LoadBox(right, maps.right, full, depth, work.row + member.part * kHalf);
        LoadBox(right + kHalf * 128, maps.right, full, depth, work.row + (1 - member.part) * kHalf);
      } else {
        LoadBox(right, maps.right, full, depth, work.row);
      }
      if (index == member.cluster && step == work.begin) ArriveIn(&shared.started, member.rank);
    }
    if (!residual) continue;
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group, place.Advance()) {
      WaitFor(&shared.empty[place.stage], place.parity ^ 1);
      ExpectBytes(&shared.full[place.stage], part_rows * 128);
      LoadBox(shared.stages[place.stage], maps.residual, &shared.full[place.stage],
              work.column + group * 64, work.row + member.part * kHalf);
    }
  }
  // The block must not exit before its neighbour has released the last stages.
  if (shape.share > 1) {
#pragma unroll 1
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
  auto& shared = *reinterpret_cast<typename Tile::Shared*>(
      dynamic + (kAlignment - SharedAddress(dynamic) % kAlignment) % kAlignment);
  const Member member = Member::Of(shape);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = threadIdx.x % 32;
  const bool residual = epilogue.residual != nullptr;
  if (threadIdx.x == 128 * kGroups) {
    PrefetchMap(maps.left);
    PrefetchMap(maps.right);
    InitBarrier(&shared.started, 1);
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(&shared.full[i], 1);
      InitBarrier(&shared.empty[i], 4 * kGroups * shape.share);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if (Tile::kIsSmall && shape.loaded_rows > 0 && warp < 4 * kGroups) {  // the other rows
    for (int stage = 0; stage < kStages; ++stage) {
      auto* const right = reinterpret_cast<int4*>(shared.stages[stage] + kLeftBytes);
      for (int i = threadIdx.x; i < kRows * 8; i += 128 * kGroups) {
        const int row = i / 8 - member.part * (kRows / 2);
        if (row < 0 || row >= shape.loaded_rows) right[i] = make_int4(0, 0, 0, 0);
      }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  BeginBlock<128 * kGroups>(warp);
  if (shape.share + shape.split > 2) ArriveCluster();
  if (shape.share > 1) WaitCluster();  // others use this block's barriers from now on

  if (warp >= 4 * kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 128 * kGroups) LoadTiles<Tile>(shared, maps, shape, residual, member);
    __syncwarp();
    if (shape.split > 1) {
      WaitCluster();
      ArriveCluster();
      WaitCluster();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    WaitFor(&shared.started, 0);  // leaves the first instructions to the loader
    const int group = warp / 4;
    const bool is_storer = threadIdx.x % 128 == 0;
    // The lanes of a warp tell all blocks that write to this block's stages.
    const auto release = [&](int stage) {
      if (lane < shape.share) ArriveIn(&shared.empty[stage], member.part + lane);
    };
    // Of the first stage; addresses count in 16 bytes.
    const uint64_t lefts = MatrixAt(shared.stages[0] + group * (kLeftBytes / kGroups), 8192);
    const uint64_t rights = MatrixAt(shared.stages[0] + kLeftBytes, 8192);
    // Where a lane's row of an 8x8 matrix begins: 16 rows of y, 16 columns at a time.
    const int line = lane / 16 * 8 + lane % 8;
    const int at = line * 128 + ((warp % 4 * 2 + lane / 8 % 2) ^ (line % 8)) * 16;
    float sums[kRows / 2];       // the first product does not read them
    uint32_t packed[kRows / 4];  // results
    int passes = 0;              // in which results of the last tile have yet to leave
    Work work = {};
    Work last = {};
    // Rows of the last tile from the pass's first one on.
    const auto store_box = [&](const uint8_t* results, int pass) {
      const int row = last.row + pass * Tile::kPassRows, column = last.column + group * 64;
      if (row < shape.rows && column < shape.columns) StoreBox(maps.y, results, column, row);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    };
    const auto store_elements = [&](const uint8_t* results, int pass, int rows) {
      const int row = last.row + pass * Tile::kPassRows, column = last.column + group * 64;
#pragma unroll 1
      for (int i = threadIdx.x % 128; i < rows * 64; i += 128) {
        const int r = i / 64, c = i % 64;
        if (row + r < shape.rows && column + c < shape.columns) {
          epilogue.y[static_cast<int64_t>(row + r) * shape.columns + column + c] =
              *reinterpret_cast<const T*>(results + r * 128 + ((c / 8) ^ (r % 8)) * 16 + c % 8 * 2);
        }
      }
    };
    const auto place_results = [&](uint8_t* results, int block) {  // 16 rows
      const uint32_t* const four = packed + block * 4;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       SharedAddress(results + at)),
                   "r"(four[0]), "r"(four[1]), "r"(four[2]), "r"(four[3])
                   : "memory");
    };
    const auto store = [&](int turn) {
#pragma unroll
      for (int pass = 0; pass < Tile::kPasses; ++pass) {
        if (pass != turn) continue;
        uint8_t* const results = shared.results + (group * 2 + pass % 2) * Tile::kPassBytes;
        if (is_storer) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        SyncGroup(group);  // earlier results have left
#pragma unroll
        for (int i = 0; i < Tile::kPassRows / 16; ++i) {
          place_results(results + i * 2048, pass * (Tile::kPassRows / 16) + i);
        }
        if (shape.bulk_store) {
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          SyncGroup(group);
          if (is_storer) store_box(results, pass);
        } else {
          SyncGroup(group);
          store_elements(results, pass, Tile::kPassRows);
        }
      }
    };

    Place place{kStages};
    for (int index = member.cluster; index < shape.row_tiles * shape.column_tiles;
         index += member.clusters) {
      work = Work::Of<Tile>(shape, index, member);
      float bias[2] = {};  // a thread has two columns
      if (epilogue.bias != nullptr) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int column = work.column + warp * 16 + h * 8 + lane / 4;
          if (column < shape.columns) {
            bias[h] = static_cast<float>(epilogue.bias[column * shape.bias_step]);
          }
        }
      }
      int before = 0;
      for (int step = work.begin; step < work.end; ++step, place.Advance()) {
        WaitFor(&shared.full[place.stage], place.parity);
        FenceProducts();
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k) {
          const int of_stage = place.stage * (Tile::kStageBytes / 16);
          Multiply<T, Tile::kLeftAcross, Tile::kRightAcross>(
              sums, lefts + (of_stage + k * (Tile::kLeftAcross ? 128 : 2)),
              rights + (of_stage + k * (Tile::kRightAcross ? 128 : 2)), step > work.begin || k > 0);
        }
        CommitProducts();
        if (passes > 0) {  // of the last tile, meanwhile
          const int more = shape.steps >= Tile::kPasses ? 1 : shape.steps > 1 ? 2 : Tile::kPasses;
#pragma unroll 1
          for (int i = 0; i < more && passes > 0; ++i) store(Tile::kPasses - passes--);
        }
        WaitForProducts<1>();
        if (step > work.begin) release(before);
        before = place.stage;
      }
      WaitForProducts<0>();
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
      release(before);

      last = work;
      passes = Tile::kPasses;
      if (Tile::kIsSmall && shape.split > 1) {
        // Two blocks have sums of the tile. Each gets those of its half of the rows from the other
        // one. They come first in its registers, as they do in its stages.
        constexpr int kHalf = kRows / 4;
        WaitCluster();  // the other block has begun
        uint8_t* const received =
            shared.results + group * (Tile::kResultBytes / kGroups) + threadIdx.x % 128 * 16;
        const uint32_t to = AddressIn(SharedAddress(received), 1 - member.rank);
#pragma unroll
        for (int i = 0; i < kHalf; i += 4) SendFour(to + i * 512, sums + kHalf + i);
        ReleaseCluster();
        WaitCluster();
#pragma unroll
        for (int i = 0; i < kHalf; i += 4) {
          const float4 more = *reinterpret_cast<const float4*>(received + i * 512);
          sums[i] += more.x, sums[i + 1] += more.y, sums[i + 2] += more.z, sums[i + 3] += more.w;
        }
        last.row += member.part * (kRows / 2);
        passes /= 2;
      }

      const uint8_t* addends = nullptr;
      if (residual) {
        for (int other = 0; other < group; ++other, place.Advance()) {
          WaitFor(&shared.full[place.stage], place.parity);
          release(place.stage);
        }
        __syncwarp();
        WaitFor(&shared.full[place.stage], place.parity);
        addends = shared.stages[place.stage];
      }
      const auto pack = [&](auto kind, auto adds) {
#pragma unroll
        for (int block = 0; block < kRows / 16; ++block) {
          if (Tile::kIsSmall && block == kRows / 32 && passes < Tile::kPasses) break;
          uint32_t added[4];
          if constexpr (adds) {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(added[0]), "=r"(added[1]), "=r"(added[2]), "=r"(added[3])
                         : "r"(SharedAddress(addends + block * 2048 + at))
                         : "memory");
          }
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            float low = sums[block * 8 + j * 2], high = sums[block * 8 + j * 2 + 1];
            if constexpr (kind != kNone) {
              low = Activate<kind>(low + bias[j % 2], shape.activation);
              high = Activate<kind>(high + bias[j % 2], shape.activation);
            }
            if constexpr (adds) {
              const float2 more = Unpack<T>(added[j]);
              low += more.x, high += more.y;
            }
            packed[block * 4 + j] = Pack<T>(low, high);
          }
        }
      };
      WithKind(shape.activation.kind, [&](auto kind) {
        if (residual) {
          pack(kind, std::true_type());
        } else {
          pack(kind, std::false_type());
        }
      });
      if (residual) {
        for (int other = group; other < kGroups; ++other, place.Advance()) {
          if (other > group) WaitFor(&shared.full[place.stage], place.parity);
          release(place.stage);
        }
      }
      // Results leave during the next tile's first steps. The last ones have all stages for them.
      if (index + member.clusters >= shape.row_tiles * shape.column_tiles) {
        SyncGroups();  // all reads of the stages have ended
        uint8_t* const results = shared.stages[0] + group * (kRows * 128);
#pragma unroll
        for (int block = 0; block < kRows / 16; ++block) {
          if (Tile::kIsSmall && block == kRows / 32 && passes < Tile::kPasses) break;
          place_results(results + block * 2048, block);
        }
        if (shape.bulk_store) {
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          SyncGroup(group);
          if (is_storer) {
#pragma unroll 1
            for (int i = 0; i < passes; ++i) store_box(results + i * Tile::kPassBytes, i);
          }
        } else {
          SyncGroup(group);
          store_elements(results, 0, passes * Tile::kPassRows);
        }
      }
    }
    if (is_storer) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

// --- Few rows
//
// Up to 128 rows of a are the left factor, and few columns of b the right one: such that about as
// many blocks as there are SMs make all. A block loads the rows of a once for its columns. With
// many rows, that is most of what it loads; then two blocks of a cluster take twice as many
// columns, and half of the depth each.

constexpr int kFewUnits = 7;  // at most; of 16 columns

// Tiles of 64 rows for each of kGroups warpgroups. kSplit: blocks that share the depth, 1 or 2.
template <class T, int kUnits, int kGroups, int kSplit>
struct Few {
  static constexpr int kRows = 64 * kGroups, kColumns = 16 * kUnits;
  static constexpr int kPartColumns = kColumns / kSplit;  // of y that a block makes
  static constexpr int kThreads = 128 * kGroups + 32;
  static constexpr int kStageBytes = (kRows + kColumns) * 128;
  static constexpr int kReceivedBytes = (kSplit - 1) * kRows * kPartColumns * 4;
  static constexpr int kStages = std::min(32, (224 * 1024 - kReceivedBytes) / kStageBytes);

  struct Shared {
    alignas(1024) uint8_t stages[kStages][kStageBytes];
    alignas(16) uint8_t received[std::max(kReceivedBytes, 16)];  // sums
    uint64_t full[kStages], empty[kStages];
  };
};

// Two elements, `step` apart, of which `count` exist.
template <class T>
__device__ uint32_t PairAt(const T* p, int64_t step, int count) {
  const auto bits = [&](int i) -> uint32_t {
    return i < count ? reinterpret_cast<const uint16_t*>(p)[i * step] : 0;
  };
  return bits(0) | bits(1) << 16;
}

// Two blocks have sums of a tile. Each gets those of its half of the columns from the other one.
// They come first in its registers, as they do in its stages. `received`: this thread's place.
template <int kCount>
__device__ void Exchange(float (&sums)[kCount], uint8_t* received, int other, int step) {
  WaitCluster();  // the other block has begun
  const uint32_t to = AddressIn(SharedAddress(received), other);
#pragma unroll
  for (int i = 0; i < kCount / 2; i += 4) SendFour(to + i / 4 * step, sums + kCount / 2 + i);
  ReleaseCluster();
  WaitCluster();
#pragma unroll
  for (int i = 0; i < kCount / 2; i += 4) {
    const float4 more = *reinterpret_cast<const float4*>(received + i / 4 * step);
    sums[i] += more.x, sums[i + 1] += more.y, sums[i + 2] += more.z, sums[i + 3] += more.w;
  }
}

template <class T, int kUnits, int kGroups, int kSplit>
__global__ void __launch_bounds__(128 * kGroups + 32, 1)
    LinearFew(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
              int box_rows, const Shape shape, const Epilogue<T> epilogue) {
  using Plan = Few<T, kUnits, kGroups, kSplit>;
  constexpr int kPairs = Plan::kPartColumns / 8;  // of columns of a thread, for each of two rows
  extern __shared__ __align__(1024) uint8_t dynamic[];
  auto& shared = *reinterpret_cast<typename Plan::Shared*>(
      dynamic + (kAlignment - SharedAddress(dynamic) % kAlignment) % kAlignment);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = threadIdx.x % 32;
  const int part = static_cast<int>(blockIdx.x) % kSplit;  // and the rank in the cluster
  const int first_row = static_cast<int>(blockIdx.x) / kSplit * box_rows;
  const int end_row = min(first_row + box_rows, shape.rows);
  const int begin = shape.steps * part / kSplit, end = shape.steps * (part + 1) / kSplit;
  if (threadIdx.x == 128 * kGroups) {
    PrefetchMap(b);
    PrefetchMap(a);
    for (int i = 0; i < Plan::kStages; ++i) {
      InitBarrier(&shared.full[i], 1);
      InitBarrier(&shared.empty[i], 4 * kGroups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if (warp < 4 * kGroups) {  // rows that no box fills
    const int4 zero = make_int4(0, 0, 0, 0);
    for (int stage = 0; stage < Plan::kStages; ++stage) {
      for (int i = box_rows * 8 + threadIdx.x; i < Plan::kRows * 8; i += 128 * kGroups) {
        reinterpret_cast<int4*>(shared.stages[stage])[i] = zero;
      }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  BeginBlock<128 * kGroups>(warp);
  if (kSplit > 1) ArriveCluster();
  Place place{Plan::kStages};
  if (warp == 4 * kGroups) {
    for (int tile = blockIdx.y; lane == 0 && tile < shape.column_tiles; tile += gridDim.y) {
      for (int step = begin; step < end; ++step, place.Advance()) {
        uint64_t* const full = &shared.full[place.stage];
        uint8_t* const to = shared.stages[place.stage];
        WaitFor(&shared.empty[place.stage], place.parity ^ 1);
        ExpectBytes(full, (box_rows + Plan::kColumns) * 128);
#pragma unroll
        for (int i = 0; i < kSplit; ++i) {  // the columns that this block makes first
          LoadBox(to + (Plan::kRows + i * Plan::kPartColumns) * 128, b, full, step * kDepth,
                  tile * Plan::kColumns + (part ^ i) * Plan::kPartColumns);
        }
        LoadBox(to, a, full, step * kDepth, first_row);
      }
    }
    if (kSplit > 1) {
      __syncwarp();
      WaitCluster();
      ArriveCluster();
      WaitCluster();
    }
    return;
  }
  const auto release = [&](int stage) {
    if (lane == 0) ArriveIn(&shared.empty[stage], part);
  };
  const uint64_t lefts = MatrixAt(shared.stages[0] + warp / 4 * 64 * 128, 0);
  const uint64_t rights = MatrixAt(shared.stages[0] + Plan::kRows * 128, 0);
  const int row = first_row + warp * 16 + lane / 4;
  for (int tile = blockIdx.y; tile < shape.column_tiles; tile += gridDim.y) {
    const int column = tile * Plan::kColumns + part * Plan::kPartColumns + lane % 4 * 2;
    uint32_t bias[kPairs] = {}, addends[2][kPairs] = {};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int left = shape.columns - column - i * 8;
      if (epilogue.bias != nullptr) {
        bias[i] = PairAt(epilogue.bias + (column + i * 8) * shape.bias_step, shape.bias_step, left);
      }
      if (epilogue.residual == nullptr) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int of_row = row + h * 8;
        addends[h][i] = PairAt(epilogue.residual + of_row * shape.residual_row + column + i * 8, 1,
                               of_row < end_row ? left : 0);
      }
    }
    float sums[kSplit * kPairs * 4] = {};
    int before = 0;
    for (int step = begin; step < end; ++step, place.Advance()) {
      WaitFor(&shared.full[place.stage], place.parity);
      FenceProducts();
#pragma unroll
      for (int k = 0; k < kDepth / 16; ++k) {
        const int at = place.stage * (Plan::kStageBytes / 16) + k * 2;
        const int adds = step > begin || k > 0;
        Multiply<T, 0, 0>(sums, lefts + at, rights + at, adds);
      }
      CommitProducts();
      WaitForProducts<1>();
      if (step > begin) release(before);
      before = place.stage;
    }
    WaitForProducts<0>();
#pragma unroll
    for (int i = 0; i < kSplit * kPairs * 4; ++i) asm volatile("" : "+f"(sums[i])::"memory");
    release(before);
    if constexpr (kSplit > 1) {
      Exchange(sums, shared.received + threadIdx.x * 16, 1 - part, 128 * kGroups * 16);
    }
    WithKind(shape.activation.kind, [&](auto kind) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (row + h * 8 >= end_row) continue;
        T* const y = epilogue.y + static_cast<int64_t>(row + h * 8) * shape.columns;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          const float2 offset = Unpack<T>(bias[i]), more = Unpack<T>(addends[h][i]);
          const float* const two = sums + (i * 4 + h * 2);
          const uint32_t pair =
              Pack<T>(Activate<kind>(two[0] + offset.x, shape.activation) + more.x,
                      Activate<kind>(two[1] + offset.y, shape.activation) + more.y);
          const int at = column + i * 8;
          if (shape.columns % 2 == 0) {
            if (at < shape.columns) *reinterpret_cast<uint32_t*>(y + at) = pair;
          } else {
            auto* const to = reinterpret_cast<uint16_t*>(y + at);
            if (at < shape.columns) to[0] = static_cast<uint16_t>(pair);
            if (at + 1 < shape.columns) to[1] = static_cast<uint16_t>(pair >> 16);
          }
        }
      }
    });
  }
}
#else
template <class Tile>
__global__ void Linear(const __grid_constant__ Maps, const Shape,
                       const Epilogue<typename Tile::T>) {
  __trap();  // code for Hopper without its own instructions (sm_90 instead of sm_90a)
}
constexpr int kFewUnits = 7;
template <class T, int kUnits, int kGroups, int kSplit>
struct Few {
  static constexpr int kRows = 64 * kGroups, kColumns = 16 * kUnits, kThreads = 32;
  static constexpr int kPartColumns = kColumns / kSplit;
  struct Shared {};
};
template <class T, int kUnits, int kGroups, int kSplit>
__global__ void LinearFew(const __grid_constant__ CUtensorMap, const __grid_constant__ CUtensorMap,
                          int, const Shape, const Epilogue<T>) {
  __trap();
}
#endif

// --- One row
//
// Memory limits this. Each block has one stretch of columns, and its warps read them together,
// piece after piece: 512 bytes of each of eight columns, straight to registers, one piece ahead of
// the one that is multiplied. Warps have sums of their own, which are added at the end.

constexpr int kOneThreads = 512;  // also how many columns a block has at most
constexpr int kOneWarps = kOneThreads / 32;
constexpr int kOneColumns = 8;  // of a piece
constexpr int kOneDepth = 256;  // of a piece

// Factors, and how many columns each block has. The first `extra` blocks have one more.
template <class T>
struct One {
  const T *a, *b;
  int64_t b_step;  // between columns
  int depth, columns, extra;
};

// Zeros if not `exists`. Without branches, so that the compiler leaves loads where they are. Of b,
// nothing stays in the cache near the SM.
template <bool kStays>
__device__ uint4 LoadEight(const void* p, bool exists) {
  uint4 x = make_uint4(0, 0, 0, 0);
  if constexpr (kStays) {
    asm volatile(
        "{\n.reg .pred exists;\nsetp.ne.b32 exists, %5, 0;\n"
        "@exists ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "+r"(x.x), "+r"(x.y), "+r"(x.z), "+r"(x.w)
        : "l"(p), "r"(static_cast<int>(exists)));
  } else {
    asm volatile(
        "{\n.reg .pred exists;\nsetp.ne.b32 exists, %5, 0;\n"
        "@exists ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "+r"(x.x), "+r"(x.y), "+r"(x.z), "+r"(x.w)
        : "l"(p), "r"(static_cast<int>(exists)));
  }
  return x;
}

// Adds the product of eight elements.
template <class T>
__device__ float Dot(float sum, const uint4& b, const float2 (&a)[4]) {
  const float2 x[4] = {Unpack<T>(b.x), Unpack<T>(b.y), Unpack<T>(b.z), Unpack<T>(b.w)};
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(x[i].y, a[i].y, fmaf(x[i].x, a[i].x, sum));
  return sum;
}

// Adds each of kOneColumns numbers over the lanes. Lane i * 4 gets the one of column i.
__device__ float SumLanes(float (&sums)[kOneColumns], int lane) {
#pragma unroll
  for (int n = kOneColumns / 2, distance = 16; n > 0; n /= 2, distance /= 2) {
    const bool high = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float keep = high ? sums[i + n] : sums[i];
      const float give = high ? sums[i] : sums[i + n];
      sums[i] = keep + __shfl_xor_sync(~0u, give, distance);
    }
  }
  const float sum = sums[0] + __shfl_xor_sync(~0u, sums[0], 2);
  return sum + __shfl_xor_sync(~0u, sum, 1);
}

// What a warp reads: some columns of the block's, and a piece of their depth.
struct Piece {
  int column, piece;

  __device__ void Advance(int by, int pieces) {
    piece += by;
    while (piece >= pieces) piece -= pieces, column += kOneColumns;
  }
};

template <class T>
__global__ void __launch_bounds__(kOneThreads, 1)
    LinearOne(const One<T> one, const Shape shape, const Epilogue<T> epilogue) {
  __shared__ float partial[kOneWarps][kOneThreads];
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = threadIdx.x % 32;
  const int block = static_cast<int>(blockIdx.x);
  const int first = block * one.columns + min(block, one.extra);
  const int columns = one.columns + (block < one.extra ? 1 : 0);
  const int pieces = (one.depth - 1) / kOneDepth + 1;
  struct Elements {
    uint4 a, b[kOneColumns];
  };
  const auto load = [&](const Piece& piece) {
    Elements elements;
    const int depth = piece.piece * kOneDepth + lane * 8;
    const int left = depth < one.depth ? columns - piece.column : 0;
    const T* from = one.b + (first + piece.column) * one.b_step + depth;
#pragma unroll
    for (int i = 0; i < kOneColumns; ++i, from += one.b_step) {
      elements.b[i] = LoadEight<false>(from, i < left);
    }
    elements.a = LoadEight<true>(one.a + depth, left > 0);
    return elements;
  };
  Piece piece = {0, 0};
  piece.Advance(warp, pieces);
  Elements now = load(piece);
  const int thread = static_cast<int>(threadIdx.x), column = first + thread;
  float bias = 0.0f, addend = 0.0f;  // of the column that this thread finishes
  if (thread < columns && epilogue.bias != nullptr) {
    bias = static_cast<float>(epilogue.bias[column * shape.bias_step]);
  }
  if (thread < columns && epilogue.residual != nullptr) {
    addend = static_cast<float>(epilogue.residual[column]);
  }
#pragma unroll 1
  for (int i = lane; i < columns; i += 32) partial[warp][i] = 0.0f;
  __syncwarp();
  float sums[kOneColumns] = {};
#pragma unroll 1
  while (piece.column < columns) {
    Piece next = piece;
    next.Advance(kOneWarps, pieces);
    const Elements ahead = load(next);
    const float2 a[4] = {Unpack<T>(now.a.x), Unpack<T>(now.a.y), Unpack<T>(now.a.z),
                         Unpack<T>(now.a.w)};
#pragma unroll
    for (int i = 0; i < kOneColumns; ++i) sums[i] = Dot<T>(sums[i], now.b[i], a);
    if (next.column != piece.column) {
      const float sum = SumLanes(sums, lane);
      if (lane % 4 == 0) partial[warp][piece.column + lane / 4] = sum;
#pragma unroll
      for (float& each : sums) each = 0.0f;
    }
    piece = next;
    now = ahead;
  }
  __syncthreads();
  if (thread >= columns) return;
  float sum = 0.0f;
#pragma unroll
  for (const auto& of_warp : partial) sum += of_warp[thread];
  WithKind(shape.activation.kind, [&](auto kind) {
    const float value = Activate<kind>(sum + bias, shape.activation) + addend;
    reinterpret_cast<uint16_t*>(epilogue.y)[column] = static_cast<uint16_t>(Pack<T>(value, value));
  });
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

constexpr int64_t kMostStride = int64_t{1} << 39;  // of a tensor map, in elements

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
    return stride % 8 == 0 && stride >= width && stride < kMostStride;
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

// `cluster`: blocks of one, along x.
template <class... Parameters, class... Arguments>
static void LaunchClusters(void (*kernel)(Parameters...), dim3 grid, int cluster, int threads,
                           int bytes, const Arguments&... arguments) {
  cudaLaunchAttribute of_cluster = {};
  of_cluster.id = cudaLaunchAttributeClusterDimension;
  of_cluster.val.clusterDim.x = static_cast<unsigned>(cluster);
  of_cluster.val.clusterDim.y = of_cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &of_cluster;
  config.numAttrs = cluster > 1 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <class T>
struct Call {
  Factor<T> left, right;  // columns of b, rows of a
  Shape shape;
  Epilogue<T> epilogue;
  int depth;

  static int RoundedUp(int rows) { return (rows + 7) / 8 * 8; }

  static bool Splits(int64_t tiles, int64_t steps) {
    return 2 * tiles <= at::cuda::getCurrentDeviceProperties()->multiProcessorCount && steps >= 8;
  }

  template <int kRows, bool kLeftAcross, bool kRightAcross>
  void LaunchTiles() {
    using Tile = ::Tile<T, kRows, kLeftAcross, kRightAcross>;
    const auto kernel = Linear<Tile>;
    constexpr int kBytes = sizeof(typename Tile::Shared) + kAlignment;
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
    if (Tile::kIsSmall && Splits(tiles, shape.steps)) shape.split = 2;
    shape.column_tiles = (column_tiles - 1) / shape.share + 1;
    // Rows that do not exist take longer to load than others.
    shape.loaded_rows =
        Tile::kIsSmall && !kRightAcross && shape.rows <= kRows / 2 ? RoundedUp(shape.rows) : 0;
    shape.side_by_side = Divisor::Of(kTogether * shape.column_tiles);
    shape.last = Divisor::Of(std::max(shape.row_tiles % kTogether, 1));
    const int cluster = shape.share * shape.split;  // 1 or 2
    const int works = shape.row_tiles * shape.column_tiles;
    const int clusters =
        shape.split > 1 ? works : std::min(works, std::max(processors / cluster, 1));

    const auto map_of = [](const Factor<T>& factor, bool across, int box_rows) {
      return across ? MapOf(factor.data, factor.rows, factor.depth, factor.stride, kDepth)
                    : MapOf(factor.data, factor.depth, factor.rows, factor.stride, box_rows);
    };
    Maps maps;
    maps.left = map_of(left, kLeftAcross, kColumns);
    maps.right =
        map_of(right, kRightAcross,
               shape.loaded_rows > 0 ? shape.loaded_rows : kRows / (shape.share * shape.split));
    maps.y = maps.residual = maps.left;
    if (shape.bulk_store) {
      maps.y = MapOf<T>(epilogue.y, shape.columns, shape.rows, shape.columns, Tile::kPassRows);
    }
    if (epilogue.residual != nullptr) {
      maps.residual = MapOf(epilogue.residual, shape.columns, shape.rows, shape.residual_row,
                            kRows / shape.split);
    }
    LaunchClusters(kernel, dim3(static_cast<unsigned>(clusters * cluster)), cluster, kThreads,
                   kBytes, maps, shape, epilogue);
  }

  template <int kUnits, int kGroups, int kSplit = 1>
  void LaunchFew() {
    using Plan = Few<T, kUnits, kGroups, kSplit>;
    const auto kernel = LinearFew<T, kUnits, kGroups, kSplit>;
    constexpr int kBytes = sizeof(typename Plan::Shared) + kAlignment;
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    shape.steps = (depth - 1) / kDepth + 1;
    shape.column_tiles = (shape.columns - 1) / Plan::kColumns + 1;
    const int row_tiles = (shape.rows - 1) / Plan::kRows + 1;
    const int box_rows = RoundedUp((shape.rows - 1) / row_tiles + 1);  // others take long
    const CUtensorMap a = MapOf(right.data, right.depth, right.rows, right.stride, box_rows);
    const CUtensorMap b = MapOf(left.data, left.depth, left.rows, left.stride, Plan::kPartColumns);
    // Blocks with the same columns are neighbours: one finds what the other has loaded.
    // With a split, each has one tile.
    const dim3 grid(
        static_cast<unsigned>(row_tiles * kSplit),
        static_cast<unsigned>(
            kSplit > 1 ? shape.column_tiles
                       : std::min(shape.column_tiles, std::max(processors / row_tiles, 1))));
    LaunchClusters(kernel, grid, kSplit, Plan::kThreads, kBytes, a, b, box_rows, shape, epilogue);
  }

  template <int kGroups>
  void LaunchFew(int units) {
    switch (units) {
      case 1:
        return LaunchFew<1, kGroups>();
      case 2:
        return LaunchFew<2, kGroups>();
      case 3:
        return LaunchFew<3, kGroups>();
      case 4:
        return LaunchFew<4, kGroups>();
      case 5:
        return LaunchFew<5, kGroups>();
      case 6:
        return LaunchFew<6, kGroups>();
      default:
        return LaunchFew<7, kGroups>();
    }
  }

  // Sets how many units a tile should have, and returns what a step of the depth costs, in rows of
  // 128 bytes that an SM loads.
  int64_t UnitsOfFew(int& units) const {
    const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int64_t row_tiles = (shape.rows - 1) / 128 + 1;
    const int64_t tile_rows = (shape.rows - 1) / row_tiles + 1;
    int64_t least = INT64_MAX;
    for (int i = 1; i <= kFewUnits; ++i) {
      const int64_t tiles = (shape.columns - 1) / (16 * i) + 1;
      const int64_t waves = (tiles - 1) / std::max<int64_t>(processors / row_tiles, 1) + 1;
      if (waves * (tile_rows + 16 * i) < least) least = waves * (tile_rows + 16 * i), units = i;
    }
    return least;
  }

  // What a step costs with LaunchFew<4, 2, 2>, in the same unit. A block takes every second one.
  // Zero if the rows are not of one tile for two warpgroups, or if there are too few SMs or far too
  // many.
  int64_t PairsOfFew() const {
    const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int64_t blocks = 2 * ((shape.columns - 1) / 64 + 1);
    const bool fits = shape.rows > 64 && shape.rows <= 128 && blocks <= processors &&
                      4 * blocks >= 3 * processors;
    return fits ? (shape.rows + 64) / 2 : 0;
  }

  void LaunchOne() {
    const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int rounds = (shape.columns - 1) / (processors * kOneThreads) + 1;
    const int blocks = std::min(processors * rounds, shape.columns);
    const One<T> one = {
        right.data, left.data, left.stride, depth, shape.columns / blocks, shape.columns % blocks};
    LinearOne<T>
        <<<static_cast<unsigned>(blocks), kOneThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
            one, shape, epilogue);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  template <int kRows>
  void Launch() {
    if (right.across) {
      return left.across ? LaunchTiles<kRows, true, true>() : LaunchTiles<kRows, false, true>();
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
  const bool lie_along = !call.left.across && !call.right.across;
  if (rows == 1 && lie_along && call.depth % 8 == 0) return call.LaunchOne();
  int units = 0;
  const int64_t few = call.UnitsOfFew(units);
  const bool may_be_few = rows <= 1024 && lie_along;
  if (may_be_few && rows <= 64) return call.template LaunchFew<1>(units);
  // In ns, as measured on an H200. A step takes 340 with 128 rows, 620 with 256. An exchange of
  // sums takes 2000, or 2500 in LinearFew.
  const int64_t steps = (call.depth - 1) / kDepth + 1;
  const auto tiles = [&](int64_t tile_rows) {
    return ((rows - 1) / tile_rows + 1) * ((call.shape.columns - 1) / kColumns + 1);
  };
  const bool splits = call.Splits(tiles(128), steps);
  const int64_t middle =
      splits ? steps * 170 + 2000 : ((tiles(128) - 1) / processors + 1) * steps * 340;
  const int64_t wide = ((tiles(256) - 1) / processors + 1) * steps * 620;
  const int64_t one_few = few * steps * (rows > 128 ? 3 : 2) / 2;
  const int64_t pairs = call.PairsOfFew(), two_few = pairs * steps + 2500;
  if (may_be_few && pairs > 0 && two_few < std::min({one_few, middle, wide})) {
    return call.template LaunchFew<4, 2, 2>();
  }
  // With two tiles of rows on most SMs, Linear with an exchange was 6000 slower than that.
  const bool is_late = splits && rows > 128 && rows <= 256 && 4 * 2 * tiles(128) >= 3 * processors;
  const int64_t late = is_late ? 6000 : 0;
  if (may_be_few && one_few < std::min(middle + late, wide)) {
    return call.template LaunchFew<2>(units);
  }
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
  constexpr float kLog2 = 1.4426950409f, kTwice = 1.5957691216f;  // 1 / log(2), 2 sqrt(2 / pi)
  Activation kind = {bias ? kAtLeast : kNone, -INFINITY, 0.0f, 0.0f};
  if (activation == "relu") kind = {kAtLeast, 0.0f, 0.0f, 0.0f};
  if (activation == "silu") kind = {kSilu, 0.0f, -kLog2, 0.0f};
  if (activation == "gelu_tanh") kind = {kGelu, 0.0f, -kTwice * kLog2, -0.044715f * kTwice * kLog2};
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
