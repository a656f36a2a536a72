#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr int kThreads = 64;  // tune: kThreads in 64, 128, 256
constexpr int kLoads = 8;
constexpr int kTop = 8;
constexpr int kCap = 16;  // candidates of a token on the fast path; even
constexpr unsigned kFull = 0xffffffffu;
// exp(x) is zero in float64 below this
constexpr float kUnderflow = -745.14f;

// Order-preserving map from float to unsigned; never 0 (0 means "empty").
__device__ __forceinline__ unsigned to_key(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits << 1) == 0u) bits = 0u;  // -0 equals +0
  unsigned key = (bits & 0x80000000u) ? ~bits : (bits | 0x80000000u);
  return key == 0u ? 1u : key;
}

__device__ __forceinline__ float from_key(unsigned key) {
  unsigned bits = (key & 0x80000000u) ? (key ^ 0x80000000u) : ~key;
  return __uint_as_float(bits);
}

// All lanes of a warp call this together. Lane r < 8 receives the r-th largest
// in (out_key, out_index); all lanes receive the first and last key.
template <bool kClamp>
__device__ __forceinline__ void select_top(
    const float* __restrict__ row, int64_t num_experts, int lane, float row_max,
    unsigned& out_key, unsigned& out_index, unsigned& first_key, unsigned& last_key) {
  unsigned keys[kTop];
  unsigned ids[kTop];
#pragma unroll
  for (int j = 0; j < kTop; ++j) {
    keys[j] = 0u;
    ids[j] = 0xffffffffu;
  }

  for (int64_t base = 0; base < num_experts; base += 32 * kLoads) {
    float values[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t index = base + u * 32 + lane;
      values[u] = index < num_experts ? row[index] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t index = base + u * 32 + lane;
      unsigned key = 0u;
      if (index < num_experts) {
        key = to_key(values[u]);
        if (kClamp) {
          if (values[u] - row_max < kUnderflow) key = 1u;
        }
      }
      // A lane visits rising indices, so strict comparisons keep ties in index order.
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
  }
  __syncwarp();

  out_key = 1u;
  out_index = 0u;
  first_key = 1u;
  last_key = 1u;
#pragma unroll
  for (int r = 0; r < kTop; ++r) {
    const unsigned best = __reduce_max_sync(kFull, keys[0]);
    const unsigned candidate = (keys[0] == best) ? ids[0] : 0xffffffffu;
    const unsigned winner = __reduce_min_sync(kFull, candidate);
    if (lane == r) {
      out_key = best;
      out_index = winner;
    }
    if (r == 0) first_key = best;
    if (r == kTop - 1) last_key = best;
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
}

// Exact for every row, ties and underflow included. One warp, all lanes together.
__device__ __noinline__ void slow_token(
    const float* row, int64_t num_experts, float* weights, int64_t* experts) {
  const int lane = threadIdx.x & 31;
  unsigned key, index, first_key, last_key;
  select_top<false>(row, num_experts, lane, 0.0f, key, index, first_key, last_key);
  const float row_max = from_key(first_key);
  if (from_key(last_key) - row_max < kUnderflow) {
    unsigned unused_first, unused_last;
    select_top<true>(row, num_experts, lane, row_max, key, index,
                     unused_first, unused_last);
  }
  float e = 0.0f;
  if (lane < kTop && key != 1u) e = expf(from_key(key) - row_max);
  float sum = e;
  sum += __shfl_xor_sync(kFull, sum, 4);
  sum += __shfl_xor_sync(kFull, sum, 2);
  sum += __shfl_xor_sync(kFull, sum, 1);
  if (lane < kTop) {
    weights[lane] = __fdiv_rn(e, sum);
    experts[lane] = static_cast<int64_t>(index);
  }
  __syncwarp();
}

// Rows too long for the register kernels.
__global__ void __launch_bounds__(kThreads) long_row_kernel(
    const float* __restrict__ logits, float* __restrict__ weights,
    int64_t* __restrict__ experts, int64_t num_tokens, int64_t num_experts) {
  const int64_t token =
      static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + (threadIdx.x >> 5);
  if (token >= num_tokens) return;
  slow_token(logits + token * num_experts, num_experts, weights + token * kTop,
             experts + token * kTop);
}

template <int R, bool kVec, int kLanes>
__device__ __forceinline__ int slot_index(int u, int lane) {
  return kVec ? ((u >> 2) * kLanes + lane) * 4 + (u & 3) : u * kLanes + lane;
}

// Slot u of a lane holds row[slot_index(u)], or -inf past the end.
template <int R, bool kVec, int kLanes>
__device__ __forceinline__ void load_row(
    const float* __restrict__ row, int num_experts, int lane, float (&v)[R]) {
  if (kVec) {
#pragma unroll
    for (int q = 0; q < R / 4; ++q) {
      const int first = (q * kLanes + lane) * 4;
      float4 x = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
      if (first < num_experts) x = *reinterpret_cast<const float4*>(row + first);
      v[4 * q + 0] = x.x;
      v[4 * q + 1] = x.y;
      v[4 * q + 2] = x.z;
      v[4 * q + 3] = x.w;
    }
  } else {
#pragma unroll
    for (int u = 0; u < R; ++u) {
      const int index = u * kLanes + lane;
      v[u] = index < num_experts ? row[index] : -INFINITY;
    }
  }
}

__device__ __forceinline__ void order(float& a, float& b) {
  const float hi = fmaxf(a, b);
  const float lo = fminf(a, b);
  a = hi;
  b = lo;
}

// Sorts a bitonic sequence of 4, descending.
__device__ __forceinline__ void merge4(float (&a)[4]) {
  order(a[0], a[2]);
  order(a[1], a[3]);
  order(a[0], a[1]);
  order(a[2], a[3]);
}

// kLanes lanes per token, R slots per lane.
template <int kLanes, int R, bool kVec>
__global__ void __launch_bounds__(kThreads) group_kernel(
    const float* __restrict__ logits, float* __restrict__ weights,
    int64_t* __restrict__ experts, int64_t num_tokens, int num_experts) {
  constexpr int kPerWarp = 32 / kLanes;
  constexpr int kTokens = kThreads / kLanes;
  constexpr int kMine = (kCap + kLanes - 1) / kLanes;
  __shared__ alignas(16) unsigned long long list[kTokens][kCap + 2];
  __shared__ unsigned long long sorted[kTokens][kTop + 1];

  const int lane = threadIdx.x % kLanes;
  const int slot = threadIdx.x / kLanes;
  const int64_t warp_token = static_cast<int64_t>(blockIdx.x) * kTokens +
                             static_cast<int64_t>(threadIdx.x / 32) * kPerWarp;
  if (warp_token >= num_tokens) return;  // the whole warp
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokens + slot;
  const bool live = token < num_tokens;  // other lanes repeat the warp's first token
  const float* row = logits + (live ? token : warp_token) * num_experts;

  float v[R];
  load_row<R, kVec, kLanes>(row, num_experts, lane, v);

  // 4 groups per lane; the 8th largest of all group maxima bounds the 8th largest logit.
  float a[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    a[c] = v[c];
#pragma unroll
    for (int q = 1; q < R / 4; ++q) a[c] = fmaxf(a[c], v[4 * q + c]);
  }
  order(a[0], a[1]);
  order(a[2], a[3]);
  order(a[0], a[2]);
  order(a[1], a[3]);
  order(a[1], a[2]);
  const bool odd = (lane & 1) != 0;
  float t[4];
  // Lanes 2i and 2i+1 hold the 8 maxima in descending order.
#pragma unroll
  for (int i = 0; i < 4; ++i) t[i] = __shfl_xor_sync(kFull, a[3 - i], 1);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float hi = fmaxf(a[i], t[i]);
    const float lo = fminf(a[i], t[i]);
    a[i] = odd ? lo : hi;
  }
  merge4(a);
#pragma unroll
  for (int d = 2; d < kLanes; d *= 2) {
    // The 8 largest of two sorted lists of 8, as a bitonic sequence.
#pragma unroll
    for (int i = 0; i < 4; ++i) t[i] = __shfl_xor_sync(kFull, a[3 - i], d | 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = fmaxf(a[i], t[i]);
    if (d * 2 < kLanes) {
#pragma unroll
      for (int i = 0; i < 4; ++i) t[i] = __shfl_xor_sync(kFull, a[i], 1);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float hi = fmaxf(a[i], t[i]);
        const float lo = fminf(a[i], t[i]);
        a[i] = odd ? lo : hi;
      }
      merge4(a);
    }
  }
  float bound = fminf(fminf(a[0], a[1]), fminf(a[2], a[3]));
  bound = fminf(bound, __shfl_xor_sync(kFull, bound, 1));

  unsigned mask = 0u;
#pragma unroll
  for (int u = 0; u < R; ++u) {
    if (v[u] >= bound) mask |= 1u << u;
  }
  const int count = __popc(mask);
  int end = count;
#pragma unroll
  for (int d = 1; d < kLanes; d *= 2) {
    const int other = __shfl_up_sync(kFull, end, d, kLanes);
    if (lane >= d) end += other;
  }
  const int total = __shfl_sync(kFull, end, kLanes - 1, kLanes);
  // Slots past the row's end hold -inf: they are out when the bound is larger.
  bool ok = bound > -INFINITY && total >= kTop && total <= kCap;

  for (int i = lane; i < kCap; i += kLanes) list[slot][i] = 0ull;
  __syncwarp();
  if (ok) {
    int position = end - count;
    while (mask != 0u) {
      const int u = __ffs(mask) - 1;
      mask &= mask - 1u;
      const int index = slot_index<R, kVec, kLanes>(u, lane);
      const unsigned key = to_key(__fadd_rn(row[index], 0.0f));
      list[slot][position] = (static_cast<unsigned long long>(key) << 32) |
                             (0xffffffffu - static_cast<unsigned>(index));
      ++position;
    }
  }
  __syncwarp();

  if (ok) {
    unsigned long long mine[kMine];
    int rank[kMine];
#pragma unroll
    for (int c = 0; c < kMine; ++c) {
      const int i = lane + c * kLanes;
      mine[c] = i < kCap ? list[slot][i] : 0ull;
      rank[c] = 0;
    }
    for (int j = 0; j < total; j += 2) {
      const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(&list[slot][j]);
#pragma unroll
      for (int c = 0; c < kMine; ++c) {
        if (two.x > mine[c]) ++rank[c];
        if (two.y > mine[c]) ++rank[c];
      }
    }
#pragma unroll
    for (int c = 0; c < kMine; ++c) {
      if (mine[c] != 0ull && rank[c] < kTop) sorted[slot][rank[c]] = mine[c];
    }
  }
  __syncwarp();

  float e = 0.0f;
  unsigned index = 0u;
  if (ok) {
    const float row_max = from_key(static_cast<unsigned>(sorted[slot][0] >> 32));
    const float last = from_key(static_cast<unsigned>(sorted[slot][kTop - 1] >> 32));
    if (last - row_max < kUnderflow) {
      ok = false;
    } else if (lane < kTop) {
      const unsigned long long key = sorted[slot][lane];
      e = expf(from_key(static_cast<unsigned>(key >> 32)) - row_max);
      index = 0xffffffffu - static_cast<unsigned>(key & 0xffffffffull);
    }
  }
  __syncwarp();
  float sum = e;
  sum += __shfl_xor_sync(kFull, sum, 4);
  sum += __shfl_xor_sync(kFull, sum, 2);
  sum += __shfl_xor_sync(kFull, sum, 1);
  if (ok && live && lane < kTop) {
    weights[token * kTop + lane] = __fdiv_rn(e, sum);
    experts[token * kTop + lane] = static_cast<int64_t>(index);
  }

  // Ties beyond the list, underflow, -inf, NaN: the whole warp does such a token again.
  const unsigned failed = __ballot_sync(kFull, live && !ok);
  if (failed != 0u) {
    for (int i = 0; i < kPerWarp; ++i) {
      if ((failed >> (i * kLanes)) & 1u) {
        const int64_t again = warp_token + i;
        slow_token(logits + again * num_experts, num_experts, weights + again * kTop,
                   experts + again * kTop);
      }
    }
  }
}

template <int kLanes, int R>
void launch(const float* in, float* w, int64_t* x, int64_t num_tokens, int64_t num_experts,
            cudaStream_t stream) {
  constexpr int64_t kTokens = kThreads / kLanes;
  const int64_t blocks = (num_tokens + kTokens - 1) / kTokens;
  TORCH_CHECK(blocks <= 2147483647LL, "too many tokens");
  const bool vec = num_experts % 4 == 0 && reinterpret_cast<uintptr_t>(in) % 16 == 0;
  if (vec) {
    group_kernel<kLanes, R, true><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        in, w, x, num_tokens, static_cast<int>(num_experts));
  } else {
    group_kernel<kLanes, R, false><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        in, w, x, num_tokens, static_cast<int>(num_experts));
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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

  const float* in = input.data_ptr<float>();
  float* w = weights.data_ptr<float>();
  int64_t* x = experts.data_ptr<int64_t>();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (num_experts <= 64) {
    launch<8, 8>(in, w, x, num_tokens, num_experts, stream);
  } else if (num_experts <= 128) {
    launch<8, 16>(in, w, x, num_tokens, num_experts, stream);
  } else if (num_experts <= 256) {
    launch<8, 32>(in, w, x, num_tokens, num_experts, stream);
  } else if (num_experts <= 512) {
    launch<16, 32>(in, w, x, num_tokens, num_experts, stream);
  } else if (num_experts <= 1024) {
    launch<32, 32>(in, w, x, num_tokens, num_experts, stream);
  } else {
    const int64_t blocks = (num_tokens + kThreads / 32 - 1) / (kThreads / 32);
    TORCH_CHECK(blocks <= 2147483647LL, "too many tokens");
    long_row_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        in, w, x, num_tokens, num_experts);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return {weights, experts};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
