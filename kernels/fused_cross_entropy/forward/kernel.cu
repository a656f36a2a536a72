// Cross entropy of each token, and its gradient in place of the logits, computed in float32 and
// bound by memory: each logit is read once and written once. Rows of tokens that do not count are
// only written.
//  - RowOnChip: long rows, a cluster of 1 to 16 blocks for each. A block takes its piece of the row
//    to its registers and its shared memory, and adds up exponentials around each thread's own
//    largest number as they arrive. The warps of a cluster send each other their sums. Then the
//    piece's gradient is written. Several blocks on each multiprocessor, at different stages,
//    keep the memory busy in both directions.
//  - RowInRegisters: rows of up to 16 KB, a warp or a block for each.
//  - RowInLoops: whatever is longer or has gaps between columns.
// Rows may begin anywhere: vectors of 16 bytes are taken at their borders, and the rest of a row on
// either side by single elements.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int64_t kIgnored = -100;
constexpr int kThreads = 256;  // of RowOnChip
constexpr int kWarps = kThreads / 32;
constexpr int kHeld = 6;            // vectors of each thread in registers
constexpr int kChunk = 512;         // vectors of a bulk copy
constexpr int kFewChunks = 5;       // of a block, before more blocks share the row
constexpr int kMostChunks = 27;     // of a block
constexpr int kMostBlocks = 16;     // of a cluster
constexpr int kOtherThreads = 256;  // of the other kernels
constexpr int kRowsAhead = 2048;    // of RowInRegisters, whose targets are on their way

// The formats: their bits, and how they become float32 and come back.
struct Float {
  using Bits = unsigned;
  static constexpr Bits kLowest = 0xff800000;
  static __device__ float Wide(Bits x) { return __uint_as_float(x); }
  static __device__ Bits Narrow(float x) { return __float_as_uint(x); }
  static __device__ void Widen(unsigned word, float* x) { x[0] = __uint_as_float(word); }
  static __device__ unsigned Most(unsigned a, unsigned b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  }
  static __device__ unsigned Word(const float* x) { return __float_as_uint(x[0]); }
};
struct Half {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xfc00;
  static __device__ float Wide(Bits x) { return __half2float(__ushort_as_half(x)); }
  static __device__ Bits Narrow(float x) { return __half_as_ushort(__float2half_rn(x)); }
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
  static __device__ unsigned Word(const float* x) {
    const __half2 pair = __floats2half2_rn(x[0], x[1]);
    return reinterpret_cast<const unsigned&>(pair);
  }
};
struct BFloat16 {
  using Bits = unsigned short;
  static constexpr Bits kLowest = 0xff80;
  static __device__ float Wide(Bits x) { return __bfloat162float(__ushort_as_bfloat16(x)); }
  static __device__ Bits Narrow(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
  static __device__ void Widen(unsigned word, float* x) {
    x[0] = __uint_as_float(word << 16);
    x[1] = __uint_as_float(word & 0xffff0000);
  }
  static __device__ unsigned Most(unsigned a, unsigned b) {
    const __nv_bfloat162 most = __hmax2(reinterpret_cast<const __nv_bfloat162&>(a),
                                        reinterpret_cast<const __nv_bfloat162&>(b));
    return reinterpret_cast<const unsigned&>(most);
  }
  static __device__ unsigned Word(const float* x) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x[0], x[1]);
    return reinterpret_cast<const unsigned&>(pair);
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

template <typename Format>
__device__ uint4 Narrow(const float (&x)[kEach<Format>]) {
  constexpr int kPair = kEach<Format> / 4;
  return {Format::Word(x), Format::Word(x + kPair), Format::Word(x + 2 * kPair),
          Format::Word(x + 3 * kPair)};
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

// What is known of a row once it has been read.
struct Row {
  float largest, sum, of_target;

  __device__ float Loss() const { return __logf(sum) + (largest - of_target); }
  // With factor = scale / sum. At the target, the gradient is less by `scale`.
  __device__ float Gradient(float x, float factor) const { return __expf(x - largest) * factor; }
  template <typename Format>
  __device__ uint4 Gradient(const uint4& v, float factor) const {
    float x[kEach<Format>];
    Widen<Format>(v, x);
#pragma unroll
    for (int e = 0; e < kEach<Format>; ++e) x[e] = Gradient(x[e], factor);
    return Narrow<Format>(x);
  }
  __device__ float GradientOfTarget(float scale) const {
    return (__expf(of_target - largest) / sum - 1) * scale;
  }
};

template <typename Format>
struct Call {
  using Bits = typename Format::Bits;
  Bits* logits;
  const int64_t* targets;
  float* losses;
  int64_t rows, columns, row_stride, stride;
  float scale;
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

// Keeps the compiler from holding on to the elements as float32, in twice the registers.
__device__ void StayPacked(uint4& v) { asm("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

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

// Logits stay in the L2 cache until their gradient takes their place there.
__device__ uint64_t StayPolicy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  return policy;
}

__device__ void Copy(uint4* to, const uint4* from, int bytes, uint64_t* barrier, uint64_t policy) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier)), "l"(policy)
      : "memory");
}

__device__ uint4 Load(const uint4* from, uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from), "l"(policy)
               : "memory");
  return v;
}

// Writes to the shared memory of a block of the cluster, and counts the bytes at its barrier.
__device__ void Send(const Parts& parts, Parts* to, uint64_t* barrier, int block) {
  asm volatile(
      "{\n.reg .b32 there, barrier;\nmapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, "
      "[barrier];\n}" ::"r"(SharedAddress(to)),
      "r"(SharedAddress(barrier)), "r"(block), "f"(parts.largest), "f"(parts.sum)
      : "memory");
}

template <typename Format>
__global__ void __launch_bounds__(kThreads) RowOnChip(Call<Format> call, int blocks) {
  using Bits = typename Format::Bits;
  constexpr int kSize = kEach<Format>;
  extern __shared__ uint4 piece[];
  __shared__ uint64_t arrived[kMostChunks], exchanged;
  __shared__ Parts partial[kMostBlocks * kWarps];

  const int64_t number = blockIdx.x / blocks;
  const int rank = blockIdx.x % blocks;
  Bits* const x = call.logits + number * call.row_stride;
  const int64_t target = call.targets[number];
  const Span<Format> span(x, static_cast<int>(call.columns));
  const int first = static_cast<int>(static_cast<int64_t>(span.vectors) * rank / blocks);
  const int count =
      static_cast<int>(static_cast<int64_t>(span.vectors) * (rank + 1) / blocks) - first;
  auto* const vectors = reinterpret_cast<uint4*>(x + span.head) + first;
  const bool has_extra = rank == 0 && threadIdx.x < span.extra;
  Bits* const extra = x + span.Extra(threadIdx.x);

  if (target == kIgnored) {
    for (int v = threadIdx.x; v < count; v += kThreads) vectors[v] = make_uint4(0, 0, 0, 0);
    if (has_extra) *extra = 0;
    if (rank == 0 && threadIdx.x == 0) call.losses[number] = 0;
    return;
  }

  // The first vectors of the piece stay in registers, the others in shared memory.
  const int shared = max(count - kHeld * kThreads, 0);
  const int chunks = (shared + kChunk - 1) / kChunk;
  const uint64_t policy = StayPolicy();
  if (threadIdx.x < chunks) {
    const int start = threadIdx.x * kChunk;
    const int bytes = min(shared - start, kChunk) * static_cast<int>(sizeof(uint4));
    uint64_t* const barrier = arrived + threadIdx.x;
    Await(barrier, bytes);
    Copy(piece + start, vectors + kHeld * kThreads + start, bytes, barrier, policy);
  }
  uint4 held[kHeld];
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int v = item * kThreads + threadIdx.x;
    held[item] = v < count ? Load(vectors + v, policy) : Lowest<Format>();
  }
  const bool valid = target >= 0 && target < call.columns;
  const float of_target = valid ? Format::Wide(x[target]) : NAN;
  const float single = Format::Wide(has_extra ? *extra : Format::kLowest);
  if (blocks > 1) {
    if (threadIdx.x == 0) {
      Await(&exchanged, blocks * kWarps * static_cast<int>(sizeof(Parts)));
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  __syncthreads();

  Parts parts;
  parts.Add(single);
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const uint4 value[] = {held[item]};
    parts.Add<Format>(value);
    StayPacked(held[item]);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitFor(arrived + chunk);
    uint4 value[kChunk / kThreads];
    const int start = chunk * kChunk + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kChunk / kThreads; ++item) {
      const int v = start + item * kThreads;
      value[item] = v < shared ? piece[v] : Lowest<Format>();
    }
    parts.Add<Format>(value);
  }
  parts = OfWarp(parts);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (blocks > 1) {
    // The other blocks must have begun before their shared memory is written to.
    asm volatile("barrier.cluster.wait;" ::: "memory");
    if (lane < blocks) Send(parts, partial + rank * kWarps + warp, &exchanged, lane);
    WaitFor(&exchanged);
  } else {
    if (lane == 0) partial[warp] = parts;
    __syncthreads();
  }
  parts = Parts();
  for (int i = lane; i < blocks * kWarps; i += 32) parts.Add(partial[i]);
  parts = OfWarp(parts);

  const Row row{parts.largest, parts.sum, of_target};
  const float factor = call.scale / row.sum;
#pragma unroll
  for (int item = 0; item < kHeld; ++item) {
    const int v = item * kThreads + threadIdx.x;
    if (v < count) vectors[v] = row.Gradient<Format>(held[item], factor);
  }
#pragma unroll 2
  for (int v = threadIdx.x; v < shared; v += kThreads) {
    vectors[kHeld * kThreads + v] = row.Gradient<Format>(piece[v], factor);
  }
  if (has_extra) *extra = Format::Narrow(row.Gradient(single, factor));
  // The thread that wrote the target's element writes it again.
  if (valid) {
    const int place = static_cast<int>(target) - span.head - first * kSize;
    const bool inside = place >= 0 && place < count * kSize;
    const bool mine =
        inside ? place / kSize % kThreads == threadIdx.x : has_extra && extra == x + target;
    if (mine) x[target] = Format::Narrow(row.GradientOfTarget(call.scale));
  }
  if (rank == 0 && threadIdx.x == 0) call.losses[number] = row.Loss();
}

// Has the target of a row that comes later fetched to the L2 cache.
template <typename Format>
__device__ void Prefetch(const Call<Format>& call, int64_t number) {
  if (threadIdx.x == 0 && number + kRowsAhead < call.rows) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(call.targets + number + kRowsAhead));
  }
}

// A row of at most kLanes * kItems vectors for each kLanes threads, which are a warp or a block.
template <typename Format, int kLanes, int kItems>
__global__ void __launch_bounds__(kLanes == 32 ? kOtherThreads : kLanes)
    RowInRegisters(Call<Format> call) {
  using Bits = typename Format::Bits;
  constexpr int kSize = kEach<Format>;
  constexpr int kRows = kLanes == 32 ? kOtherThreads / 32 : 1;
  const int64_t number = int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes;
  if (number >= call.rows) return;
  const int lane = threadIdx.x % kLanes;
  Prefetch(call, number);
  const int64_t target = call.targets[number];
  Bits* const x = call.logits + number * call.row_stride;
  const Span<Format> span(x, static_cast<int>(call.columns));
  auto* const vectors = reinterpret_cast<uint4*>(x + span.head) + lane;
  const bool has_extra = lane < span.extra;
  Bits* const extra = x + span.Extra(lane);
  if (target == kIgnored) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (lane + item * kLanes < span.vectors) vectors[item * kLanes] = make_uint4(0, 0, 0, 0);
    }
    if (has_extra) *extra = 0;
    if (lane == 0) call.losses[number] = 0;
    return;
  }
  uint4 value[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    value[item] = lane + item * kLanes < span.vectors ? vectors[item * kLanes] : Lowest<Format>();
  }
  const bool valid = target >= 0 && target < call.columns;
  const float of_target = valid ? Format::Wide(x[target]) : NAN;
  const float single = Format::Wide(has_extra ? *extra : Format::kLowest);
  Parts parts;
  parts.Add(single);
  parts.Add<Format>(value);
#pragma unroll
  for (int item = 0; item < kItems; ++item) StayPacked(value[item]);
  parts = OfWarp(parts);
  if constexpr (kLanes > 32) {
    __shared__ Parts partial[kLanes / 32];
    if (lane % 32 == 0) partial[lane / 32] = parts;
    __syncthreads();
    parts = OfWarp(lane % 32 < kLanes / 32 ? partial[lane % 32] : Parts());
  }
  const Row row{parts.largest, parts.sum, of_target};
  const float factor = call.scale / row.sum;
  __syncwarp();  // all have read the logit of the target
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (lane + item * kLanes < span.vectors) {
      vectors[item * kLanes] = row.Gradient<Format>(value[item], factor);
    }
  }
  if (has_extra) *extra = Format::Narrow(row.Gradient(single, factor));
  // The thread that wrote the target's element writes it again.
  if (valid) {
    const int place = static_cast<int>(target) - span.head;
    const bool inside = place >= 0 && place < span.vectors * kSize;
    const bool mine = inside ? place / kSize % kLanes == lane : has_extra && extra == x + target;
    if (mine) x[target] = Format::Narrow(row.GradientOfTarget(call.scale));
  }
  if (lane == 0) call.losses[number] = row.Loss();
}

// One block for each row, of any length and alignment; the row is read twice.
template <typename Format>
__global__ void __launch_bounds__(kOtherThreads) RowInLoops(Call<Format> call) {
  __shared__ Parts partial[kOtherThreads / 32];
  const int64_t number = blockIdx.x;
  const int64_t target = call.targets[number];
  auto* const x = call.logits + number * call.row_stride;
  if (target == kIgnored) {
    for (int64_t i = threadIdx.x; i < call.columns; i += kOtherThreads) x[i * call.stride] = 0;
    if (threadIdx.x == 0) call.losses[number] = 0;
    return;
  }
  const bool valid = target >= 0 && target < call.columns;
  const float of_target = valid ? Format::Wide(x[target * call.stride]) : NAN;
  Parts parts;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < call.columns; i += kOtherThreads) {
    parts.Add(Format::Wide(x[i * call.stride]));
  }
  parts = OfWarp(parts);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = parts;
  __syncthreads();
  parts = OfWarp(lane < kOtherThreads / 32 ? partial[lane] : Parts());
  const Row row{parts.largest, parts.sum, of_target};
  const float factor = call.scale / row.sum;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < call.columns; i += kOtherThreads) {
    auto& element = x[i * call.stride];
    element = Format::Narrow(i == target ? row.GradientOfTarget(call.scale)
                                         : row.Gradient(Format::Wide(element), factor));
  }
  if (threadIdx.x == 0) call.losses[number] = row.Loss();
}

// False if the GPU has no place for such clusters.
template <typename Format>
static bool LaunchOnChip(const Call<Format>& call, int blocks, int chunks, cudaStream_t stream) {
  const auto kernel = RowOnChip<Format>;
  const int bytes = chunks * kChunk * static_cast<int>(sizeof(uint4));
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute size{};
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = blocks;
  size.val.clusterDim.y = size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(call.rows * blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &size;
  config.numAttrs = 1;
  if (blocks > 8) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    int active = 0;
    C10_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&active, kernel, &config));
    if (active == 0) return false;
  }
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, call, blocks));
  return true;
}

template <typename Format>
static void Launch(torch::Tensor& logits, const torch::Tensor& target, torch::Tensor& losses,
                   double scale) {
  using Bits = typename Format::Bits;
  const Call<Format> call{static_cast<Bits*>(logits.data_ptr()),
                          target.data_ptr<int64_t>(),
                          losses.data_ptr<float>(),
                          logits.size(0),
                          logits.size(1),
                          logits.stride(0),
                          logits.stride(1),
                          static_cast<float>(scale)};
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto rows = static_cast<unsigned>(call.rows);
  const bool dense = call.stride == 1 || call.columns == 1;
  const int64_t vectors = call.columns / kEach<Format>;
  if (dense && vectors <= 1024) {
    constexpr int kRows = kOtherThreads / 32;  // of a block whose warps take rows of their own
    const auto go = [&](auto kernel, int threads, unsigned rows_of_block) {
      kernel<<<(rows + rows_of_block - 1) / rows_of_block, threads, 0, stream>>>(call);
    };
    if (vectors <= 32) {
      go(RowInRegisters<Format, 32, 1>, kOtherThreads, kRows);
    } else if (vectors <= 64) {
      go(RowInRegisters<Format, 32, 2>, kOtherThreads, kRows);
    } else if (vectors <= 128) {
      go(RowInRegisters<Format, 32, 4>, kOtherThreads, kRows);
    } else if (vectors <= 192) {
      go(RowInRegisters<Format, 64, 3>, 64, 1);
    } else if (vectors <= 256) {
      go(RowInRegisters<Format, 64, 4>, 64, 1);
    } else if (vectors <= 384) {
      go(RowInRegisters<Format, 128, 3>, 128, 1);
    } else if (vectors <= 512) {
      go(RowInRegisters<Format, 128, 4>, 128, 1);
    } else if (vectors <= 768) {
      go(RowInRegisters<Format, 256, 3>, 256, 1);
    } else {
      go(RowInRegisters<Format, 256, 4>, 256, 1);
    }
    return;
  }
  const auto chunks = [&](int blocks) {
    const int64_t piece = (vectors + blocks - 1) / blocks;
    return static_cast<int>((std::max<int64_t>(piece - kHeld * kThreads, 0) + kChunk - 1) / kChunk);
  };
  int blocks = 1;
  while (blocks < kMostBlocks &&
         vectors > blocks * (int64_t{kFewChunks} * kChunk + kHeld * kThreads))
    blocks *= 2;
  // Few rows are shared by more blocks.
  const auto* const gpu = at::cuda::getCurrentDeviceProperties();
  const int processors = gpu->multiProcessorCount;
  while (blocks < 8 && call.rows * blocks <= processors) blocks *= 2;
  if (dense && gpu->major >= 9 && chunks(blocks) <= kMostChunks &&
      call.rows * blocks < (int64_t{1} << 31) &&
      LaunchOnChip(call, blocks, chunks(blocks), stream)) {
    return;
  }
  RowInLoops<Format><<<rows, kOtherThreads, 0, stream>>>(call);
}

torch::Tensor forward(torch::Tensor logits, torch::Tensor target, double scale) {
  TORCH_CHECK(logits.dim() == 2, "logits must be (tokens, vocabulary)");
  TORCH_CHECK(target.dim() == 1 && target.size(0) == logits.size(0) &&
                  target.scalar_type() == torch::kInt64,
              "target must have an int64 for each token");
  TORCH_CHECK(logits.size(0) < (int64_t{1} << 31), "logits has too many rows");
  target = target.contiguous();
  auto losses = torch::empty({logits.size(0)}, logits.options().dtype(torch::kFloat32));
  if (losses.numel() == 0) return losses;
  switch (logits.scalar_type()) {
    case torch::kFloat32:
      Launch<Float>(logits, target, losses, scale);
      break;
    case torch::kFloat16:
      Launch<Half>(logits, target, losses, scale);
      break;
    case torch::kBFloat16:
      Launch<BFloat16>(logits, target, losses, scale);
      break;
    default:
      TORCH_CHECK(false, "logits must be float32, float16 or bfloat16");
  }
  return losses;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Cross entropy and its gradient");
}
