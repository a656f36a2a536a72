// Product of float8 matrices with block scales on Hopper's tensor cores.
//
// Tensor cores add float8 products with few digits. So the products of 128 features, which share
// scales, are summed there, and then added to float32 sums, multiplied by their scales.
//
// Many rows (Wide): pairs of blocks walk over pairs of tiles, which are neighbours in y's rows. A
// thread of each loads slices of 128 features by TMA, several ahead; of the rows of a, which both
// need, each block loads one half for both (multicast). Two warpgroups multiply: while one adds its
// sums, the tensor cores work for the other.
//
// Few rows (Few): bound by reading b. Blocks of a cluster share the depth of a tile of y, such that
// all processors read at once; they add up their sums, always in the same order, through shared
// memory of the cluster.
//
// Other GPUs, and rows that TMA cannot load: a plain product (MultiplyPlain).
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kSlice = 128;  // features of a scale; rows of b that share one are as many

struct Product {
  const __nv_fp8_e4m3 *a, *b;
  const float *a_scales, *b_scales;
  __nv_bfloat16* y;
  int rows, columns, depth, slices;
};

struct Maps {
  CUtensorMap a, b, y;
};

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ uint32_t Pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

template <int kStages, int kSliceBytes>
struct Ring;
template <int kStages, int kSliceBytes>
constexpr int kRingBytes = kStages * (kSliceBytes + 16);

// Each of two warpgroups has kParts times 64 rows of a block's tile.
template <int kParts_, int kColumns_, int kStages_>
struct Wide {
  static constexpr int kParts = kParts_, kStages = kStages_;
  static constexpr int kRows = 128 * kParts, kColumns = kColumns_;
  static constexpr int kSums = kColumns / 2;  // of a thread, in each part
  static constexpr int kScales =              // of b, at most
      kColumns % kSlice == 0 ? kColumns / kSlice : (kColumns + kSlice - 17) / kSlice + 1;
  static constexpr int kThreads = 384;

  static constexpr int kLeft = kRows * kSlice;  // bytes of a in a slice, before those of b
  using Slices = Ring<kStages_, (kRows + kColumns) * kSlice>;
  static constexpr int kSumBytes = 64 * kColumns * 2;  // of a warpgroup's part, as bfloat16
  static constexpr int kBytes =
      1024 + 2 * kParts * kSumBytes + kRingBytes<kStages_, (kRows + kColumns) * kSlice>;
};

// A warpgroup has 64 columns of y, of kRows rows.
template <int kRows_, int kStages_>
struct Few {
  static constexpr int kWorkers = 128, kBlocks = 2;  // a processor has two of them
  static constexpr int kRows = kRows_, kStages = kStages_;
  static constexpr int kColumns = 64;
  static constexpr int kThreads = kWorkers + 32;
  static constexpr int kMostSlices = 64;
  static constexpr int kRight = kColumns * kSlice;  // bytes of b in a slice, before those of a
  static constexpr int kScalePitch = kRows + 2, kPitch = kColumns + 4;  // floats: other banks
  using Slices = Ring<kStages_, (kRows + kColumns) * kSlice>;
  // Scales, [slice][kScalePitch], those of b behind those of a, come after the ring; in the end
  // sums, [row][kPitch], take its place.
  static constexpr int kBytes = kRingBytes<kStages_, (kRows + kColumns) * kSlice> +
                                kMostSlices * kScalePitch * static_cast<int>(sizeof(float)) + 1024;
  static_assert(kRows * kPitch * static_cast<int>(sizeof(float)) <=
                kRingBytes<kStages_, (kRows + kColumns) * kSlice>);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
__device__ void InitBarrier(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}
__device__ void WaitFor(uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the same barrier of a block of the cluster.
__device__ void ArriveAt(uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(block)
      : "memory");
}
__device__ void ExpectBytes(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ void CopyFloat(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SharedAddress(to)), "l"(from)
               : "memory");
}
__device__ void LoadBox(uint32_t to, const CUtensorMap& map, uint32_t barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(to),
      "l"(&map), "r"(k), "r"(row), "r"(barrier)
      : "memory");
}
// For both blocks of a pair.
__device__ void LoadBoxForBoth(uint32_t to, const CUtensorMap& map, uint32_t barrier, int k,
                               int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(k), "r"(row), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}
__device__ void StoreBox(const CUtensorMap& map, uint32_t from, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(column), "r"(row), "r"(from)
      : "memory");
}
__device__ void SyncThreads(int barrier, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
__device__ int RankInCluster() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Scales of a thread's rows, slice by slice. Each of four lanes, which have the same rows, loads
// those of one slice in four, ahead of their use.
template <int kCount>
struct Scales {
  const float* from[kCount];
  float now[kCount], next[kCount];

  __device__ void Load(int slice, int slices) {
    const int mine = min(slice + static_cast<int>(threadIdx.x) % 4, slices - 1);
#pragma unroll
    for (int i = 0; i < kCount; ++i) next[i] = __ldg(from[i] + mine);
  }
  // Before each fourth slice.
  __device__ void Advance(int slice, int slices) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) now[i] = next[i];
    Load(slice + 4, slices);
  }
  __device__ float Of(int i, int slice) const { return __shfl_sync(~0u, now[i], slice % 4, 4); }
};

// Rows of 128 bytes, swizzled; groups of eight rows are 1024 bytes apart.
__device__ uint64_t MatrixAt(uint32_t address) {
  return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
__device__ void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void WaitForProducts() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

#define CUPEL_N8(d, i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define CUPEL_N32(d, i) CUPEL_N8(d, i), CUPEL_N8(d, i + 8), CUPEL_N8(d, i + 16), CUPEL_N8(d, i + 24)
#define CUPEL_R32                                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CUPEL_R64                                                                                \
  CUPEL_R32                                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// d = a b^T or d += a b^T.
#define CUPEL_WGMMA(n, registers, a, b, adds)                                                \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n \
  "k32.f32.e4m3.e4m3 {" registers "}, " a ", " b ", adds, 1, 1;\n}"

#define CUPEL_R88                                                                                \
  CUPEL_R64                                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87"

__device__ void Multiply(float (&d)[88], uint64_t a, uint64_t b, int adds) {
  asm volatile(CUPEL_WGMMA("176", CUPEL_R88, "%88", "%89", "%90")
               : CUPEL_N32(d, 0), CUPEL_N32(d, 32), CUPEL_N8(d, 64), CUPEL_N8(d, 72),
                 CUPEL_N8(d, 80)
               : "l"(a), "l"(b), "r"(adds));
}
__device__ void Multiply(float (&d)[64], uint64_t a, uint64_t b, int adds) {
  asm volatile(CUPEL_WGMMA("128", CUPEL_R64, "%64", "%65", "%66")
               : CUPEL_N32(d, 0), CUPEL_N32(d, 32)
               : "l"(a), "l"(b), "r"(adds));
}
__device__ void Multiply(float (&d)[32], uint64_t a, uint64_t b, int adds) {
  asm volatile(CUPEL_WGMMA("64", CUPEL_R32, "%32", "%33", "%34")
               : CUPEL_N32(d, 0)
               : "l"(a), "l"(b), "r"(adds));
}

__device__ void Multiply(float (&d)[16], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      CUPEL_WGMMA("32", "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15",
                  "%16", "%17", "%18")
      : CUPEL_N8(d, 0), CUPEL_N8(d, 8)
      : "l"(a), "l"(b), "r"(adds));
}
// parts = 64 rows of a times rows of b, for the features of a slice.
template <int kCount>
__device__ void MultiplySlice(float (&parts)[kCount], uint32_t a, uint32_t b) {
  FenceProducts();
#pragma unroll
  for (int k = 0; k < 4; ++k) Multiply(parts, MatrixAt(a) + k * 2, MatrixAt(b) + k * 2, k);
  CommitProducts();
}
// The compiler moves no access to these registers across this place.
template <int kCount>
__device__ void Pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// Columns of y come and go in two halves: rows of 128 bytes, whose units of 16 bytes change places,
// or rows of an odd number of units. So eight rows' units lie in different banks.
template <int kColumns>
__device__ uint32_t PlaceOfUnit(int row, int unit) {
  constexpr bool kSwizzled = kColumns == 128;
  static_assert(kSwizzled || kColumns / 16 % 2 == 1);
  const int half = unit / (kColumns / 16), of_half = unit % (kColumns / 16);
  return half * 64 * kColumns + row * kColumns + (kSwizzled ? of_half ^ row % 8 : of_half) * 16;
}

// Where in shared memory a block's data begin: the compiler would find out again and again.
__device__ uint32_t Base(const void* dynamic) {
  uint32_t base = (SharedAddress(dynamic) + 1023) / 1024 * 1024;
  asm volatile("" : "+r"(base));
  return base;
}

// A ring of slices in shared memory: which one is next, and in which turn. Barriers follow the
// slices: kStages that say that one is full, then as many that say that one is free.
template <int kStages, int kSliceBytes>
struct Ring {
  static constexpr int kBytes = kRingBytes<kStages, kSliceBytes>;

  uint32_t base;
  int stage = 0, parity = 0;

  __device__ explicit Ring(uint32_t base) : base(base) {}
  __device__ uint32_t Slice() const { return base + stage * kSliceBytes; }
  __device__ uint32_t Full() const { return base + kStages * kSliceBytes + stage * 8; }
  __device__ uint32_t Empty() const { return Full() + kStages * 8; }

  // By one thread. `users` arrive to free a slice.
  __device__ void Init(int users) {
#pragma unroll 1  // here and below: code comes from memory, too, and short code sooner
    for (; stage < kStages; ++stage) {
      InitBarrier(Full(), 1);
      InitBarrier(Empty(), users);
    }
    stage = 0;
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __device__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Tiles of pairs, row after row within groups of kGroupRows rows of tiles, whose a stays in the L2
// cache meanwhile.
struct PairTile {
  static constexpr int kGroupRows = 16;
  int row, column;

  __device__ PairTile(int index, int row_tiles, int pairs) {
    const int group = index / (kGroupRows * pairs);
    const int here = min(kGroupRows, row_tiles - group * kGroupRows);
    const int place = index - group * kGroupRows * pairs;
    row = group * kGroupRows + place % here;
    column = place / here;
  }
};

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    MultiplyWide(const __grid_constant__ Maps maps, const Product p) {
  constexpr int kParts = S::kParts;
  extern __shared__ uint8_t dynamic[];
  const uint32_t base = Base(dynamic);
  typename S::Slices ring(base + 2 * kParts * S::kSumBytes);
  if (threadIdx.x == 0) ring.Init(2 * 8);  // warps of both blocks
  SyncCluster();
  const int rank = RankInCluster();
  const int row_tiles = (p.rows + S::kRows - 1) / S::kRows;
  const int pairs = (p.columns + 2 * S::kColumns - 1) / (2 * S::kColumns);
  const int tiles = row_tiles * pairs, step = static_cast<int>(gridDim.x) / 2;

  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int index = blockIdx.x / 2; index < tiles; index += step) {
        const PairTile tile(index, row_tiles, pairs);
        const int row = tile.row * S::kRows + rank * (S::kRows / 2);
        const int column = (tile.column * 2 + rank) * S::kColumns;
#pragma unroll 1
        for (int slice = 0; slice < p.slices; ++slice, ring.Advance()) {
          WaitFor(ring.Empty(), ring.parity ^ 1);
          ExpectBytes(ring.Full(), (S::kRows + S::kColumns) * kSlice);
          LoadBoxForBoth(ring.Slice() + rank * (S::kLeft / 2), maps.a, ring.Full(), slice * kSlice,
                         row);
          LoadBox(ring.Slice() + S::kLeft, maps.b, ring.Full(), slice * kSlice, column);
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0) - 1;
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = threadIdx.x % 32;
    const int my_row = group * 64 * kParts + warp * 16 + lane / 4;  // of the tile, the first
    const uint32_t my_sums = base + group * kParts * S::kSumBytes;
    const bool is_storer = threadIdx.x % 128 == 0;
    for (int index = blockIdx.x / 2; index < tiles; index += step) {
      const PairTile tile(index, row_tiles, pairs);
      const int row = tile.row * S::kRows + my_row;
      const int column = (tile.column * 2 + rank) * S::kColumns;
      // Of a's rows, then of b. Columns from 16 * bounds[i] on have the next scale of b.
      Scales<2 * kParts + S::kScales> scales;
      int bounds[S::kScales];
#pragma unroll
      for (int i = 0; i < 2 * kParts; ++i) {
        const int64_t of_tile = min(row + i * 8 + i / 2 * 48, p.rows - 1);
        scales.from[i] = p.a_scales + of_tile * p.slices;
      }
#pragma unroll
      for (int i = 0; i < S::kScales; ++i) {
        const int64_t block = min(column / kSlice + i, (p.columns - 1) / kSlice);
        scales.from[2 * kParts + i] = p.b_scales + block * p.slices;
        bounds[i] = ((column / kSlice + i + 1) * kSlice - column) / 16;
      }
      scales.Load(0, p.slices);
      float sums[kParts][S::kSums] = {}, parts[S::kSums] = {};
      for (int first = 0; first < p.slices; first += 4) {
        scales.Advance(first, p.slices);
        const int end = min(first + 4, p.slices);
#pragma unroll 1
        for (int slice = first; slice < end; ++slice, ring.Advance()) {
          float a_scales[2 * kParts], b_scales[S::kScales];
#pragma unroll
          for (int i = 0; i < 2 * kParts; ++i) a_scales[i] = scales.Of(i, slice);
#pragma unroll
          for (int i = 0; i < S::kScales; ++i) b_scales[i] = scales.Of(2 * kParts + i, slice);
          WaitFor(ring.Full(), ring.parity);
          const uint32_t a = ring.Slice() + group * (S::kLeft / 2);
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            MultiplySlice(parts, a + part * 64 * kSlice, ring.Slice() + S::kLeft);
            WaitForProducts();
            Pin(parts);
            if (part == kParts - 1 && lane < 2) ArriveAt(ring.Empty(), lane);
#pragma unroll
            for (int i = 0; i < S::kSums; i += 8) {
              float b_scale = b_scales[S::kScales - 1];
#pragma unroll
              for (int j = S::kScales - 2; j >= 0; --j) {
                if (i / 8 < bounds[j]) b_scale = b_scales[j];
              }
              const float upper = a_scales[2 * part] * b_scale,
                          lower = a_scales[2 * part + 1] * b_scale;
#pragma unroll
              for (int j = i; j < i + 8; ++j)
                sums[part][j] += parts[j] * (j % 4 < 2 ? upper : lower);
            }
          }
        }
      }
      // To shared memory, once the last tile has left it, and from there to y.
      if (is_storer) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      SyncThreads(1 + group, 128);
      const int line = warp * 16 + lane % 16;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < S::kSums / 8; ++i) {
          const float* const v = sums[part] + i * 8;
          asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                           my_sums + part * S::kSumBytes +
                           PlaceOfUnit<S::kColumns>(line, i * 2 + lane / 16)),
                       "r"(Pack(v[0], v[1])), "r"(Pack(v[2], v[3])), "r"(Pack(v[4], v[5])),
                       "r"(Pack(v[6], v[7]))
                       : "memory");
        }
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      SyncThreads(1 + group, 128);
      if (is_storer) {
#pragma unroll
        for (int i = 0; i < 2 * kParts; ++i) {
          StoreBox(maps.y, my_sums + i * (S::kSumBytes / 2), column + i % 2 * (S::kColumns / 2),
                   tile.row * S::kRows + (group * kParts + i / 2) * 64);
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    }
    if (is_storer) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  SyncCluster();  // no block may leave while the other arrives at its barriers
}

// A block has a tile of y and, as one of a cluster, a part of the depth. Columns of y are what
// tensor cores have 64 of.
template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    MultiplyFew(const __grid_constant__ Maps maps, const Product p, int box_rows, int log_splits) {
  constexpr int kWorkers = S::kWorkers, kSums = S::kRows / 2;
  extern __shared__ uint8_t dynamic[];
  const uint32_t base = Base(dynamic);
  float* const sums_of_block = reinterpret_cast<float*>(dynamic + (base - SharedAddress(dynamic)));
  float* const scales = sums_of_block + S::Slices::kBytes / static_cast<int>(sizeof(float));
  typename S::Slices ring(base);
  const int splits = 1 << log_splits;
  const int split = static_cast<int>(blockIdx.x) & (splits - 1);
  const int first_column = static_cast<int>(blockIdx.x >> log_splits) * S::kColumns;
  const int first_row = static_cast<int>(blockIdx.y) * S::kRows;
  const int rows = min(S::kRows, p.rows - first_row);
  const int begin = p.slices * split >> log_splits;
  const int slices = (p.slices * (split + 1) >> log_splits) - begin;
  const auto load = [&](int slice) {
    ExpectBytes(ring.Full(), (box_rows + S::kColumns) * kSlice);
    const int k = (begin + slice) * kSlice;
    LoadBox(ring.Slice(), maps.b, ring.Full(), k, first_column);
    LoadBox(ring.Slice() + S::kRight, maps.a, ring.Full(), k, first_row);
    ring.Advance();
  };
  int slice = 0;
  // Rows that there are not: boxes without them come sooner than with zeros.
  if (box_rows < S::kRows && threadIdx.x < kWorkers) {
    const int words = (S::kRows - box_rows) * (kSlice / 4);
#pragma unroll 1
    for (int stage = 0; stage < S::kStages; ++stage) {
      float* const of_stage =
          sums_of_block + ((stage + 1) * (S::kRows + S::kColumns) * kSlice / 4 - words);
#pragma unroll 1
      for (int i = threadIdx.x; i < words; i += kWorkers) of_stage[i] = 0.0f;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if (threadIdx.x == kWorkers) {
    ring.Init(4);
#pragma unroll 1
    for (; slice < min(S::kStages, slices); ++slice) load(slice);
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = threadIdx.x % 32;
  float sums[kSums] = {};
  if (threadIdx.x >= kWorkers) {
    if (threadIdx.x == kWorkers) {
#pragma unroll 1
      for (; slice < slices; ++slice) {
        WaitFor(ring.Empty(), ring.parity ^ 1);
        load(slice);
      }
    }
  } else {
    const float* const of_a = p.a_scales + static_cast<int64_t>(first_row) * p.slices + begin;
    const float* const of_b =
        p.b_scales + static_cast<int64_t>(first_column / kSlice) * p.slices + begin;
    const int end = S::kRows * slices;
#pragma unroll 1
    for (int i = threadIdx.x, row = 0, here = i; i < end; i += kWorkers, here += kWorkers) {
      while (here >= slices) {
        here -= slices;
        ++row;
      }
      const int64_t of_row = static_cast<int64_t>(min(row, rows - 1)) * p.slices;
      CopyFloat(scales + here * S::kScalePitch + row, of_a + of_row + here);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < slices; i += kWorkers) {
      CopyFloat(scales + i * S::kScalePitch + S::kRows, of_b + i);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    asm volatile("bar.sync 1, %0;" ::"n"(kWorkers) : "memory");
    float parts[kSums] = {};
#pragma unroll 1
    for (; slice < slices; ++slice, ring.Advance()) {
      WaitFor(ring.Full(), ring.parity);
      MultiplySlice(parts, ring.Slice(), ring.Slice() + S::kRight);
      WaitForProducts();
      Pin(parts);
      if (lane == 0) Arrive(ring.Empty());
      const float* const of_slice = scales + slice * S::kScalePitch;
      const float b_scale = of_slice[S::kRows];
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        const float2 scale = *reinterpret_cast<const float2*>(of_slice + i * 2 + lane % 4 * 2);
        const float even = scale.x * b_scale, odd = scale.y * b_scale;
        sums[i] += parts[i] * even;
        sums[i + 1] += parts[i + 1] * odd;
        sums[i + 2] += parts[i + 2] * even;
        sums[i + 3] += parts[i + 3] * odd;
      }
    }
  }
  __syncthreads();  // all slices have been used
  if (threadIdx.x < kWorkers) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
      sums_of_block[row * S::kPitch + warp * 16 + i / 2 % 2 * 8 + lane / 4] = sums[i];
    }
  }
  // Each block of the cluster adds up an equal share of the tile.
  SyncCluster();
#pragma unroll 1
  for (int i = split * S::kThreads + threadIdx.x; i < rows * (S::kColumns / 4);
       i += splits * S::kThreads) {
    const int row = i / (S::kColumns / 4), column = i % (S::kColumns / 4) * 4;
    const uint32_t mine = SharedAddress(sums_of_block + row * S::kPitch + column);
    float sum[4] = {};
#pragma unroll 4
    for (int other = 0; other < splits; ++other) {
      float v[4];
      asm volatile(
          "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
          "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
          : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
          : "r"(mine), "r"(other)
          : "memory");
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += v[j];
    }
    if (first_column + column < p.columns) {
      __nv_bfloat16* const to =
          p.y + static_cast<int64_t>(first_row + row) * p.columns + first_column + column;
      *reinterpret_cast<uint2*>(to) = make_uint2(Pack(sum[0], sum[1]), Pack(sum[2], sum[3]));
    }
  }
  SyncCluster();  // no block may leave while others read its sums
}
#else  // code for Hopper without its own instructions (sm_90 instead of sm_90a)
template <class S>
__global__ void MultiplyWide(const __grid_constant__ Maps, const Product) {
  __trap();
}
template <class S>
__global__ void MultiplyFew(const __grid_constant__ Maps, const Product, int, int) {
  __trap();
}
#endif

constexpr int kPlainTile = 64, kPlainDepth = 16, kPlainThreads = 256;

// Tiles of 64 x 64, four by four numbers a thread; a and b become floats in shared memory.
__global__ void __launch_bounds__(kPlainThreads, 2) MultiplyPlain(const Product p) {
  constexpr int kPerThread = kPlainTile * kPlainDepth / kPlainThreads;
  __shared__ __align__(16) float a_tile[kPlainDepth][kPlainTile + 4];
  __shared__ __align__(16) float b_tile[kPlainDepth][kPlainTile + 4];
  const int column = static_cast<int>(threadIdx.x) % 16 * 4;
  const int row = static_cast<int>(threadIdx.x) / 16 * 4;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kPlainTile;
  const int64_t row_step = static_cast<int64_t>(gridDim.y) * kPlainTile;
  const float* const of_b = p.b_scales + first_column / kSlice * p.slices;
  for (int64_t first_row = static_cast<int64_t>(blockIdx.y) * kPlainTile; first_row < p.rows;
       first_row += row_step) {
    float sums[4][4] = {};
    for (int slice = 0; slice < p.slices; ++slice) {
      float parts[4][4] = {};
      const int end = min((slice + 1) * kSlice, p.depth);
      for (int first = slice * kSlice; first < end; first += kPlainDepth) {
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
          const int place = static_cast<int>(threadIdx.x) + i * kPlainThreads;
          const int k = place % kPlainDepth, of_tile = place / kPlainDepth;
          const bool inside = first + k < end;
          const int64_t a_row = first_row + of_tile, b_row = first_column + of_tile;
          a_tile[k][of_tile] = inside && a_row < p.rows
                                   ? static_cast<float>(p.a[a_row * p.depth + first + k])
                                   : 0.0f;
          b_tile[k][of_tile] = inside && b_row < p.columns
                                   ? static_cast<float>(p.b[b_row * p.depth + first + k])
                                   : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kPlainDepth; ++k) {
          const float4 l = *reinterpret_cast<const float4*>(&a_tile[k][row]);
          const float4 r = *reinterpret_cast<const float4*>(&b_tile[k][column]);
          const float left[4] = {l.x, l.y, l.z, l.w}, right[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
          for (int i = 0; i < 16; ++i) parts[i / 4][i % 4] += left[i / 4] * right[i % 4];
        }
        __syncthreads();
      }
      const float b_scale = of_b[slice];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t of_a = min(first_row + row + i, static_cast<int64_t>(p.rows - 1)) * p.slices;
        const float scale = p.a_scales[of_a + slice] * b_scale;
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += parts[i][j] * scale;
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int64_t y_row = first_row + row + i / 4, y_column = first_column + column + i % 4;
      if (y_row < p.rows && y_column < p.columns) {
        p.y[y_row * p.columns + y_column] = __float2bfloat16(sums[i / 4][i % 4]);
      }
    }
  }
}

// A matrix of rows of `size` elements, loaded or stored in boxes.
static CUtensorMap MapOf(CUtensorMapDataType type, int element_bytes, const void* data, int rows,
                         int size, int box_rows, int box_size, bool swizzled) {
  CUtensorMap map;
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(size), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(size) * element_bytes};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_size), static_cast<cuuint32_t>(box_rows)},
                   steps[] = {1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map, type, 2, const_cast<void*>(data), dims, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE,
                             swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "a tensor map was refused");
  return map;
}

// Of a or b: slices of `box_rows` rows.
static CUtensorMap SlicesOf(const void* data, int rows, int depth, int box_rows) {
  return MapOf(CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, data, rows, depth, box_rows, kSlice, true);
}

template <class Kernel, class... Arguments>
static void LaunchClusters(Kernel kernel, dim3 grid, int threads, int bytes, int cluster,
                           const Arguments&... arguments) {
  cudaLaunchAttribute size;
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = static_cast<unsigned>(cluster);
  size.val.clusterDim.y = 1;
  size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &size;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

static int CeilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

template <class S>
static void LaunchWide(const Product& p, int processors) {
  // Before the tensor maps: it makes sure that this thread has a context.
  C10_CUDA_CHECK(cudaFuncSetAttribute(MultiplyWide<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      S::kBytes));
  const Maps maps{SlicesOf(p.a, p.rows, p.depth, S::kRows / 2),
                  SlicesOf(p.b, p.columns, p.depth, S::kColumns),
                  MapOf(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p.y, p.rows, p.columns, 64,
                        S::kColumns / 2, S::kColumns == 128)};
  const int64_t tiles =
      static_cast<int64_t>(CeilDiv(p.rows, S::kRows)) * CeilDiv(p.columns, 2 * S::kColumns);
  TORCH_CHECK(tiles < INT32_MAX / 2, "too many tiles");
  const auto pairs = static_cast<unsigned>(std::min<int64_t>(tiles, processors / 2));
  LaunchClusters(MultiplyWide<S>, dim3(2 * pairs), S::kThreads, S::kBytes, 2, maps, p);
}

// False: the depth is too large.
template <class S>
static bool LaunchFew(const Product& p, int processors) {
  const int64_t columns = CeilDiv(p.columns, S::kColumns), rows = CeilDiv(p.rows, S::kRows);
  // As many blocks as run at once, of four slices or more. Clusters leave some processors out: on
  // an H200, not all of 64 clusters of four ran at once.
  int log_splits = 3;
  while (log_splits > 0 && (columns * rows << log_splits > processors * S::kBlocks * 15 / 16 ||
                            p.slices < 4 << log_splits)) {
    --log_splits;
  }
  while (log_splits < 3 && p.slices > S::kMostSlices << log_splits) ++log_splits;
  if (p.slices > S::kMostSlices << log_splits) return false;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(MultiplyFew<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes));
  const int box_rows = std::min(S::kRows, p.rows);
  const Maps maps{
      SlicesOf(p.a, p.rows, p.depth, box_rows), SlicesOf(p.b, p.columns, p.depth, S::kColumns), {}};
  LaunchClusters(MultiplyFew<S>,
                 dim3(static_cast<unsigned>(columns) << log_splits, static_cast<unsigned>(rows)),
                 S::kThreads, S::kBytes, 1 << log_splits, maps, p, box_rows, log_splits);
  return true;
}

static void Launch(const Product& p) {
  const auto* const properties = at::cuda::getCurrentDeviceProperties();
  const int processors = properties->multiProcessorCount;
  const bool boxes = p.depth % 16 == 0 && p.columns % 8 == 0 &&
                     reinterpret_cast<uintptr_t>(p.a) % 16 == 0 &&
                     reinterpret_cast<uintptr_t>(p.b) % 16 == 0;
  if (properties->major != 9 || !boxes) {
    const dim3 grid(static_cast<unsigned>(CeilDiv(p.columns, kPlainTile)),
                    static_cast<unsigned>(std::min(CeilDiv(p.rows, kPlainTile), 65535)));
    MultiplyPlain<<<grid, kPlainThreads, 0, at::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
  if (p.rows <= 32 && LaunchFew<Few<32, 7>>(p, processors)) return;
  if (p.rows <= 64 && LaunchFew<Few<64, 5>>(p, processors)) return;
  if (p.rows <= 128 && p.slices > 32 && LaunchFew<Few<128, 3>>(p, processors)) return;
  // The time of a tile, measured, times how many come one after the other.
  const auto cost = [&](int rows, int columns, double time) {
    const int64_t tiles = int64_t{2} * CeilDiv(p.rows, rows) * CeilDiv(p.columns, 2 * columns);
    return static_cast<double>((tiles - 1) / processors + 1) * time;
  };
  const double large = cost(256, 128, 47), small = cost(128, 128, 25), wide = cost(128, 176, 36);
  if (large <= small && large <= wide) {
    LaunchWide<Wide<2, 128, 3>>(p, processors);
  } else if (small <= wide) {
    LaunchWide<Wide<1, 128, 5>>(p, processors);
  } else {
    LaunchWide<Wide<1, 176, 4>>(p, processors);
  }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor a_scales, torch::Tensor b,
                      torch::Tensor b_scales) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1),
              "a and b must be matrices with as many columns");
  TORCH_CHECK(a.scalar_type() == torch::kFloat8_e4m3fn && b.scalar_type() == torch::kFloat8_e4m3fn,
              "a and b must be float8_e4m3fn");
  TORCH_CHECK(
      a_scales.scalar_type() == torch::kFloat32 && b_scales.scalar_type() == torch::kFloat32,
      "scales must be float32");
  TORCH_CHECK(a.size(0) <= INT32_MAX - 1024 && b.size(0) <= INT32_MAX - 1024 &&
                  a.size(1) <= INT32_MAX - 1024,
              "the matrices are too large");
  const int slices = CeilDiv(a.size(1), kSlice);
  TORCH_CHECK(a_scales.dim() == 2 && a_scales.size(0) == a.size(0) && a_scales.size(1) == slices,
              "a_scales must have a scale for each row and 128 columns");
  TORCH_CHECK(b_scales.dim() == 2 && b_scales.size(0) == CeilDiv(b.size(0), kSlice) &&
                  b_scales.size(1) == slices,
              "b_scales must have a scale for each 128 rows and 128 columns");
  a = a.contiguous();
  b = b.contiguous();
  a_scales = a_scales.contiguous();
  b_scales = b_scales.contiguous();
  auto y = torch::empty({a.size(0), b.size(0)}, a.options().dtype(torch::kBFloat16));
  if (y.numel() == 0) return y;
  if (slices == 0) return y.zero_();
  Launch({static_cast<const __nv_fp8_e4m3*>(a.data_ptr()),
          static_cast<const __nv_fp8_e4m3*>(b.data_ptr()), a_scales.data_ptr<float>(),
          b_scales.data_ptr<float>(), reinterpret_cast<__nv_bfloat16*>(y.data_ptr()),
          static_cast<int>(a.size(0)), static_cast<int>(b.size(0)), static_cast<int>(a.size(1)),
          slices});
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Product, block scales"); }
