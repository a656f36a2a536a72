// Gradient of an embedding. Most of its time goes into writing: each row of the result exactly
// once, zeros where a word does not occur, else the sum of its tokens. One launch, nothing is
// sorted or cleared in memory, and no sum depends on who comes first:
//
//   Words are dealt out to groups of blocks like cards, so that frequent ones, which are often
//   neighbours, lie in different groups; the blocks of a group have 32 vectors of 16 bytes of the
//   features each, one a lane. A block reads all indices, keeps those tokens whose words are its
//   own, in a fixed order, and sorts them by word in shared memory (counts, then places: one warp
//   finds the places, and equal words among its lanes).
//   Words of more than kHot tokens are then summed by all warps together. The others are taken by
//   one warp each, first come, first served: while some wait for tokens, others store zeros.
//
// Where there are more tokens than a block's lists can hold, a launch takes a segment of them and
// adds to what stands there in float32; 16-bit results are rounded once, at the end.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kThreads = 512;  // tune: kThreads in 256, 512
constexpr int kWarps = kThreads / 32;
constexpr int kBlocks = 2;       // tune: kBlocks in 2, 4; for each processor
constexpr int kEach = 8;         // indices that a thread asks for at once
constexpr int kUnroll = 8;       // tokens that a lane asks for at once
constexpr int kHot = 16;         // tune: kHot in 8, 16, 32
constexpr int kTicket = 4;       // words that a warp takes at once, if there are many
constexpr int kSegment = 8192;   // tokens of a launch
constexpr int kMaxSlots = 2048;  // words of a block
constexpr int kRoundThreads = 256;

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t Quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

struct Sizes {
  int tokens;  // of the segment
  int rows, features;
  bool first;  // segment
};

// Neighbouring numbers of a row.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T at[kWidth];
};

// What a lane loads of a row: 16 bytes, or one number.
template <class T, int kWidth>
using Loaded = std::conditional_t<kWidth == 1, T, uint4>;

template <class T>
__device__ void AddWord(float* sums, uint32_t word) {
  if constexpr (std::is_same_v<T, float>) {
    sums[0] += __uint_as_float(word);
  } else if constexpr (std::is_same_v<T, at::Half>) {
    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(word));
    sums[0] += pair.x, sums[1] += pair.y;
  } else {
    const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(word));
    sums[0] += pair.x, sums[1] += pair.y;
  }
}

template <class T, int kWidth>
__device__ void AddLoaded(float (&sums)[kWidth], const Loaded<T, kWidth>& v) {
  if constexpr (kWidth == 1) {
    sums[0] += static_cast<float>(v);
  } else {
    constexpr int kOfWord = kWidth / 4;
    AddWord<T>(sums, v.x);
    AddWord<T>(sums + kOfWord, v.y);
    AddWord<T>(sums + 2 * kOfWord, v.z);
    AddWord<T>(sums + 3 * kOfWord, v.w);
  }
}

// sums += the rows of tokens[begin], tokens[begin + step], … before `end`; `grad` points at the
// lane's columns.
template <class T, int kWidth>
__device__ void AddRows(float (&sums)[kWidth], const T* grad, int features, const uint16_t* tokens,
                        int begin, int end, int step) {
#pragma unroll 1
  for (int i = begin; i < end; i += kUnroll * step) {
    Loaded<T, kWidth> v[kUnroll] = {};
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      if (i + j * step >= end) continue;
      const int64_t at = static_cast<int64_t>(tokens[i + j * step]) * features;
      v[j] = *reinterpret_cast<const Loaded<T, kWidth>*>(grad + at);
    }
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) AddLoaded<T, kWidth>(sums, v[j]);
  }
}

// Sums as results, added to those of the segments before.
template <class Out, int kWidth>
__device__ void StoreRow(Out* to, const float (&sums)[kWidth], bool first) {
  Vector<Out, kWidth> v;
  if (!first) v = *reinterpret_cast<const Vector<Out, kWidth>*>(to);
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    v.at[e] = static_cast<Out>(first ? sums[e] : static_cast<float>(v.at[e]) + sums[e]);
  }
  *reinterpret_cast<Vector<Out, kWidth>*>(to) = v;
}

template <class T, class Out, int kWidth>
__global__ void __launch_bounds__(kThreads, kBlocks* kThreads <= 1024 ? kBlocks : 1)
    GradWeights(const T* __restrict__ grad, const int64_t* __restrict__ indices,
                Out* __restrict__ grad_weights, Sizes sizes, Divisor by_groups) {
  extern __shared__ uint32_t shared[];
  __shared__ int of_warps[kWarps];
  __shared__ int taken, hots, ticket;
  __shared__ uint16_t hot[kSegment / kHot];
  __shared__ float partial[kWarps][32 * kWidth];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int groups = static_cast<int>(gridDim.x), group = static_cast<int>(blockIdx.x);
  const int slots = (sizes.rows - 1 - group) / groups + 1;  // word = slot * groups + group
  uint32_t* const counts = shared;
  uint32_t* const ends = counts + slots;
  uint32_t* const found = ends + slots;  // slot * 2^16 + token
  auto* const sorted = reinterpret_cast<uint16_t*>(found + sizes.tokens);

  for (int slot = threadIdx.x; slot < slots; slot += kThreads) counts[slot] = 0;
  if (threadIdx.x == 0) taken = hots = ticket = 0;
  __syncthreads();

  // 1. The block's tokens.
  int count = 0;
#pragma unroll 1
  for (int first = 0; first < sizes.tokens; first += kEach * kThreads) {
    int64_t word[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int token = first + i * kThreads + static_cast<int>(threadIdx.x);
      word[i] = token < sizes.tokens ? indices[token] : -1;
    }
    int slot[kEach];
    int mine = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const auto w = static_cast<uint32_t>(word[i]);
      const bool valid = static_cast<uint64_t>(word[i]) < static_cast<uint64_t>(sizes.rows);
      const uint32_t quotient = by_groups.Quotient(w);
      const bool here = valid && w == quotient * by_groups.value + blockIdx.x;
      slot[i] = here ? static_cast<int>(quotient) : -1;
      mine += slot[i] >= 0;
    }
    int upto = mine;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(~0u, upto, distance);
      if (lane >= distance) upto += other;
    }
    if (lane == 31) of_warps[warp] = upto;
    __syncthreads();
    const int of_warp = lane < kWarps ? of_warps[lane] : 0;
    int place = count + upto - mine + __reduce_add_sync(~0u, lane < warp ? of_warp : 0);
    count += __reduce_add_sync(~0u, of_warp);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (slot[i] < 0) continue;
      found[place++] = slot[i] << 16 | (first + i * kThreads + threadIdx.x);
      atomicAdd(&counts[slot[i]], 1u);
    }
    __syncthreads();
  }

  // 2. A part of `sorted` for each word. Which one does not matter.
  for (int slot = threadIdx.x; slot < slots; slot += kThreads) {
    const int here = static_cast<int>(counts[slot]);
    if (here == 0) continue;
    ends[slot] = atomicAdd(&taken, here);
    if (here > kHot) hot[atomicAdd(&hots, 1)] = static_cast<uint16_t>(slot);
  }
  __syncthreads();

  // 3. Places in these parts, in the order of `found`.
  if (warp == 0) {
    for (int first = 0; first < count; first += 32) {
      const bool any = first + lane < count;
      const unsigned lanes = __ballot_sync(~0u, any);
      if (any) {
        const uint32_t entry = found[first + lane];
        const unsigned equals = __match_any_sync(lanes, entry >> 16);
        const int before = __popc(equals & ((1u << lane) - 1));
        const uint32_t start = ends[entry >> 16];
        sorted[start + before] = static_cast<uint16_t>(entry);
        __syncwarp(lanes);
        if (before == 0) ends[entry >> 16] = start + __popc(equals);
      }
      __syncwarp();
    }
  }
  __syncthreads();

  const int column = static_cast<int>(blockIdx.y * 32 + lane) * kWidth;
  const bool inside = column < sizes.features;
  const T* const from = grad + column;
  const auto row_at = [&](int slot) {
    return grad_weights + (static_cast<int64_t>(slot) * groups + group) * sizes.features;
  };

  // 4. Frequent words.
#pragma unroll 1
  for (int h = 0; h < hots; ++h) {
    const int slot = hot[h];
    const int end = static_cast<int>(ends[slot]);
    float sums[kWidth] = {};
    if (inside) {
      const int begin = end - static_cast<int>(counts[slot]);
      AddRows<T, kWidth>(sums, from, sizes.features, sorted, begin + warp, end, kWarps);
    }
#pragma unroll
    for (int e = 0; e < kWidth; ++e) partial[warp][lane * kWidth + e] = sums[e];
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * kWidth; i += kThreads) {
      const int to = static_cast<int>(blockIdx.y) * 32 * kWidth + i;
      if (to >= sizes.features) continue;
      float total[1] = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total[0] += partial[w][i];
      StoreRow<Out, 1>(row_at(slot) + to, total, sizes.first);
    }
    __syncthreads();
  }

  // 5. The others.
  const int at_once = slots >= 2 * kTicket * kWarps ? kTicket : 1;
#pragma unroll 1
  while (true) {
    int slot = lane == 0 ? atomicAdd(&ticket, at_once) : 0;
    slot = __shfl_sync(~0u, slot, 0);
    if (slot >= slots) return;
    const int last = min(slot + at_once, slots);
#pragma unroll 1
    for (; slot < last; ++slot) {
      const int here = static_cast<int>(counts[slot]);
      if (!inside || here > kHot || (here == 0 && !sizes.first)) continue;
      float sums[kWidth] = {};
      if (here > 0) {
        const int end = static_cast<int>(ends[slot]);
        AddRows<T, kWidth>(sums, from, sizes.features, sorted, end - here, end, 1);
      }
      StoreRow<Out, kWidth>(row_at(slot) + column, sums, sizes.first);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kRoundThreads)
    Round(const float* __restrict__ from, T* __restrict__ to, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kRoundThreads + threadIdx.x;
  if (i < size) to[i] = static_cast<T>(from[i]);
}

template <class T, class Out, int kWidth>
static void LaunchSegments(const torch::Tensor& grad, const torch::Tensor& indices,
                           torch::Tensor& grad_weights) {
  const int64_t rows = grad_weights.size(0), features = grad_weights.size(1);
  const int64_t tokens = indices.numel();
  const int64_t slices = (features - 1) / (32 * kWidth) + 1;
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t groups =
      std::min(rows, std::max((processors * kBlocks - 1) / slices + 1, (rows - 1) / kMaxSlots + 1));
  TORCH_CHECK(rows < (int64_t{1} << 31) && features < (int64_t{1} << 20),
              "too many rows or features");
  constexpr auto kKernel = GradWeights<T, Out, kWidth>;
  constexpr int kMostBytes = 2 * kMaxSlots * 4 + kSegment * 6;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes));
  const dim3 grid(static_cast<unsigned>(groups), static_cast<unsigned>(slices));
  const Divisor by_groups(static_cast<uint32_t>(groups));
  int64_t first = 0;
  do {  // without tokens there are still zeros to write
    const int64_t here = std::min<int64_t>(kSegment, tokens - first);
    const int64_t bytes = 2 * ((rows - 1) / groups + 1) * 4 + here * 6;
    const Sizes sizes{static_cast<int>(here), static_cast<int>(rows), static_cast<int>(features),
                      first == 0};
    kKernel<<<grid, kThreads, static_cast<size_t>(bytes), at::cuda::getCurrentCUDAStream()>>>(
        grad.data_ptr<T>() + first * features, indices.data_ptr<int64_t>() + first,
        grad_weights.data_ptr<Out>(), sizes, by_groups);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    first += kSegment;
  } while (first < tokens);
}

template <class T, int kWidth>
static void LaunchWide(const torch::Tensor& grad, const torch::Tensor& indices,
                       torch::Tensor& grad_weights) {
  if constexpr (!std::is_same_v<T, float>) {
    if (indices.numel() > kSegment) {
      auto wide = torch::empty(grad_weights.sizes(), grad.options().dtype(torch::kFloat32));
      LaunchSegments<T, float, kWidth>(grad, indices, wide);
      const int64_t size = wide.numel(), blocks = (size - 1) / kRoundThreads + 1;
      TORCH_CHECK(blocks < (int64_t{1} << 31), "the gradient is too large");
      Round<T>
          <<<static_cast<unsigned>(blocks), kRoundThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
              wide.data_ptr<float>(), grad_weights.data_ptr<T>(), size);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
      return;
    }
  }
  LaunchSegments<T, T, kWidth>(grad, indices, grad_weights);
}

template <class T>
static void Launch(const torch::Tensor& grad, const torch::Tensor& indices,
                   torch::Tensor& grad_weights) {
  constexpr int kWidth = 16 / sizeof(T);
  const bool in_vectors = grad_weights.size(1) % kWidth == 0 &&
                          reinterpret_cast<uintptr_t>(grad.data_ptr()) % 16 == 0 &&
                          reinterpret_cast<uintptr_t>(grad_weights.data_ptr()) % 16 == 0;
  const auto launch = in_vectors ? LaunchWide<T, kWidth> : LaunchWide<T, 1>;
  launch(grad, indices, grad_weights);
}

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor indices, int64_t num_embeddings) {
  TORCH_CHECK(grad_output.dim() == indices.dim() + 1 &&
                  grad_output.sizes().slice(0, indices.dim()) == indices.sizes(),
              "grad_output must have a row for each index");
  TORCH_CHECK(indices.scalar_type() == torch::kInt64, "indices must be int64");
  grad_output = grad_output.contiguous();
  indices = indices.contiguous();
  const int64_t features = grad_output.size(grad_output.dim() - 1);
  auto grad_weights = torch::empty({num_embeddings, features}, grad_output.options());
  if (grad_weights.numel() == 0) return grad_weights;
  switch (grad_output.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(grad_output, indices, grad_weights);
      break;
    case torch::kFloat16:
      Launch<at::Half>(grad_output, indices, grad_weights);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(grad_output, indices, grad_weights);
      break;
    default:
      TORCH_CHECK(false, "grad_output must be float32, float16 or bfloat16");
  }
  return grad_weights;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of an embedding");
}
