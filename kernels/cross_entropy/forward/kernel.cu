// Cross entropy of each token, computed in float32 and bound by memory: each logit is read once,
// and rows of tokens that do not count are not read. Threads add up exponentials around their own
// largest number as logits arrive.
//  - RowInVectors: long rows, a block for each, or a cluster of up to 8 blocks if rows are few.
//    Threads have several vectors of 16 bytes on their way while they add those before.
//  - RowInRegisters: rows of up to 32 KB, a warp or a block for each. All is asked for at once.
// Rows may begin anywhere: vectors are taken at their borders, and the rest of a row on either side
// by single elements.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int64_t kIgnored = -100;
constexpr int kThreads = 256;  // of a block, but of RowInRegisters for each warp's row as well
constexpr int kWarps = kThreads / 32;
constexpr int kResident = 5;    // blocks of RowInVectors on a multiprocessor
constexpr int kItems = 4;       // vectors that a thread of it has on its way
constexpr int kMostBlocks = 8;  // of a cluster
constexpr int kWaves = 2;       // of blocks, at least: few rows are split until there are so many

// The formats: their bits, and how they become float32 and come back.
struct Float {
  using Bits = unsigned;
  static constexpr Bits kLowest = 0xff800000;
  static __device__ float Wide(Bits x) { return __uint_as_float(x); }
  static __device__ void Widen(unsigned word, float* x) { x[0] = __uint_as_float(word); }
  static __device__ unsigned Most(unsigned a, unsigned b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  }
};
struct Half {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xfc00;
  static __device__ float Wide(Bits x) { return __half2float(__ushort_as_half(x)); }
  static __device__ void Widen(unsigned word, float* x) {
    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(word));
    x[0] = pair.x;
    x[1] = pair.y;
  }
  static __device__ unsigned Most(unsigned a, unsigned b) {
    const __half2 most =
        __hmax2(reinterpret_cast<const __half2&>(a), reinterpret_cast<const __half2&>(b));
    return reinterpret_cast<const unsigned&>(most);
  }
};
struct BFloat16 {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xff80;
  static __device__ float Wide(Bits x) { return __bfloat162float(__ushort_as_bfloat16(x)); }
  static __device__ void Widen(unsigned word, float* x) {
    x[0] = __uint_as_float(word << 16);
    x[1] = __uint_as_float(word & 0xffff0000);
  }
  static __device__ unsigned Most(unsigned a, unsigned b) {
    const __nv_bfloat162 most = __hmax2(reinterpret_cast<const __nv_bfloat162&>(a),
                                        reinterpret_cast<const __nv_bfloat162&>(b));
    return reinterpret_cast<const unsigned&>(most);
  }
};

template <typename Format>
constexpr int kEach = sizeof(uint4) / sizeof(typename Format::Bits);

template <typename Format>
__device__ void Widen(const uint4& v, float (&x)[kEach<Format>]) {
  constexpr int kPair = kEach<Format> / 4;
  Format::Widen(v.x, x);
  Format::Widen(v.y, x + kPair);
  Format::Widen(v.z, x + 2 * kPair);
  Format::Widen(v.w, x + 3 * kPair);
}

// A vector of numbers below all others.
template <typename Format>
__device__ uint4 Lowest() {
  const unsigned word =
      sizeof(typename Format::Bits) == 4 ? Format::kLowest : Format::kLowest * 0x10001u;
  return {word, word, word, word};
}

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// The combination over a warp, for all its lanes.
template <typename Combine>
__device__ float OfWarp(float value, Combine combine) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = combine(value, __shfl_xor_sync(~0u, value, lanes));
  }
  return value;
}

constexpr float kLeast = -3.402823466e38f;

// Of the numbers that a thread, warp, block or cluster has seen: the largest, and the sum of exp(x
// - largest). Where all are -infinity, the largest is still a number: no difference is a NaN.
struct Parts {
  float largest = kLeast, sum = 0;

  __device__ void Add(float x) { Add(Parts{fmaxf(x, kLeast), __expf(x - fmaxf(x, kLeast))}); }
  template <typename Format, int kCount>
  __device__ void Add(const uint4 (&v)[kCount]) {
    unsigned most_of_words = v[0].x;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      most_of_words = Format::Most(
          most_of_words, Format::Most(Format::Most(v[i].x, v[i].y), Format::Most(v[i].z, v[i].w)));
    }
    float pair[2] = {kLeast, kLeast};
    Format::Widen(most_of_words, pair);
    const float most = fmaxf(largest, fmaxf(pair[0], pair[1]));
    float more[4] = {sum * __expf(largest - most), 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float x[kEach<Format>];
      Widen<Format>(v[i], x);
#pragma unroll
      for (int e = 0; e < kEach<Format>; ++e) more[e % 4] += __expf(x[e] - most);
    }
    sum = (more[0] + more[1]) + (more[2] + more[3]);
    largest = most;
  }
  __device__ float Loss(float of_target) const { return __logf(sum) + (largest - of_target); }
  __device__ void Add(const Parts& other) {
    const float most = fmaxf(largest, other.largest);
    sum = sum * __expf(largest - most) + other.sum * __expf(other.largest - most);
    largest = most;
  }
};

__device__ Parts OfWarp(const Parts& mine) {
  Parts all;
  all.largest = OfWarp(mine.largest, Largest());
  all.sum = OfWarp(mine.sum * __expf(mine.largest - all.largest), Sum());
  return all;
}

template <typename Format>
struct Call {
  using Bits = typename Format::Bits;
  const Bits* logits;
  const int64_t* targets;
  float* losses;
  int64_t rows, columns, row_stride;
};

// A row as whole vectors at their borders, and up to kSize - 1 single elements on either side, the
// `extra` ones.
template <typename Format>
struct Span {
  static constexpr int kSize = kEach<Format>;
  int vectors, head, extra;

  __device__ Span(const typename Format::Bits* row, int columns) {
    const auto address = reinterpret_cast<uintptr_t>(row) / sizeof(*row);
    head = min(static_cast<int>(-address & (kSize - 1)), columns);
    vectors = (columns - head) / kSize;
    extra = columns - vectors * kSize;
  }
  // Column of extra element i.
  __device__ int Extra(int i) const { return i < head ? i : vectors * kSize + i; }
};

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// A barrier that opens when `bytes` bytes have arrived.
__device__ void Await(uint64_t* barrier, int bytes) {
  const uint32_t address = SharedAddress(barrier);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}

__device__ void WaitFor(uint64_t* barrier) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra AGAIN;\n}" ::"r"(SharedAddress(barrier))
      : "memory");
}

// Writes to the shared memory of the cluster's first block, and counts the bytes at its barrier.
__device__ void Send(const Parts& parts, Parts* to, uint64_t* barrier) {
  asm volatile(
      "{\n.reg .b32 there, barrier;\nmapa.shared::cluster.u32 there, %0, 0;\n"
      "mapa.shared::cluster.u32 barrier, %1, 0;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%2, %3}, "
      "[barrier];\n}" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "f"(parts.largest), "f"(parts.sum)
      : "memory");
}

template <typename Format>
__global__ void __launch_bounds__(kThreads, kResident) RowInVectors(Call<Format> call, int blocks) {
  constexpr int kStep = kItems * kThreads;
  __shared__ Parts partial[kMostBlocks * kWarps];
  __shared__ uint64_t arrived;
  const int64_t number = blockIdx.x / blocks;
  const int rank = blockIdx.x % blocks;
  const int64_t target = call.targets[number];
  if (target == kIgnored) {
    if (rank == 0 && threadIdx.x == 0) call.losses[number] = 0;
    return;
  }
  const auto* const x = call.logits + number * call.row_stride;
  const Span<Format> span(x, static_cast<int>(call.columns));
  const int first = static_cast<int>(static_cast<int64_t>(span.vectors) * rank / blocks);
  const int end = static_cast<int>(static_cast<int64_t>(span.vectors) * (rank + 1) / blocks);
  if (blocks > 1) {
    if (rank == 0 && threadIdx.x == 0) {
      Await(&arrived, (blocks - 1) * kWarps * static_cast<int>(sizeof(Parts)));
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }

  // Whole steps, each of which is on its way while the one before is added.
  Parts parts;
  const auto* from = reinterpret_cast<const uint4*>(x + span.head) + first + threadIdx.x;
  const int steps = (end - first) / kStep;
  uint4 next[kItems];
  if (steps > 0) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) next[item] = __ldcs(from + item * kThreads);
  }
  const bool valid = target >= 0 && target < call.columns;
  const float of_target = valid ? Format::Wide(x[target]) : NAN;
  for (int step = 0; step < steps; ++step) {
    uint4 here[kItems];
#pragma unroll
    for (int item = 0; item < kItems; ++item) here[item] = next[item];
    from += kStep;
    if (step + 1 < steps) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) next[item] = __ldcs(from + item * kThreads);
    }
    parts.Add<Format>(here);
  }
  // What is left.
  const int left = end - first - steps * kStep - static_cast<int>(threadIdx.x);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    next[item] = item * kThreads < left ? __ldcs(from + item * kThreads) : Lowest<Format>();
  }
  if (rank == 0 && threadIdx.x < span.extra) parts.Add(Format::Wide(x[span.Extra(threadIdx.x)]));
  parts.Add<Format>(next);

  parts = OfWarp(parts);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // The first block must have begun before its shared memory is written to.
  if (blocks > 1) asm volatile("barrier.cluster.wait;" ::: "memory");
  if (rank > 0) {
    if (lane == 0) Send(parts, partial + rank * kWarps + warp, &arrived);
    return;
  }
  if (lane == 0) partial[warp] = parts;
  __syncthreads();
  if (warp > 0) return;
  if (blocks > 1) WaitFor(&arrived);
  parts = Parts();
  for (int i = lane; i < blocks * kWarps; i += 32) parts.Add(partial[i]);
  parts = OfWarp(parts);
  if (lane == 0) call.losses[number] = parts.Loss(of_target);
}

// A row of at most kLanes * kCount vectors for each kLanes threads, which are a warp or a block.
template <typename Format, int kLanes, int kCount>
__global__ void __launch_bounds__(kLanes == 32 ? kThreads : kLanes)
    RowInRegisters(Call<Format> call) {
  constexpr int kRows = kLanes == 32 ? kThreads / 32 : 1;
  const int64_t number = int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes;
  if (number >= call.rows) return;
  const int lane = threadIdx.x % kLanes;
  const int64_t target = call.targets[number];
  if (target == kIgnored) {
    if (lane == 0) call.losses[number] = 0;
    return;
  }
  const auto* const x = call.logits + number * call.row_stride;
  const Span<Format> span(x, static_cast<int>(call.columns));
  const auto* const vectors = reinterpret_cast<const uint4*>(x + span.head) + lane;
  uint4 value[kCount];
#pragma unroll
  for (int item = 0; item < kCount; ++item) {
    value[item] =
        lane + item * kLanes < span.vectors ? __ldcs(vectors + item * kLanes) : Lowest<Format>();
  }
  const float single = Format::Wide(lane < span.extra ? x[span.Extra(lane)] : Format::kLowest);
  const bool valid = target >= 0 && target < call.columns;
  const float of_target = valid ? Format::Wide(x[target]) : NAN;
  Parts parts;
  parts.Add(single);
  parts.Add<Format>(value);
  parts = OfWarp(parts);
  if constexpr (kLanes > 32) {
    __shared__ Parts partial[kLanes / 32];
    if (lane % 32 == 0) partial[lane / 32] = parts;
    __syncthreads();
    if (lane >= 32) return;
    parts = OfWarp(lane < kLanes / 32 ? partial[lane] : Parts());
  }
  if (lane == 0) call.losses[number] = parts.Loss(of_target);
}

template <typename Format>
static void Launch(const torch::Tensor& logits, const torch::Tensor& target,
                   torch::Tensor& losses) {
  using Bits = typename Format::Bits;
  const Call<Format> call{static_cast<const Bits*>(logits.data_ptr()),
                          target.data_ptr<int64_t>(),
                          losses.data_ptr<float>(),
                          logits.size(0),
                          logits.size(1),
                          logits.stride(0)};
  const auto stream = at::cuda::getCurrentCUDAStream();
  const int64_t vectors = call.columns / kEach<Format>;
  const auto rows = static_cast<unsigned>(call.rows);
  constexpr int kRows = kThreads / 32;
  const unsigned groups = (rows + kRows - 1) / kRows;
  if (vectors <= 256) {
    const auto kernel = vectors <= 32    ? RowInRegisters<Format, 32, 1>
                        : vectors <= 64  ? RowInRegisters<Format, 32, 2>
                        : vectors <= 128 ? RowInRegisters<Format, 32, 4>
                                         : RowInRegisters<Format, 32, 8>;
    kernel<<<groups, kThreads, 0, stream>>>(call);
    return;
  }
  if (vectors <= 512) {
    RowInRegisters<Format, 128, 4><<<rows, 128, 0, stream>>>(call);
    return;
  }
  if (vectors <= 1024) {
    RowInRegisters<Format, 256, 4><<<rows, 256, 0, stream>>>(call);
    return;
  }
  if (vectors <= 2048) {
    RowInRegisters<Format, 256, 8><<<rows, 256, 0, stream>>>(call);
    return;
  }
  // Each block of a cluster should still have a few steps.
  const auto* const gpu = at::cuda::getCurrentDeviceProperties();
  const int processors = gpu->multiProcessorCount, most_blocks = gpu->major >= 9 ? kMostBlocks : 1;
  int blocks = 1;
  while (blocks < most_blocks && call.rows * blocks < kWaves * kResident * processors &&
         vectors >= 4 * blocks * kItems * kThreads) {
    blocks *= 2;
  }
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = blocks;
  size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(call.rows * blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &size;
  config.numAttrs = blocks > 1 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, RowInVectors<Format>, call, blocks));
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor target) {
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, vocabulary)");
  TORCH_CHECK(target.dim() == 1 && target.size(0) == logits.size(0) &&
                  target.scalar_type() == torch::kInt64,
              "target must have an int64 for each token");
  TORCH_CHECK(logits.size(0) < (int64_t{1} << 27) && logits.size(1) < (int64_t{1} << 31),
              "logits has too many rows or columns");
  if (logits.stride(1) != 1) logits = logits.contiguous();
  target = target.contiguous();
  auto losses = torch::empty({logits.size(0)}, logits.options().dtype(torch::kFloat32));
  if (losses.numel() == 0) return losses;
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<Float>(logits, target, losses);
      break;
    case torch::kFloat16:
      Launch<Half>(logits, target, losses);
      break;
    case torch::kBFloat16:
      Launch<BFloat16>(logits, target, losses);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return losses;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Cross entropy"); }
