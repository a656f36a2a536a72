// Attention of a decoding step with a paged cache: tokens in chunks, all heads that share keys
// together, tensor cores for 16-bit types; a second kernel combines the chunks.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

constexpr int kChunk = 256;  // tune: kChunk in 128, 256, 512, 1024

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kCombineThreads = 256;

struct Params {
  const void* query;
  const void* key;
  const void* value;
  const int* table;
  const int* lengths;
  void* y;
  float* sums;     // (batch, heads, splits, size), if sequences have several chunks
  float2* totals;  // (batch, heads, splits): largest scaled score, sum of the weights
  int heads, kv_heads, group, tiles, size, block_size, most_blocks, splits, chunk;
  float scale;  // of the scores, for exp2
};

__device__ __forceinline__ void Store(float* p, float v) { *p = v; }
__device__ __forceinline__ void Store(__half* p, float v) { *p = __float2half(v); }
__device__ __forceinline__ void Store(__nv_bfloat16* p, float v) { *p = __float2bfloat16(v); }
__device__ __forceinline__ float ToFloat(float v) { return v; }
__device__ __forceinline__ float ToFloat(__half v) { return __half2float(v); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 v) { return __bfloat162float(v); }

struct Work {
  int64_t sequence;
  int kv_head, tile, split, length, first, end;
};

__device__ __forceinline__ Work FindWork(const Params& p) {
  Work w;
  unsigned id = blockIdx.x;
  w.tile = static_cast<int>(id % p.tiles);
  id /= p.tiles;
  w.kv_head = static_cast<int>(id % p.kv_heads);
  id /= p.kv_heads;
  w.split = static_cast<int>(id % p.splits);
  w.sequence = id / p.splits;
  w.length = min(p.lengths[w.sequence], p.most_blocks * p.block_size);
  w.first = w.split * p.chunk;
  w.end = w.length - w.first > p.chunk ? w.first + p.chunk : w.length;
  return w;
}

// Combines the sums of the block's warps, and writes the result or the chunk's part of it.
template <typename T>
__device__ __forceinline__ void Finish(const Params& p, const Work& w, int64_t first_row, int rows,
                                       const float* sums, int sums_rows, int width,
                                       const float* largest, const float* totals) {
  T* const y = static_cast<T*>(p.y);
  const bool whole = w.length <= p.chunk;
  for (int i = threadIdx.x; i < rows * p.size; i += kThreads) {
    const int r = i / p.size;
    const int d = i - r * p.size;
    float top = largest[r];
#pragma unroll
    for (int k = 1; k < kWarps; ++k) top = fmaxf(top, largest[k * sums_rows + r]);
    float sum = 0;
    float total = 0;
#pragma unroll
    for (int k = 0; k < kWarps; ++k) {
      const float factor = exp2f(largest[k * sums_rows + r] - top);
      sum += factor * sums[(k * sums_rows + r) * width + d];
      total += factor * totals[k * sums_rows + r];
    }
    const int64_t row = first_row + r;
    if (whole) {
      Store(y + row * p.size + d, sum / total);
    } else {
      const int64_t part = row * p.splits + w.split;
      p.sums[part * p.size + d] = sum;
      if (d == 0) p.totals[part] = make_float2(top, total);
    }
  }
}

__device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two weights as the sums of two 16-bit parts each.
__device__ __forceinline__ void Split(float a, float b, uint32_t& high, uint32_t& low,
                                      __nv_bfloat16) {
  __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  __nv_bfloat162 l = __floats2bfloat162_rn(a - __low2float(h), b - __high2float(h));
  high = *reinterpret_cast<uint32_t*>(&h);
  low = *reinterpret_cast<uint32_t*>(&l);
}

__device__ __forceinline__ void Split(float a, float b, uint32_t& high, uint32_t& low, __half) {
  __half2 h = __floats2half2_rn(a, b);
  __half2 l = __floats2half2_rn(a - __low2float(h), b - __high2float(h));
  high = *reinterpret_cast<uint32_t*>(&h);
  low = *reinterpret_cast<uint32_t*>(&l);
}

__device__ __forceinline__ uint32_t Word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// 16-bit types. Each warp takes tiles of 16 tokens. kWide: 16 heads a block; otherwise 8, and the
// other 8 rows of the fragments hold the low parts of the weights.
// kAligned: block_size is a multiple of 16, hence a tile is in one block of the cache.
template <typename T, int kSize, bool kWide, bool kAligned>
__global__ void __launch_bounds__(kThreads, kWide ? 2 : (kSize > 64 ? 3 : 5)) Decode(Params p) {
  constexpr int kRows = kWide ? 16 : 8;
  constexpr int kWidth = kSize + 4;
  constexpr int kKeyLoads = kSize / 32;    // for 8 tokens
  constexpr int kValueLoads = kSize / 64;  // for a token of each lane
  __shared__ float sums[kWarps * kRows * kWidth];
  __shared__ float largest[kWarps * kRows];
  __shared__ float totals[kWarps * kRows];

  const Work w = FindWork(p);
  if (w.split > 0 && w.first >= w.length) return;  // the whole block
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int g = lane / 4;
  const int c = lane % 4;
  const int rows = min(kRows, p.group - w.tile * kRows);
  const int64_t first_row = w.sequence * p.heads + static_cast<int64_t>(w.kv_head) * p.group +
                            static_cast<int64_t>(w.tile) * kRows;
  const int* const table = p.table + w.sequence * p.most_blocks;
  const int64_t stride = static_cast<int64_t>(p.kv_heads) * kSize;
  const T* const key = static_cast<const T*>(p.key) + w.kv_head * kSize + c * 8;
  const T* const value = static_cast<const T*>(p.value) + w.kv_head * kSize + g * 8;

  const int all = w.end > w.first ? (w.end - w.first + 15) / 16 : 0;
  const int count = all > warp ? (all - warp + kWarps - 1) / kWarps : 0;  // at most 32
  int tile_row = 0;  // of the warp's tile number `lane`
  if constexpr (kAligned) {
    const int token = w.first + 16 * (warp + kWarps * lane);
    if (lane < count) {
      const int block = token / p.block_size;
      tile_row = __ldg(table + block) * p.block_size + (token - block * p.block_size);
    }
  }

  uint4 query[kKeyLoads];
  uint4 query2[kKeyLoads];
  {
    const T* const q = static_cast<const T*>(p.query) + first_row * kSize + c * 8;
#pragma unroll
    for (int i = 0; i < kKeyLoads; ++i) {
      query[i] = make_uint4(0, 0, 0, 0);
      query2[i] = make_uint4(0, 0, 0, 0);
      if (g < rows) query[i] = __ldg(reinterpret_cast<const uint4*>(q + g * kSize + i * 32));
      if (kWide && g + 8 < rows) {
        query2[i] = __ldg(reinterpret_cast<const uint4*>(q + (g + 8) * kSize + i * 32));
      }
    }
  }

  // The row of the caches with token number `offset` of the warp's tile i; the last token, if the
  // chunk has no such token.
  const auto find_row = [&](int i, int base_row, int offset) -> int64_t {
    const int base = w.first + 16 * (warp + kWarps * i);
    if constexpr (kAligned) {
      return base_row + min(offset, w.end - 1 - base);
    } else {
      const int token = min(base + offset, w.end - 1);
      const int block = token / p.block_size;
      return static_cast<int64_t>(__ldg(table + block)) * p.block_size +
             (token - block * p.block_size);
    }
  };
  uint4 k[2][kKeyLoads];
  uint4 v[4][kValueLoads];
  const auto load_keys = [&](int i) {
    const int base_row = kAligned ? __shfl_sync(~0u, tile_row, i) : 0;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const T* const from = key + find_row(i, base_row, n * 8 + g) * stride;
#pragma unroll
      for (int j = 0; j < kKeyLoads; ++j) {
        k[n][j] = __ldg(reinterpret_cast<const uint4*>(from + j * 32));
      }
    }
  };
  const auto load_values = [&](int i) {
    const int base_row = kAligned ? __shfl_sync(~0u, tile_row, i) : 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const T* const from = value + find_row(i, base_row, 2 * c + (n & 1) + (n & 2) * 4) * stride;
#pragma unroll
      for (int j = 0; j < kValueLoads; ++j) {
        v[n][j] = __ldg(reinterpret_cast<const uint4*>(from + j * 64));
      }
    }
  };

  float o[kSize / 8][4];
#pragma unroll
  for (int j = 0; j < kSize / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) o[j][e] = 0;
  }
  float top = -INFINITY, top2 = -INFINITY;
  float total = 0, total2 = 0;

  if (count > 0) {
    load_keys(0);
    load_values(0);
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    float s[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = 0;
    }
#pragma unroll
    for (int j = 0; j < kKeyLoads; ++j) {
      const uint32_t a[4] = {query[j].x, kWide ? query2[j].x : 0u, query[j].y,
                             kWide ? query2[j].y : 0u};
      const uint32_t b[4] = {query[j].z, kWide ? query2[j].z : 0u, query[j].w,
                             kWide ? query2[j].w : 0u};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        Multiply(s[n], a, k[n][j].x, k[n][j].y, T{});
        Multiply(s[n], b, k[n][j].z, k[n][j].w, T{});
      }
    }
    if (i + 1 < count) load_keys(i + 1);

    const int left = w.end - (w.first + 16 * (warp + kWarps * i));
    if (left < 16) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (n * 8 + 2 * c + (e & 1) >= left) s[n][e] = -INFINITY;
        }
      }
    }
    float now = fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1]));
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
    now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
    now = fmaxf(top, now * p.scale);
    float now2 = top2;
    if constexpr (kWide) {
      now2 = fmaxf(fmaxf(s[0][2], s[0][3]), fmaxf(s[1][2], s[1][3]));
      now2 = fmaxf(now2, __shfl_xor_sync(~0u, now2, 1));
      now2 = fmaxf(now2, __shfl_xor_sync(~0u, now2, 2));
      now2 = fmaxf(top2, now2 * p.scale);
    }
    if (__any_sync(~0u, now != top || (kWide && now2 != top2))) {
      const float factor = exp2f(top - now);
      const float factor2 = kWide ? exp2f(top2 - now2) : factor;
      total *= factor;
      total2 *= factor2;
#pragma unroll
      for (int j = 0; j < kSize / 8; ++j) {
        o[j][0] *= factor;
        o[j][1] *= factor;
        o[j][2] *= factor2;
        o[j][3] *= factor2;
      }
    }
    top = now;
    top2 = now2;
    uint32_t high[4], low[4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float a = exp2f(fmaf(s[n][0], p.scale, -top));
      const float b = exp2f(fmaf(s[n][1], p.scale, -top));
      total += a + b;
      if constexpr (kWide) {
        const float a2 = exp2f(fmaf(s[n][2], p.scale, -top2));
        const float b2 = exp2f(fmaf(s[n][3], p.scale, -top2));
        total2 += a2 + b2;
        Split(a, b, high[2 * n], low[2 * n], T{});
        Split(a2, b2, high[2 * n + 1], low[2 * n + 1], T{});
      } else {
        Split(a, b, high[2 * n], high[2 * n + 1], T{});
      }
    }
#pragma unroll
    for (int j = 0; j < kValueLoads; ++j) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const uint32_t v0 = Word(v[0][j], x), v1 = Word(v[1][j], x);
        const uint32_t v2 = Word(v[2][j], x), v3 = Word(v[3][j], x);
        const uint32_t even0 = __byte_perm(v0, v1, 0x5410), even1 = __byte_perm(v2, v3, 0x5410);
        const uint32_t odd0 = __byte_perm(v0, v1, 0x7632), odd1 = __byte_perm(v2, v3, 0x7632);
        Multiply(o[j * 8 + 2 * x], high, even0, even1, T{});
        Multiply(o[j * 8 + 2 * x + 1], high, odd0, odd1, T{});
        if constexpr (kWide) {
          Multiply(o[j * 8 + 2 * x], low, even0, even1, T{});
          Multiply(o[j * 8 + 2 * x + 1], low, odd0, odd1, T{});
        }
      }
    }
    if (i + 1 < count) load_values(i + 1);
  }

  total += __shfl_xor_sync(~0u, total, 1);
  total += __shfl_xor_sync(~0u, total, 2);
  total2 += __shfl_xor_sync(~0u, total2, 1);
  total2 += __shfl_xor_sync(~0u, total2, 2);
  if (c == 0) {
    largest[warp * kRows + g] = top;
    totals[warp * kRows + g] = total;
    if constexpr (kWide) {
      largest[warp * kRows + g + 8] = top2;
      totals[warp * kRows + g + 8] = total2;
    }
  }
#pragma unroll
  for (int j = 0; j < kValueLoads; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int d = j * 64 + (2 * c + e) * 8;
#pragma unroll
      for (int x = 0; x < 8; x += 4) {
        float4 a = make_float4(o[j * 8 + x][e], o[j * 8 + x + 1][e], o[j * 8 + x + 2][e],
                               o[j * 8 + x + 3][e]);
        const float4 b = make_float4(o[j * 8 + x][2 + e], o[j * 8 + x + 1][2 + e],
                                     o[j * 8 + x + 2][2 + e], o[j * 8 + x + 3][2 + e]);
        if constexpr (kWide) {
          const int start = (warp * kRows + g + 8) * kWidth + d + x;
          sums[start] = b.x;
          sums[start + 1] = b.y;
          sums[start + 2] = b.z;
          sums[start + 3] = b.w;
        } else {
          a.x += b.x;
          a.y += b.y;
          a.z += b.z;
          a.w += b.w;
        }
        const int start = (warp * kRows + g) * kWidth + d + x;
        sums[start] = a.x;
        sums[start + 1] = a.y;
        sums[start + 2] = a.z;
        sums[start + 3] = a.w;
      }
    }
  }
  __syncthreads();
  Finish<T>(p, w, first_row, rows, sums, kRows, kWidth, largest, totals);
}

// The elements of a lane: neighbours (kVector), or every 32nd.
template <typename T, int kElements, bool kVector>
__device__ __forceinline__ void Load(float (&to)[kElements], const T* from, int lane, int size) {
  if constexpr (kVector && kElements == 4) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(from) + lane);
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
  } else if constexpr (kVector) {
    const float2 v = __ldg(reinterpret_cast<const float2*>(from) + lane);
    to[0] = v.x;
    to[1] = v.y;
  } else {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      to[e] = lane + 32 * e < size ? ToFloat(from[lane + 32 * e]) : 0.0f;
    }
  }
}

// float32, and other sizes of heads, in float32. A warp takes 32 / kHeads tokens at a time.
template <typename T, int kElements, int kHeads, bool kVector>
__global__ void __launch_bounds__(kThreads, kElements > 4 ? 2 : 3) Simple(Params p) {
  constexpr int kTokens = 32 / kHeads;
  constexpr int kWidth = 32 * kElements;
  __shared__ float sums[kWarps * kHeads * kWidth];
  __shared__ float largest[kWarps * kHeads];
  __shared__ float totals[kWarps * kHeads];
  __shared__ float4 weights[kWarps][8];

  const Work w = FindWork(p);
  if (w.split > 0 && w.first >= w.length) return;  // the whole block
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int rows = min(kHeads, p.group - w.tile * kHeads);
  const int64_t first_row = w.sequence * p.heads + static_cast<int64_t>(w.kv_head) * p.group +
                            static_cast<int64_t>(w.tile) * kHeads;
  const int* const table = p.table + w.sequence * p.most_blocks;
  const int64_t stride = static_cast<int64_t>(p.kv_heads) * p.size;
  const T* const key = static_cast<const T*>(p.key) + static_cast<int64_t>(w.kv_head) * p.size;
  const T* const value = static_cast<const T*>(p.value) + static_cast<int64_t>(w.kv_head) * p.size;

  float q[kHeads][kElements];
  float o[kHeads][kElements];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) q[h][e] = o[h][e] = 0;
    if (h < rows) {
      Load<T, kElements, kVector>(q[h], static_cast<const T*>(p.query) + (first_row + h) * p.size,
                                  lane, p.size);
    }
  }
  float top = -INFINITY;  // of head lane % kHeads
  float total = 0;

  for (int start = w.first + 32 * warp; start < w.end; start += 32 * kWarps) {
    const int mine = min(start + lane, w.end - 1);
    const int block = mine / p.block_size;
    const int my_row = __ldg(table + block) * p.block_size + (mine - block * p.block_size);
#pragma unroll 1
    for (int step = 0; step < kHeads; ++step) {
      const int token = start + step * kTokens;
      if (token >= w.end) break;
      float k[kTokens][kElements];
      float v[kTokens][kElements];
      int64_t from[kTokens];
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        from[t] = __shfl_sync(~0u, my_row, step * kTokens + t) * stride;
        Load<T, kElements, kVector>(k[t], key + from[t], lane, p.size);
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        Load<T, kElements, kVector>(v[t], value + from[t], lane, p.size);
      }
      float s[32];
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          float sum = q[h][0] * k[t][0];
#pragma unroll
          for (int e = 1; e < kElements; ++e) sum = fmaf(q[h][e], k[t][e], sum);
          s[t * kHeads + h] = sum;
        }
      }
      // Sums over the lanes: lane i gets number i.
#pragma unroll
      for (int half = 16; half > 0; half /= 2) {
        const bool upper = (lane & half) != 0;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          if (i < half) {
            const float send = upper ? s[i] : s[i + half];
            const float keep = upper ? s[i + half] : s[i];
            s[i] = keep + __shfl_xor_sync(~0u, send, half);
          }
        }
      }
      float score = s[0];
      if (token + lane / kHeads >= w.end) score = -INFINITY;
      float now = score;
#pragma unroll
      for (int distance = kHeads; distance < 32; distance *= 2) {
        now = fmaxf(now, __shfl_xor_sync(~0u, now, distance));
      }
      now = fmaxf(top, now * p.scale);
      if (__any_sync(~0u, now != top)) {
        const float factor = exp2f(top - now);
        total *= factor;
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float f = __shfl_sync(~0u, factor, h);
#pragma unroll
          for (int e = 0; e < kElements; ++e) o[h][e] *= f;
        }
      }
      top = now;
      const float weight = exp2f(fmaf(score, p.scale, -top));
      total += weight;
      reinterpret_cast<float*>(weights[warp])[lane] = weight;
      __syncwarp();
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
#pragma unroll
        for (int h = 0; h < kHeads; h += 4) {
          const float4 f = weights[warp][(t * kHeads + h) / 4];
#pragma unroll
          for (int e = 0; e < kElements; ++e) {
            o[h][e] = fmaf(f.x, v[t][e], o[h][e]);
            o[h + 1][e] = fmaf(f.y, v[t][e], o[h + 1][e]);
            o[h + 2][e] = fmaf(f.z, v[t][e], o[h + 2][e]);
            o[h + 3][e] = fmaf(f.w, v[t][e], o[h + 3][e]);
          }
        }
      }
      __syncwarp();
    }
  }

#pragma unroll
  for (int distance = kHeads; distance < 32; distance *= 2) {
    total += __shfl_xor_sync(~0u, total, distance);
  }
  if (lane < kHeads) {
    largest[warp * kHeads + lane] = top;
    totals[warp * kHeads + lane] = total;
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int d = kVector ? lane * kElements + e : lane + 32 * e;
      sums[(warp * kHeads + h) * kWidth + d] = o[h][e];
    }
  }
  __syncthreads();
  Finish<T>(p, w, first_row, rows, sums, kHeads, kWidth, largest, totals);
}

// A block for each head of each query.
template <typename T>
__global__ void __launch_bounds__(kCombineThreads) Combine(Params p) {
  constexpr int kCombineWarps = kCombineThreads / 32;
  __shared__ float tops[kCombineWarps];
  __shared__ float all_totals[kCombineWarps];
  __shared__ float parts[kCombineWarps][128];
  const int64_t row = blockIdx.x;
  const int length = min(p.lengths[row / p.heads], p.most_blocks * p.block_size);
  if (length <= p.chunk) return;  // it has been written
  const int count = (length - 1) / p.chunk + 1;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const float2* const totals = p.totals + row * p.splits;
  const float* const sums = p.sums + row * p.splits * p.size;

  float top = -INFINITY;
  for (int i = threadIdx.x; i < count; i += kCombineThreads) top = fmaxf(top, totals[i].x);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    top = fmaxf(top, __shfl_xor_sync(~0u, top, distance));
  }
  if (lane == 0) tops[warp] = top;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCombineWarps; ++k) top = fmaxf(top, tops[k]);

  for (int column = 0; column < p.size; column += 128) {
    float total = 0;
    float sum[4] = {0, 0, 0, 0};
#pragma unroll 4
    for (int i = warp; i < count; i += kCombineWarps) {
      const float2 t = totals[i];
      const float factor = exp2f(t.x - top);
      total += factor * t.y;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int d = column + lane + 32 * e;
        if (d < p.size) sum[e] += factor * sums[static_cast<int64_t>(i) * p.size + d];
      }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < 4; ++e) parts[warp][lane + 32 * e] = sum[e];
    if (lane == 0) all_totals[warp] = total;
    __syncthreads();
    const int d = column + static_cast<int>(threadIdx.x);
    if (threadIdx.x < 128 && d < p.size) {
      float all = 0;
      float result = 0;
#pragma unroll
      for (int k = 0; k < kCombineWarps; ++k) {
        all += all_totals[k];
        result += parts[k][threadIdx.x];
      }
      Store(static_cast<T*>(p.y) + row * p.size + d, result / all);
    }
  }
}

// Heads of any size: a block for kThreads elements of each head of each query.
template <typename Function>
__device__ float Reduce(float value, Function function) {
  __shared__ float partial[kThreads];
  __syncthreads();
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) {
      partial[threadIdx.x] = function(partial[threadIdx.x], partial[threadIdx.x + distance]);
    }
    __syncthreads();
  }
  return partial[0];
}

template <typename T>
__global__ void __launch_bounds__(kThreads) General(Params p, int columns) {
  __shared__ float weights[kThreads];
  __shared__ int64_t starts[kThreads];
  const T* const query = static_cast<const T*>(p.query);
  const T* const key = static_cast<const T*>(p.key);
  const T* const value = static_cast<const T*>(p.value);
  const int64_t row = blockIdx.x / columns;
  const int column =
      static_cast<int>(blockIdx.x % columns) * kThreads + static_cast<int>(threadIdx.x);
  const int64_t sequence = row / p.heads;
  const int kv_head = static_cast<int>(row % p.heads) / p.group;
  const int* const table = p.table + sequence * p.most_blocks;
  const int length = min(p.lengths[sequence], p.most_blocks * p.block_size);
  float largest = -INFINITY;
  float total = 0;
  float sum = 0;
  for (int first = 0; first < length; first += kThreads) {
    const int mine = first + static_cast<int>(threadIdx.x);
    float score = -INFINITY;
    if (mine < length) {
      const int64_t block = table[mine / p.block_size];
      const int64_t slot = block * p.block_size + mine % p.block_size;
      const int64_t start = (slot * p.kv_heads + kv_head) * p.size;
      starts[threadIdx.x] = start;
      score = 0;
#pragma unroll 4
      for (int d = 0; d < p.size; ++d) {
        score += ToFloat(query[row * p.size + d]) * ToFloat(key[start + d]);
      }
    }
    const float before = largest;
    largest = fmaxf(before, p.scale * Reduce(score, [](float a, float b) { return fmaxf(a, b); }));
    const float rescale = exp2f(before - largest);
    const float weight = exp2f(fmaf(score, p.scale, -largest));
    weights[threadIdx.x] = weight;
    total = total * rescale + Reduce(weight, [](float a, float b) { return a + b; });
    const int tokens = min(kThreads, length - first);
    if (column < p.size) {
      sum *= rescale;
#pragma unroll 4
      for (int t = 0; t < tokens; ++t) sum += weights[t] * ToFloat(value[starts[t] + column]);
    }
    __syncthreads();
  }
  if (column < p.size) Store(static_cast<T*>(p.y) + row * p.size + column, sum / total);
}

// Cuts the tokens into chunks, and calls launch(blocks, params).
template <typename T, typename Launcher>
static void RunChunks(Params p, int64_t batch, int rows, const torch::Tensor& query,
                      cudaStream_t stream, Launcher launch) {
  p.tiles = (p.group + rows - 1) / rows;
  const int64_t tokens = static_cast<int64_t>(p.most_blocks) * p.block_size;
  const int64_t units = batch * p.kv_heads * p.tiles;
  int64_t chunk = kChunk;
  const auto blocks = [&] { return units * std::max<int64_t>((tokens + chunk - 1) / chunk, 1); };
  while (chunk > 64 && blocks() < 132 * 6) chunk /= 2;
  while (chunk < 2048 && blocks() > 132 * 64) chunk *= 2;
  p.chunk = static_cast<int>(chunk);
  p.splits = static_cast<int>(std::max<int64_t>((tokens + chunk - 1) / chunk, 1));
  TORCH_CHECK(blocks() <= INT32_MAX, "too many sequences");
  torch::Tensor sums, totals;
  if (p.splits > 1) {
    const auto options = query.options().dtype(torch::kFloat32);
    const int64_t parts = batch * p.heads * p.splits;
    sums = torch::empty({parts, static_cast<int64_t>(p.size)}, options);
    totals = torch::empty({parts, 2}, options);
    p.sums = sums.data_ptr<float>();
    p.totals = reinterpret_cast<float2*>(totals.data_ptr<float>());
  }
  launch(static_cast<unsigned>(blocks()), p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (p.splits > 1) {
    Combine<T><<<static_cast<unsigned>(batch * p.heads), kCombineThreads, 0, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

template <typename T, int kSize, bool kWide>
static void RunDecode(const Params& p, int64_t batch, const torch::Tensor& query,
                      cudaStream_t stream) {
  RunChunks<T>(p, batch, kWide ? 16 : 8, query, stream, [&](unsigned blocks, const Params& q) {
    if (q.block_size > 0 && q.block_size % 16 == 0) {
      Decode<T, kSize, kWide, true><<<blocks, kThreads, 0, stream>>>(q);
    } else {
      Decode<T, kSize, kWide, false><<<blocks, kThreads, 0, stream>>>(q);
    }
  });
}

template <typename T, int kElements, int kHeads, bool kVector>
static void RunSimple(const Params& p, int64_t batch, const torch::Tensor& query,
                      cudaStream_t stream) {
  RunChunks<T>(p, batch, kHeads, query, stream, [&](unsigned blocks, const Params& q) {
    Simple<T, kElements, kHeads, kVector><<<blocks, kThreads, 0, stream>>>(q);
  });
}

template <typename T>
static void Run(const Params& p, int64_t batch, int64_t cache_rows, const torch::Tensor& query) {
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const bool small = cache_rows <= INT32_MAX && batch * p.heads <= INT32_MAX;
  const bool aligned = (reinterpret_cast<uintptr_t>(p.query) | reinterpret_cast<uintptr_t>(p.key) |
                        reinterpret_cast<uintptr_t>(p.value)) %
                           16 ==
                       0;
  if (small && aligned) {
    if constexpr (std::is_same<T, float>::value) {
      if (p.size == 128) {
        if (p.group <= 4) return RunSimple<T, 4, 4, true>(p, batch, query, stream);
        return RunSimple<T, 4, 8, true>(p, batch, query, stream);
      }
      if (p.size == 64) {
        if (p.group <= 4) return RunSimple<T, 2, 4, true>(p, batch, query, stream);
        return RunSimple<T, 2, 8, true>(p, batch, query, stream);
      }
    } else {
      if (p.size == 128) {
        if (p.group <= 8) return RunDecode<T, 128, false>(p, batch, query, stream);
        return RunDecode<T, 128, true>(p, batch, query, stream);
      }
      if (p.size == 64) {
        if (p.group <= 8) return RunDecode<T, 64, false>(p, batch, query, stream);
        return RunDecode<T, 64, true>(p, batch, query, stream);
      }
    }
  }
  if (small && p.size <= 128) return RunSimple<T, 4, 4, false>(p, batch, query, stream);
  if (small && p.size <= 256) return RunSimple<T, 8, 4, false>(p, batch, query, stream);
  const int64_t columns = (p.size - 1) / kThreads + 1;
  const int64_t blocks = batch * p.heads * columns;
  TORCH_CHECK(blocks <= INT32_MAX, "too many heads");
  General<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p, static_cast<int>(columns));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key_cache, torch::Tensor value_cache,
                      torch::Tensor block_table, torch::Tensor lengths) {
  TORCH_CHECK(query.is_cuda(), "the arguments must be on the GPU");
  TORCH_CHECK(query.dim() == 3, "query must be (batch, heads, size)");
  TORCH_CHECK(key_cache.dim() == 4 && key_cache.sizes() == value_cache.sizes() &&
                  key_cache.size(3) == query.size(2),
              "key_cache and value_cache must be (blocks, block_size, kv_heads, size)");
  TORCH_CHECK(key_cache.size(2) > 0 && query.size(1) % key_cache.size(2) == 0,
              "the heads of query must be a multiple of those of key_cache");
  TORCH_CHECK(block_table.dim() == 2 && block_table.size(0) == query.size(0) &&
                  lengths.dim() == 1 && lengths.size(0) == query.size(0),
              "block_table must be (batch, most_blocks), lengths (batch)");
  TORCH_CHECK(block_table.scalar_type() == torch::kInt32 && lengths.scalar_type() == torch::kInt32,
              "block_table and lengths must be int32");
  TORCH_CHECK(query.scalar_type() == key_cache.scalar_type() &&
                  query.scalar_type() == value_cache.scalar_type(),
              "query, key_cache and value_cache must be of one type");
  const c10::cuda::CUDAGuard guard(query.device());
  query = query.contiguous();
  key_cache = key_cache.contiguous();
  value_cache = value_cache.contiguous();
  block_table = block_table.contiguous();
  lengths = lengths.contiguous();
  auto y = torch::empty_like(query);
  if (y.numel() == 0) return y;
  TORCH_CHECK(block_table.size(1) * key_cache.size(1) <= INT32_MAX - 4096, "too many tokens");
  TORCH_CHECK(
      query.size(1) <= INT32_MAX && query.size(2) <= INT32_MAX && key_cache.size(1) <= INT32_MAX,
      "too large");
  Params p{};
  p.query = query.data_ptr();
  p.key = key_cache.data_ptr();
  p.value = value_cache.data_ptr();
  p.table = block_table.data_ptr<int>();
  p.lengths = lengths.data_ptr<int>();
  p.y = y.data_ptr();
  p.heads = static_cast<int>(query.size(1));
  p.kv_heads = static_cast<int>(key_cache.size(2));
  p.group = p.heads / p.kv_heads;
  p.size = static_cast<int>(query.size(2));
  p.block_size = static_cast<int>(key_cache.size(1));
  p.most_blocks = static_cast<int>(block_table.size(1));
  p.scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(p.size)));
  const int64_t batch = query.size(0);
  const int64_t cache_rows = key_cache.size(0) * key_cache.size(1);
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Run<float>(p, batch, cache_rows, query);
      break;
    case torch::kFloat16:
      Run<__half>(p, batch, cache_rows, query);
      break;
    case torch::kBFloat16:
      Run<__nv_bfloat16>(p, batch, cache_rows, query);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Paged attention"); }
