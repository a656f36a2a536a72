// Attention with tensor cores, without a mask.
//
// On Hopper, in 16 bits with heads of at most 256: a block of each SM takes tiles of queries one
// after the other. One thread loads tiles by TMA. Two or three warpgroups keep scores of 64 queries
// each to a tile of keys in registers (wgmma), turn them into weights there (online softmax) and
// multiply them with the values. They take turns: one requests products while the others compute
// weights. With heads of at most 128, tiles of queries follow without a pause: the first scores of
// the next are requested with the last product of this one. TMA fills what lies outside of a tensor
// with zeros, so a head may be smaller than its tile, and only scores of keys past the last have to
// be hidden. These are in the tile with which all queries begin.
//
// Weights refer to a maximum that is moved only where scores have grown by more than a factor of
// 2^kSlack since: sums and weights stay in range, and the rescaling of sums is left out mostly.
//
// Other GPUs take a plain kernel with mma.sync, and float32 and other sizes one without tensor
// cores.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <type_traits>

constexpr float kSlack = 8;  // in powers of two

struct Shape {
  int batch, heads, kv_heads, queries, keys, size;

  __host__ __device__ int KvHead(int head) const { return head / (heads / kv_heads); }
};

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

template <typename T>
__device__ uint32_t Pack(float low, float high) {
  if constexpr (std::is_same_v<T, at::Half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

__device__ float PowerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ float QuadSum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// --- Any type and size ---------------------------------------------------------------------------

// A tensor of (batch, heads, rows, elements); strides are in elements.
template <typename T>
struct View {
  T* data;
  int64_t batch, head, row, element;

  explicit View(const torch::Tensor& x)
      : data(x.data_ptr<std::remove_const_t<T>>()),
        batch(x.stride(0)),
        head(x.stride(1)),
        row(x.stride(2)),
        element(x.stride(3)) {}

  __device__ T* Row(int b, int h, int r) const { return data + b * batch + h * head + r * row; }
  __device__ T& At(int b, int h, int r, int e) const { return Row(b, h, r)[e * element]; }
};

// A block takes kRows queries of a head and kColumns of their results. It makes the scores to a
// tile of keys, kDepth elements at a time, then their weights, then the sums, kSome values at a
// time. A thread has four rows and every 16th key or column.
struct AnyTile {
  static constexpr int kThreads = 256, kRows = 64, kKeys = 64, kDepth = 32, kColumns = 128,
                       kSome = 16;
};

// Of the 16 threads that share rows.
template <typename Combine>
__device__ float OverRow(float x, Combine combine) {
  for (int lane = 8; lane > 0; lane /= 2) x = combine(x, __shfl_xor_sync(~0u, x, lane));
  return x;
}

template <typename T>
__global__ void __launch_bounds__(AnyTile::kThreads)
    AttendAny(View<const T> query, View<const T> key, View<const T> value, View<T> y, Shape shape,
              float scale, int tiles, int parts) {
  constexpr int kThreads = AnyTile::kThreads, kRows = AnyTile::kRows, kKeys = AnyTile::kKeys,
                kDepth = AnyTile::kDepth, kColumns = AnyTile::kColumns, kSome = AnyTile::kSome;
  __shared__ float q[kDepth][kRows + 1], k[kDepth][kKeys + 1];
  __shared__ float w[kRows][kKeys + 1], v[kSome][kColumns];
  const int first_column = static_cast<int>(blockIdx.x) % parts * kColumns;
  const int first_query = static_cast<int>(blockIdx.x) / parts % tiles * kRows;
  const int any_head = static_cast<int>(blockIdx.x) / parts / tiles;
  const int batch = any_head / shape.heads, head = any_head % shape.heads;
  const int kv_head = shape.KvHead(head);
  const int rows = threadIdx.x / 16 * 4, across = threadIdx.x % 16;
  float sums[4][kColumns / 16] = {}, total[4] = {}, largest[4];
  for (float& x : largest) x = -INFINITY;

  for (int first = 0; first < shape.keys; first += kKeys) {
    float scores[4][kKeys / 16] = {};
    for (int depth = 0; depth < shape.size; depth += kDepth) {
      __syncthreads();
      for (int i = threadIdx.x; i < kRows * kDepth; i += kThreads) {
        const int row = i / kDepth, d = i % kDepth;
        const bool inside = depth + d < shape.size;
        q[d][row] = inside && first_query + row < shape.queries
                        ? static_cast<float>(query.At(batch, head, first_query + row, depth + d))
                        : 0;
        k[d][row] = inside && first + row < shape.keys
                        ? static_cast<float>(key.At(batch, kv_head, first + row, depth + d))
                        : 0;
      }
      __syncthreads();
#pragma unroll 8
      for (int d = 0; d < kDepth; ++d) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
          for (int j = 0; j < kKeys / 16; ++j)
            scores[r][j] += q[d][rows + r] * k[d][across + 16 * j];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float most = -INFINITY, sum = 0;
#pragma unroll
      for (int j = 0; j < kKeys / 16; ++j) {
        const bool exists = first + across + 16 * j < shape.keys;
        scores[r][j] = exists ? scores[r][j] * scale : -INFINITY;
        most = fmaxf(most, scores[r][j]);
      }
      most = fmaxf(largest[r], OverRow(most, [](float a, float b) { return fmaxf(a, b); }));
      // Until a score is finite, weights are zero: any finite number serves to compute them.
      const float reference = most == -INFINITY ? 0 : most;
      const float rescale = exp2f(largest[r] - reference);
      largest[r] = most;
#pragma unroll
      for (int j = 0; j < kKeys / 16; ++j) {
        const float weight = exp2f(scores[r][j] - reference);
        w[rows + r][across + 16 * j] = weight;
        sum += weight;
      }
      total[r] = total[r] * rescale + OverRow(sum, [](float a, float b) { return a + b; });
#pragma unroll
      for (float& x : sums[r]) x *= rescale;
    }
    for (int some = 0; some < min(kKeys, shape.keys - first); some += kSome) {
      __syncthreads();
      for (int i = threadIdx.x; i < kSome * kColumns; i += kThreads) {
        const int row = first + some + i / kColumns, column = first_column + i % kColumns;
        v[i / kColumns][i % kColumns] =
            row < shape.keys && column < shape.size
                ? static_cast<float>(value.At(batch, kv_head, row, column))
                : 0;
      }
      __syncthreads();
#pragma unroll 4
      for (int i = 0; i < kSome; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float weight = w[rows + r][some + i];
#pragma unroll
          for (int j = 0; j < kColumns / 16; ++j) sums[r][j] += weight * v[i][across + 16 * j];
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if (first_query + rows + r >= shape.queries) continue;
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j) {
      const int column = first_column + across + 16 * j;
      if (column < shape.size) {
        y.At(batch, head, first_query + rows + r, column) = static_cast<T>(sums[r][j] / total[r]);
      }
    }
  }
}

// --- 16 bits on other GPUs: mma.sync -------------------------------------------------------------

__device__ void LoadMatrices(uint32_t (&r)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(from))
               : "memory");
}

__device__ void LoadTransposed(uint32_t (&r)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(from))
               : "memory");
}

template <typename T>
__device__ void Multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, at::Half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// A block takes kRows queries of a head, 16 a warp, and goes through tiles of kRows keys.
template <int kSize_>
struct MmaTile {
  static constexpr int kSize = kSize_, kThreads = 128, kRows = 64;
  static constexpr int kPitch = kSize + 8;  // rows' chunks of 16 bytes lie in different banks
  static constexpr int kElements = kRows * kPitch, kBytes = 3 * 2 * kElements;

  // Rows to shared memory, zeros for what there is not.
  template <typename T>
  static __device__ void Load(T* to, const T* from, int64_t pitch, int rows, int size) {
    for (int i = threadIdx.x; i < kRows * kSize / 8; i += kThreads) {
      const int row = i / (kSize / 8), column = i % (kSize / 8) * 8;
      uint4 chunk{0, 0, 0, 0};
      if (row < rows && column < size) {
        chunk = *reinterpret_cast<const uint4*>(from + row * pitch + column);
      }
      *reinterpret_cast<uint4*>(to + row * kPitch + column) = chunk;
    }
  }
};

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    AttendMma(View<const T> query, View<const T> key, View<const T> value, View<T> y, Shape shape,
              float scale, int tiles) {
  constexpr int kSize = Tile::kSize, kRows = Tile::kRows, kPitch = Tile::kPitch;
  extern __shared__ uint4 tiles_of_block[];
  T* const q = reinterpret_cast<T*>(tiles_of_block);
  T *const k = q + Tile::kElements, *const v = k + Tile::kElements;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int any_head = static_cast<int>(blockIdx.x) / tiles;
  const int first_query = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int batch = any_head / shape.heads, head = any_head % shape.heads;
  const int kv_head = shape.KvHead(head), keys = shape.keys;
  Tile::Load(q, query.Row(batch, head, first_query), query.row, shape.queries - first_query,
             shape.size);
  float o[kSize / 8][4] = {}, total[2] = {0, 0}, largest[2] = {-FLT_MAX, -FLT_MAX};
  for (int first = 0; first < keys; first += kRows) {
    __syncthreads();
    Tile::Load(k, key.Row(batch, kv_head, first), key.row, keys - first, shape.size);
    Tile::Load(v, value.Row(batch, kv_head, first), value.row, keys - first, shape.size);
    __syncthreads();
    float s[kRows / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kSize / 16; ++d) {
      uint32_t a[4];
      LoadMatrices(a, q + (16 * warp + lane % 16) * kPitch + 16 * d + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        uint32_t b[4];
        LoadMatrices(b,
                     k + (16 * n + lane / 16 * 8 + lane % 8) * kPitch + 16 * d + lane / 8 % 2 * 8);
        Multiply<T>(s[2 * n], a, b[0], b[1]);
        Multiply<T>(s[2 * n + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int last = keys - 1;
      float most = -INFINITY;
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          const bool counts = first + 8 * n + lane % 4 * 2 + i % 2 <= last;
          s[n][i] = counts ? s[n][i] * scale : -INFINITY;
          most = fmaxf(most, s[n][i]);
        }
      }
      most = fmaxf(largest[r], QuadMax(most));
      const float rescale = PowerOfTwo(largest[r] - most);
      largest[r] = most;
      total[r] *= rescale;
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          s[n][i] = PowerOfTwo(s[n][i] - most);
          total[r] += s[n][i];
        }
      }
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
        o[n][2 * r] *= rescale;
        o[n][2 * r + 1] *= rescale;
      }
    }
#pragma unroll
    for (int d = 0; d < kRows / 16; ++d) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &s[2 * d + i / 2][i % 2 * 2];
        a[i] = Pack<T>(pair[0], pair[1]);
      }
#pragma unroll
      for (int n = 0; n < kSize / 16; ++n) {
        uint32_t b[4];
        LoadTransposed(b, v + (16 * d + lane % 16) * kPitch + 16 * n + lane / 16 * 8);
        Multiply<T>(o[2 * n], a, b[0], b[1]);
        Multiply<T>(o[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = 1 / QuadSum(total[r]);
    const int row = first_query + 16 * warp + 8 * r + lane / 4;
    if (row >= shape.queries) continue;
    T* const to = y.Row(batch, head, row) + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
      if (8 * n >= shape.size) continue;
      *reinterpret_cast<uint32_t*>(to + 8 * n) =
          Pack<T>(o[n][2 * r] * factor, o[n][2 * r + 1] * factor);
    }
  }
}

// --- Hopper: TMA and wgmma -----------------------------------------------------------------------

// A block has a warpgroup that loads and kGroups that compute, 64 queries each. Keys and values
// come in tiles of kKeys, kStages ahead, each in chunks of 64 elements a row (128 bytes, swizzled).
template <int kSize_, int kGroups_, int kKeys_, int kStages_>
struct Tile {
  static constexpr int kSize = kSize_, kGroups = kGroups_, kKeys = kKeys_, kStages = kStages_;
  static constexpr int kChunk = 64, kChunks = kSize / kChunk, kQueries = 64 * kGroups;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kRegisters = kGroups == 2 ? 240 : 160,
                       kLoaderRegisters = kGroups == 2 ? 24 : 32;
  static_assert(kGroups == 2 || kGroups == 3);
  static constexpr int kQueryStages = kSize <= 128 ? 2 : 1;  // tiles of queries loaded ahead

  struct Shared {
    alignas(1024) uint16_t q[kQueryStages][kQueries * kSize];
    alignas(1024) uint16_t k[kStages][kKeys * kSize], v[kStages][kKeys * kSize];
    uint64_t q_full[kQueryStages], q_empty[kQueryStages], k_full[kStages], v_full[kStages],
        k_empty[kStages], v_empty[kStages];
  };
  static constexpr int kBytes = sizeof(Shared) + 1024;
  static_assert(kBytes <= 227 * 1024);
};

struct Maps {
  CUtensorMap q, k, v;
};

// What the Hopper kernel does: `works` tiles of queries, `tiles` of each head.
struct Plan : Shape {
  int works, tiles;
  float scale;  // of scores, for powers of two
};

// A tile of queries of one head.
struct Work {
  int batch, head, first;

  template <typename Tile>
  static __device__ Work Of(const Plan& plan, int index) {
    const int head = index / plan.tiles;
    return {head / plan.heads, head % plan.heads, index % plan.tiles * Tile::kQueries};
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
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
__device__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
__device__ void ExpectBytes(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ void LoadBox(void* to, const CUtensorMap& map, uint64_t* barrier, int element, int row,
                        int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4, %5}], [%6];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(element), "r"(row), "r"(head), "r"(batch), "r"(SharedAddress(barrier))
      : "memory");
}
__device__ void SyncThreads(int barrier, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void ArriveThreads(int barrier, int count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Rows of 128 bytes, swizzled; groups of eight rows are 1024 bytes apart. `step`: bytes between
// chunks, if the product's width runs along rows.
__device__ uint64_t MatrixAt(const void* p, uint32_t step = 16) {
  return (SharedAddress(p) & 0x3ffff) >> 4 | static_cast<uint64_t>(step >> 4) << 16 | 64ull << 32 |
         1ull << 62;
}

#define CUPEL_N8(d, i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define CUPEL_N32(d, i) CUPEL_N8(d, i), CUPEL_N8(d, i + 8), CUPEL_N8(d, i + 16), CUPEL_N8(d, i + 24)
#define CUPEL_R32                                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CUPEL_R40 CUPEL_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CUPEL_R64                                                                                \
  CUPEL_R32                                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// s = a b^T or s += a b^T; both have rows along the depth.
#define CUPEL_SCORES(n, type, registers, a, b, adds)                                         \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n \
  "k16.f32." type "." type " {" registers "}, " a ", " b ", adds, 1, 1, 0, 0;\n}"
// o = a b or o += a b; a is in registers, b has rows along the width.
#define CUPEL_WEIGH(n, type, registers, a, b, adds)                                          \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n \
  "k16.f32." type "." type " {" registers "}, " a ", " b ", adds, 1, 1, 1;\n}"

template <typename T>
__device__ void Scores(float (&s)[64], uint64_t a, uint64_t b, int adds) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    asm volatile(CUPEL_SCORES("128", "bf16", CUPEL_R64, "%64", "%65", "%66")
                 : CUPEL_N32(s, 0), CUPEL_N32(s, 32)
                 : "l"(a), "l"(b), "r"(adds));
  } else {
    asm volatile(CUPEL_SCORES("128", "f16", CUPEL_R64, "%64", "%65", "%66")
                 : CUPEL_N32(s, 0), CUPEL_N32(s, 32)
                 : "l"(a), "l"(b), "r"(adds));
  }
}
template <typename T>
__device__ void Scores(float (&s)[32], uint64_t a, uint64_t b, int adds) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    asm volatile(CUPEL_SCORES("64", "bf16", CUPEL_R32, "%32", "%33", "%34")
                 : CUPEL_N32(s, 0)
                 : "l"(a), "l"(b), "r"(adds));
  } else {
    asm volatile(CUPEL_SCORES("64", "f16", CUPEL_R32, "%32", "%33", "%34")
                 : CUPEL_N32(s, 0)
                 : "l"(a), "l"(b), "r"(adds));
  }
}
template <typename T>
__device__ void Scores(float (&s)[40], uint64_t a, uint64_t b, int adds) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    asm volatile(CUPEL_SCORES("80", "bf16", CUPEL_R40, "%40", "%41", "%42")
                 : CUPEL_N32(s, 0), CUPEL_N8(s, 32)
                 : "l"(a), "l"(b), "r"(adds));
  } else {
    asm volatile(CUPEL_SCORES("80", "f16", CUPEL_R40, "%40", "%41", "%42")
                 : CUPEL_N32(s, 0), CUPEL_N8(s, 32)
                 : "l"(a), "l"(b), "r"(adds));
  }
}
template <typename T>
__device__ void Weigh(float (&o)[64], const uint32_t* a, uint64_t b, int adds) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    asm volatile(CUPEL_WEIGH("128", "bf16", CUPEL_R64, "{%64, %65, %66, %67}", "%68", "%69")
                 : CUPEL_N32(o, 0), CUPEL_N32(o, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  } else {
    asm volatile(CUPEL_WEIGH("128", "f16", CUPEL_R64, "{%64, %65, %66, %67}", "%68", "%69")
                 : CUPEL_N32(o, 0), CUPEL_N32(o, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  }
}
template <typename T>
__device__ void Weigh(float (&o)[32], const uint32_t* a, uint64_t b, int adds) {
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    asm volatile(CUPEL_WEIGH("64", "bf16", CUPEL_R32, "{%32, %33, %34, %35}", "%36", "%37")
                 : CUPEL_N32(o, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  } else {
    asm volatile(CUPEL_WEIGH("64", "f16", CUPEL_R32, "{%32, %33, %34, %35}", "%36", "%37")
                 : CUPEL_N32(o, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  }
}
__device__ void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler moves no access to these registers across this place.
template <int kCount>
__device__ void Pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
__device__ void Pin(uint32_t (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// The loader: one thread.
template <typename Tile>
__device__ void LoadTiles(typename Tile::Shared& shared, const Maps& maps, const Plan& plan) {
  constexpr int kTileBytes = Tile::kKeys * Tile::kSize * 2;
  const int last = (plan.keys - 1) / Tile::kKeys;
  int loaded = 0;  // tiles of keys
  int done = 0;    // tiles of queries
  for (int index = blockIdx.x; index < plan.works; index += gridDim.x, ++done) {
    const Work work = Work::Of<Tile>(plan, index);
    const int kv_head = plan.KvHead(work.head);
    const int q_stage = done % Tile::kQueryStages;
    WaitFor(&shared.q_empty[q_stage], done / Tile::kQueryStages % 2 ^ 1);
    ExpectBytes(&shared.q_full[q_stage], Tile::kQueries * Tile::kSize * 2);
#pragma unroll
    for (int c = 0; c < Tile::kChunks; ++c) {
      LoadBox(&shared.q[q_stage][c * Tile::kQueries * Tile::kChunk], maps.q,
              &shared.q_full[q_stage], c * Tile::kChunk, work.first, work.head, work.batch);
    }
#pragma unroll 1
    for (int n = last; n >= 0; --n, ++loaded) {
      const int stage = loaded % Tile::kStages, parity = loaded / Tile::kStages % 2 ^ 1;
      WaitFor(&shared.k_empty[stage], parity);
      ExpectBytes(&shared.k_full[stage], kTileBytes);
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        LoadBox(&shared.k[stage][c * Tile::kKeys * Tile::kChunk], maps.k, &shared.k_full[stage],
                c * Tile::kChunk, n * Tile::kKeys, kv_head, work.batch);
      }
      WaitFor(&shared.v_empty[stage], parity);
      ExpectBytes(&shared.v_full[stage], kTileBytes);
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        LoadBox(&shared.v[stage][c * Tile::kKeys * Tile::kChunk], maps.v, &shared.v_full[stage],
                c * Tile::kChunk, n * Tile::kKeys, kv_head, work.batch);
      }
    }
  }
}

// The warpgroups that compute take turns at requesting products: while one requests, the others
// turn scores into weights.
struct Turns {
  int group;
  bool last;  // of the groups

  __device__ void Start() const {
    if (last) ArriveThreads(1, 256);
  }
  __device__ void Take() const { SyncThreads(1 + group, 256); }
  __device__ void Pass() const { ArriveThreads(last ? 1 : 2 + group, 256); }
  // Takes the turn that the last group has passed on.
  __device__ void End() const {
    if (group == 0) SyncThreads(1, 256);
  }
};

// Four lanes with four numbers each: lane i gets number i of each.
__device__ void TransposeQuad(uint32_t (&x)[4]) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const uint32_t got = __shfl_xor_sync(~0u, upper ? x[i] : x[i + step], step);
      (upper ? x[i] : x[i + step]) = got;
    }
  }
}

// Online softmax of the two rows that a thread has.
template <int kScores>
struct OnlineSoftmax {
  float reference[2] = {-FLT_MAX, -FLT_MAX}, sum[2] = {0, 0};

  // Turns scores into weights. True: sums must be multiplied by `rescale`.
  __device__ bool Weights(float (&s)[kScores], float scale, float (&rescale)[2]) {
    float most[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r] = fmaxf(s[2 * r], s[2 * r + 1]);
#pragma unroll
      for (int i = 4; i < kScores; i += 4) {
        most[r] = fmaxf(most[r], fmaxf(s[i + 2 * r], s[i + 2 * r + 1]));
      }
      most[r] *= scale;
    }
    const bool moves =
        __any_sync(~0u, !(most[0] <= reference[0] + kSlack) || !(most[1] <= reference[1] + kSlack));
    if (moves) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float highest = fmaxf(QuadMax(most[r]), reference[r]);
        rescale[r] = PowerOfTwo(reference[r] - highest);
        reference[r] = highest;
        sum[r] *= rescale[r];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float part[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < kScores; i += 4) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& value = s[i + 2 * r + j];
          value = PowerOfTwo(fmaf(value, scale, -reference[r]));
          part[j] += value;
        }
      }
      sum[r] += part[0] + part[1];
    }
    return moves;
  }
};

// A block of each SM takes tiles of queries in turns.
template <typename T, typename Tile>
__global__ __launch_bounds__(Tile::kThreads, 1) void Attend(const __grid_constant__ Maps maps,
                                                            const View<T> y, const Plan plan) {
  constexpr int kScores = Tile::kKeys / 2, kPart = Tile::kSize > 128 ? 128 : Tile::kSize,
                kParts = Tile::kSize / kPart, kStages = Tile::kStages;
  constexpr int kQueryChunk = Tile::kQueries * Tile::kChunk, kKeyChunk = Tile::kKeys * Tile::kChunk;
  extern __shared__ uint8_t dynamic[];
  auto& shared = *reinterpret_cast<typename Tile::Shared*>(
      (reinterpret_cast<uintptr_t>(dynamic) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kQueryStages; ++i) {
      InitBarrier(&shared.q_full[i], 1);
      InitBarrier(&shared.q_empty[i], 4 * Tile::kGroups);
    }
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(&shared.k_full[i], 1);
      InitBarrier(&shared.v_full[i], 1);
      InitBarrier(&shared.k_empty[i], 4 * Tile::kGroups);
      InitBarrier(&shared.v_empty[i], 4 * Tile::kGroups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Tile::kLoaderRegisters));
    if (threadIdx.x == 0) LoadTiles<Tile>(shared, maps, plan);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::kRegisters));
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0) - 1;
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = threadIdx.x % 32;
    const Turns turns{group, group == Tile::kGroups - 1};
    const auto release = [&](uint64_t* barrier) {
      if (lane == 0) Arrive(barrier);
    };
    float s[kScores], o[kParts][kPart / 2], rescale[2];
    uint32_t weights[kScores / 2];
    OnlineSoftmax<kScores> softmax;
    const int count = (plan.keys + Tile::kKeys - 1) / Tile::kKeys;  // tiles of keys
    int index = blockIdx.x;                                         // each block has at least one
    int done = 0;                                                   // tiles of queries
    // Requests scores of tile t of all that this block goes through.
    const auto score = [&](int t) {
      const int stage = t % kStages, q_stage = done % Tile::kQueryStages;
      const uint16_t* q = &shared.q[q_stage][group * 64 * Tile::kChunk];
      WaitFor(&shared.q_full[q_stage], done / Tile::kQueryStages % 2);
      WaitFor(&shared.k_full[stage], t / kStages % 2);
      FenceProducts();
#pragma unroll
      for (int d = 0; d < Tile::kSize / 16; ++d) {
        const int chunk = d / 4, inside = d % 4 * 16;
        Scores<T>(s, MatrixAt(q + chunk * kQueryChunk + inside),
                  MatrixAt(&shared.k[stage][chunk * kKeyChunk + inside]), d);
      }
      CommitProducts();
    };
    // Requests the product of the weights and the values of tile t; `adds`: to the sums so far.
    const auto weigh = [&](int t, bool adds) {
      const int stage = t % kStages;
      WaitFor(&shared.v_full[stage], t / kStages % 2);
      FenceProducts();
#pragma unroll
      for (int k = 0; k < Tile::kKeys / 16; ++k) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const int at = part * (kPart / Tile::kChunk) * kKeyChunk + k * 16 * Tile::kChunk;
          Weigh<T>(o[part], &weights[4 * k], MatrixAt(&shared.v[stage][at], kKeyChunk * 2),
                   adds || k > 0);
        }
      }
      CommitProducts();
    };
    const auto pack = [&] {
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) weights[i] = Pack<T>(s[2 * i], s[2 * i + 1]);
    };
    // Scores of the last tile, with which queries begin: keys that do not exist do not count.
    const auto mask = [&] {
      const int exist = plan.keys - (count - 1) * Tile::kKeys;
      if (exist == Tile::kKeys) return;
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= exist) s[i] = -INFINITY;
      }
    };
    // Stores the results of a tile of queries. `sum`: of the weights of the thread's two rows.
    const auto finish = [&](const float(&sum)[2], int finished) {
      const Work work = Work::Of<Tile>(plan, finished);
      const int first = work.first + 64 * group + 16 * warp + lane / 4;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float factor = 1 / QuadSum(sum[r]);
        T* const to = y.Row(work.batch, work.head, first + 8 * r) + lane % 4 * 8;
        const int columns = first + 8 * r < plan.queries ? plan.size - lane % 4 * 8 : 0;
#pragma unroll
        for (int i = 0; i < Tile::kSize / 32; ++i) {
          uint32_t x[4];  // the thread's pairs in four groups of 8 columns
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float* pair = &o[i * 32 / kPart][i * 32 % kPart / 2 + 4 * j + 2 * r];
            x[j] = Pack<T>(pair[0] * factor, pair[1] * factor);
          }
          TransposeQuad(x);  // now: all pairs of one group
          if (i * 32 < columns) *reinterpret_cast<uint4*>(to + i * 32) = {x[0], x[1], x[2], x[3]};
        }
      }
    };

    turns.Start();
    int t = 0;
    while (index < plan.works) {
      turns.Take();
      score(t);
      turns.Pass();
      WaitForProducts<0>();
      Pin(s);
      release(&shared.k_empty[t % kStages]);
      if (count == 1) release(&shared.q_empty[done % Tile::kQueryStages]);
      softmax = OnlineSoftmax<kScores>();
      mask();
      softmax.Weights(s, plan.scale, rescale);
      pack();
      // Weights of tile t wait for their product. It is number n of its tile of queries.
      int n = 0;
      for (;; ++t) {
        const bool ends = n + 1 == count, adds = n > 0;
        if (ends) {
          index += gridDim.x;
          ++done;
          // Without a second place for queries, the next are not there yet.
          if (index >= plan.works || Tile::kQueryStages == 1) break;
        }
        n = ends ? 0 : n + 1;
        turns.Take();
        score(t + 1);
        weigh(t, adds);
        turns.Pass();
        WaitForProducts<1>();
        Pin(s);
        release(&shared.k_empty[(t + 1) % kStages]);
        if (n + 1 == count) release(&shared.q_empty[done % Tile::kQueryStages]);
        const float sum[2] = {softmax.sum[0], softmax.sum[1]};
        if (ends) {
          softmax = OnlineSoftmax<kScores>();
          mask();
        }
        const bool moves = softmax.Weights(s, plan.scale, rescale);
        Pin(softmax.sum);  // or they would be added up after the wait
        WaitForProducts<0>();
#pragma unroll
        for (int part = 0; part < kParts; ++part) Pin(o[part]);
        Pin(weights);
        release(&shared.v_empty[t % kStages]);
        if (ends) {
          finish(sum, index - gridDim.x);
        } else if (moves) {
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
#pragma unroll
            for (int i = 0; i < kPart / 2; ++i) o[part][i] *= rescale[i / 2 % 2];
          }
        }
        pack();
      }
      weigh(t, n > 0);
      WaitForProducts<0>();
#pragma unroll
      for (int part = 0; part < kParts; ++part) Pin(o[part]);
      release(&shared.v_empty[t % kStages]);
      finish(softmax.sum, index - gridDim.x);
      ++t;
    }
    turns.End();
  }
}
#else
template <typename T, typename Tile>
__global__ void Attend(const __grid_constant__ Maps, const View<T>, const Plan) {
  __trap();  // code for Hopper without its own instructions (sm_90 instead of sm_90a)
}
#endif

// Loaded in boxes of `rows` rows and 64 elements.
template <typename T>
static CUtensorMap MapOf(const torch::Tensor& x, int rows) {
  CUtensorMap map;
  cuuint64_t dims[4], strides[3];
  for (int i = 0; i < 4; ++i) dims[i] = static_cast<cuuint64_t>(x.size(3 - i));
  for (int i = 0; i < 3; ++i) {
    strides[i] = x.size(2 - i) > 1 ? static_cast<cuuint64_t>(x.stride(2 - i)) * 2 : 16;
  }
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(rows), 1, 1}, steps[] = {1, 1, 1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map,
                             std::is_same_v<T, at::BFloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                             4, x.data_ptr<T>(), dims, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "a tensor map was refused");
  return map;
}

// Whether tensor maps can describe a tensor.
static bool IsMappable(const torch::Tensor& x) {
  bool mappable = x.stride(3) == 1 && reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t stride = x.stride(i);
    mappable = mappable &&
               (x.size(i) == 1 || (stride > 0 && stride % 8 == 0 && stride < int64_t{1} << 38));
  }
  return mappable;
}

static torch::Tensor Mappable(const torch::Tensor& x) {
  return IsMappable(x) ? x : x.clone(torch::MemoryFormat::Contiguous);
}

// What all launches take.
template <typename T>
struct Call {
  const torch::Tensor &query, &key, &value, &y;
  Shape shape;
  float scale;  // of scores, for powers of two

  template <typename Tile>
  void LaunchWide() const {
    const int64_t tiles = (int64_t{shape.queries} + Tile::kQueries - 1) / Tile::kQueries;
    const int64_t works = int64_t{shape.batch} * shape.heads * tiles;
    TORCH_CHECK(works < int64_t{1} << 30, "too many queries");
    // Before the tensor maps: it makes sure that this thread has a context.
    C10_CUDA_CHECK(cudaFuncSetAttribute(Attend<T, Tile>,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kBytes));
    const Maps maps{MapOf<T>(query, Tile::kQueries), MapOf<T>(key, Tile::kKeys),
                    MapOf<T>(value, Tile::kKeys)};
    const Plan plan{shape, static_cast<int>(works), static_cast<int>(tiles), scale};
    const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    Attend<T, Tile><<<static_cast<unsigned>(std::min(sms, works)), Tile::kThreads, Tile::kBytes,
                      at::cuda::getCurrentCUDAStream()>>>(maps, View<T>(y), plan);
    C10_CUDA_CHECK(cudaGetLastError());
  }

  template <typename Tile>
  void LaunchMma() const {
    const int64_t tiles = (int64_t{shape.queries} + Tile::kRows - 1) / Tile::kRows;
    const int64_t blocks = int64_t{shape.batch} * shape.heads * tiles;
    TORCH_CHECK(blocks < int64_t{1} << 31, "too many queries");
    C10_CUDA_CHECK(cudaFuncSetAttribute(AttendMma<T, Tile>,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kBytes));
    AttendMma<T, Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, Tile::kBytes,
                         at::cuda::getCurrentCUDAStream()>>>(
        View<const T>(query), View<const T>(key), View<const T>(value), View<T>(y), shape, scale,
        static_cast<int>(tiles));
    C10_CUDA_CHECK(cudaGetLastError());
  }

  void LaunchAny() const {
    const int64_t tiles = (int64_t{shape.queries} + AnyTile::kRows - 1) / AnyTile::kRows;
    const int64_t parts = (int64_t{shape.size} + AnyTile::kColumns - 1) / AnyTile::kColumns;
    const int64_t blocks = int64_t{shape.batch} * shape.heads * tiles * parts;
    TORCH_CHECK(blocks < int64_t{1} << 31, "too many queries");
    AttendAny<T>
        <<<static_cast<unsigned>(blocks), AnyTile::kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
            View<const T>(query), View<const T>(key), View<const T>(value), View<T>(y), shape,
            scale, static_cast<int>(tiles), static_cast<int>(parts));
    C10_CUDA_CHECK(cudaGetLastError());
  }
};

template <typename T>
static torch::Tensor Dispatch(torch::Tensor query, torch::Tensor key, torch::Tensor value) {
  const auto length = [](const torch::Tensor& x, int dim) {
    TORCH_CHECK(x.size(dim) < int64_t{1} << 30, "a dimension is too large");
    return static_cast<int>(x.size(dim));
  };
  const Shape shape{length(query, 0), length(query, 1), length(key, 1),
                    length(query, 2), length(key, 2),   length(query, 3)};
  const float scale = static_cast<float>(1.4426950408889634 / std::sqrt(double{1} * shape.size));
  if constexpr (!std::is_same_v<T, float>) {
    if (shape.size <= 256 && shape.size % 8 == 0) {
      query = Mappable(query);
      key = Mappable(key);
      value = Mappable(value);
      auto y = torch::empty_like(query);
      const Call<T> call{query, key, value, y, shape, scale};
      if (at::cuda::getCurrentDeviceProperties()->major == 9) {
        if (shape.size <= 64 && shape.keys <= 80) {
          call.template LaunchWide<Tile<64, 3, 80, 3>>();
        } else if (shape.size <= 64) {
          call.template LaunchWide<Tile<64, 3, 128, 3>>();
        } else if (shape.size <= 128 && shape.keys <= 80) {
          call.template LaunchWide<Tile<128, 2, 80, 3>>();
        } else if (shape.size <= 128) {
          call.template LaunchWide<Tile<128, 2, 128, 2>>();
        } else {
          call.template LaunchWide<Tile<256, 2, 64, 2>>();
        }
      } else if (shape.size <= 64) {
        call.template LaunchMma<MmaTile<64>>();
      } else if (shape.size <= 128) {
        call.template LaunchMma<MmaTile<128>>();
      } else {
        call.template LaunchMma<MmaTile<256>>();
      }
      return y;
    }
  }
  auto y = torch::empty_like(query);
  Call<T>{query, key, value, y, shape, scale}.LaunchAny();
  return y;
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value) {
  TORCH_CHECK(
      query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes(),
      "query must be (batch, heads, queries, size), key and value (batch, heads, keys, size)");
  TORCH_CHECK(query.size(0) == key.size(0) && query.size(3) == key.size(3),
              "query and key must have as many members and elements");
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
              "the heads of query must be a multiple of those of key");
  TORCH_CHECK(query.scalar_type() == key.scalar_type() && key.scalar_type() == value.scalar_type(),
              "query, key and value must be of one type");
  if (query.numel() == 0 || key.numel() == 0) {
    auto y = torch::empty(query.sizes(), query.options());
    if (y.numel() > 0) {
      C10_CUDA_CHECK(
          cudaMemsetAsync(y.data_ptr(), 0, y.nbytes(), at::cuda::getCurrentCUDAStream()));
    }
    return y;
  }
  switch (query.scalar_type()) {
    case torch::kFloat32:
      return Dispatch<float>(query, key, value);
    case torch::kFloat16:
      return Dispatch<at::Half>(query, key, value);
    case torch::kBFloat16:
      return Dispatch<at::BFloat16>(query, key, value);
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Attention"); }
