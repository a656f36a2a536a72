// Top-k gating. A group of lanes has a token. Each lane sorts its logits in registers, and the
// lanes merge their lists by shuffles, so that the result ends up distributed over the lanes.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>

constexpr int kThreads = 128;  // tune: kThreads in 64, 128, 256
constexpr int kValues = 16;    // tune: kValues in 16, 32
constexpr int kMinMax = 2;     // tune: kMinMax in 0, 1, 2, 3, 5
constexpr int kWarps = 4;      // of a block of the general kernel

using Wide = unsigned long long;

// Keys of a lane; larger ones are first.
// 16 bits: a float32 number with the bytes 0x3e, the ordered logit (2 bytes), 2 * place in the
// lane. These are multiples of 2^-25 below 0.5, so that their differences are exact. 32 bits: the
// ordered logit, then the complement of the expert. Keys when lanes are merged: 16 bits: the
// ordered logit, 2 * place, lane. 32 bits: as before.

template <typename T>
using LaneKey = typename std::conditional<sizeof(T) == 2, float, Wide>::type;
template <typename T>
using MergeKey = typename std::conditional<sizeof(T) == 2, unsigned, Wide>::type;

// Two numbers of 16 bits, to unsigned integers in the same order.
__device__ __forceinline__ unsigned OrderPair(unsigned pair) {
  unsigned mask;  // of the signs
  asm("prmt.b32 %0, %1, %2, 0xBB99;" : "=r"(mask) : "r"(pair), "r"(0u));
  return pair ^ (mask | 0x80008000u);
}

__device__ __forceinline__ unsigned OrderFloat(unsigned bits) {
  return bits ^ (static_cast<unsigned>(static_cast<int>(bits) >> 31) | 0x80000000u);
}

template <typename T>
__device__ __forceinline__ float LogitOf(MergeKey<T> key) {
  unsigned bits;
  if constexpr (sizeof(T) == 2) {
    bits = key;
  } else {
    bits = static_cast<unsigned>(key >> 32);
  }
  bits ^= static_cast<int>(bits) < 0 ? 0x80000000u : 0xffffffffu;
  if constexpr (std::is_same<T, at::Half>::value) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits >> 16)));
  } else if constexpr (sizeof(T) == 2) {
    return __uint_as_float(bits & 0xffff0000u);
  } else {
    return __uint_as_float(bits);
  }
}

template <typename T, int V, int kLanes>
__device__ __forceinline__ unsigned ExpertOf(MergeKey<T> key) {
  if constexpr (sizeof(T) == 2) {
    const unsigned place = (key >> 9) & (V - 1);
    const unsigned lane = key & 0xffu;
    return ((place / 8) * kLanes + lane) * 8 + place % 8;
  } else {
    return 0xffffffffu - static_cast<unsigned>(key);
  }
}

// Networks on keys in registers; the largest is first.

__device__ __forceinline__ float Larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ unsigned Larger(unsigned a, unsigned b) { return a > b ? a : b; }
__device__ __forceinline__ Wide Larger(Wide a, Wide b) { return a > b ? a : b; }

// The number of the exchange decides which pipe does it; all ways are exact.
__device__ __forceinline__ void Exchange(float& a, float& b, int number) {
  if (number % 5 < kMinMax) {
    const float larger = fmaxf(a, b);
    const float smaller = fminf(a, b);
    a = larger;
    b = smaller;
  } else {
    float more;  // max(b - a, 0)
    asm("sub.sat.f32 %0, %1, %2;" : "=f"(more) : "f"(b), "f"(a));
    a = __fadd_rn(a, more);
    b = __fsub_rn(b, more);
  }
}

__device__ __forceinline__ void Exchange(unsigned& a, unsigned& b, int) {
  const unsigned larger = a > b ? a : b;
  const unsigned smaller = a > b ? b : a;
  a = larger;
  b = smaller;
}

// Equal logits may be in any order.
__device__ __forceinline__ void Exchange(Wide& a, Wide& b, int) {
  const bool swap = static_cast<unsigned>(a >> 32) < static_cast<unsigned>(b >> 32);
  const Wide larger = swap ? b : a;
  const Wide smaller = swap ? a : b;
  a = larger;
  b = smaller;
}

template <int kFirst, int N, int R, typename Key, int V>
__device__ __forceinline__ void OddEvenMerge(Key (&v)[V]) {
  if constexpr (2 * R < N) {
    OddEvenMerge<kFirst, N, 2 * R>(v);
    OddEvenMerge<kFirst + R, N, 2 * R>(v);
#pragma unroll
    for (int i = kFirst + R; i + R < kFirst + N; i += 2 * R) Exchange(v[i], v[i + R], i + R);
  } else {
    Exchange(v[kFirst], v[kFirst + R], kFirst + R);
  }
}

template <int kFirst, int N, typename Key, int V>
__device__ __forceinline__ void Sort(Key (&v)[V]) {
  if constexpr (N > 1) {
    Sort<kFirst, N / 2>(v);
    Sort<kFirst + N / 2, N / 2>(v);
    OddEvenMerge<kFirst, N, 1>(v);
  }
}

// Sorts a bitonic sequence.
template <int kFirst, int N, typename Key, int V>
__device__ __forceinline__ void SortBitonic(Key (&v)[V]) {
  if constexpr (N > 1) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      Exchange(v[kFirst + i], v[kFirst + N / 2 + i], kFirst + i + N / 2);
    }
    SortBitonic<kFirst, N / 2>(v);
    SortBitonic<kFirst + N / 2, N / 2>(v);
  }
}

// Puts the first K of kRuns runs of K keys, sorted, into the place of the first run.
template <int kFirst, int kRuns, int K, typename Key, int V>
__device__ __forceinline__ void SelectRuns(Key (&v)[V]) {
  if constexpr (kRuns == 1) {
    Sort<kFirst, K>(v);
  } else {
    constexpr int kSecond = kFirst + kRuns / 2 * K;
    SelectRuns<kFirst, kRuns / 2, K>(v);
    SelectRuns<kSecond, kRuns / 2, K>(v);
#pragma unroll
    for (int i = 0; i < K; ++i) v[kFirst + i] = Larger(v[kFirst + i], v[kSecond + K - 1 - i]);
    SortBitonic<kFirst, K>(v);
  }
}

// Merging the lists of lanes.
// A list of K keys is in G = 2^g lanes (g at most log2(K)), K / G neighbours in each. The lane with
// the bits l[0], l[1], ... has the block with the number whose bit t, from the top, is the sum
// modulo 2 of l[t], ..., l[g - 1].

constexpr int Log2(int n) { return n <= 1 ? 0 : 1 + Log2(n / 2); }

// The lanes whose bits first, ..., last have an even sum.
constexpr unsigned EvenLanes(int first, int last) {
  unsigned lanes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    int sum = 0;
    for (int bit = first; bit <= last; ++bit) sum ^= (lane >> bit) & 1;
    if (sum == 0) lanes |= 1u << lane;
  }
  return lanes;
}

template <int kStage, int kLast, int kCount, bool kSplit, typename Key, int V>
__device__ __forceinline__ void Stages(Key (&v)[V], unsigned lane_bit) {
  if constexpr (kStage <= kLast) {
    constexpr int kDistance = kStage == 0 ? 1 : (1 << kStage) | ((1 << kStage) >> 1);
    constexpr bool kReversed = kSplit && kStage == kLast;
    constexpr unsigned kKeepers = EvenLanes(kStage, kLast);
    const bool keeps_larger = (lane_bit & kKeepers) != 0;
    Key other[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      other[j] = __shfl_xor_sync(~0u, v[kReversed ? kCount - 1 - j : j], kDistance);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      v[j] = (other[j] > v[j]) == keeps_larger ? other[j] : v[j];
    }
    Stages<kStage + 1, kLast, kCount, kSplit>(v, lane_bit);
  }
}

// Round r merges the lists of lanes that differ in bit r. While a lane has several keys, it has
// half as many afterwards; later both halves of the lanes get the same list.
template <int K, int kRound, int kRounds, typename Key, int V>
__device__ __forceinline__ void Merge(Key (&v)[V], unsigned lane_bit) {
  if constexpr (kRound < kRounds) {
    constexpr int kLog = Log2(K);
    constexpr bool kSplit = kRound < kLog;
    constexpr int kBefore = kSplit ? K >> kRound : 1;
    constexpr int kAfter = kSplit ? kBefore / 2 : 1;
    constexpr int kLast = kSplit ? kRound : kLog - 1;
    // The lane that has the mirrored block in the other list.
    constexpr int kMirror = kSplit ? (1 << kRound) >> 1 : 1 << (kLog - 1);
    constexpr int kDistance = (1 << kRound) | kMirror;
    Key other[kAfter];
#pragma unroll
    for (int j = 0; j < kAfter; ++j) {
      other[j] = __shfl_xor_sync(~0u, v[kBefore - 1 - j], kDistance);
    }
#pragma unroll
    for (int j = 0; j < kAfter; ++j) v[j] = Larger(v[j], other[j]);
    Stages<0, kLast, kAfter, kSplit>(v, lane_bit);
    SortBitonic<0, kAfter>(v);
    Merge<K, kRound + 1, kRounds>(v, lane_bit);
  }
}

template <typename T>
__device__ __forceinline__ unsigned BitsOf(const T* __restrict__ row, int expert, int experts) {
  if constexpr (sizeof(T) == 2) {
    return expert < experts
               ? static_cast<unsigned>(__ldg(reinterpret_cast<const unsigned short*>(row) + expert))
               : 0xffffu;
  } else {
    return expert < experts ? __ldg(reinterpret_cast<const unsigned*>(row) + expert) : 0xffffffffu;
  }
}

// The probabilities' own sum cancels when they are divided by the sum of the selected ones.
// 2^kLanesLog lanes have a token, each V logits; K is k rounded up to a power of 2.
template <typename T, int K, int V, int kLanesLog>
__global__ void __launch_bounds__(kThreads)
    Gate(const T* __restrict__ logits, float* __restrict__ weights, int64_t* __restrict__ indices,
         int64_t tokens, int experts, int k, bool is_vector) {
  static_assert(V >= K && V <= 64, "");
  constexpr int kLanes = 1 << kLanesLog;
  constexpr int kEach = 16 / static_cast<int>(sizeof(T));
  constexpr int kChunks = V / kEach;
  const int lane = static_cast<int>(threadIdx.x) & (kLanes - 1);
  const int64_t own = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) >> kLanesLog;
  const bool is_token = own < tokens;  // lanes without a token still take part in the shuffles
  const int64_t token = is_token ? own : tokens - 1;
  const T* const row = logits + token * experts;

  // Absent experts have all bits set, which is before all numbers.
  unsigned words[kChunks][4];
  if (is_vector) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int expert = (c * kLanes + lane) * kEach;
      uint4 chunk = make_uint4(~0u, ~0u, ~0u, ~0u);
      if (expert < experts) chunk = __ldg(reinterpret_cast<const uint4*>(row + expert));
      words[c][0] = chunk.x;
      words[c][1] = chunk.y;
      words[c][2] = chunk.z;
      words[c][3] = chunk.w;
    }
  } else {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int expert = (c * kLanes + lane) * kEach;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(T) == 2) {
          words[c][i] = BitsOf(row, expert + 2 * i, experts) |
                        (BitsOf(row, expert + 2 * i + 1, experts) << 16);
        } else {
          words[c][i] = BitsOf(row, expert + i, experts);
        }
      }
    }
  }

  LaneKey<T> v[V];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 2) {
        const int place = c * 8 + 2 * i;
        const unsigned pair = OrderPair(words[c][i]);
        const unsigned rest = 0x3e0000u | static_cast<unsigned>((2 * place + 2) << 8) |
                              static_cast<unsigned>(2 * place);
        v[place] = __uint_as_float(__byte_perm(pair, rest, 0x6104));
        v[place + 1] = __uint_as_float(__byte_perm(pair, rest, 0x6325));
      } else {
        const unsigned expert = static_cast<unsigned>((c * kLanes + lane) * kEach + i);
        v[c * 4 + i] = (static_cast<Wide>(OrderFloat(words[c][i])) << 32) | (0xffffffffu - expert);
      }
    }
  }
  SelectRuns<0, V / K, K>(v);

  MergeKey<T> top[K];
#pragma unroll
  for (int i = 0; i < K; ++i) {
    if constexpr (sizeof(T) == 2) {
      top[i] = __float_as_uint(v[i]) * 256u + static_cast<unsigned>(lane);
    } else {
      top[i] = v[i];
    }
  }
  Merge<K, 0, kLanesLog>(top, 1u << (threadIdx.x % 32));

  // A lane has kCount results, from number `rank`.
  constexpr int kListLog = kLanesLog < Log2(K) ? kLanesLog : Log2(K);
  constexpr int kCount = K >> kListLog;
  int rank = 0;
  if constexpr (kListLog > 0) {
    unsigned sums = static_cast<unsigned>(lane) & ((1u << kListLog) - 1);
    sums ^= sums >> 1;
    sums ^= sums >> 2;
    rank = static_cast<int>(__brev(sums) >> (32 - kListLog)) * kCount;
  }

  float weight[kCount];
  const float first = LogitOf<T>(top[0]);
  const float largest = __shfl_sync(~0u, first, 0, kLanes);
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    weight[j] = rank + j < k ? __expf(LogitOf<T>(top[j]) - largest) : 0.0f;
    sum += weight[j];
  }
#pragma unroll
  for (int distance = 1; distance < (1 << kListLog); distance *= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
  }
  if (!is_token || (lane >> kListLog) != 0) return;
  const float factor = 1.0f / sum;
  const int64_t at = token * k + rank;

  if constexpr (kCount > 1) {
    if (k == K) {  // so that the results are aligned
      if constexpr (kCount >= 4) {
#pragma unroll
        for (int j = 0; j < kCount; j += 4) {
          *reinterpret_cast<float4*>(weights + at + j) =
              make_float4(weight[j] * factor, weight[j + 1] * factor, weight[j + 2] * factor,
                          weight[j + 3] * factor);
        }
      } else {
        *reinterpret_cast<float2*>(weights + at) =
            make_float2(weight[0] * factor, weight[1] * factor);
      }
#pragma unroll
      for (int j = 0; j < kCount; j += 2) {
        *reinterpret_cast<longlong2*>(indices + at + j) =
            make_longlong2(static_cast<long long>(ExpertOf<T, V, kLanes>(top[j])),
                           static_cast<long long>(ExpertOf<T, V, kLanes>(top[j + 1])));
      }
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (rank + j < k) {
      weights[at + j] = weight[j] * factor;
      indices[at + j] = static_cast<int64_t>(ExpertOf<T, V, kLanes>(top[j]));
    }
  }
}

// Any number of experts, any k: a warp goes through the logits once for each selected expert.

struct Expert {
  float logit;
  int64_t index;
};

// Larger logits are first, and of equal ones the smaller index. A NaN is larger than all numbers,
// as in torch.topk.
__device__ bool IsBefore(const Expert& a, const Expert& b) {
  const bool a_is_nan = isnan(a.logit), b_is_nan = isnan(b.logit);
  if (a_is_nan != b_is_nan) return a_is_nan;
  if (!a_is_nan && a.logit != b.logit) return a.logit > b.logit;
  return a.index < b.index;
}

// The first of the experts that the lanes of the warp have.
__device__ Expert FirstOfWarp(Expert mine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Expert other{
        __shfl_xor_sync(~0u, mine.logit, distance),
        static_cast<int64_t>(__shfl_xor_sync(~0u, static_cast<long long>(mine.index), distance))};
    if (IsBefore(other, mine)) mine = other;
  }
  return mine;
}

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    GateGeneral(const T* __restrict__ logits, float* __restrict__ weights,
                int64_t* __restrict__ indices, int64_t tokens, int64_t experts, int64_t k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;
  const T* const row = logits + token * experts;
  float* const my_weights = weights + token * k;

  Expert last{NAN, -1};  // what was selected before; at first something before all experts
  float largest = 0, sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    Expert best{-INFINITY, INT64_MAX};  // after all experts
    for (int64_t e = lane; e < experts; e += 32) {
      const Expert expert{static_cast<float>(row[e]), e};
      if (IsBefore(last, expert) && IsBefore(expert, best)) best = expert;
    }
    last = FirstOfWarp(best);
    if (i == 0) largest = last.logit;
    const float weight = expf(last.logit - largest);
    sum += weight;
    if (i % 32 == lane) my_weights[i] = weight;
    if (lane == 0) indices[token * k + i] = last.index;
  }
  for (int64_t i = lane; i < k; i += 32) my_weights[i] /= sum;  // the same lane has written it
}

template <typename T, int K, int V, int kLanesLog>
static void LaunchGate(const torch::Tensor& logits, torch::Tensor& weights,
                       torch::Tensor& indices) {
  const int64_t tokens = logits.size(0);
  const int64_t experts = logits.size(1);
  TORCH_CHECK(experts <= (static_cast<int64_t>(V) << kLanesLog), "too many experts");
  const bool is_vector = experts * static_cast<int64_t>(sizeof(T)) % 16 == 0 &&
                         reinterpret_cast<uintptr_t>(logits.data_ptr<T>()) % 16 == 0;
  constexpr int64_t kEach = kThreads >> kLanesLog;  // tokens of a block
  const int64_t blocks = (tokens - 1) / kEach + 1;
  TORCH_CHECK(blocks <= INT32_MAX, "too many tokens");
  Gate<T, K, V, kLanesLog>
      <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          logits.data_ptr<T>(), weights.data_ptr<float>(), indices.data_ptr<int64_t>(), tokens,
          static_cast<int>(experts), static_cast<int>(weights.size(1)), is_vector);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T, int K>
static void LaunchSmall(const torch::Tensor& logits, torch::Tensor& weights,
                        torch::Tensor& indices) {
  const int64_t experts = logits.size(1);
  if constexpr (K <= 8) {
    if (experts <= 8) {
      LaunchGate<T, K, 8, 0>(logits, weights, indices);
    } else if (experts <= 2 * kValues) {
      LaunchGate<T, K, kValues, 1>(logits, weights, indices);
    } else if (experts <= 4 * kValues) {
      LaunchGate<T, K, kValues, 2>(logits, weights, indices);
    } else if (experts <= 8 * kValues) {
      LaunchGate<T, K, kValues, 3>(logits, weights, indices);
    } else if (experts <= 16 * kValues) {
      LaunchGate<T, K, kValues, 4>(logits, weights, indices);
    } else {
      LaunchGate<T, K, kValues, 5>(logits, weights, indices);
    }
  } else {
    if (experts <= 8 * kValues) {
      LaunchGate<T, K, kValues, 3>(logits, weights, indices);
    } else {
      LaunchGate<T, K, kValues, 5>(logits, weights, indices);
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& logits, torch::Tensor& weights, torch::Tensor& indices) {
  const int64_t tokens = logits.size(0);
  const int64_t experts = logits.size(1);
  const int64_t k = weights.size(1);
  if (experts <= 32 * kValues && k <= 16) {
    if (k <= 2) {
      LaunchSmall<T, 2>(logits, weights, indices);
    } else if (k <= 4) {
      LaunchSmall<T, 4>(logits, weights, indices);
    } else if (k <= 8) {
      LaunchSmall<T, 8>(logits, weights, indices);
    } else {
      LaunchSmall<T, 16>(logits, weights, indices);
    }
    return;
  }
  const int64_t blocks = (tokens - 1) / kWarps + 1;
  TORCH_CHECK(blocks <= INT32_MAX, "too many tokens");
  GateGeneral<T>
      <<<static_cast<unsigned>(blocks), kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
          logits.data_ptr<T>(), weights.data_ptr<float>(), indices.data_ptr<int64_t>(), tokens,
          experts, k);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor logits, int64_t k) {
  TORCH_CHECK(logits.is_cuda(), "logits must be on the GPU");
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, experts)");
  TORCH_CHECK(k >= 0 && k <= logits.size(1), "k must be at most the number of experts");
  logits = logits.contiguous();
  auto weights = torch::empty({logits.size(0), k}, logits.options().dtype(torch::kFloat32));
  auto indices = torch::empty({logits.size(0), k}, logits.options().dtype(torch::kInt64));
  if (weights.numel() == 0) return {weights, indices};
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(logits, weights, indices);
      break;
    case torch::kFloat16:
      Launch<at::Half>(logits, weights, indices);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(logits, weights, indices);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return {weights, indices};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Top-k gating"); }
