// Causal attention with tensor cores.
//
// On Hopper, in 16 bits with heads of 64, 128 or 256: a block of each SM takes tiles of queries,
// the longest first. One warpgroup loads tiles by TMA; the others keep scores of 64 queries each to
// a tile of keys in registers (wgmma), turn them into weights there (online softmax) and multiply
// them with the values. They take turns: one requests products while the others compute weights.
// The first scores of the next tile of queries are requested before the results of the last are
// stored.
//
// Otherwise (mma.sync): a block takes a tile of queries and walks the keys up to its last query,
// tile by tile, which cp.async brings while the tile before is worked on. In 16 bits a tile's rows
// are queries of all heads that share keys, position after position: four times as many heads reach
// over a quarter of the positions, and fewer products are masked. Where heads are large, and tiles
// of queries few, groups of a block's warps take turns at the tiles of keys, and their sums are
// joined in the end.
//
// Weights refer to a maximum that is moved only where scores have grown by more than a factor of
// 2^kSlack since: sums and weights stay in range, and the rescaling of sums is left out mostly.
//
// float32 is split into two tf32 numbers each, three products for one, and the products of each
// tile are added to the sums outside of the tensor cores, which round toward zero. Heads that are
// too large or no multiple of 16 bytes take one block for each query.
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

constexpr int kFloatKeys = 64;  // tune: kFloatKeys in 32, 64  (of a tile)
constexpr float kSlack = 8;     // in powers of two
constexpr int kAhead = 2;       // tune: kAhead in 1, 2, 3  (matrices in flight)
constexpr int kAnyThreads = 128;
constexpr int64_t kCacheBytes = 32 << 20;                // of the L2 cache, for keys and values
constexpr int kCountedTurns = 6, kCountedTokens = 4096;  // where blocks take tiles as they finish

struct Shape {
  int heads, kv_heads, tokens, size;
};

// Of a block: which head, of those that the grid is for, and which tile of queries, the longest
// first. Where all blocks run at once, two an SM, the second layer (from `layer` on) goes the other
// way: long beside short.
struct Place {
  int64_t head;
  int tile;

  __device__ Place(int tiles, unsigned layer) {
    const unsigned heads = gridDim.x / tiles;
    const unsigned block = blockIdx.x < layer ? blockIdx.x : gridDim.x - 1 - (blockIdx.x - layer);
    tile = tiles - 1 - static_cast<int>(block / heads);
    head = block % heads;
  }
};

__device__ int64_t KvHead(const Shape& shape, int64_t query_head) {
  return query_head / shape.heads * shape.kv_heads +
         query_head % shape.heads / (shape.heads / shape.kv_heads);
}

// A row of queries that `sharing` heads have in turns, from a row on by steps.
struct Row {
  int position, head;

  __device__ Row(int row, int sharing) : position(row / sharing), head(row % sharing) {}

  __device__ void Advance(int position_step, int head_step, int sharing) {
    position += position_step;
    head += head_step;
    if (head >= sharing) {
      head -= sharing;
      ++position;
    }
  }
};

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void CopyAsync(uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}

__device__ void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ void Await() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ void LoadTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
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

// Scores of kM x 16 queries to a tile of keys, as tensor cores leave them: element i of
// scores[m][n] is of query 16 m + lane / 4 + i / 2 * 8, key 8 n + lane % 4 * 2 + i % 2.
template <int kM>
struct Softmax {
  float reference[2 * kM];  // times the scale
  float totals[2 * kM];     // of this thread's keys

  __device__ Softmax() {
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      reference[r] = -INFINITY;
      totals[r] = 0;
    }
  }

  // Looks at the scores of a tile. True if sums so far are to be multiplied by `rescale`.
  template <int kN>
  __device__ bool Refer(const float (&scores)[kM][kN][4], float scale, float (&rescale)[2 * kM]) {
    float largest[2 * kM];  // of this thread's scores
    bool grown = false;
#pragma unroll
    for (int r = 0; r < 2 * kM; ++r) {
      float x = -INFINITY;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        x = fmaxf(x, fmaxf(scores[r / 2][n][r % 2 * 2], scores[r / 2][n][r % 2 * 2 + 1]));
      }
      largest[r] = x * scale;
      grown = grown || largest[r] > reference[r] + kSlack;
    }
    grown = __any_sync(0xffffffff, grown);
    if (grown) {
#pragma unroll
      for (int r = 0; r < 2 * kM; ++r) {
        const float next = fmaxf(reference[r], QuadMax(largest[r]));
        rescale[r] = PowerOfTwo(reference[r] - next);
        reference[r] = next;
        totals[r] *= rescale[r];
      }
    }
    return grown;
  }

  // A score of query 8 r + lane / 4 to its weight.
  __device__ float Weight(float score, float scale, int r) {
    const float weight = PowerOfTwo(score * scale - reference[r]);
    totals[r] += weight;
    return weight;
  }
};

// Hides keys from `first_key` on that come after their query.
template <int kM, int kN>
__device__ void Mask(float (&scores)[kM][kN][4], int first_row, int sharing, int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < 2 * kM; ++r) {
    const int last = (first_row + r * 8 + lane / 4) / sharing - first_key - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n * 8 + i > last) scores[r / 2][n][r % 2 * 2 + i] = -INFINITY;
      }
    }
  }
}

// 16-bit types. kSize is the head's size or more; a warp takes kM x 16 queries; kRowWarps of them
// are a group, which walks the tiles of kKeys keys; groups take turns at the tiles.
template <int kSize_, int kM_, int kRowWarps_, int kGroups_, int kKeys_, int kValueStages_>
struct Tile {
  static constexpr int kSize = kSize_, kM = kM_, kRowWarps = kRowWarps_, kGroups = kGroups_;
  static constexpr int kKeys = kKeys_, kValueStages = kValueStages_;
  static constexpr int kGroupThreads = 32 * kRowWarps;
  static constexpr int kThreads = kGroupThreads * kGroups;
  static constexpr int kQueries = 16 * kM * kRowWarps;
  static constexpr int kRowBytes = 2 * kSize;
  static constexpr int kRowChunks = kSize / 8;  // of 16 bytes
  static constexpr int kQueryBytes = kQueries * kRowBytes;
  static constexpr int kKeyBytes = kKeys * kRowBytes;
  static constexpr int kGroupBytes = (2 + kValueStages) * kKeyBytes;
  static constexpr int kBytes = kQueryBytes + kGroups * kGroupBytes;
  // A thread's sums, scores and queries, if these can stay in registers.
  static constexpr bool kHoldsQueries = kM * (kSize / 2 + kKeys / 2 + kSize / 4) <= 224;
  static constexpr int kJoinFloats = kM * (kSize / 2 + 4);  // of a thread
  static_assert((kGroups - 1) * kGroupThreads * kJoinFloats * 4 <= kGroups * kGroupBytes,
                "groups' sums must fit where keys were");
  static_assert(kKeys % (16 * kM) == 0,
                "a tile of keys that a warp needs has keys for all its queries");
};

// Rows of a matrix to shared memory, zeros for those at or after `rows`; chunks of a row change
// places by the row's number, so that eight rows' chunks at one place lie in different banks.
template <typename Tile, int kRows, int kThreads, typename T>
__device__ void Load(uint32_t to, const T* from, int first, int rows, int size, int thread) {
  constexpr int kStep = kThreads / Tile::kRowChunks;  // rows that all threads bring at once
  static_assert(kThreads % Tile::kRowChunks == 0 && kRows % kStep == 0, "whole steps");
  const int row = thread / Tile::kRowChunks;
  const int chunk = thread % Tile::kRowChunks;
  const int rows_left = chunk * 8 < size ? rows - first - row : 0;
  const T* source = from + static_cast<int64_t>(first + row) * size + chunk * 8;
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    const int lies = row + i * kStep;
    CopyAsync(to + lies * Tile::kRowBytes + ((chunk ^ (lies % 8)) << 4),
              source + static_cast<int64_t>(i * kStep) * size, i * kStep < rows_left);
  }
}

// The same of queries from `first` on, of `sharing` heads in turns.
template <typename Tile, typename T>
__device__ void LoadQueries(uint32_t to, const T* from, int first, int sharing,
                            const Shape& shape) {
  constexpr int kStep = Tile::kThreads / Tile::kRowChunks;
  static_assert(Tile::kThreads % Tile::kRowChunks == 0 && Tile::kQueries % kStep == 0);
  const int chunk = threadIdx.x % Tile::kRowChunks;
  const int position_step = kStep / sharing, head_step = kStep % sharing;
  int lies = threadIdx.x / Tile::kRowChunks;
  Row row(first + lies, sharing);
#pragma unroll 4
  for (int i = 0; i < Tile::kQueries / kStep; ++i, lies += kStep) {
    const bool exists = row.position < shape.tokens && chunk * 8 < shape.size;
    const int64_t at = static_cast<int64_t>(row.head) * shape.tokens + row.position;
    CopyAsync(to + lies * Tile::kRowBytes + ((chunk ^ (lies % 8)) << 4),
              from + (exists ? at * shape.size + chunk * 8 : 0), exists);
    row.Advance(position_step, head_step, sharing);
  }
}

template <int kBarrier, int kThreads>
__device__ void Barrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

// Of the warps of a group. (A barrier whose number is no constant would claim all sixteen.)
template <typename Tile>
__device__ void Synchronize(int group) {
  static_assert(Tile::kGroups <= 2, "one barrier for each group");
  if (Tile::kGroups == 1 || group == 0) {
    Barrier<1, Tile::kGroupThreads>();
  } else {
    Barrier<2, Tile::kGroupThreads>();
  }
}

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 2)
    Attend(const T* __restrict__ query, const T* __restrict__ key, const T* __restrict__ value,
           T* __restrict__ y, Shape shape, float scale, int tiles, unsigned layer) {
  constexpr int kSize = Tile::kSize, kM = Tile::kM, kKeys = Tile::kKeys;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int lane = threadIdx.x % 32;
  const int row_warp = threadIdx.x / 32 % Tile::kRowWarps;
  const int group = threadIdx.x / Tile::kGroupThreads;
  const int member = threadIdx.x % Tile::kGroupThreads;
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + Tile::kQueryBytes + group * Tile::kGroupBytes;
  const uint32_t values = keys + 2 * Tile::kKeyBytes;
  const Place place(tiles, layer);
  const int sharing = shape.heads / shape.kv_heads;
  const int64_t head_elements = static_cast<int64_t>(shape.tokens) * shape.size;
  query += place.head * sharing * head_elements;
  key += place.head * head_elements;
  value += place.head * head_elements;
  y += place.head * sharing * head_elements;
  const int block_row = place.tile * Tile::kQueries;
  const int first_row = block_row + row_warp * 16 * kM;
  const int first_query = first_row / sharing;
  const int last_query = (first_row + 16 * kM - 1) / sharing;
  const int key_tiles =
      min((block_row + Tile::kQueries - 1) / sharing, shape.tokens - 1) / kKeys + 1;

  const auto load = [&](uint32_t to, const T* from, int t) {
    if (t < key_tiles) {
      Load<Tile, kKeys, Tile::kGroupThreads>(to, from, t * kKeys, shape.tokens, shape.size, member);
    }
  };
  LoadQueries<Tile>(queries, query, block_row, sharing, shape);
  load(keys, key, group);
  if (Tile::kValueStages == 2) load(values, value, group);
  Commit();

  // Where lanes load matrices from: chunk c of a row lies at c ^ row % 8, so `^ (c << 4)` finds it.
  uint32_t my_queries =
      queries + (row_warp * 16 * kM + lane % 16) * Tile::kRowBytes + ((lane / 16 ^ lane % 8) << 4);
  const uint32_t my_keys =
      keys + (lane / 16 * 8 + lane % 8) * Tile::kRowBytes + ((lane / 8 % 2 ^ lane % 8) << 4);
  const uint32_t my_values = values + lane % 16 * Tile::kRowBytes + ((lane / 16 ^ lane % 8) << 4);
  const auto load_queries = [&](uint32_t(&a)[kM][4], int k) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      LoadMatrices(a[m], (my_queries ^ (k << 5)) + m * 16 * Tile::kRowBytes);
    }
  };
  uint32_t wanted[Tile::kHoldsQueries ? kSize / 16 : 2][kM][4];
  Await<0>();
  __syncthreads();
  if constexpr (Tile::kHoldsQueries) {
#pragma unroll
    for (int k = 0; k < kSize / 16; ++k) load_queries(wanted[k], k);
  }

  float sums[kM][kSize / 8][4] = {};
  Softmax<kM> softmax;
  int stage = 0;
  for (int t = group; t < key_tiles; t += Tile::kGroups, stage ^= 1) {
    Await<0>();
    Synchronize<Tile>(group);
    const int next = t + Tile::kGroups;
    if constexpr (Tile::kValueStages == 1) {
      load(values, value, t);
      Commit();
    } else {
      load(values + (stage ^ 1) * Tile::kKeyBytes, value, next);
    }
    load(keys + (stage ^ 1) * Tile::kKeyBytes, key, next);
    Commit();
    const int first_key = t * kKeys;
    const bool needed = first_key <= last_query;  // not after all of this warp's queries

    float scores[kM][kKeys / 8][4] = {};
    if (needed) {
      // Keys are asked for two products ahead, queries one step of the depth.
      const uint32_t tile = my_keys + stage * Tile::kKeyBytes;
      constexpr int kAcross = kKeys / 16;
      constexpr int kSteps = kSize / 16 * kAcross;
      asm volatile("" : "+r"(my_queries));  // or addresses would be kept, in registers not there
      const auto load_step = [&](uint32_t(&b)[4], int step) {
        LoadMatrices(b, (tile ^ (step / kAcross << 5)) + step % kAcross * 16 * Tile::kRowBytes);
      };
      uint32_t b[kAhead + 1][4];
      if constexpr (!Tile::kHoldsQueries) load_queries(wanted[0], 0);
#pragma unroll
      for (int step = 0; step < kAhead; ++step) load_step(b[step], step);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int k = step / kAcross, n = step % kAcross;
        if (step + kAhead < kSteps) {
          load_step(b[(step + kAhead) % (kAhead + 1)], step + kAhead);
        }
        if constexpr (!Tile::kHoldsQueries) {
          if (n == 0 && k + 1 < kSize / 16) load_queries(wanted[(k + 1) % 2], k + 1);
        }
        const auto& a = wanted[Tile::kHoldsQueries ? k : k % 2];
        const auto& keys_now = b[step % (kAhead + 1)];
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          Multiply<T>(scores[m][2 * n], a[m], keys_now[0], keys_now[1]);
          Multiply<T>(scores[m][2 * n + 1], a[m], keys_now[2], keys_now[3]);
        }
      }
      if (first_key + kKeys - 1 > first_query) Mask(scores, first_row, sharing, first_key);
      float rescale[2 * kM];
      if (softmax.Refer(scores, scale, rescale)) {
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[m][n][i] *= rescale[2 * m + i / 2];
          }
        }
      }
    }
    if constexpr (Tile::kValueStages == 1) {
      Await<1>();
      Synchronize<Tile>(group);
    }
    if (needed) {
      // The weights of 16 keys come into being while those before are multiplied with their values.
      const uint32_t tile = my_values + (Tile::kValueStages == 2 ? stage * Tile::kKeyBytes : 0);
      constexpr int kAcross = kSize / 16;
      constexpr int kSteps = kKeys / 16 * kAcross;
      constexpr int kEach = kM * 8 / kAcross > 1 ? kM * 8 / kAcross : 1;  // weights in a step
      const auto load_step = [&](uint32_t(&b)[4], int step) {
        LoadTransposed(b, (tile ^ (step % kAcross << 5)) + step / kAcross * 16 * Tile::kRowBytes);
      };
      // Number i of the weights of 16 keys, in the order in which they are packed.
      const auto weigh = [&](int k, int i) {
        float& score = scores[i / 8][2 * k + i / 4 % 2][i % 4];
        score = softmax.Weight(score, scale, i / 8 * 2 + i % 4 / 2);
      };
      uint32_t b[kAhead + 1][4];
#pragma unroll
      for (int step = 0; step < kAhead; ++step) load_step(b[step], step);
#pragma unroll
      for (int i = 0; i < kM * 8; ++i) weigh(0, i);
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        uint32_t a[kM][4];
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const auto& pair = scores[m][2 * k + i / 2];
            a[m][i] = Pack<T>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
          }
        }
#pragma unroll
        for (int n = 0; n < kAcross; ++n) {
          const int step = k * kAcross + n;
          if (step + kAhead < kSteps) {
            load_step(b[(step + kAhead) % (kAhead + 1)], step + kAhead);
          }
          const auto& values_now = b[step % (kAhead + 1)];
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            Multiply<T>(sums[m][2 * n], a[m], values_now[0], values_now[1]);
            Multiply<T>(sums[m][2 * n + 1], a[m], values_now[2], values_now[3]);
          }
#pragma unroll
          for (int i = n * kEach; i < (n + 1) * kEach; ++i) {
            if (k + 1 < kKeys / 16 && i < kM * 8) weigh(k + 1, i);
          }
        }
      }
    }
  }

  if constexpr (Tile::kGroups > 1) {
    // Groups but the first leave what they have where keys were; the first one takes it.
    __syncthreads();
    float* const joined = reinterpret_cast<float*>(shared + Tile::kQueryBytes) + member;
    constexpr int kStride = Tile::kGroupThreads;
    if (group > 0) {
      float* to = joined + (group - 1) * kStride * Tile::kJoinFloats;
#pragma unroll
      for (int r = 0; r < 2 * kM; ++r) {
        to[2 * r * kStride] = softmax.reference[r];
        to[(2 * r + 1) * kStride] = softmax.totals[r];
      }
      to += 4 * kM * kStride;
#pragma unroll
      for (int i = 0; i < kM * kSize / 2; ++i) {
        to[i * kStride] = sums[i / (kSize / 2)][i / 4 % (kSize / 8)][i % 4];
      }
    }
    __syncthreads();
    if (group > 0) return;
    for (int g = 1; g < Tile::kGroups; ++g) {
      const float* from = joined + (g - 1) * kStride * Tile::kJoinFloats;
      float ours[2 * kM], theirs[2 * kM];
#pragma unroll
      for (int r = 0; r < 2 * kM; ++r) {
        const float reference = from[2 * r * kStride];
        const float next = fmaxf(softmax.reference[r], reference);
        ours[r] = PowerOfTwo(softmax.reference[r] - next);
        theirs[r] = PowerOfTwo(reference - next);
        softmax.reference[r] = next;
        softmax.totals[r] = softmax.totals[r] * ours[r] + from[(2 * r + 1) * kStride] * theirs[r];
      }
      from += 4 * kM * kStride;
#pragma unroll
      for (int i = 0; i < kM * kSize / 2; ++i) {
        float& sum = sums[i / (kSize / 2)][i / 4 % (kSize / 8)][i % 4];
        const int r = i / (kSize / 2) * 2 + i % 4 / 2;
        sum = sum * ours[r] + from[i * kStride] * theirs[r];
      }
    }
  }

  // By way of the warp's own rows of queries, to store whole chunks.
  __syncwarp();
  unsigned char* const mine = shared + row_warp * 16 * kM * Tile::kRowBytes;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float inverse = 1 / QuadSum(softmax.totals[2 * m + half]);
      const int row = m * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
        *reinterpret_cast<uint32_t*>(mine + row * Tile::kRowBytes + ((n ^ (row % 8)) << 4) +
                                     lane % 4 * 4) =
            Pack<T>(sums[m][n][2 * half] * inverse, sums[m][n][2 * half + 1] * inverse);
      }
    }
  }
  __syncwarp();
  constexpr int kStep = 32 / Tile::kRowChunks;
  const int chunk = lane % Tile::kRowChunks;
  const int position_step = kStep / sharing, head_step = kStep % sharing;
  Row to(first_row + lane / Tile::kRowChunks, sharing);
#pragma unroll 4
  for (int row = lane / Tile::kRowChunks; row < 16 * kM; row += kStep) {
    if (to.position < shape.tokens && chunk * 8 < shape.size) {
      const int64_t at = static_cast<int64_t>(to.head) * shape.tokens + to.position;
      *reinterpret_cast<uint4*>(y + at * shape.size + chunk * 8) = *reinterpret_cast<const uint4*>(
          mine + row * Tile::kRowBytes + ((chunk ^ (row % 8)) << 4));
    }
    to.Advance(position_step, head_step, sharing);
  }
}

__device__ uint32_t ToTf32(float x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

struct Pair {
  uint32_t high, low;

  __device__ explicit Pair(float x) {
    high = ToTf32(x);
    low = ToTf32(x - __uint_as_float(high));
  }
};

__device__ void MultiplyTf32(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The 16 x 8 numbers a, as four of a thread, times 8 x 8.
__device__ void MultiplySplit(float (&d)[4], const Pair (&a)[4], const Pair& b0, const Pair& b1) {
  MultiplyTf32(d, a[0].low, a[1].low, a[2].low, a[3].low, b0.high, b1.high);
  MultiplyTf32(d, a[0].high, a[1].high, a[2].high, a[3].high, b0.low, b1.low);
  MultiplyTf32(d, a[0].high, a[1].high, a[2].high, a[3].high, b0.high, b1.high);
}

// float32: 16 queries a warp. The depth of a product may go in any order, and goes so that a
// thread's two numbers of eight lie side by side: places t and t + 4 hold 2 t and 2 t + 1.
template <int kSize>
struct FloatTile {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kQueries = 16 * kWarps;
  static constexpr int kKeyPitch = kSize + 8;    // lanes' pairs lie in different banks
  static constexpr int kValuePitch = kSize + 4;  // and so do lanes' numbers
  static constexpr int kKeyFloats = kFloatKeys * kKeyPitch;
  static constexpr int kValueFloats = kFloatKeys * kValuePitch;
  static constexpr int kBytes = 4 * 2 * (kKeyFloats + kValueFloats);

  static __device__ void Load(float* to, int pitch, const float* from, int first, int rows,
                              int size) {
    const uint32_t target = SharedAddress(to);
    for (int i = threadIdx.x; i < kFloatKeys * (kSize / 4); i += kThreads) {
      const int row = i / (kSize / 4);
      const int column = i % (kSize / 4) * 4;
      const bool exists = first + row < rows && column < size;
      const float* source =
          exists ? from + static_cast<int64_t>(first + row) * size + column : from;
      CopyAsync(target + 4 * (row * pitch + column), source, exists);
    }
  }
};

template <int kSize>
__global__ void __launch_bounds__(FloatTile<kSize>::kThreads, kSize > 64 ? 1 : 2)
    AttendFloat(const float* __restrict__ query, const float* __restrict__ key,
                const float* __restrict__ value, float* __restrict__ y, Shape shape, float scale,
                int tiles, unsigned layer) {
  using Tile = FloatTile<kSize>;
  extern __shared__ __align__(128) float numbers[];
  float* const keys = numbers;
  float* const values = numbers + 2 * Tile::kKeyFloats;
  const Place place(tiles, layer);
  const int64_t head_elements = static_cast<int64_t>(shape.tokens) * shape.size;
  const int64_t kv_head = KvHead(shape, place.head);
  query += place.head * head_elements;
  key += kv_head * head_elements;
  value += kv_head * head_elements;
  y += place.head * head_elements;
  const int lane = threadIdx.x % 32;
  const int quad = lane / 4;
  const int member = lane % 4;
  const int block_query = place.tile * Tile::kQueries;
  const int first_query = block_query + threadIdx.x / 32 * 16;
  const int last_query = min(block_query + Tile::kQueries, shape.tokens) - 1;
  const int key_tiles = last_query / kFloatKeys + 1;

  const auto load_keys = [&](int t) {
    Tile::Load(keys + t % 2 * Tile::kKeyFloats, Tile::kKeyPitch, key, t * kFloatKeys, shape.tokens,
               shape.size);
    Tile::Load(values + t % 2 * Tile::kValueFloats, Tile::kValuePitch, value, t * kFloatKeys,
               shape.tokens, shape.size);
    Commit();
  };
  load_keys(0);
  float2 wanted[kSize / 8][2];
#pragma unroll
  for (int k = 0; k < kSize / 8; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_query + half * 8 + quad;
      const int column = k * 8 + member * 2;
      wanted[k][half] = row < shape.tokens && column < shape.size
                            ? __ldg(reinterpret_cast<const float2*>(
                                  query + static_cast<int64_t>(row) * shape.size + column))
                            : float2{0, 0};
    }
  }

  float sums[kSize / 8][4] = {};
  Softmax<1> softmax;
  for (int t = 0; t < key_tiles; ++t) {
    Await<0>();
    __syncthreads();
    if (t + 1 < key_tiles) load_keys(t + 1);
    const int first_key = t * kFloatKeys;
    if (first_key > first_query + 15) continue;  // after all of this warp's queries

    float scores[1][kFloatKeys / 8][4] = {};
    const float* k_tile = keys + t % 2 * Tile::kKeyFloats + quad * Tile::kKeyPitch + 2 * member;
#pragma unroll
    for (int k = 0; k < kSize / 8; ++k) {
      const Pair a[4] = {Pair(wanted[k][0].x), Pair(wanted[k][1].x), Pair(wanted[k][0].y),
                         Pair(wanted[k][1].y)};
#pragma unroll
      for (int n = 0; n < kFloatKeys / 8; ++n) {
        const float2 b = *reinterpret_cast<const float2*>(k_tile + n * 8 * Tile::kKeyPitch + k * 8);
        MultiplySplit(scores[0][n], a, Pair(b.x), Pair(b.y));
      }
    }
    if (first_key + kFloatKeys - 1 > first_query) Mask(scores, first_query, 1, first_key);
    float rescale[2] = {1, 1};
    softmax.Refer(scores, scale, rescale);
    float parts[kSize / 8][4] = {};
    const float* v_tile =
        values + t % 2 * Tile::kValueFloats + 2 * member * Tile::kValuePitch + quad;
#pragma unroll
    for (int k = 0; k < kFloatKeys / 8; ++k) {
      float w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = softmax.Weight(scores[0][k][i], scale, i / 2);
      const Pair a[4] = {Pair(w[0]), Pair(w[2]), Pair(w[1]), Pair(w[3])};
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
        const float* v = v_tile + k * 8 * Tile::kValuePitch + n * 8;
        MultiplySplit(parts[n], a, Pair(v[0]), Pair(v[Tile::kValuePitch]));
      }
    }
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] = sums[n][i] * rescale[i / 2] + parts[n][i];
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float inverse = 1 / QuadSum(softmax.totals[half]);
    const int row = first_query + half * 8 + quad;
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
      const int column = n * 8 + member * 2;
      if (row < shape.tokens && column < shape.size) {
        *reinterpret_cast<float2*>(y + static_cast<int64_t>(row) * shape.size + column) = {
            sums[n][2 * half] * inverse, sums[n][2 * half + 1] * inverse};
      }
    }
  }
}

template <typename Combine>
__device__ float Reduce(float value, Combine combine) {
  __shared__ float partial[kAnyThreads / 32];
  for (int lane = 16; lane > 0; lane /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffff, value, lane));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < kAnyThreads / 32; ++w) value = combine(value, partial[w]);
  return value;
}

// Any size: a block for a query, a thread for a key of a chunk, then for some of the sums.
template <typename T>
__global__ void __launch_bounds__(kAnyThreads)
    AttendAny(const T* __restrict__ query, const T* __restrict__ key, const T* __restrict__ value,
              T* __restrict__ y, Shape shape, float scale) {
  extern __shared__ __align__(128) float rows[];
  float* const wanted = rows;
  float* const sums = rows + shape.size;
  __shared__ float weights[kAnyThreads];
  const Place place(shape.tokens, gridDim.x);
  const int position = place.tile;
  const int64_t row = place.head * shape.tokens + position;
  const int64_t start = KvHead(shape, place.head) * shape.tokens * shape.size;
  for (int d = threadIdx.x; d < shape.size; d += kAnyThreads) {
    wanted[d] = static_cast<float>(query[row * shape.size + d]) * scale;
    sums[d] = 0;
  }
  __syncthreads();
  float largest = -INFINITY;
  float total = 0;
  for (int first = 0; first <= position; first += kAnyThreads) {
    const int mine = first + static_cast<int>(threadIdx.x);
    float score = -INFINITY;
    if (mine <= position) {
      const T* k = key + start + static_cast<int64_t>(mine) * shape.size;
      score = 0;
#pragma unroll 4
      for (int d = 0; d < shape.size; ++d) score += wanted[d] * static_cast<float>(k[d]);
    }
    const float before = largest;
    largest = fmaxf(before, Reduce(score, [](float a, float b) { return fmaxf(a, b); }));
    const float rescale = PowerOfTwo(before - largest);
    const float weight = PowerOfTwo(score - largest);
    weights[threadIdx.x] = weight;
    total = total * rescale + Reduce(weight, [](float a, float b) { return a + b; });
    const int count = min(kAnyThreads, position - first + 1);
    for (int d = threadIdx.x; d < shape.size; d += kAnyThreads) {
      const T* v = value + start + static_cast<int64_t>(first) * shape.size + d;
      float sum = sums[d] * rescale;
#pragma unroll 4
      for (int k = 0; k < count; ++k) {
        sum += weights[k] * static_cast<float>(v[static_cast<int64_t>(k) * shape.size]);
      }
      sums[d] = sum;
    }
    __syncthreads();
  }
  for (int d = threadIdx.x; d < shape.size; d += kAnyThreads) {
    y[row * shape.size + d] = static_cast<T>(sums[d] / total);
  }
}

// --- Hopper: TMA and wgmma
// ------------------------------------------------------------------------

// A block has a warpgroup that loads and kGroups that compute, 64 queries each. Keys and values
// come in tiles of kKeys, kStages ahead, each in chunks of 64 elements a row (128 bytes, swizzled).
template <int kSize_, int kGroups_, int kKeys_, int kStages_>
struct WideTile {
  static constexpr int kSize = kSize_, kGroups = kGroups_, kKeys = kKeys_, kStages = kStages_;
  static constexpr int kChunk = 64, kChunks = kSize / kChunk, kQueries = 64 * kGroups;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kRegisters = kGroups == 2 ? 232 : 160,
                       kLoaderRegisters = kGroups == 2 ? 40 : 32;
  static_assert(kGroups == 2 || kGroups == 3);
  // A group releases its last values only after the loader has brought the tiles that later groups
  // need, and each query sees a key of its group's last tile.
  static_assert(kKeys % 64 == 0 && (kQueries - 64 + kKeys - 1) / kKeys < kStages);
  // Whether results have a place of their own. If not, they take that of the queries.
  static constexpr bool kOwnResults = kSize <= 128;

  struct Shared {
    alignas(1024) uint16_t q[kQueries * kSize];
    alignas(1024) uint16_t y[kOwnResults ? kQueries * kSize : 64];
    alignas(1024) uint16_t k[kStages][kKeys * kSize], v[kStages][kKeys * kSize];
    int work;  // the tile that the warpgroups compute next; -1: none
    uint64_t work_full, work_empty, q_full, q_empty, k_full[kStages], v_full[kStages],
        k_empty[kStages], v_empty[kStages];
  };
  static constexpr int kBytes = sizeof(Shared) + 1024;
};

struct Maps {
  CUtensorMap q, k, v, y;
};

// `together` heads at a time share the L2 cache.
struct WideShape : Shape {
  int all_heads, tiles, together;
  float scale;  // of scores, for powers of two
};

// A tile of queries of one head, and how many tiles of keys it needs.
struct WideWork {
  int head, kv_head, first, count;

  // `index`: of all tiles, the longest first within the heads that run together.
  template <typename Tile>
  static __device__ WideWork Of(const WideShape& shape, int index) {
    const int at_once = shape.together * shape.tiles;
    const int first_head = index / at_once * shape.together, place = index % at_once;
    const int together = min(shape.together, shape.all_heads - first_head);
    WideWork work;
    work.head = first_head + place % together;
    work.kv_head = static_cast<int>(KvHead(shape, work.head));
    work.first = (shape.tiles - 1 - place / together) * Tile::kQueries;
    work.count = (min(work.first + Tile::kQueries, shape.tokens) + Tile::kKeys - 1) / Tile::kKeys;
    return work;
  }
};

// Which tiles a block takes. With a counter: the next that no block has taken yet. Without one: a
// tile in each round. Rounds go through the blocks forwards and backwards in turns, and so do the
// groups of heads that run together, so that a block with a long tile gets a short one next.
struct WideTurns {
  const WideShape& shape;
  int* next;
  int turn = 0;

  // -1: there is none.
  __device__ int Take() {
    const int works = shape.all_heads * shape.tiles, grid = static_cast<int>(gridDim.x);
    if (next != nullptr) {
      const int index = turn++ == 0 ? static_cast<int>(blockIdx.x) : grid + atomicAdd(next, 1);
      return index < works ? index : -1;
    }
    const int at_once = shape.together * shape.tiles, rounds = (at_once + grid - 1) / grid;
    for (; turn / rounds * at_once < works; ++turn) {
      const int group = turn / rounds, round = turn % rounds;
      const bool forwards = (group + round) % 2 == 0;
      const int block = static_cast<int>(forwards ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
      const int place = round * grid + block, index = group * at_once + place;
      if (place >= at_once || index >= works) continue;
      ++turn;
      return index;
    }
    return -1;
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
                        int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(element), "r"(row), "r"(head), "r"(SharedAddress(barrier))
      : "memory");
}
__device__ void StoreBox(const CUtensorMap& map, const void* from, int element, int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
      "r"(element), "r"(row), "r"(head), "r"(SharedAddress(from))
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

#define CUPEL_N32(d, i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]),        \
      "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15]),    \
      "+f"(d[i + 16]), "+f"(d[i + 17]), "+f"(d[i + 18]), "+f"(d[i + 19]), "+f"(d[i + 20]),    \
      "+f"(d[i + 21]), "+f"(d[i + 22]), "+f"(d[i + 23]), "+f"(d[i + 24]), "+f"(d[i + 25]),    \
      "+f"(d[i + 26]), "+f"(d[i + 27]), "+f"(d[i + 28]), "+f"(d[i + 29]), "+f"(d[i + 30]),    \
      "+f"(d[i + 31])
#define CUPEL_R32                                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
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
__device__ void LoadTiles(typename Tile::Shared& shared, const Maps& maps, const WideShape& shape,
                          int* next) {
  constexpr int kTileBytes = Tile::kKeys * Tile::kSize * 2;
  WideTurns turns{shape, next};
  int loaded = 0;  // tiles of keys
  for (int done = 0;; ++done) {
    const int index = turns.Take();
    WaitFor(&shared.work_empty, done % 2 ^ 1);
    shared.work = index;
    Arrive(&shared.work_full);
    if (index < 0) return;
    const WideWork work = WideWork::Of<Tile>(shape, index);
    WaitFor(&shared.q_empty, done % 2 ^ 1);
    ExpectBytes(&shared.q_full, Tile::kQueries * Tile::kSize * 2);
#pragma unroll
    for (int c = 0; c < Tile::kChunks; ++c) {
      LoadBox(&shared.q[c * Tile::kQueries * Tile::kChunk], maps.q, &shared.q_full,
              c * Tile::kChunk, work.first, work.head);
    }
    for (int n = 0; n < work.count; ++n, ++loaded) {
      const int stage = loaded % Tile::kStages, parity = loaded / Tile::kStages % 2 ^ 1;
      WaitFor(&shared.k_empty[stage], parity);
      ExpectBytes(&shared.k_full[stage], kTileBytes);
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        LoadBox(&shared.k[stage][c * Tile::kKeys * Tile::kChunk], maps.k, &shared.k_full[stage],
                c * Tile::kChunk, n * Tile::kKeys, work.kv_head);
      }
      WaitFor(&shared.v_empty[stage], parity);
      ExpectBytes(&shared.v_full[stage], kTileBytes);
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        LoadBox(&shared.v[stage][c * Tile::kKeys * Tile::kChunk], maps.v, &shared.v_full[stage],
                c * Tile::kChunk, n * Tile::kKeys, work.kv_head);
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
__global__ __launch_bounds__(Tile::kThreads, 1) void AttendWide(const __grid_constant__ Maps maps,
                                                                const WideShape shape, int* next) {
  constexpr int kScores = Tile::kKeys / 2, kPart = Tile::kSize > 128 ? 128 : Tile::kSize,
                kParts = Tile::kSize / kPart, kStages = Tile::kStages;
  constexpr int kQueryChunk = Tile::kQueries * Tile::kChunk, kKeyChunk = Tile::kKeys * Tile::kChunk;
  extern __shared__ uint8_t dynamic[];
  auto& shared = *reinterpret_cast<typename Tile::Shared*>(
      (reinterpret_cast<uintptr_t>(dynamic) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    InitBarrier(&shared.work_full, 1);
    InitBarrier(&shared.work_empty, 4 * Tile::kGroups);
    InitBarrier(&shared.q_full, 1);
    InitBarrier(&shared.q_empty, Tile::kOwnResults ? 4 * Tile::kGroups : Tile::kGroups);
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
    if (threadIdx.x == 0) LoadTiles<Tile>(shared, maps, shape, next);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::kRegisters));
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0) - 1;
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = threadIdx.x % 32;
    const Turns turns{group, group == Tile::kGroups - 1};
    const uint16_t* q = &shared.q[group * 64 * Tile::kChunk];
    const uint16_t* y = Tile::kOwnResults ? &shared.y[group * 64 * Tile::kChunk] : q;
    const bool is_storer = threadIdx.x % 128 == 0;
    const auto release = [&](uint64_t* barrier) {
      if (lane == 0) Arrive(barrier);
    };
    turns.Start();
    float s[kScores], o[kParts][kPart / 2], rescale[2];
    uint32_t weights[kScores / 2];
    int used = 0;  // tiles of keys, by earlier tiles of queries
    const auto score = [&](int n) {
      const int stage = (used + n) % kStages;
      WaitFor(&shared.k_full[stage], (used + n) / kStages % 2);
      FenceProducts();
#pragma unroll
      for (int d = 0; d < Tile::kSize / 16; ++d) {
        const int chunk = d / 4, inside = d % 4 * 16;
        Scores<T>(s, MatrixAt(q + chunk * kQueryChunk + inside),
                  MatrixAt(&shared.k[stage][chunk * kKeyChunk + inside]), d);
      }
      CommitProducts();
    };
    const auto weigh = [&](int n) {
      const int stage = (used + n) % kStages;
      WaitFor(&shared.v_full[stage], (used + n) / kStages % 2);
      FenceProducts();
#pragma unroll
      for (int k = 0; k < Tile::kKeys / 16; ++k) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const int at = part * (kPart / Tile::kChunk) * kKeyChunk + k * 16 * Tile::kChunk;
          Weigh<T>(o[part], &weights[4 * k], MatrixAt(&shared.v[stage][at], kKeyChunk * 2), n + k);
        }
      }
      CommitProducts();
    };
    const auto pack = [&] {
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) weights[i] = Pack<T>(s[2 * i], s[2 * i + 1]);
    };
    int done = 0;  // tiles of queries
    // The first scores of the next tile of queries.
    const auto begin = [&] {
      WaitFor(&shared.q_full, done % 2);
      score(0);
    };
    // Stores a tile's results. `sum`: of the weights of the thread's two rows.
    const auto finish = [&](const float(&sum)[2], int group_first, int head) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) Pin(o[part]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        rescale[r] = 1 / QuadSum(sum[r]);
      }
      if (is_storer) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      SyncThreads(1 + Tile::kGroups + group,
                  128);  // earlier results have left shared memory; all scores are made
      const int line = 16 * warp + lane % 16;
#pragma unroll
      for (int i = 0; i < Tile::kSize / 16; ++i) {
        const float* p = &o[i * 16 / kPart][i * 16 % kPart / 2];
        const int chunk = i / 4, piece = i % 4 * 2 + lane / 16;
        const uint16_t* to = y + chunk * kQueryChunk + line * Tile::kChunk + (piece ^ line % 8) * 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         SharedAddress(to)),
                     "r"(Pack<T>(p[0] * rescale[0], p[1] * rescale[0])),
                     "r"(Pack<T>(p[2] * rescale[1], p[3] * rescale[1])),
                     "r"(Pack<T>(p[4] * rescale[0], p[5] * rescale[0])),
                     "r"(Pack<T>(p[6] * rescale[1], p[7] * rescale[1]))
                     : "memory");
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      SyncThreads(1 + Tile::kGroups + group, 128);
      if (is_storer) {
        if (group_first < shape.tokens) {
#pragma unroll
          for (int c = 0; c < Tile::kChunks; ++c) {
            StoreBox(maps.y, y + c * kQueryChunk, c * Tile::kChunk, group_first, head);
          }
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (!Tile::kOwnResults) {
          asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
          Arrive(&shared.q_empty);
        }
      }
    };
    const auto take = [&] {
      WaitFor(&shared.work_full, done % 2);
      const int index = __shfl_sync(~0u, shared.work, 0);
      release(&shared.work_empty);
      return index;
    };
    WideWork work = WideWork::Of<Tile>(shape, take());  // each block has one
    begin();
    WaitForProducts<0>();
    Pin(s);
    release(&shared.k_empty[0]);
    for (;;) {
      const int group_first = work.first + 64 * group, head = work.head;
      const int row = group_first + 16 * warp + lane / 4;
      const int count = work.count, mine = min(count, (group_first + 63) / Tile::kKeys + 1);
      // Scores of later keys do not count.
      const auto mask = [&](int n) {
        if ((n + 1) * Tile::kKeys - 1 <= group_first) return;
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
          const int key = n * Tile::kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (key > row + i / 2 % 2 * 8) s[i] = -INFINITY;
        }
      };
      OnlineSoftmax<kScores> softmax;
      if (Tile::kOwnResults && mine == 1) release(&shared.q_empty);
      mask(0);
      softmax.Weights(s, shape.scale, rescale);
      pack();
      for (int n = 1; n < mine; ++n) {
        turns.Take();
        score(n);
        weigh(n - 1);
        turns.Pass();
        WaitForProducts<1>();
        Pin(s);
        release(&shared.k_empty[(used + n) % kStages]);
        if (Tile::kOwnResults && n + 1 == mine) release(&shared.q_empty);
        mask(n);
        const bool moves = softmax.Weights(s, shape.scale, rescale);
        WaitForProducts<0>();
#pragma unroll
        for (int part = 0; part < kParts; ++part) Pin(o[part]);
        Pin(weights);
        release(&shared.v_empty[(used + n - 1) % kStages]);
        if (moves) {
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
#pragma unroll
            for (int i = 0; i < kPart / 2; ++i) o[part][i] *= rescale[i / 2 % 2];
          }
        }
        pack();
      }
      weigh(mine - 1);
      for (int n = mine; n < count; ++n) {  // tiles that only later groups need
        turns.Take();
        turns.Pass();
        const int stage = (used + n) % kStages, parity = (used + n) / kStages % 2;
        WaitFor(&shared.k_full[stage], parity);
        release(&shared.k_empty[stage]);
        WaitFor(&shared.v_full[stage], parity);
        release(&shared.v_empty[stage]);
      }
      const int last_stage = (used + mine - 1) % kStages;
      used += count;
      ++done;
      const int index = take();
      const bool more = index >= 0;
      if (more) work = WideWork::Of<Tile>(shape, index);
      if (Tile::kOwnResults && more) {
        begin();
        WaitForProducts<0>();
        Pin(s);
        release(&shared.k_empty[used % kStages]);
      } else {
        WaitForProducts<0>();
      }
      release(&shared.v_empty[last_stage]);
      finish(softmax.sum, group_first, head);
      if (!more) break;
      if (!Tile::kOwnResults) {
        begin();
        WaitForProducts<0>();
        Pin(s);
        release(&shared.k_empty[used % kStages]);
      }
    }
    turns.End();
    if (is_storer) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
#else
template <typename T, typename Tile>
__global__ void AttendWide(const __grid_constant__ Maps, const WideShape, int*) {
  __trap();  // code for Hopper without its own instructions (sm_90 instead of sm_90a)
}
#endif

// (batch and head, token, element), loaded or stored in boxes of `rows` tokens and 64 elements.
template <typename T>
static CUtensorMap MapOf(const T* data, int64_t heads, const Shape& shape, int rows) {
  CUtensorMap map;
  const auto size = static_cast<cuuint64_t>(shape.size),
             tokens = static_cast<cuuint64_t>(shape.tokens);
  const cuuint64_t dims[] = {size, tokens, static_cast<cuuint64_t>(heads)};
  const cuuint64_t strides[] = {size * 2, size * tokens * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(rows), 1}, steps[] = {1, 1, 1};
  const CUresult error =
      cuTensorMapEncodeTiled(&map,
                             std::is_same_v<T, at::BFloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                             3, const_cast<T*>(data), dims, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "a tensor map was refused");
  return map;
}

// What all launches take.
template <typename T>
struct Call {
  const T *query, *key, *value;
  T* y;
  Shape shape;
  int64_t all_heads;
  float scale;  // of scores, for powers of two
  cudaStream_t stream;

  // Of `sharing` heads a block takes `queries` queries.
  template <typename Kernel>
  void Launch(Kernel kernel, int sharing, int queries, int threads, int bytes) const {
    TORCH_CHECK(all_heads * shape.tokens < int64_t{1} << 31, "too many queries");
    const int tiles = (shape.tokens * sharing + queries - 1) / queries;
    const auto blocks = static_cast<unsigned>(all_heads / sharing * tiles);
    const auto sms =
        static_cast<unsigned>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, threads, bytes, stream>>>(query, key, value, y, shape, scale, tiles,
                                               blocks <= 2 * sms ? sms : blocks);
  }

  template <typename Tile>
  void Launch16() const {
    Launch(Attend<T, Tile>, shape.heads / shape.kv_heads, Tile::kQueries, Tile::kThreads,
           Tile::kBytes);
  }

  template <typename Tile>
  void LaunchWide() const {
    const int64_t kv_heads = all_heads / shape.heads * shape.kv_heads;
    const int tiles = (shape.tokens + Tile::kQueries - 1) / Tile::kQueries;
    TORCH_CHECK(all_heads * tiles < int64_t{1} << 31, "too many queries");
    // Keys and values of the heads that run together stay in the L2 cache.
    const int64_t bytes = 4 * int64_t{shape.tokens} * shape.size * shape.kv_heads / shape.heads;
    const int64_t most =
        std::clamp<int64_t>(kCacheBytes / std::max<int64_t>(bytes, 1), 1, all_heads);
    const int64_t groups = (all_heads + most - 1) / most,
                  together = (all_heads + groups - 1) / groups;
    // Before the tensor maps: it makes sure that this thread has a context.
    C10_CUDA_CHECK(cudaFuncSetAttribute(AttendWide<T, Tile>,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kBytes));
    const Maps maps{MapOf(query, all_heads, shape, Tile::kQueries),
                    MapOf(key, kv_heads, shape, Tile::kKeys),
                    MapOf(value, kv_heads, shape, Tile::kKeys), MapOf(y, all_heads, shape, 64)};
    const WideShape wide{shape, static_cast<int>(all_heads), tiles, static_cast<int>(together),
                         scale};
    const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int64_t works = all_heads * tiles;
    // The first round must have a tile for each block.
    const int64_t blocks = std::min(sms, together * tiles);
    // A counter balances blocks better, but setting it to zero takes a microsecond, and blocks that
    // go through long heads at the same pace reuse more of the L2 cache.
    torch::Tensor counter;
    if (works >= kCountedTurns * sms && shape.tokens <= kCountedTokens) {
      counter = torch::empty({1}, torch::TensorOptions().dtype(torch::kInt32).device(torch::kCUDA));
      C10_CUDA_CHECK(cudaMemsetAsync(counter.data_ptr<int>(), 0, sizeof(int), stream));
    }
    AttendWide<T, Tile><<<static_cast<unsigned>(blocks), Tile::kThreads, Tile::kBytes, stream>>>(
        maps, wide, counter.defined() ? counter.data_ptr<int>() : nullptr);
    C10_CUDA_CHECK(cudaGetLastError());
  }

  template <int kSize>
  void LaunchFloat() const {
    using Tile = FloatTile<kSize>;
    Launch(AttendFloat<kSize>, 1, Tile::kQueries, Tile::kThreads, Tile::kBytes);
  }
};

template <typename T>
static void Dispatch(const torch::Tensor& query, const torch::Tensor& key,
                     const torch::Tensor& value, torch::Tensor& y) {
  const int size = static_cast<int>(query.size(3));
  const Shape shape{static_cast<int>(query.size(1)), static_cast<int>(key.size(1)),
                    static_cast<int>(query.size(2)), size};
  const Call<T> call{query.data_ptr<T>(),
                     key.data_ptr<T>(),
                     value.data_ptr<T>(),
                     y.data_ptr<T>(),
                     shape,
                     query.size(0) * query.size(1),
                     static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(size))),
                     at::cuda::getCurrentCUDAStream()};
  const bool chunks = size * sizeof(T) % 16 == 0;
  if constexpr (std::is_same_v<T, float>) {
    if (chunks && size <= 64) return call.template LaunchFloat<64>();
    if (chunks && size <= 128) return call.template LaunchFloat<128>();
  } else {
    if (at::cuda::getCurrentDeviceProperties()->major == 9) {
      if (size == 64 && shape.tokens < 2048) {
        return call.template LaunchWide<WideTile<64, 2, 128, 2>>();
      }
      if (size == 64) return call.template LaunchWide<WideTile<64, 3, 128, 2>>();
      if (size == 128) return call.template LaunchWide<WideTile<128, 2, 128, 2>>();
      if (size == 256) return call.template LaunchWide<WideTile<256, 2, 64, 2>>();
    }
    if (chunks && size <= 64) return call.template Launch16<Tile<64, 2, 4, 1, 64, 2>>();
    if (chunks && size <= 128) return call.template Launch16<Tile<128, 2, 4, 1, 64, 2>>();
    if (chunks && size <= 256) return call.template Launch16<Tile<256, 1, 2, 2, 32, 1>>();
  }
  const int64_t queries = call.all_heads * shape.tokens;
  TORCH_CHECK(queries < int64_t{1} << 31, "too many queries");
  AttendAny<T>
      <<<static_cast<unsigned>(queries), kAnyThreads, 2 * sizeof(float) * size, call.stream>>>(
          call.query, call.key, call.value, call.y, shape, call.scale);
}

// Contiguous, and where a chunk of 16 bytes may begin.
static torch::Tensor Aligned(const torch::Tensor& x) {
  const auto y = x.contiguous();
  return reinterpret_cast<uintptr_t>(y.data_ptr()) % 16 == 0 ? y : y.clone();
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes(),
              "query, key and value must be (batch, heads, tokens, size)");
  TORCH_CHECK(
      query.size(0) == key.size(0) && query.size(2) == key.size(2) && query.size(3) == key.size(3),
      "query and key must have as many members, tokens and elements");
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
              "the heads of query must be a multiple of those of key");
  TORCH_CHECK(query.size(3) <= 4096, "a head must have at most 4096 elements");
  TORCH_CHECK(query.scalar_type() == key.scalar_type() && key.scalar_type() == value.scalar_type(),
              "query, key and value must be of one type");
  auto y = torch::empty(query.sizes(), query.options());
  if (y.numel() == 0) return y;
  query = Aligned(query);
  key = Aligned(key);
  value = Aligned(value);
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Dispatch<float>(query, key, value, y);
      break;
    case torch::kFloat16:
      Dispatch<at::Half>(query, key, value, y);
      break;
    case torch::kBFloat16:
      Dispatch<at::BFloat16>(query, key, value, y);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Causal attention"); }
