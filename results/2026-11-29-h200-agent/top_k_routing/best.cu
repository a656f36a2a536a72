#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512
constexpr int kLoads = 8;      // tune: kLoads in 4, 8
constexpr int kTop = 8;
constexpr int kWarps = kThreads / 32;
constexpr int kList = 34;      // 32 candidates and padding
constexpr unsigned kFull = 0xffffffffu;
// exp(x) is zero in float64 below this
constexpr float kUnderflow = -745.14f;

// Order-preserving map from float to unsigned; never 0 (0 means "empty").
__device__ __forceinline__ unsigned to_key(float x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned sign = static_cast<unsigned>(static_cast<int>(bits) >> 31);
  const unsigned key = bits ^ (sign | 0x80000000u);
  return key > 1u ? key : 1u;
}

__device__ __forceinline__ float from_key(unsigned key) {
  const unsigned bits = (key & 0x80000000u) ? (key ^ 0x80000000u) : ~key;
  return __uint_as_float(bits);
}

// The rare path. All lanes of a warp call this together; lane r < 8 receives the r-th
// largest as key << 32 | index, ties in index order. With clamp, all elements of
// probability zero count as equal.
__device__ __noinline__ unsigned long long select_slow(const float* __restrict__ row,
                                                       int64_t num_experts, bool clamp,
                                                       float row_max) {
  const int lane = threadIdx.x & 31;
  unsigned keys[kTop];
  unsigned ids[kTop];
#pragma unroll
  for (int j = 0; j < kTop; ++j) {
    keys[j] = 0u;
    ids[j] = 0xffffffffu;
  }
  for (int64_t index = lane; index < num_experts; index += 32) {
    const float value = row[index];
    unsigned key = to_key(value);
    if (clamp && value - row_max < kUnderflow) key = 1u;
    if (key > keys[kTop - 1]) {
      keys[kTop - 1] = key;
      ids[kTop - 1] = static_cast<unsigned>(index);
#pragma unroll
      for (int j = kTop - 1; j > 0; --j) {
        const bool swap = keys[j] > keys[j - 1];
        const unsigned k_hi = swap ? keys[j] : keys[j - 1];
        const unsigned k_lo = swap ? keys[j - 1] : keys[j];
        const unsigned i_hi = swap ? ids[j] : ids[j - 1];
        const unsigned i_lo = swap ? ids[j - 1] : ids[j];
        keys[j - 1] = k_hi;
        keys[j] = k_lo;
        ids[j - 1] = i_hi;
        ids[j] = i_lo;
      }
    }
  }
  __syncwarp();

  unsigned out_key = 1u;
  unsigned out_index = 0u;
#pragma unroll 1
  for (int r = 0; r < kTop; ++r) {
    const unsigned best = __reduce_max_sync(kFull, keys[0]);
    const unsigned candidate = (keys[0] == best) ? ids[0] : 0xffffffffu;
    const unsigned winner = __reduce_min_sync(kFull, candidate);
    if (lane == r) {
      out_key = best;
      out_index = winner;
    }
    if (candidate == winner) {  // exactly one lane: indices are unique
#pragma unroll
      for (int j = 0; j + 1 < kTop; ++j) {
        keys[j] = keys[j + 1];
        ids[j] = ids[j + 1];
      }
      keys[kTop - 1] = 0u;
      ids[kTop - 1] = 0xffffffffu;
    }
    __syncwarp();
  }
  return (static_cast<unsigned long long>(out_key) << 32) | out_index;
}

// From the largest element of each lane: the largest of the row, and a bound that at
// least eight elements reach (1 if there are fewer than eight distinct lane maxima).
__device__ __forceinline__ unsigned find_bound(unsigned lane_max, unsigned& row_max) {
  unsigned current = lane_max;
  unsigned bound = 0u;
#pragma unroll
  for (int r = 0; r < kTop; ++r) {
    bound = __reduce_max_sync(kFull, current);
    if (r == 0) row_max = bound;
    if (current == bound) current = 0u;
  }
  return bound > 1u ? bound : 1u;
}

__device__ __forceinline__ void collect(unsigned long long* list, unsigned key, unsigned index,
                                        unsigned bound, unsigned below, int& count) {
  const bool take = key >= bound;
  const unsigned votes = __ballot_sync(kFull, take);
  const int place = count + __popc(votes & below);
  if (take && place < 32) {
    list[place] = (static_cast<unsigned long long>(key) << 32) | (~index);
  }
  count += __popc(votes);
}

__device__ __forceinline__ void finish(unsigned long long* list, int count, unsigned max_key,
                                       const float* __restrict__ row, int64_t num_experts,
                                       float* __restrict__ weights,
                                       int64_t* __restrict__ experts) {
  const int lane = threadIdx.x & 31;
  const float row_max = from_key(max_key);
  unsigned key = 1u;
  unsigned index = 0u;
  int rank = kTop;

  if (count <= 32) {
    if (lane == 0) list[count] = 0ull;
    __syncwarp();
    const unsigned long long mine = lane < count ? list[lane] : 0ull;
    rank = 0;
    for (int i = 0; i < count; i += 2) {
      const ulonglong2 pair = *reinterpret_cast<const ulonglong2*>(list + i);
      rank += pair.x > mine ? 1 : 0;
      rank += pair.y > mine ? 1 : 0;
    }
    if (lane >= count) rank = kTop;
    key = static_cast<unsigned>(mine >> 32);
    index = ~static_cast<unsigned>(mine);
  } else {
    const unsigned long long found = select_slow(row, num_experts, false, 0.0f);
    key = static_cast<unsigned>(found >> 32);
    index = static_cast<unsigned>(found);
    rank = lane;
  }

  bool chosen = rank < kTop;
  float shifted = chosen ? from_key(key) - row_max : 0.0f;
  if (__any_sync(kFull, chosen && shifted < kUnderflow)) {
    // Some of the selected have probability zero even in float64.
    const unsigned long long found = select_slow(row, num_experts, true, row_max);
    key = static_cast<unsigned>(found >> 32);
    index = static_cast<unsigned>(found);
    rank = lane;
    chosen = rank < kTop;
    shifted = chosen ? from_key(key) - row_max : 0.0f;
  }

  float e = 0.0f;
  if (chosen && key != 1u) e = expf(shifted);
  float sum = e;
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(kFull, sum, o);
  if (chosen) {
    weights[rank] = __fdiv_rn(e, sum);
    experts[rank] = static_cast<int64_t>(index);
  }
}

// Puts all keys >= bound of the warp into the list, if they are at most 32; returns how many.
// The places come from ballots of the bits of each lane's count.
template <int P, bool kSingle>
__device__ __forceinline__ int collect_lanes(unsigned long long* list, const unsigned (&keys)[P],
                                             unsigned bound, int lane) {
  const unsigned below = (1u << lane) - 1u;
  int mine = 0;
#pragma unroll
  for (int u = 0; u < P; ++u) mine += keys[u] >= bound ? 1 : 0;
  const unsigned ones = __ballot_sync(kFull, (mine & 1) != 0);
  int place = __popc(ones & below);
  int count = __popc(ones);
  if constexpr (P >= 2) {
    const unsigned twos = __ballot_sync(kFull, (mine & 2) != 0);
    place += 2 * __popc(twos & below);
    count += 2 * __popc(twos);
  }
  if constexpr (P >= 4) {
    if (__any_sync(kFull, mine >= 4)) {  // uniform over the warp
#pragma unroll 1
      for (int bit = 4; bit <= P; bit <<= 1) {
        const unsigned votes = __ballot_sync(kFull, (mine & bit) != 0);
        place += bit * __popc(votes & below);
        count += bit * __popc(votes);
      }
    }
  }
  if (count <= 32 && mine > 0) {
    unsigned long long* out = list + place;
#pragma unroll
    for (int u = 0; u < P; ++u) {
      if (keys[u] >= bound) {
        const int index = kSingle ? u * 32 + lane : (u / 4) * 128 + lane * 4 + (u & 3);
        *out = (static_cast<unsigned long long>(keys[u]) << 32) | (~static_cast<unsigned>(index));
        ++out;
      }
    }
  }
  __syncwarp();
  return count;
}

// A warp per token, P elements per lane in registers.
// kMode 0: single loads, guarded; 1: float4, guarded; 2: float4, exactly 32 * P experts.
template <int P, int kMode>
__global__ void __launch_bounds__(kThreads)
resident_kernel(const float* __restrict__ logits, float* __restrict__ weights,
                int64_t* __restrict__ experts, int64_t num_tokens, int num_experts) {
  __shared__ __align__(16) unsigned long long lists[kWarps][kList];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (token >= num_tokens) return;
  const float* row = logits + token * num_experts;

  unsigned keys[P];
  if constexpr (kMode == 0) {
    float values[P];
#pragma unroll
    for (int u = 0; u < P; ++u) {
      const int index = u * 32 + lane;
      values[u] = index < num_experts ? row[index] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < P; ++u) {
      keys[u] = u * 32 + lane < num_experts ? to_key(values[u]) : 0u;
    }
  } else {
    float4 values[P / 4];
#pragma unroll
    for (int u = 0; u < P / 4; ++u) {
      const int index = u * 128 + lane * 4;
      values[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (kMode == 2 || index < num_experts) {
        values[u] = *reinterpret_cast<const float4*>(row + index);
      }
    }
#pragma unroll
    for (int u = 0; u < P / 4; ++u) {
      const bool valid = kMode == 2 || u * 128 + lane * 4 < num_experts;
      keys[u * 4 + 0] = valid ? to_key(values[u].x) : 0u;
      keys[u * 4 + 1] = valid ? to_key(values[u].y) : 0u;
      keys[u * 4 + 2] = valid ? to_key(values[u].z) : 0u;
      keys[u * 4 + 3] = valid ? to_key(values[u].w) : 0u;
    }
  }

  unsigned lane_max = keys[0];
#pragma unroll
  for (int u = 1; u < P; ++u) lane_max = max(lane_max, keys[u]);

  unsigned max_key;
  const unsigned bound = find_bound(lane_max, max_key);

  unsigned long long* list = lists[warp];
  const int count = collect_lanes<P, kMode == 0>(list, keys, bound, lane);
  finish(list, count, max_key, row, num_experts, weights + token * kTop,
         experts + token * kTop);
}

// A warp per token, any number of experts; the row is read twice.
__global__ void __launch_bounds__(kThreads)
general_kernel(const float* __restrict__ logits, float* __restrict__ weights,
               int64_t* __restrict__ experts, int64_t num_tokens, int64_t num_experts) {
  __shared__ __align__(16) unsigned long long lists[kWarps][kList];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (token >= num_tokens) return;
  const float* row = logits + token * num_experts;

  unsigned lane_max = 0u;
  for (int64_t base = 0; base < num_experts; base += 32 * kLoads) {
    float values[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t index = base + u * 32 + lane;
      values[u] = index < num_experts ? row[index] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const unsigned key = base + u * 32 + lane < num_experts ? to_key(values[u]) : 0u;
      lane_max = max(lane_max, key);
    }
  }
  __syncwarp();

  unsigned max_key;
  const unsigned bound = find_bound(lane_max, max_key);

  const unsigned below = (1u << lane) - 1u;
  unsigned long long* list = lists[warp];
  int count = 0;
  // The list is full at 32: more candidates than that take the slow path anyway.
  for (int64_t base = 0; base < num_experts && count <= 32; base += 32 * kLoads) {
    float values[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t index = base + u * 32 + lane;
      values[u] = index < num_experts ? row[index] : 0.0f;
    }
    bool any = false;
    unsigned keys[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      keys[u] = base + u * 32 + lane < num_experts ? to_key(values[u]) : 0u;
      any = any || keys[u] >= bound;
    }
    if (__any_sync(kFull, any)) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        collect(list, keys[u], static_cast<unsigned>(base + u * 32 + lane), bound, below,
                count);
      }
    }
  }
  finish(list, count, max_key, row, num_experts, weights + token * kTop,
         experts + token * kTop);
}

constexpr int kGroupThreads = 128;   // tune: kGroupThreads in 64, 128, 256
constexpr int kMost = 16;            // candidates of a token: two for each of its lanes
constexpr int kGroupList = kMost + 4;   // padded: the tokens of a warp lie in different banks

// The rare path of grouped_kernel: the whole warp serves one token.
__device__ __noinline__ void slow_token(const float* __restrict__ row, int64_t num_experts,
                                        float* __restrict__ weights,
                                        int64_t* __restrict__ experts) {
  const int lane = threadIdx.x & 31;
  unsigned long long found = select_slow(row, num_experts, false, 0.0f);
  unsigned key = static_cast<unsigned>(found >> 32);
  const float row_max = from_key(__shfl_sync(kFull, key, 0));
  const bool chosen = lane < kTop;
  float shifted = chosen ? from_key(key) - row_max : 0.0f;
  if (__any_sync(kFull, chosen && shifted < kUnderflow)) {
    // Some of the selected have probability zero even in float64.
    found = select_slow(row, num_experts, true, row_max);
    key = static_cast<unsigned>(found >> 32);
    shifted = chosen ? from_key(key) - row_max : 0.0f;
  }
  float e = 0.0f;
  if (chosen && key != 1u) e = expf(shifted);
  float sum = e;
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(kFull, sum, o);
  if (chosen) {
    weights[lane] = __fdiv_rn(e, sum);
    experts[lane] = static_cast<int64_t>(static_cast<unsigned>(found));
  }
  __syncwarp();
}

__device__ __forceinline__ void order(float& a, float& b) {
  const float hi = fmaxf(a, b);
  b = fminf(a, b);
  a = hi;
}

// A bitonic sequence of eight, into descending order
__device__ __forceinline__ void merge8(float (&s)[8]) {
#pragma unroll
  for (int d = 4; d > 0; d >>= 1) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if ((i & d) == 0) order(s[i], s[i + d]);
    }
  }
}

// Eight lanes per token, exactly 32 * NV experts, 4 * NV elements per lane in registers.
template <int NV>
__global__ void __launch_bounds__(kGroupThreads, 1024 / kGroupThreads)
grouped_kernel(const float* __restrict__ logits, float* __restrict__ weights,
               int64_t* __restrict__ experts, int64_t num_tokens) {
  __shared__ __align__(16) float keys[kGroupThreads / 8][kGroupList];
  __shared__ __align__(16) int ids[kGroupThreads / 8][kGroupList];
  const int lane = threadIdx.x & 31;
  const int sub = lane & 7;
  const int64_t token =
      static_cast<int64_t>(blockIdx.x) * (kGroupThreads / 8) + (threadIdx.x >> 3);
  const bool active = token < num_tokens;
  const float* row = logits + (active ? token : num_tokens - 1) * (32 * NV);

  float4 v[NV];
#pragma unroll
  for (int u = 0; u < NV; ++u) {
    v[u] = __ldg(reinterpret_cast<const float4*>(row + u * 32 + sub * 4));
  }

  // 32 disjoint groups of elements: four for each lane. At least eight elements reach the 8th
  // largest of the maxima of the groups.
  float a0 = v[0].x, a1 = v[0].y, a2 = v[0].z, a3 = v[0].w;
#pragma unroll
  for (int u = 1; u < NV; ++u) {
    a0 = fmaxf(a0, v[u].x);
    a1 = fmaxf(a1, v[u].y);
    a2 = fmaxf(a2, v[u].z);
    a3 = fmaxf(a3, v[u].w);
  }
  order(a0, a1);
  order(a2, a3);
  order(a0, a2);
  order(a1, a3);
  order(a1, a2);
  float s[8];
  s[0] = a0;
  s[1] = a1;
  s[2] = a2;
  s[3] = a3;
  s[4] = __shfl_xor_sync(kFull, a3, 1);
  s[5] = __shfl_xor_sync(kFull, a2, 1);
  s[6] = __shfl_xor_sync(kFull, a1, 1);
  s[7] = __shfl_xor_sync(kFull, a0, 1);
  merge8(s);
  float other[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) other[i] = __shfl_xor_sync(kFull, s[7 - i], 2);
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i] = fmaxf(s[i], other[i]);
  merge8(s);
#pragma unroll
  for (int i = 0; i < 8; ++i) other[i] = __shfl_xor_sync(kFull, s[7 - i], 4);
  const float row_max = fmaxf(s[0], other[7]);
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i] = fmaxf(s[i], other[i]);
  const float bound = fminf(fminf(fminf(s[0], s[1]), fminf(s[2], s[3])),
                            fminf(fminf(s[4], s[5]), fminf(s[6], s[7])));

  // the candidates of this lane
  unsigned m0 = 0u, m1 = 0u, m2 = 0u, m3 = 0u;
#pragma unroll
  for (int u = 0; u < NV; ++u) {
    if (v[u].x >= bound) m0 |= 1u << (u * 4);
    if (v[u].y >= bound) m1 |= 2u << (u * 4);
    if (v[u].z >= bound) m2 |= 4u << (u * 4);
    if (v[u].w >= bound) m3 |= 8u << (u * 4);
  }
  unsigned mask = (m0 | m1) | (m2 | m3);
  const int mine = __popc(mask);
  int upto = mine;
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) {
    const int before = __shfl_up_sync(kFull, upto, o, 8);
    if (sub >= o) upto += before;
  }
  const int total = __shfl_sync(kFull, upto, 7, 8);
  // fewer than eight only if there are NaNs
  const bool fits = total >= kTop && total <= kMost;
  const int count = fits ? total : 0;

  // The indices of the candidates first: this loop waits for nothing.
  float* const key = keys[threadIdx.x >> 3];
  int* const id = ids[threadIdx.x >> 3];
  if (fits) {
    int* to = id + (upto - mine);
    while (mask != 0u) {
      const int bit = __ffs(mask) - 1;
      mask &= mask - 1u;
      *to = (bit >> 2) * 32 + sub * 4 + (bit & 3);
      ++to;
    }
  }
  __syncwarp();

  const bool has0 = sub < count;
  const bool has1 = sub + 8 < count;
  const int i0 = has0 ? id[sub] : 0;
  const int i1 = has1 ? id[sub + 8] : 0;
  // what is not there is -inf: larger than nothing
  float c0 = __uint_as_float(0xff800000u);
  float c1 = __uint_as_float(0xff800000u);
  if (has0) c0 = __ldg(row + i0);   // still in the L1 cache
  if (has1) c1 = __ldg(row + i1);
  key[sub] = c0;
  key[sub + 8] = c1;
  __syncwarp();

  int r0 = 0;
  int r1 = 0;
#pragma unroll
  for (int i = 0; i < kMost; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(key + i);
    r0 += four.x > c0 ? 1 : 0;
    r1 += four.x > c1 ? 1 : 0;
    r0 += four.y > c0 ? 1 : 0;
    r1 += four.y > c1 ? 1 : 0;
    r0 += four.z > c0 ? 1 : 0;
    r1 += four.z > c1 ? 1 : 0;
    r0 += four.w > c0 ? 1 : 0;
    r1 += four.w > c1 ? 1 : 0;
  }

  const bool chosen0 = has0 && r0 < kTop;
  const bool chosen1 = has1 && r1 < kTop;
  const float shifted0 = chosen0 ? c0 - row_max : 0.0f;
  const float shifted1 = chosen1 ? c1 - row_max : 0.0f;
  const bool under = fminf(shifted0, shifted1) < kUnderflow;

  const float e0 = chosen0 ? expf(shifted0) : 0.0f;
  const float e1 = chosen1 ? expf(shifted1) : 0.0f;
  float sum = e0 + e1;
  // A nibble counts the candidates of a rank (at most 16 in all, so that no other counts give
  // this sum): each rank must be there once, which is not so if candidates are equal.
  unsigned ranks = (chosen0 ? 1u << (4 * r0) : 0u) + (chosen1 ? 1u << (4 * r1) : 0u);
#pragma unroll
  for (int o = 4; o > 0; o >>= 1) {
    sum += __shfl_xor_sync(kFull, sum, o);
    ranks += __shfl_xor_sync(kFull, ranks, o);
  }
  const unsigned slow =
      __ballot_sync(kFull, active && (!fits || under || ranks != 0x11111111u));

  if (active && ((slow >> (lane & 24)) & 0xffu) == 0u) {
    float* w = weights + token * kTop;
    int64_t* x = experts + token * kTop;
    const float inverse = __fdividef(1.0f, sum);   // the sum is between 1 and 8
    if (chosen0) {
      w[r0] = e0 * inverse;
      x[r0] = static_cast<int64_t>(i0);
    }
    if (chosen1) {
      w[r1] = e1 * inverse;
      x[r1] = static_cast<int64_t>(i1);
    }
  }
  if (slow != 0u) {  // uniform over the warp
    __syncwarp();
    const int64_t first = token - (lane >> 3);
#pragma unroll 1
    for (int g = 0; g < 4; ++g) {
      if (((slow >> (8 * g)) & 0xffu) != 0u) {
        const int64_t t = first + g;
        slow_token(logits + t * (32 * NV), 32 * NV, weights + t * kTop, experts + t * kTop);
      }
    }
  }
}

template <int P>
void launch_resident(const float* logits, float* weights, int64_t* experts, int64_t num_tokens,
                     int64_t num_experts, bool vectors, unsigned blocks, cudaStream_t stream) {
  const int e = static_cast<int>(num_experts);
  if constexpr (P >= 4) {
    if (vectors && num_experts == 32 * P) {
      resident_kernel<P, 2><<<blocks, kThreads, 0, stream>>>(logits, weights, experts,
                                                            num_tokens, e);
      return;
    }
    if (vectors) {
      resident_kernel<P, 1><<<blocks, kThreads, 0, stream>>>(logits, weights, experts,
                                                            num_tokens, e);
      return;
    }
  }
  resident_kernel<P, 0><<<blocks, kThreads, 0, stream>>>(logits, weights, experts, num_tokens,
                                                        e);
}

std::vector<torch::Tensor> forward(torch::Tensor logits) {
  TORCH_CHECK(logits.is_cuda(), "logits must be on a GPU");
  TORCH_CHECK(logits.scalar_type() == torch::kFloat32, "logits must be float32");
  TORCH_CHECK(logits.dim() == 2, "logits must have two dimensions");
  const int64_t num_tokens = logits.size(0);
  const int64_t num_experts = logits.size(1);
  TORCH_CHECK(num_experts >= kTop, "at least 8 experts are needed");
  TORCH_CHECK(num_experts < 4294967295LL, "too many experts");

  const c10::cuda::CUDAGuard guard(logits.device());
  torch::Tensor input = logits.contiguous();
  torch::Tensor weights = torch::empty({num_tokens, kTop}, input.options());
  torch::Tensor experts =
      torch::empty({num_tokens, kTop}, input.options().dtype(torch::kInt64));
  if (num_tokens == 0) return {weights, experts};

  const int64_t wanted = (num_tokens + kWarps - 1) / kWarps;
  TORCH_CHECK(wanted <= 2147483647LL, "too many tokens");
  const unsigned blocks = static_cast<unsigned>(wanted);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* x = input.data_ptr<float>();
  float* w = weights.data_ptr<float>();
  int64_t* i = experts.data_ptr<int64_t>();
  const bool vectors = num_experts % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;

  const int64_t group_wanted =
      (num_tokens + kGroupThreads / 8 - 1) / (kGroupThreads / 8);
  if (vectors && group_wanted <= 2147483647LL &&
      (num_experts == 64 || num_experts == 128 || num_experts == 256)) {
    const unsigned group_blocks = static_cast<unsigned>(group_wanted);
    if (num_experts == 64) {
      grouped_kernel<2><<<group_blocks, kGroupThreads, 0, stream>>>(x, w, i, num_tokens);
    } else if (num_experts == 128) {
      grouped_kernel<4><<<group_blocks, kGroupThreads, 0, stream>>>(x, w, i, num_tokens);
    } else {
      grouped_kernel<8><<<group_blocks, kGroupThreads, 0, stream>>>(x, w, i, num_tokens);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {weights, experts};
  }

  if (num_experts <= 32) {
    launch_resident<1>(x, w, i, num_tokens, num_experts, vectors, blocks, stream);
  } else if (num_experts <= 64) {
    launch_resident<2>(x, w, i, num_tokens, num_experts, vectors, blocks, stream);
  } else if (num_experts <= 128) {
    launch_resident<4>(x, w, i, num_tokens, num_experts, vectors, blocks, stream);
  } else if (num_experts <= 256) {
    launch_resident<8>(x, w, i, num_tokens, num_experts, vectors, blocks, stream);
  } else if (num_experts <= 512) {
    launch_resident<16>(x, w, i, num_tokens, num_experts, vectors, blocks, stream);
  } else if (num_experts <= 1024) {
    launch_resident<32>(x, w, i, num_tokens, num_experts, vectors, blocks, stream);
  } else {
    general_kernel<<<blocks, kThreads, 0, stream>>>(x, w, i, num_tokens, num_experts);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {weights, experts};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
