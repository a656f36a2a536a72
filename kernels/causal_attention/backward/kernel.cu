// Gradients of causal attention with tensor cores.
//
// On Hopper, in 16 bits with heads of at most 256 elements: a block takes a
// tile of keys and values of one head of queries, and walks the tiles of
// queries from there on. One warp loads by TMA; two warpgroups have 64 keys
// each. They keep scores and slopes in registers (wgmma, keys by queries), and
// so the gradients of their keys and values. The gradients of queries, which
// need all keys of the tile, go through shared memory and are added up in
// float32 in global memory, in the order in which the tensor cores leave them.
// A kernel before this one computes grad_output . output, one after it converts
// the sums.
//
// With heads of more than 128 elements, two gradients of 64 keys do not fit
// into a warpgroup's registers. There both warpgroups have the same 64 keys:
// one computes weights and the gradients of values, the other one slopes and
// the gradients of keys.
//
// Otherwise: one block for each query and one for each key.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

constexpr int kAnyThreads = 128;
constexpr int64_t kCacheBytes = 32 << 20;  // of the L2 cache, for the heads that run together
constexpr float kLog2e = 1.4426950408889634f;

struct Shape {
  int heads, kv_heads, tokens, size;
  float scale;
};

// --- Any type and size
// --------------------------------------------------------------------------

// corrections[t] = grad_output[t] . output[t], one warp for each query.
template <typename T>
__global__ void __launch_bounds__(kAnyThreads)
    Corrections(const T* __restrict__ grad_output, const T* __restrict__ output,
                float* __restrict__ corrections, int64_t queries, int size) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kAnyThreads + threadIdx.x) / 32;
  if (row >= queries) return;
  float sum = 0;
  for (int d = threadIdx.x % 32; d < size; d += 32) {
    sum += static_cast<float>(grad_output[row * size + d]) *
           static_cast<float>(output[row * size + d]);
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  if (threadIdx.x % 32 == 0) corrections[row] = sum;
}

// For a query: a is query, b is grad_output, those it meets are keys and values
// (other_a, other_b). For a key (kIsKey): a is key, b is value, those it meets
// are queries and grad_output.
template <typename T, bool kIsKey>
__global__ void __launch_bounds__(kAnyThreads)
    AnyGradients(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ other_a,
                 const T* __restrict__ other_b, const float* __restrict__ logsumexp,
                 const float* __restrict__ corrections, T* __restrict__ grad_a,
                 T* __restrict__ grad_b, Shape shape) {
  extern __shared__ __align__(128) float rows[];
  float* const sums_a = rows;               // of grad_a
  float* const sums_b = rows + shape.size;  // of grad_b, if kIsKey
  __shared__ float weights[kAnyThreads], slopes[kAnyThreads];
  const int sharing = shape.heads / shape.kv_heads;
  const int64_t row = blockIdx.x, head = row / shape.tokens;
  const int position = static_cast<int>(row % shape.tokens);
  const T* const mine_a = a + row * shape.size;
  const T* const mine_b = b + row * shape.size;
  for (int d = threadIdx.x; d < shape.size; d += kAnyThreads) sums_a[d] = sums_b[d] = 0;
  const int begin = kIsKey ? position : 0, end = kIsKey ? shape.tokens : position + 1;
  for (int h = 0; h < (kIsKey ? sharing : 1); ++h) {
    const int64_t start = (kIsKey ? head * sharing + h : head / sharing) * shape.tokens;
    for (int first = begin; first < end; first += kAnyThreads) {
      const int count = min(kAnyThreads, end - first), i = threadIdx.x;
      if (i < count) {
        const int64_t met = start + first + i, query = kIsKey ? met : row;
        float score = 0, along = 0;
#pragma unroll 4
        for (int d = 0; d < shape.size; ++d) {
          score +=
              static_cast<float>(mine_a[d]) * static_cast<float>(other_a[met * shape.size + d]);
          along +=
              static_cast<float>(mine_b[d]) * static_cast<float>(other_b[met * shape.size + d]);
        }
        weights[i] = expf(score * shape.scale - logsumexp[query]);
        slopes[i] = weights[i] * ((along - corrections[query]) * shape.scale);
      }
      __syncthreads();
      for (int d = threadIdx.x; d < shape.size; d += kAnyThreads) {
        float sum_a = sums_a[d], sum_b = sums_b[d];
#pragma unroll 4
        for (int k = 0; k < count; ++k) {
          const int64_t at = (start + first + k) * shape.size + d;
          sum_a += slopes[k] * static_cast<float>(other_a[at]);
          if (kIsKey) sum_b += weights[k] * static_cast<float>(other_b[at]);
        }
        sums_a[d] = sum_a;
        sums_b[d] = sum_b;
      }
      __syncthreads();
    }
  }
  for (int d = threadIdx.x; d < shape.size; d += kAnyThreads) {
    grad_a[row * shape.size + d] = static_cast<T>(sums_a[d]);
    if (kIsKey) grad_b[row * shape.size + d] = static_cast<T>(sums_b[d]);
  }
}

// Any type, heads of at most kSize elements: a block takes a tile of keys of one head of queries,
// and walks the tiles of queries from there on, in float32. 16 x 16 threads; what they sum up goes
// to `sums` of each gradient.
template <int kSize_, int kRows_>
struct PlainTile {
  static constexpr int kSize = kSize_, kThreads = 256;
  static constexpr int kRows = kRows_;      // queries, and keys
  static constexpr int kMine = kRows / 16;  // rows of a thread
  static constexpr int kPitch = kSize + 4, kScorePitch = kRows + 4;
  static constexpr int kBytes = 4 * (4 * kRows * kPitch + 2 * kRows * kScorePitch + 2 * kRows);

  template <typename T>
  static __device__ void Load(float* to, const T* from, int first, const Shape& shape) {
#pragma unroll 4
    for (int i = threadIdx.x; i < kRows * kSize; i += kThreads) {
      const int row = i / kSize, d = i % kSize;
      const bool exists = first + row < shape.tokens && d < shape.size;
      to[row * kPitch + d] =
          exists ? static_cast<float>(from[static_cast<int64_t>(first + row) * shape.size + d]) : 0;
    }
  }

  // products[a][b] = row y + 16 a of `left` times row x + 16 b of `right`.
  static __device__ void Multiply(float (&products)[kMine][kMine], const float* left,
                                  const float* right) {
    const float* l = left + threadIdx.x / 16 * kPitch;
    const float* r = right + threadIdx.x % 16 * kPitch;
#pragma unroll
    for (int a = 0; a < kMine; ++a) {
#pragma unroll
      for (int b = 0; b < kMine; ++b) products[a][b] = 0;
    }
#pragma unroll 4
    for (int d = 0; d < kSize; d += 4) {
      float4 x[kMine], y[kMine];
#pragma unroll
      for (int a = 0; a < kMine; ++a) {
        x[a] = *reinterpret_cast<const float4*>(l + a * 16 * kPitch + d);
        y[a] = *reinterpret_cast<const float4*>(r + a * 16 * kPitch + d);
      }
#pragma unroll
      for (int a = 0; a < kMine; ++a) {
#pragma unroll
        for (int b = 0; b < kMine; ++b) {
          products[a][b] += x[a].x * y[b].x + x[a].y * y[b].y + x[a].z * y[b].z + x[a].w * y[b].w;
        }
      }
    }
  }

  // A thread's part of a gradient: rows kMine y + a, elements 4 x + 64 b to 4 x + 64 b + 3.
  using Part = float4[kMine][kSize / 64];

  static __device__ void Accumulate(float4& sum, float factor, const float4& x) {
    sum.x += factor * x.x;
    sum.y += factor * x.y;
    sum.z += factor * x.z;
    sum.w += factor * x.w;
  }

  static __device__ void Add(float* to, const Part& part, int first, const Shape& shape) {
#pragma unroll
    for (int a = 0; a < kMine; ++a) {
      const int row = first + threadIdx.x / 16 * kMine + a;
      if (row >= shape.tokens) continue;
#pragma unroll
      for (int b = 0; b < kSize / 64; ++b) {
        const float4& x = part[a][b];
        const float numbers[] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int d = threadIdx.x % 16 * 4 + 64 * b + i;
          if (d < shape.size) {
            atomicAdd(to + static_cast<int64_t>(row) * shape.size + d, numbers[i]);
          }
        }
      }
    }
  }
};

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    PlainGradients(const T* __restrict__ grad_output, const T* __restrict__ query,
                   const T* __restrict__ key, const T* __restrict__ value,
                   const float* __restrict__ logsumexp, const float* __restrict__ corrections,
                   float* __restrict__ query_sums, float* __restrict__ key_sums,
                   float* __restrict__ value_sums, Shape shape, int64_t all_heads) {
  constexpr int kRows = Tile::kRows, kMine = Tile::kMine, kPitch = Tile::kPitch;
  constexpr int kScorePitch = Tile::kScorePitch, kParts = Tile::kSize / 64;
  extern __shared__ __align__(128) float numbers[];
  float* const k = numbers;
  float* const v = k + kRows * kPitch;
  float* const q = v + kRows * kPitch;
  float* const g = q + kRows * kPitch;
  float* const weights = g + kRows * kPitch;  // rows of kRows keys for each query
  float* const slopes = weights + kRows * kScorePitch;
  float* const logs = slopes + kRows * kScorePitch;
  float* const corrected = logs + kRows;
  const int64_t head = blockIdx.x % all_heads;
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const int64_t at = head * shape.tokens, kv_at = kv_head * shape.tokens * shape.size;
  const int first_key = static_cast<int>(blockIdx.x / all_heads) * kRows;  // the longest first
  const int y = threadIdx.x / 16, x = threadIdx.x % 16;
  Tile::Load(k, key + kv_at, first_key, shape);
  Tile::Load(v, value + kv_at, first_key, shape);
  typename Tile::Part grad_k = {}, grad_v = {};
  for (int first = first_key; first < shape.tokens; first += kRows) {
    __syncthreads();
    Tile::Load(q, query + at * shape.size, first, shape);
    Tile::Load(g, grad_output + at * shape.size, first, shape);
    if (threadIdx.x < kRows && first + static_cast<int>(threadIdx.x) < shape.tokens) {
      logs[threadIdx.x] = logsumexp[at + first + threadIdx.x];
      corrected[threadIdx.x] = corrections[at + first + threadIdx.x];
    }
    __syncthreads();
    float s[kMine][kMine], along[kMine][kMine];
    Tile::Multiply(s, q, k);
    Tile::Multiply(along, g, v);
#pragma unroll
    for (int a = 0; a < kMine; ++a) {
      const int i = y + 16 * a;
#pragma unroll
      for (int b = 0; b < kMine; ++b) {
        const int j = x + 16 * b;
        float weight = 0, slope = 0;
        if (first + i < shape.tokens && first_key + j <= first + i) {
          weight = expf(s[a][b] * shape.scale - logs[i]);
          slope = weight * ((along[a][b] - corrected[i]) * shape.scale);
        }
        weights[i * kScorePitch + j] = weight;
        slopes[i * kScorePitch + j] = slope;
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < kRows; ++i) {
      float4 gs[kParts], qs[kParts];
#pragma unroll
      for (int b = 0; b < kParts; ++b) {
        gs[b] = *reinterpret_cast<const float4*>(g + i * kPitch + 4 * x + 64 * b);
        qs[b] = *reinterpret_cast<const float4*>(q + i * kPitch + 4 * x + 64 * b);
      }
#pragma unroll
      for (int a = 0; a < kMine; ++a) {
        const float weight = weights[i * kScorePitch + y * kMine + a];
        const float slope = slopes[i * kScorePitch + y * kMine + a];
#pragma unroll
        for (int b = 0; b < kParts; ++b) {
          Tile::Accumulate(grad_v[a][b], weight, gs[b]);
          Tile::Accumulate(grad_k[a][b], slope, qs[b]);
        }
      }
    }
    typename Tile::Part grad_q = {};
#pragma unroll 2
    for (int j = 0; j < kRows; j += 4) {
      float rows[kMine][4];
#pragma unroll
      for (int a = 0; a < kMine; ++a) {
        *reinterpret_cast<float4*>(rows[a]) =
            *reinterpret_cast<const float4*>(slopes + (y * kMine + a) * kScorePitch + j);
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int b = 0; b < kParts; ++b) {
          const float4 ks = *reinterpret_cast<const float4*>(k + (j + c) * kPitch + 4 * x + 64 * b);
#pragma unroll
          for (int a = 0; a < kMine; ++a) Tile::Accumulate(grad_q[a][b], rows[a][c], ks);
        }
      }
    }
    Tile::Add(query_sums + at * shape.size, grad_q, first, shape);
  }
  Tile::Add(key_sums + kv_at, grad_k, first_key, shape);
  Tile::Add(value_sums + kv_at, grad_v, first_key, shape);
}

template <typename T>
__global__ void __launch_bounds__(kAnyThreads)
    ConvertPlain(const float* __restrict__ sums, T* __restrict__ to, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAnyThreads + threadIdx.x;
  if (i < count) to[i] = static_cast<T>(sums[i]);
}

// --- Hopper: TMA and wgmma
// ----------------------------------------------------------------------

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

template <typename T>
__device__ float2 Unpack(uint32_t pair) {
  if constexpr (std::is_same_v<T, at::Half>) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
  } else {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000)};
  }
}

__device__ float PowerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Sums of gradients, in float32 in global memory: blocks of 64 rows and 64
// elements (kBlock floats), each as 8 x 128 x 4 numbers: 4 i to 4 i + 3 of
// those that thread t of a warpgroup has of a product lie at [i][t].
constexpr int kBlock = 64 * 64;

__device__ void WaitForLaunchBefore() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ void LetNextLaunchBegin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// logsumexps (for powers of two) and grad_output . output of each query, for
// `padded` queries of each head, and zeros for the sums. kLanes threads have 8
// elements of a query each.
template <typename T, int kLanes>
__global__ void __launch_bounds__(256)
    Prepare(const T* __restrict__ grad_output, const T* __restrict__ output,
            const float* __restrict__ logsumexp, float* __restrict__ scaled,
            float* __restrict__ corrections, float4* __restrict__ sums, int64_t sum_quads,
            int64_t rows, int tokens, int padded, int size, float scale, int* __restrict__ next) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *next = 0;
  LetNextLaunchBegin();
  // The last first, so that the first are still in the L2 cache when they are needed.
  const int64_t block = gridDim.x - 1 - blockIdx.x;
  const int64_t thread = block * 256 + threadIdx.x, threads = static_cast<int64_t>(gridDim.x) * 256;
  const int64_t row = thread / kLanes, head = row / padded;
  const int token = static_cast<int>(row % padded), chunk = static_cast<int>(thread % kLanes);
  float sum = 0;
  if (row < rows && token < tokens && chunk * 8 < size) {
    const int64_t at = (head * tokens + token) * size + chunk * 8;
    const uint4 g = *reinterpret_cast<const uint4*>(grad_output + at);
    const uint4 y = *reinterpret_cast<const uint4*>(output + at);
    const uint32_t gs[] = {g.x, g.y, g.z, g.w}, ys[] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = Unpack<T>(gs[i]), b = Unpack<T>(ys[i]);
      sum += a.x * b.x + a.y * b.y;
    }
  }
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  if (row < rows && chunk == 0) {
    scaled[row] = token < tokens ? logsumexp[head * tokens + token] * kLog2e : INFINITY;
    corrections[row] = sum * scale;
  }
  // Those of the block's queries are 2 x 256 quads. Then those of keys and values, if there are
  // any.
  const int64_t own = block * 512 + threadIdx.x, query_quads = rows * kLanes * 2;
  if (own < query_quads) sums[own] = float4{0, 0, 0, 0};
  if (own + 256 < query_quads) sums[own + 256] = float4{0, 0, 0, 0};
  for (int64_t i = query_quads + thread; i < sum_quads; i += threads) {
    sums[i] = float4{0, 0, 0, 0};
  }
}

// What sums are converted to: `heads` x `padded` x size to heads x tokens x
// size.
template <typename T>
struct Target {
  const float* sums;
  T* to;
  int64_t blocks;
};

// A block of threads for each block of sums.
template <typename T>
__global__ void __launch_bounds__(128)
    Convert(const Target<T> first, const Target<T> second, const Target<T> third, int tokens,
            int size, int row_blocks, int column_blocks) {
  __shared__ uint32_t words[64][36];
  int64_t block = gridDim.x - 1 - blockIdx.x;  // what was added last is still in the L2 cache
  Target<T> target = first;
  if (block >= target.blocks) {
    block -= target.blocks;
    target = second;
    if (block >= target.blocks) {
      block -= target.blocks;
      target = third;
    }
  }
  const int column = static_cast<int>(block % column_blocks) * 64;
  const int row = static_cast<int>(block / column_blocks % row_blocks) * 64;
  const int64_t head = block / column_blocks / row_blocks;
  const int thread = threadIdx.x, lane = thread % 32, line = thread / 32 * 16 + lane / 4;
  const auto* from = reinterpret_cast<const float4*>(target.sums + block * kBlock) + thread;
  WaitForLaunchBefore();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 x = from[i * 128];
    words[line][i * 4 + lane % 4] = Pack<T>(x.x, x.y);
    words[line + 8][i * 4 + lane % 4] = Pack<T>(x.z, x.w);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = i * 16 + thread / 8, c = thread % 8;
    if (row + r < tokens && column + c * 8 < size) {
      *reinterpret_cast<uint4*>(target.to + (head * tokens + row + r) * size + column + c * 8) =
          *reinterpret_cast<const uint4*>(&words[r][c * 4]);
    }
  }
}

// Tiles of kQueries queries, kStages ahead, and of 128 keys. Each is in chunks
// of 64 elements a row (128 bytes, swizzled).
template <int kSize_, int kQueries_, int kStages_>
struct Tile {
  static constexpr int kSize = kSize_, kQueries = kQueries_, kStages = kStages_;
  static constexpr int kKeys = 128, kChunk = 64, kChunks = kSize / kChunk, kThreads = 384;
  static constexpr int kPlaces = 2;  // for tiles of keys
  // A warpgroup has half of the tile's gradients of queries: half of the queries if there are 128,
  // otherwise half of the elements.
  static constexpr int kWidth = kQueries == 128 ? kSize : kSize / 2;

  struct Shared {
    alignas(1024) uint16_t k[2][kKeys * kSize], v[2][kKeys * kSize];
    alignas(1024) uint16_t q[kStages][kQueries * kSize], g[kStages][kQueries * kSize];
    alignas(1024) uint16_t slopes[2][kKeys * kQueries];  // rows of 64 queries for each key
    alignas(16) float logsumexp[kStages][kQueries], corrections[kStages][kQueries];
    int work;  // what comes next; -1: nothing
    uint64_t work_full, work_empty, kv_full[2], kv_empty[2], q_full[kStages], g_full[kStages],
        empty[kStages], slopes_full[2], slopes_empty[2];
  };
  static constexpr int kBytes = sizeof(Shared) + 1024;
};

// Tiles of 64 queries and of 64 keys, for heads of at most 256 elements.
struct LargeTile {
  static constexpr int kSize = 256, kQueries = 64, kStages = 2;
  static constexpr int kKeys = 64, kChunk = 64, kChunks = kSize / kChunk, kThreads = 384;
  static constexpr int kPlaces = 1;

  struct Shared {
    alignas(1024) uint16_t k[1][kKeys * kSize], v[1][kKeys * kSize];
    alignas(1024) uint16_t q[kStages][kQueries * kSize], g[kStages][kQueries * kSize];
    alignas(1024) uint16_t slopes[2][kKeys * kQueries];  // rows of 64 queries for each key
    // Four pairs of weights of each thread of a warpgroup at [i][thread].
    alignas(16) uint4 weights[2][4][128];
    alignas(16) float logsumexp[kStages][kQueries], corrections[kStages][kQueries];
    int work;  // what comes next; -1: nothing
    uint64_t work_full, work_empty, kv_full[1], kv_empty[1], q_full[kStages], g_full[kStages],
        empty[kStages], slopes_full[2], slopes_empty[2], weights_full[2], weights_empty[2];
  };
  static constexpr int kBytes = sizeof(Shared) + 1024;
};

struct Maps {
  CUtensorMap q, g, k, v, grad_k, grad_v;
};

struct WideShape {
  int heads, kv_heads;  // of all members of the batch
  int tokens, padded;   // queries of a head
  int together;         // heads that share the L2 cache
  float scale;
};

// A tile of keys and a head of queries. The longest tiles are first, within the heads that run
// together.
struct Work {
  int head, kv_head, first_key, count;

  template <typename Tile>
  static __device__ Work Of(const WideShape& shape, int index) {
    const int tiles = shape.padded / Tile::kKeys, at_once = shape.together * tiles;
    const int group = index / at_once, place = index % at_once;
    const int together = min(shape.together, shape.heads - group * shape.together);
    Work work;
    work.head = group * shape.together + place % together;
    work.kv_head = work.head / (shape.heads / shape.kv_heads);
    work.first_key = place / together * Tile::kKeys;
    work.count = (shape.tokens - work.first_key + Tile::kQueries - 1) / Tile::kQueries;
    return work;
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void InitBarrier(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(count));
}
__device__ void WaitFor(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 "
      "done, [%0], %1;\n"
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
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(element), "r"(row), "r"(head), "r"(SharedAddress(barrier))
      : "memory");
}
__device__ void LoadFloats(float* to, const float* from, int count, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1], %2, "
      "[%3];" ::"r"(SharedAddress(to)),
      "l"(__cvta_generic_to_global(from)), "r"(count * 4), "r"(SharedAddress(barrier))
      : "memory");
}
__device__ void StoreBox(const CUtensorMap& map, const void* from, int element, int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, "
      "{%1, %2, %3}], [%4];" ::"l"(&map),
      "r"(element), "r"(row), "r"(head), "r"(SharedAddress(from))
      : "memory");
}
__device__ void SyncThreads(int barrier, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void FenceShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Rows of 128 bytes, swizzled; groups of eight rows are 1024 bytes apart.
// `step`: bytes between chunks, if the product's width runs along rows.
__device__ uint64_t MatrixAt(const void* p, uint32_t step = 16) {
  return (SharedAddress(p) & 0x3ffff) >> 4 | static_cast<uint64_t>(step >> 4) << 16 | 64ull << 32 |
         1ull << 62;
}

#define CUPEL_N16(d, i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]),        \
      "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
#define CUPEL_R16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CUPEL_N32(d, i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]),        \
      "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15]),    \
      "+f"(d[i + 16]), "+f"(d[i + 17]), "+f"(d[i + 18]), "+f"(d[i + 19]), "+f"(d[i + 20]),    \
      "+f"(d[i + 21]), "+f"(d[i + 22]), "+f"(d[i + 23]), "+f"(d[i + 24]), "+f"(d[i + 25]),    \
      "+f"(d[i + 26]), "+f"(d[i + 27]), "+f"(d[i + 28]), "+f"(d[i + 29]), "+f"(d[i + 30]),    \
      "+f"(d[i + 31])
#define CUPEL_R32                                                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, "                                                   \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CUPEL_R64                                                            \
  CUPEL_R32                                                                  \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
  "%46, %47, %48, %49, "                                                     \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CUPEL_R128                                                                               \
  CUPEL_R64                                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, "   \
  "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, "   \
  "%115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// d = a b or d += a b, both in shared memory. `runs`: for a and b, 1 if rows
// run along the height or width, 0 if along the depth.
#define CUPEL_SHARED(n, type, registers, a, b, adds, runs)                                   \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n \
  "k16.f32." type "." type " {" registers "}, " a ", " b ", adds, 1, 1, " runs ";\n}"
// The same, with a in registers and b's rows along the width.
#define CUPEL_REGISTERS(n, type, registers, a, b, adds)                                      \
  "{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" n \
  "k16.f32." type "." type " {" registers "}, " a ", " b ", adds, 1, 1, 1;\n}"

#define CUPEL_BOTH(call)                           \
  if constexpr (std::is_same_v<T, at::BFloat16>) { \
    call("bf16");                                  \
  } else {                                         \
    call("f16");                                   \
  }

// d = a b^T or d += a b^T.
template <typename T>
__device__ void Scores(float (&d)[32], uint64_t a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                        \
  asm volatile(CUPEL_SHARED("64", type, CUPEL_R32, "%32", "%33", "%34", "0, 0") \
               : CUPEL_N32(d, 0)                                                \
               : "l"(a), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
template <typename T>
__device__ void Scores(float (&d)[64], uint64_t a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                         \
  asm volatile(CUPEL_SHARED("128", type, CUPEL_R64, "%64", "%65", "%66", "0, 0") \
               : CUPEL_N32(d, 0), CUPEL_N32(d, 32)                               \
               : "l"(a), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
// d += a b, a in registers.
template <typename T>
__device__ void Add(float (&d)[32], const uint32_t* a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                                    \
  asm volatile(CUPEL_REGISTERS("64", type, CUPEL_R32, "{%32, %33, %34, %35}", "%36", "%37") \
               : CUPEL_N32(d, 0)                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
template <typename T>
__device__ void Add(float (&d)[64], const uint32_t* a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                                     \
  asm volatile(CUPEL_REGISTERS("128", type, CUPEL_R64, "{%64, %65, %66, %67}", "%68", "%69") \
               : CUPEL_N32(d, 0), CUPEL_N32(d, 32)                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
template <typename T>
__device__ void Add(float (&d)[128], const uint32_t* a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                                   \
  asm volatile(                                                                            \
      CUPEL_REGISTERS("256", type, CUPEL_R128, "{%128, %129, %130, %131}", "%132", "%133") \
      : CUPEL_N32(d, 0), CUPEL_N32(d, 32), CUPEL_N32(d, 64), CUPEL_N32(d, 96)              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
// d = a^T b or d += a^T b, rows of a along its height and of b along its width.
template <typename T>
__device__ void QueryGradients(float (&d)[16], uint64_t a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                        \
  asm volatile(CUPEL_SHARED("32", type, CUPEL_R16, "%16", "%17", "%18", "1, 1") \
               : CUPEL_N16(d, 0)                                                \
               : "l"(a), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
template <typename T>
__device__ void QueryGradients(float (&d)[32], uint64_t a, uint64_t b, int adds) {
#define CUPEL_CALL(type)                                                        \
  asm volatile(CUPEL_SHARED("64", type, CUPEL_R32, "%32", "%33", "%34", "1, 1") \
               : CUPEL_N32(d, 0)                                                \
               : "l"(a), "l"(b), "r"(adds))
  CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}
template <typename T>
__device__ void QueryGradients(float (&d)[64], uint64_t a, uint64_t b, int adds){
#define CUPEL_CALL(type)                                                         \
  asm volatile(CUPEL_SHARED("128", type, CUPEL_R64, "%64", "%65", "%66", "1, 1") \
               : CUPEL_N32(d, 0), CUPEL_N32(d, 32)                               \
               : "l"(a), "l"(b), "r"(adds))
    CUPEL_BOTH(CUPEL_CALL)
#undef CUPEL_CALL
}

__device__ void FenceProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
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
__device__ void AddQuad(float* to, float a, float b, float c, float d) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

// The loader: one thread. Blocks take what is left, in order.
template <typename Tile>
__device__ void LoadTiles(typename Tile::Shared& shared, const Maps& maps, const WideShape& shape,
                          const float* logsumexps, const float* corrections, int* next) {
  constexpr int kKeyChunk = Tile::kKeys * 64, kQueryChunk = Tile::kQueries * 64;
  const int works = shape.heads * (shape.padded / Tile::kKeys);
  int used = 0;  // tiles of queries
  for (int done = 0;; ++done) {
    int index = static_cast<int>(blockIdx.x);
    if (done > 0) index = static_cast<int>(gridDim.x) + atomicAdd(next, 1);
    if (index >= works) index = -1;
    WaitFor(&shared.work_empty, done % 2 ^ 1);
    shared.work = index;
    Arrive(&shared.work_full);
    if (index < 0) return;
    const Work work = Work::Of<Tile>(shape, index);
    const int place = done % Tile::kPlaces;
    WaitFor(&shared.kv_empty[place], done / Tile::kPlaces % 2 ^ 1);
    ExpectBytes(&shared.kv_full[place], 4 * Tile::kKeys * Tile::kSize);
#pragma unroll
    for (int c = 0; c < Tile::kChunks; ++c) {
      LoadBox(&shared.k[place][c * kKeyChunk], maps.k, &shared.kv_full[place], c * 64,
              work.first_key, work.kv_head);
      LoadBox(&shared.v[place][c * kKeyChunk], maps.v, &shared.kv_full[place], c * 64,
              work.first_key, work.kv_head);
    }
    if (done == 0) WaitForLaunchBefore();
    const int64_t row = static_cast<int64_t>(work.head) * shape.padded;
    for (int n = 0; n < work.count; ++n, ++used) {
      const int stage = used % Tile::kStages, query = work.first_key + n * Tile::kQueries;
      WaitFor(&shared.empty[stage], used / Tile::kStages % 2 ^ 1);
      constexpr int kTileBytes = Tile::kQueries * (2 * Tile::kSize + 4);
      ExpectBytes(&shared.q_full[stage], kTileBytes);
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        LoadBox(&shared.q[stage][c * kQueryChunk], maps.q, &shared.q_full[stage], c * 64, query,
                work.head);
      }
      LoadFloats(shared.logsumexp[stage], logsumexps + row + query, Tile::kQueries,
                 &shared.q_full[stage]);
      ExpectBytes(&shared.g_full[stage], kTileBytes);
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        LoadBox(&shared.g[stage][c * kQueryChunk], maps.g, &shared.g_full[stage], c * 64, query,
                work.head);
      }
      LoadFloats(shared.corrections[stage], corrections + row + query, Tile::kQueries,
                 &shared.g_full[stage]);
    }
  }
}

template <typename T, typename Tile>
__global__ __launch_bounds__(Tile::kThreads, 1) void Gradients(
    const __grid_constant__ Maps maps, const WideShape shape, const float* __restrict__ logsumexp,
    const float* __restrict__ corrections, float* __restrict__ query_sums,
    float* __restrict__ key_sums, float* __restrict__ value_sums, int* __restrict__ next) {
  constexpr int kQueries = Tile::kQueries, kSize = Tile::kSize, kStages = Tile::kStages;
  constexpr int kKeyChunk = Tile::kKeys * 64, kQueryChunk = kQueries * 64;
  constexpr int kScores = kQueries / 2;
  extern __shared__ uint8_t dynamic[];
  auto& shared = *reinterpret_cast<typename Tile::Shared*>(
      (reinterpret_cast<uintptr_t>(dynamic) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    InitBarrier(&shared.work_full, 1);
    InitBarrier(&shared.work_empty, 8);
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(&shared.q_full[i], 1);
      InitBarrier(&shared.g_full[i], 1);
      InitBarrier(&shared.empty[i], 8);
    }
    for (int i = 0; i < 2; ++i) {
      InitBarrier(&shared.kv_full[i], 1);
      InitBarrier(&shared.kv_empty[i], 2);
      InitBarrier(&shared.slopes_full[i], 8);
      InitBarrier(&shared.slopes_empty[i], 8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 256) {
      LoadTiles<Tile>(shared, maps, shape, logsumexp, corrections, next);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  WaitForLaunchBefore();
  const int wide = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const float log_scale = shape.scale * kLog2e;
  constexpr int kMine = Tile::kWidth / 2;  // gradients of queries
  float grad_k[kSize / 2], grad_v[kSize / 2];
  int used = 0;     // tiles of queries, by what came before
  int stored = -1;  // the place of keys and values that results are still read from
  const auto free_stored = [&] {
    if (stored >= 0 && thread == 0) {
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      Arrive(&shared.kv_empty[stored]);
    }
    stored = -1;
  };
  for (int done = 0;; ++done) {
    WaitFor(&shared.work_full, done % 2);
    const int index = __shfl_sync(~0u, shared.work, 0);
    if (lane == 0) Arrive(&shared.work_empty);
    if (index < 0) break;
    const Work work = Work::Of<Tile>(shape, index);
    const int first_key = work.first_key, count = work.count, my_key = first_key + 64 * wide;
    // The first queries come before all keys of the second warpgroup, if there are 64.
    const int begin = kQueries == 64 ? wide : 0;
    const uint16_t* const k_tile = shared.k[done % 2];
    const uint16_t* const my_k = k_tile + wide * 64 * 64;
    const uint16_t* const my_v = shared.v[done % 2] + wide * 64 * 64;
    float* sums = query_sums +
                  (static_cast<int64_t>(work.head) * shape.padded + first_key) * kSize +
                  wide * (kQueries * kSize / 2) + thread * 4;
    const auto scores = [&](float(&s)[kScores], int n) {
      const int stage = (used + n) % kStages;
      WaitFor(&shared.q_full[stage], (used + n) / kStages % 2);
      FenceProducts();
#pragma unroll
      for (int d = 0; d < kSize / 16; ++d) {
        const int chunk = d / 4, inside = d % 4 * 16;
        Scores<T>(s, MatrixAt(my_k + chunk * kKeyChunk + inside),
                  MatrixAt(shared.q[stage] + chunk * kQueryChunk + inside), d);
      }
      CommitProducts();
    };
    const auto slopes_of = [&](float(&slope)[kScores], int n) {
      const int stage = (used + n) % kStages;
      WaitFor(&shared.g_full[stage], (used + n) / kStages % 2);
      FenceProducts();
#pragma unroll
      for (int d = 0; d < kSize / 16; ++d) {
        const int chunk = d / 4, inside = d % 4 * 16;
        Scores<T>(slope, MatrixAt(my_v + chunk * kKeyChunk + inside),
                  MatrixAt(shared.g[stage] + chunk * kQueryChunk + inside), d);
      }
      CommitProducts();
    };
    const auto add_queries = [&](const float(&grad_q)[kMine], bool exists) {
      if (exists) {
#pragma unroll
        for (int i = 0; i < kMine / 4; ++i) {
          AddQuad(sums + i * 512, grad_q[4 * i], grad_q[4 * i + 1], grad_q[4 * i + 2],
                  grad_q[4 * i + 3]);
        }
        sums += kQueries * kSize;
      }
    };
    WaitFor(&shared.kv_full[done % 2], done / 2 % 2);
    float s[kScores];
    scores(s, min(begin, count - 1));
    if (begin > 0) {
      WaitFor(&shared.q_full[used % kStages], used / kStages % 2);
      WaitFor(&shared.g_full[used % kStages], used / kStages % 2);
      WaitFor(&shared.slopes_empty[used % 2], used / 2 % 2 ^ 1);
      for (int i = thread; i < 64 * 64 / 8; i += 128) {
        reinterpret_cast<uint4*>(shared.slopes[used % 2] + wide * 64 * 64)[i] = uint4{0, 0, 0, 0};
      }
      FenceShared();
      __syncwarp();
      if (lane == 0) Arrive(&shared.slopes_full[used % 2]);
    }
    WaitForProducts<0>();
    Pin(s);
    if (begin > 0 && lane == 0) Arrive(&shared.empty[used % kStages]);
    // The gradients of queries follow one tile behind. Those before the first are not used.
    for (int n = begin; n < count; ++n) {
      const int stage = (used + n) % kStages, place = (used + n) % 2, before = place ^ 1;
      float slope[kScores], apart[kMine];
      // In registers that scores no longer need, where there are as many.
      float(&grad_q)[kMine] = *reinterpret_cast<float(*)[kMine]>(kMine == kScores ? s : apart);
      uint32_t p[kScores / 2], packed[kScores / 2];
      const int query = first_key + n * kQueries;
      const uint16_t* const q = shared.q[stage];
      const uint16_t* const g = shared.g[stage];
      uint16_t* const slopes = shared.slopes[place];
      slopes_of(slope, n);
      if (query < my_key + 63) {
        const int key = my_key + 16 * warp + lane / 4;
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
          if (key + i / 2 % 2 * 8 > query + i / 4 * 8 + lane % 4 * 2 + i % 2) s[i] = -INFINITY;
        }
      }
#pragma unroll
      for (int i = 0; i < kScores / 4; ++i) {
        const float2 l =
            *reinterpret_cast<const float2*>(&shared.logsumexp[stage][i * 8 + lane % 4 * 2]);
        s[4 * i] = PowerOfTwo(fmaf(s[4 * i], log_scale, -l.x));
        s[4 * i + 1] = PowerOfTwo(fmaf(s[4 * i + 1], log_scale, -l.y));
        s[4 * i + 2] = PowerOfTwo(fmaf(s[4 * i + 2], log_scale, -l.x));
        s[4 * i + 3] = PowerOfTwo(fmaf(s[4 * i + 3], log_scale, -l.y));
        p[2 * i] = Pack<T>(s[4 * i], s[4 * i + 1]);
        p[2 * i + 1] = Pack<T>(s[4 * i + 2], s[4 * i + 3]);
      }
      Pin(p);
      if (n > 0) WaitFor(&shared.slopes_full[before], (used + n - 1) / 2 % 2);
      const uint16_t* const slopes_before = n > 0 ? shared.slopes[before] : k_tile;
      FenceProducts();
#pragma unroll
      for (int k = 0; k < Tile::kKeys / 16; ++k) {
        const uint16_t* a = slopes_before + (kQueries == 128 ? wide * kKeyChunk : 0) + k * 16 * 64;
        const uint16_t* b = k_tile + k * 16 * 64 +
                            (kQueries == 128 ? 0
                             : kSize == 128  ? wide * kKeyChunk
                                             : wide * 32);
        QueryGradients<T>(grad_q, MatrixAt(a), MatrixAt(b), k);
      }
      CommitProducts();
      FenceProducts();
#pragma unroll
      for (int k = 0; k < kQueries / 16; ++k) {
        Add<T>(grad_v, &p[4 * k], MatrixAt(g + k * 16 * 64, kQueryChunk * 2), n - begin + k);
      }
      CommitProducts();
      WaitForProducts<2>();
      Pin(slope);
      WaitFor(&shared.slopes_empty[place], (used + n) / 2 % 2 ^ 1);
#pragma unroll
      for (int i = 0; i < kScores / 4; ++i) {
        const float2 c =
            *reinterpret_cast<const float2*>(&shared.corrections[stage][i * 8 + lane % 4 * 2]);
        const float2 w = Unpack<T>(p[2 * i]), x = Unpack<T>(p[2 * i + 1]);
        packed[2 * i] = Pack<T>(w.x * fmaf(slope[4 * i], shape.scale, -c.x),
                                w.y * fmaf(slope[4 * i + 1], shape.scale, -c.y));
        packed[2 * i + 1] = Pack<T>(x.x * fmaf(slope[4 * i + 2], shape.scale, -c.x),
                                    x.y * fmaf(slope[4 * i + 3], shape.scale, -c.y));
      }
      const int line = 64 * wide + 16 * warp + lane % 16;
#pragma unroll
      for (int k = 0; k < kQueries / 16; ++k) {
        const int chunk = k / 4, piece = k % 4 * 2 + lane / 16;
        const uint16_t* to = slopes + chunk * kKeyChunk + line * 64 + (piece ^ line % 8) * 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         SharedAddress(to)),
                     "r"(packed[4 * k]), "r"(packed[4 * k + 1]), "r"(packed[4 * k + 2]),
                     "r"(packed[4 * k + 3])
                     : "memory");
      }
      FenceShared();
      __syncwarp();
      if (lane == 0) Arrive(&shared.slopes_full[place]);
      WaitForProducts<1>();
      Pin(grad_q);
      if (lane == 0 && n > 0) Arrive(&shared.slopes_empty[before]);
      add_queries(grad_q, n > 0);
      Pin(packed);
      FenceProducts();
#pragma unroll
      for (int k = 0; k < kQueries / 16; ++k) {
        Add<T>(grad_k, &packed[4 * k], MatrixAt(q + k * 16 * 64, kQueryChunk * 2), n - begin + k);
      }
      CommitProducts();
      scores(s, min(n + 1, count - 1));  // after the last ones, for nothing
      WaitForProducts<1>();
      Pin(p);
      Pin(packed);
      if (lane == 0 && n + 1 < count) Arrive(&shared.empty[stage]);
      free_stored();
      WaitForProducts<0>();
      Pin(s);
      if (lane == 0 && n + 1 == count) Arrive(&shared.empty[stage]);
    }
    free_stored();
    used += count;
    const int last = (used - 1) % 2;
    float grad_q[kMine];
    WaitFor(&shared.slopes_full[last], (used - 1) / 2 % 2);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < Tile::kKeys / 16; ++k) {
      const uint16_t* a =
          shared.slopes[last] + (kQueries == 128 ? wide * kKeyChunk : 0) + k * 16 * 64;
      const uint16_t* b = k_tile + k * 16 * 64 +
                          (kQueries == 128 ? 0
                           : kSize == 128  ? wide * kKeyChunk
                                           : wide * 32);
      QueryGradients<T>(grad_q, MatrixAt(a), MatrixAt(b), k);
    }
    CommitProducts();
    WaitForProducts<0>();
    Pin(grad_q);
    if (lane == 0) Arrive(&shared.slopes_empty[last]);
    add_queries(grad_q, true);
    Pin(grad_k);
    Pin(grad_v);

    if (my_key < shape.tokens && key_sums != nullptr) {
      const int64_t at =
          (static_cast<int64_t>(work.kv_head) * shape.padded + my_key) * kSize + thread * 4;
#pragma unroll
      for (int i = 0; i < kSize / 8; ++i) {
        const int64_t to = at + i / 8 * kBlock + i % 8 * 512;
        AddQuad(key_sums + to, grad_k[4 * i], grad_k[4 * i + 1], grad_k[4 * i + 2],
                grad_k[4 * i + 3]);
        AddQuad(value_sums + to, grad_v[4 * i], grad_v[4 * i + 1], grad_v[4 * i + 2],
                grad_v[4 * i + 3]);
      }
    }
    if (key_sums == nullptr) {  // no other head has these keys
      SyncThreads(1, 256);      // keys have been read
      const int line = 16 * warp + lane % 16;
      const auto store = [&](const uint16_t* own, const float(&from)[kSize / 2]) {
#pragma unroll
        for (int i = 0; i < kSize / 16; ++i) {
          const float* x = &from[8 * i];
          const int chunk = i / 4, piece = i % 4 * 2 + lane / 16;
          const uint16_t* to = own + chunk * kKeyChunk + line * 64 + (piece ^ line % 8) * 8;
          asm volatile(
              "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, "
              "%3, %4};" ::"r"(SharedAddress(to)),
              "r"(Pack<T>(x[0], x[1])), "r"(Pack<T>(x[2], x[3])), "r"(Pack<T>(x[4], x[5])),
              "r"(Pack<T>(x[6], x[7]))
              : "memory");
        }
      };
      store(my_k, grad_k);
      store(my_v, grad_v);
      FenceShared();
      SyncThreads(2 + wide, 128);
      stored = done % 2;
      if (thread == 0 && my_key < shape.tokens) {
#pragma unroll
        for (int c = 0; c < Tile::kChunks; ++c) {
          StoreBox(maps.grad_k, my_k + c * kKeyChunk, c * 64, my_key, work.kv_head);
          StoreBox(maps.grad_v, my_v + c * kKeyChunk, c * 64, my_key, work.kv_head);
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    } else {
      SyncThreads(2 + wide, 128);  // keys and values have been read
      if (thread == 0) Arrive(&shared.kv_empty[done % 2]);
    }
  }
  free_stored();
  LetNextLaunchBegin();
}

// Writes 64 rows of 256 elements, as the tensor cores leave them, in 16 bits: the four threads that
// have a row exchange pairs, so that each writes 16 bytes at a time.
template <typename T>
__device__ void StoreRows(T* to, const float (&from)[128], int rows, int size) {
  const int thread = threadIdx.x % 128, lane = thread % 32, mine = lane % 4;
  const int line = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int block = 0; block < 32; block += 4) {  // of 8 elements
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = (block + i) * 4 + half * 2;
        words[i] = Pack<T>(from[at], from[at + 1]);
      }
#pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        const bool upper = (mine & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if ((i & step) != 0) continue;
          uint32_t &low = words[i], &high = words[i + step];
          const uint32_t received = __shfl_xor_sync(~0u, upper ? low : high, step);
          (upper ? low : high) = received;
        }
      }
      const int row = line + half * 8, element = (block + mine) * 8;
      if (row < rows && element < size) {
        *reinterpret_cast<uint4*>(to + static_cast<int64_t>(row) * size + element) =
            uint4{words[0], words[1], words[2], words[3]};
      }
    }
  }
}

// Adds what the tensor cores leave of 64 rows of kCount / 32 blocks of 64 elements.
template <int kCount>
__device__ void AddBlocks(float* to, const float (&from)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    AddQuad(to + i / 8 * kBlock + i % 8 * 512, from[4 * i], from[4 * i + 1], from[4 * i + 2],
            from[4 * i + 3]);
  }
}

// The same for heads of up to 256 elements. The first warpgroup computes weights and the gradients
// of values, the second one slopes and the gradients of keys. Each adds up half of the elements of
// the gradients of queries, one tile behind.
template <typename T, typename Tile>
__global__ __launch_bounds__(Tile::kThreads, 1) void LargeGradients(
    const __grid_constant__ Maps maps, const WideShape shape, T* __restrict__ key_gradients,
    T* __restrict__ value_gradients, int size, const float* __restrict__ logsumexp,
    const float* __restrict__ corrections, float* __restrict__ query_sums,
    float* __restrict__ key_sums, float* __restrict__ value_sums, int* __restrict__ next) {
  constexpr int kQueries = Tile::kQueries, kSize = Tile::kSize, kStages = Tile::kStages;
  constexpr int kKeyChunk = Tile::kKeys * 64, kQueryChunk = kQueries * 64;
  extern __shared__ uint8_t dynamic[];
  auto& shared = *reinterpret_cast<typename Tile::Shared*>(
      (reinterpret_cast<uintptr_t>(dynamic) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    InitBarrier(&shared.work_full, 1);
    InitBarrier(&shared.work_empty, 8);
    InitBarrier(&shared.kv_full[0], 1);
    InitBarrier(&shared.kv_empty[0], 8);
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(&shared.q_full[i], 1);
      InitBarrier(&shared.g_full[i], 1);
      InitBarrier(&shared.empty[i], 8);
    }
    for (int i = 0; i < 2; ++i) {
      InitBarrier(&shared.slopes_full[i], 4);
      InitBarrier(&shared.slopes_empty[i], 8);
      InitBarrier(&shared.weights_full[i], 4);
      InitBarrier(&shared.weights_empty[i], 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 256) {
      LoadTiles<Tile>(shared, maps, shape, logsumexp, corrections, next);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  WaitForLaunchBefore();
  const int wide = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const float log_scale = shape.scale * kLog2e;
  float gradient[kSize / 2];  // of values or keys
  int used = 0;               // tiles of queries, by what came before
  for (int done = 0;; ++done) {
    WaitFor(&shared.work_full, done % 2);
    const int index = __shfl_sync(~0u, shared.work, 0);
    if (lane == 0) Arrive(&shared.work_empty);
    if (index < 0) break;
    const Work work = Work::Of<Tile>(shape, index);
    const int first_key = work.first_key, count = work.count;
    const uint16_t* const k_tile = shared.k[0];
    const int64_t place_of_keys = static_cast<int64_t>(work.kv_head) * shape.padded + first_key;
    float* sums = query_sums +
                  (static_cast<int64_t>(work.head) * shape.padded + first_key) * kSize +
                  wide * (kQueries * kSize / 2) + thread * 4;
    // 64 keys by 64 queries of a product of the tile's keys (values) and queries (grad_output).
    const auto scores = [&](float(&s)[32], const uint16_t* keys, const uint16_t* queries) {
      FenceProducts();
#pragma unroll
      for (int d = 0; d < kSize / 16; ++d) {
        const int chunk = d / 4, inside = d % 4 * 16;
        Scores<T>(s, MatrixAt(keys + chunk * kKeyChunk + inside),
                  MatrixAt(queries + chunk * kQueryChunk + inside), d);
      }
      CommitProducts();
    };
    const auto wait_for_queries = [&](int n) {
      WaitFor(&shared.q_full[(used + n) % kStages], (used + n) / kStages % 2);
    };
    const auto wait_for_grad_output = [&](int n) {
      WaitFor(&shared.g_full[(used + n) % kStages], (used + n) / kStages % 2);
    };
    // Products of tile n for queries. Before the first there are none: numbers that are not used.
    const auto multiply_slopes = [&](float(&grad_q)[64], int n) {
      if (n >= 0) WaitFor(&shared.slopes_full[(used + n) % 2], (used + n) / 2 % 2);
      const uint16_t* const slopes = n >= 0 ? shared.slopes[(used + n) % 2] : k_tile;
      FenceProducts();
#pragma unroll
      for (int k = 0; k < Tile::kKeys / 16; ++k) {
        QueryGradients<T>(grad_q, MatrixAt(slopes + k * 16 * 64),
                          MatrixAt(k_tile + 2 * wide * kKeyChunk + k * 16 * 64, kKeyChunk * 2), k);
      }
      CommitProducts();
    };
    const auto add_queries = [&](const float(&grad_q)[64], int n) {
      if (n < 0) return;
      if (lane == 0) Arrive(&shared.slopes_empty[(used + n) % 2]);
      AddBlocks(sums, grad_q);
      sums += kQueries * kSize;
    };
    // gradient += pairs x rows of queries (grad_output), which then are not needed again.
    const auto multiply_rows = [&](const uint32_t(&pairs)[16], const uint16_t* rows, int n) {
      FenceProducts();
#pragma unroll
      for (int k = 0; k < kQueries / 16; ++k) {
        Add<T>(gradient, &pairs[4 * k], MatrixAt(rows + k * 16 * 64, kQueryChunk * 2), n + k);
      }
      CommitProducts();
    };
    WaitFor(&shared.kv_full[0], done % 2);
    if (wide == 0) {
      float s[32];
      wait_for_queries(0);
      scores(s, k_tile, shared.q[used % kStages]);
      WaitForProducts<0>();
      Pin(s);
      for (int n = 0; n < count; ++n) {
        const int stage = (used + n) % kStages, place = (used + n) % 2;
        float grad_q[64];
        uint32_t p[16];
        if (n == 0) {
          const int key = 16 * warp + lane / 4;  // of the tile, as the query
#pragma unroll
          for (int i = 0; i < 32; ++i) {
            if (key + i / 2 % 2 * 8 > i / 4 * 8 + lane % 4 * 2 + i % 2) s[i] = -INFINITY;
          }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float2 l =
              *reinterpret_cast<const float2*>(&shared.logsumexp[stage][i * 8 + lane % 4 * 2]);
          p[2 * i] = Pack<T>(PowerOfTwo(fmaf(s[4 * i], log_scale, -l.x)),
                             PowerOfTwo(fmaf(s[4 * i + 1], log_scale, -l.y)));
          p[2 * i + 1] = Pack<T>(PowerOfTwo(fmaf(s[4 * i + 2], log_scale, -l.x)),
                                 PowerOfTwo(fmaf(s[4 * i + 3], log_scale, -l.y)));
        }
        Pin(p);
        WaitFor(&shared.weights_empty[place], (used + n) / 2 % 2 ^ 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          shared.weights[place][i][thread] =
              uint4{p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3]};
        }
        __syncwarp();
        if (lane == 0) Arrive(&shared.weights_full[place]);
        multiply_slopes(grad_q, n - 1);
        wait_for_grad_output(n);
        multiply_rows(p, shared.g[stage], n);
        WaitForProducts<1>();
        Pin(grad_q);
        add_queries(grad_q, n - 1);
        const int following = min(n + 1, count - 1);  // after the last one, for nothing
        wait_for_queries(following);
        scores(s, k_tile, shared.q[(used + following) % kStages]);
        WaitForProducts<1>();
        Pin(p);
        if (lane == 0 && n + 1 < count) Arrive(&shared.empty[stage]);
        WaitForProducts<0>();
        Pin(s);
      }
    } else {
      float slope[32];
      wait_for_grad_output(0);
      scores(slope, shared.v[0], shared.g[used % kStages]);
      for (int n = 0; n < count; ++n) {
        const int stage = (used + n) % kStages, place = (used + n) % 2;
        float grad_q[64];
        uint32_t p[16], packed[16];
        WaitFor(&shared.weights_full[place], (used + n) / 2 % 2);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint4 four = shared.weights[place][i][thread];
          p[4 * i] = four.x;
          p[4 * i + 1] = four.y;
          p[4 * i + 2] = four.z;
          p[4 * i + 3] = four.w;
        }
        __syncwarp();
        if (lane == 0) Arrive(&shared.weights_empty[place]);
        WaitForProducts<0>();
        Pin(slope);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float2 c =
              *reinterpret_cast<const float2*>(&shared.corrections[stage][i * 8 + lane % 4 * 2]);
          const float2 w = Unpack<T>(p[2 * i]), x = Unpack<T>(p[2 * i + 1]);
          packed[2 * i] = Pack<T>(w.x * fmaf(slope[4 * i], shape.scale, -c.x),
                                  w.y * fmaf(slope[4 * i + 1], shape.scale, -c.y));
          packed[2 * i + 1] = Pack<T>(x.x * fmaf(slope[4 * i + 2], shape.scale, -c.x),
                                      x.y * fmaf(slope[4 * i + 3], shape.scale, -c.y));
        }
        Pin(packed);
        WaitFor(&shared.slopes_empty[place], (used + n) / 2 % 2 ^ 1);
        const int line = 16 * warp + lane % 16;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int piece = k * 2 + lane / 16;
          const uint16_t* to = shared.slopes[place] + line * 64 + (piece ^ line % 8) * 8;
          asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                           SharedAddress(to)),
                       "r"(packed[4 * k]), "r"(packed[4 * k + 1]), "r"(packed[4 * k + 2]),
                       "r"(packed[4 * k + 3])
                       : "memory");
        }
        FenceShared();
        __syncwarp();
        if (lane == 0) Arrive(&shared.slopes_full[place]);
        multiply_slopes(grad_q, n - 1);
        wait_for_queries(n);
        multiply_rows(packed, shared.q[stage], n);
        WaitForProducts<1>();
        Pin(grad_q);
        add_queries(grad_q, n - 1);
        const int following = min(n + 1, count - 1);  // after the last one, for nothing
        wait_for_grad_output(following);
        scores(slope, shared.v[0], shared.g[(used + following) % kStages]);
        WaitForProducts<1>();
        Pin(packed);
        if (lane == 0 && n + 1 < count) Arrive(&shared.empty[stage]);
      }
      WaitForProducts<0>();
      Pin(slope);
    }
    if (lane == 0) Arrive(&shared.empty[(used + count - 1) % kStages]);
    float grad_q[64];
    multiply_slopes(grad_q, count - 1);
    WaitForProducts<0>();
    Pin(grad_q);
    if (lane == 0) Arrive(&shared.kv_empty[0]);
    add_queries(grad_q, count - 1);
    used += count;
    Pin(gradient);
    if (key_sums != nullptr) {
      AddBlocks((wide == 0 ? value_sums : key_sums) + place_of_keys * kSize + thread * 4, gradient);
    } else {  // no other head has these keys
      const int64_t row = static_cast<int64_t>(work.kv_head) * shape.tokens + first_key;
      StoreRows((wide == 0 ? value_gradients : key_gradients) + row * size, gradient,
                shape.tokens - first_key, size);
    }
  }
  LetNextLaunchBegin();
}
#else
// Code for Hopper without its own instructions (sm_90 instead of sm_90a).
template <typename T, typename Tile>
__global__ void Gradients(const __grid_constant__ Maps, const WideShape, const float*, const float*,
                          float*, float*, float*, int*) {
  __trap();
}
template <typename T, typename Tile>
__global__ void LargeGradients(const __grid_constant__ Maps, const WideShape, T*, T*, int,
                               const float*, const float*, float*, float*, float*, int*) {
  __trap();
}
#endif

// (batch and head, token, element), loaded or stored in boxes of `rows` tokens
// and 64 elements.
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
  const T *grad_output, *query, *key, *value, *output;
  const float* logsumexp;
  T *grad_query, *grad_key, *grad_value;
  Shape shape;
  int64_t all_heads, all_kv_heads;
  torch::TensorOptions floats;
  cudaStream_t stream;

  // May begin before the launch before it has ended.
  template <typename... Parameters, typename... Arguments>
  void LaunchEarly(void (*kernel)(Parameters...), int64_t blocks, int threads, int bytes,
                   const Arguments&... arguments) const {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(bytes);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
  }

  template <typename Tile>
  void LaunchWide() const {
    constexpr int kSize = Tile::kSize;
    const int sharing = shape.heads / shape.kv_heads;
    const int64_t padded = (int64_t{shape.tokens} + Tile::kKeys - 1) / Tile::kKeys * Tile::kKeys;
    const int64_t tiles = padded / Tile::kKeys, rows = all_heads * padded;
    TORCH_CHECK(rows < int64_t{1} << 31, "too many queries");
    const int64_t key_floats = sharing > 1 ? all_kv_heads * padded * kSize : 0;
    const int64_t sum_floats = rows * kSize + 2 * key_floats;
    const auto sums = torch::empty({sum_floats + 2 * rows + 1}, floats);
    float* const query_sums = sums.template data_ptr<float>();
    float* const key_sums = query_sums + rows * kSize;
    float* const value_sums = key_sums + key_floats;
    float* const scaled = query_sums + sum_floats;
    float* const corrections = scaled + rows;
    int* const next = reinterpret_cast<int*>(corrections + rows);
    const auto prepare_blocks = static_cast<unsigned>((rows * (kSize / 8) + 255) / 256);
    Prepare<T, kSize / 8><<<prepare_blocks, 256, 0, stream>>>(
        grad_output, output, logsumexp, scaled, corrections, reinterpret_cast<float4*>(query_sums),
        sum_floats / 4, rows, shape.tokens, static_cast<int>(padded), shape.size, shape.scale,
        next);
    C10_CUDA_CHECK(cudaGetLastError());

    // Queries and what is computed of them, of the heads that run together,
    // stay in the L2 cache.
    const int64_t bytes = padded * kSize * 8;
    const int64_t most = std::clamp<int64_t>(kCacheBytes / bytes, 1, all_heads);
    const int64_t groups = (all_heads + most - 1) / most;
    const WideShape wide{static_cast<int>(all_heads),
                         static_cast<int>(all_kv_heads),
                         shape.tokens,
                         static_cast<int>(padded),
                         static_cast<int>((all_heads + groups - 1) / groups),
                         shape.scale};
    const Maps maps{MapOf(query, all_heads, shape, Tile::kQueries),
                    MapOf(grad_output, all_heads, shape, Tile::kQueries),
                    MapOf(key, all_kv_heads, shape, Tile::kKeys),
                    MapOf(value, all_kv_heads, shape, Tile::kKeys),
                    MapOf<T>(grad_key, all_kv_heads, shape, 64),
                    MapOf<T>(grad_value, all_kv_heads, shape, 64)};
    const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const auto launch = [&](auto kernel, const auto&... arguments) {
      C10_CUDA_CHECK(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kBytes));
      LaunchEarly(kernel, std::min(sms, all_heads * tiles), Tile::kThreads, Tile::kBytes, maps,
                  wide, arguments..., scaled, corrections, query_sums,
                  sharing > 1 ? key_sums : nullptr, value_sums, next);
    };
    if constexpr (kSize > 128) {
      launch(LargeGradients<T, Tile>, grad_key, grad_value, shape.size);
    } else {
      launch(Gradients<T, Tile>);
    }

    const Target<T> queries{query_sums, grad_query, rows * kSize / kBlock};
    const Target<T> keys{key_sums, grad_key, key_floats / kBlock};
    const Target<T> values{value_sums, grad_value, key_floats / kBlock};
    const int64_t blocks = queries.blocks + keys.blocks + values.blocks;
    LaunchEarly(Convert<T>, blocks, 128, 0, queries, keys, values, shape.tokens, shape.size,
                static_cast<int>(padded / 64), kSize / 64);
  }

  void Correct(float* corrections) const {
    const int64_t queries = all_heads * shape.tokens;
    TORCH_CHECK(queries < int64_t{1} << 31, "too many queries");
    Corrections<T><<<static_cast<unsigned>((queries + 3) / 4), kAnyThreads, 0, stream>>>(
        grad_output, output, corrections, queries, shape.size);
    C10_CUDA_CHECK(cudaGetLastError());
  }

  template <typename Tile>
  void LaunchPlain() const {
    const int64_t queries = all_heads * shape.tokens, keys = all_kv_heads * shape.tokens;
    const int64_t counts[] = {queries * shape.size, keys * shape.size, keys * shape.size};
    T* const gradients[] = {grad_query, grad_key, grad_value};
    constexpr bool kInPlace = std::is_same_v<T, float>;
    const auto memory =
        torch::empty({queries + (kInPlace ? 0 : counts[0] + counts[1] + counts[2])}, floats);
    float* const corrections = memory.template data_ptr<float>();
    float* sums[3] = {};
    float* next = corrections + queries;
    for (int i = 0; i < 3; ++i) {
      if constexpr (kInPlace) {
        sums[i] = gradients[i];
      } else {
        sums[i] = next;
        next += counts[i];
      }
      C10_CUDA_CHECK(
          cudaMemsetAsync(sums[i], 0, sizeof(float) * static_cast<size_t>(counts[i]), stream));
    }
    Correct(corrections);
    const int64_t tiles = (shape.tokens + Tile::kRows - 1) / Tile::kRows;
    TORCH_CHECK(all_heads * tiles < int64_t{1} << 31, "too many queries");
    C10_CUDA_CHECK(cudaFuncSetAttribute(PlainGradients<T, Tile>,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kBytes));
    PlainGradients<T, Tile>
        <<<static_cast<unsigned>(all_heads * tiles), Tile::kThreads, Tile::kBytes, stream>>>(
            grad_output, query, key, value, logsumexp, corrections, sums[0], sums[1], sums[2],
            shape, all_heads);
    C10_CUDA_CHECK(cudaGetLastError());
    if constexpr (!kInPlace) {
      for (int i = 0; i < 3; ++i) {
        const auto blocks = static_cast<unsigned>((counts[i] + kAnyThreads - 1) / kAnyThreads);
        ConvertPlain<T><<<blocks, kAnyThreads, 0, stream>>>(sums[i], gradients[i], counts[i]);
        C10_CUDA_CHECK(cudaGetLastError());
      }
    }
  }

  void LaunchAny() const {
    const int64_t queries = all_heads * shape.tokens, keys = all_kv_heads * shape.tokens;
    const auto bytes = 2 * sizeof(float) * static_cast<size_t>(shape.size);
    const auto memory = torch::empty({queries}, floats);
    float* const corrections = memory.template data_ptr<float>();
    Correct(corrections);
    AnyGradients<T, false><<<static_cast<unsigned>(queries), kAnyThreads, bytes, stream>>>(
        query, grad_output, key, value, logsumexp, corrections, grad_query, nullptr, shape);
    AnyGradients<T, true><<<static_cast<unsigned>(keys), kAnyThreads, bytes, stream>>>(
        key, value, query, grad_output, logsumexp, corrections, grad_key, grad_value, shape);
    C10_CUDA_CHECK(cudaGetLastError());
  }

  void Launch() const {
    if constexpr (!std::is_same_v<T, float>) {
      if (shape.size % 8 == 0 && at::cuda::getCurrentDeviceProperties()->major == 9) {
        if (shape.size <= 64) return LaunchWide<Tile<64, 64, 2>>();
        if (shape.size <= 128) return LaunchWide<Tile<128, 64, 2>>();
        if (shape.size <= 256) return LaunchWide<LargeTile>();
      }
    }
    if (shape.size <= 64) return LaunchPlain<PlainTile<64, 64>>();
    if (shape.size <= 128) {
      using Usual = PlainTile<128, 64>;
      const size_t most = at::cuda::getCurrentDeviceProperties()->sharedMemPerBlockOptin;
      if (most < Usual::kBytes) return LaunchPlain<PlainTile<128, 32>>();  // before Hopper
      return LaunchPlain<Usual>();
    }
    if (shape.size <= 256) return LaunchPlain<PlainTile<256, 32>>();
    LaunchAny();
  }
};

// Contiguous, and where a chunk of 16 bytes may begin.
static torch::Tensor Aligned(const torch::Tensor& x) {
  const auto y = x.contiguous();
  return reinterpret_cast<uintptr_t>(y.data_ptr()) % 16 == 0 ? y : y.clone();
}

template <typename T>
static void Dispatch(const std::vector<torch::Tensor>& x, const torch::Tensor& logsumexp,
                     const std::vector<torch::Tensor>& gradients) {
  const auto& query = x[1];
  const auto& key = x[2];
  const Shape shape{static_cast<int>(query.size(1)), static_cast<int>(key.size(1)),
                    static_cast<int>(query.size(2)), static_cast<int>(query.size(3)),
                    static_cast<float>(1 / std::sqrt(static_cast<double>(query.size(3))))};
  Call<T>{x[0].data_ptr<T>(),
          query.data_ptr<T>(),
          key.data_ptr<T>(),
          x[3].data_ptr<T>(),
          x[4].data_ptr<T>(),
          logsumexp.data_ptr<float>(),
          gradients[0].data_ptr<T>(),
          gradients[1].data_ptr<T>(),
          gradients[2].data_ptr<T>(),
          shape,
          query.size(0) * query.size(1),
          key.size(0) * key.size(1),
          logsumexp.options(),
          at::cuda::getCurrentCUDAStream()}
      .Launch();
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor query,
                                    torch::Tensor key, torch::Tensor value, torch::Tensor output,
                                    torch::Tensor logsumexp) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes() &&
                  grad_output.sizes() == query.sizes() && output.sizes() == query.sizes(),
              "tensors must be (batch, heads, tokens, size)");
  TORCH_CHECK(
      query.size(0) == key.size(0) && query.size(2) == key.size(2) && query.size(3) == key.size(3),
      "query and key must have as many members, tokens and elements");
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
              "the heads of query must be a multiple of those of key");
  TORCH_CHECK(query.size(3) <= 4096, "a head must have at most 4096 elements");
  TORCH_CHECK(
      logsumexp.sizes() == query.sizes().slice(0, 3) && logsumexp.scalar_type() == torch::kFloat32,
      "logsumexp must be float32, (batch, heads, tokens)");
  if (query.numel() == 0) {  // nothing depends on keys and values
    return {torch::empty(query.sizes(), query.options()), torch::zeros(key.sizes(), key.options()),
            torch::zeros(value.sizes(), value.options())};
  }
  const std::vector<torch::Tensor> gradients{torch::empty(query.sizes(), query.options()),
                                             torch::empty(key.sizes(), key.options()),
                                             torch::empty(value.sizes(), value.options())};
  std::vector<torch::Tensor> x;
  for (const auto& tensor : {grad_output, query, key, value, output}) {
    TORCH_CHECK(tensor.scalar_type() == query.scalar_type(), "all must be of the type of query");
    x.push_back(Aligned(tensor));
  }
  logsumexp = logsumexp.contiguous();
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Dispatch<float>(x, logsumexp, gradients);
      break;
    case torch::kFloat16:
      Dispatch<at::Half>(x, logsumexp, gradients);
      break;
    case torch::kBFloat16:
      Dispatch<at::BFloat16>(x, logsumexp, gradients);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return gradients;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of causal attention");
}
