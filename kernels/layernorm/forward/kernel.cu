// Layer normalisation of long rows, whole images of up to millions of numbers. A row is cut into
// chunks, one block for each; all blocks are on the GPU at once and exchange the moments of their
// chunks through a barrier of the grid. So x is read once: a block keeps its chunk in registers.
//  - OnChip: where all of x fits on the GPU's multiprocessors. Weight and bias do not wait for the
//    barrier either; they travel to shared memory meanwhile.
//  - RowByRow: where the rows do not fit, but two do. A row is written while the next one's moments
//    are on their way between the blocks, and each vector's place is taken at once by the row after
//    that: memory never waits. Words that hold the row's number, too, tell the moments, without a
//    barrier. Most of the weight stays on chip; the bias comes from the L2 cache, which x, read
//    once and marked so, leaves to it.
//  - RowOfBlock: rows of up to 10,240 numbers that are not aligned vectors. A block has a row to
//    itself and asks for all of it, number by number, with its weight and bias before any sum.
//  - Moments and Normalize, two launches: longer rows that are not aligned vectors, and rows of
//    vectors that do not fit the first two.
// Moments are a mean and the sum of squared distances from it, of a warp, a chunk, a row: large
// means cost no digits.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kLargest = 16;  // vectors of four that a thread holds of x
constexpr int kStaged = 28;   // vectors that a thread of 512 can have in shared memory: 224 KiB
constexpr int kAhead = 2;     // RowByRow: vectors of the bias on their way; tune: kAhead in 1, 2, 4
constexpr int kHeard = 5;     // blocks of RowByRow that a lane listens to
constexpr int kRowsTold = 4;  // RowByRow: rows whose words are there at once
constexpr int kRowThreads = 1024;  // of RowOfBlock
constexpr int kFewThreads = 512;   // of Moments and Normalize; tune: kFewThreads in 256, 512
constexpr int kFewItems = 8;       // tune: kFewItems in 4, 8

// Of `count` numbers: their mean and the sum of their squared distances from it.
struct Moments {
  float mean, squares, count;
};

// The sum over each kLanes lanes, known to all of them.
template <int kLanes = 32>
__device__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(~0u, value, lanes);
  }
  return value;
}

__device__ float Sum(float v) { return v; }
__device__ float Sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ float Squares(float v, float mean) { return (v - mean) * (v - mean); }
__device__ float Squares(float4 v, float mean) {
  return (Squares(v.x, mean) + Squares(v.y, mean)) + (Squares(v.z, mean) + Squares(v.w, mean));
}
__device__ float Normal(float v, float mean, float scale, float w, float b) {
  return (v - mean) * scale * w + b;
}
__device__ float4 Normal(float4 v, float mean, float scale, float4 w, float4 b) {
  return make_float4(Normal(v.x, mean, scale, w.x, b.x), Normal(v.y, mean, scale, w.y, b.y),
                     Normal(v.z, mean, scale, w.z, b.z), Normal(v.w, mean, scale, w.w, b.w));
}

// Where a block works in its row, in vectors: first + threadIdx.x + item * kThreads, item < kItems.
struct Chunk {
  int64_t first;
  int length;  // at most kThreads * kItems
};

__device__ Chunk ChunkOf(int64_t index, int size, int64_t vectors) {
  const int64_t first = index * size;
  return {first, static_cast<int>(min(static_cast<int64_t>(size), vectors - first))};
}

// The moments of the block's chunk, known to the first lanes, one for each warp. Vectors beyond the
// chunk are zero.
template <int kThreads, int kItems, typename Vector>
__device__ Moments OfChunk(const Vector (&value)[kItems], int length) {
  constexpr int kWarps = kThreads / 32;
  constexpr unsigned kWidth = sizeof(Vector) / sizeof(float);
  __shared__ Moments of_warps[kWarps];
  float sum = 0;
  unsigned count = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    sum += Sum(value[item]);
    count += threadIdx.x + item * kThreads < length ? kWidth : 0;
  }
  const float of_warp = static_cast<float>(__reduce_add_sync(~0u, count));
  const float mean = WarpSum(sum) / fmaxf(of_warp, 1);
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < length) squares += Squares(value[item], mean);
  }
  squares = WarpSum(squares);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = {mean, squares, of_warp};
  __syncthreads();
  Moments all{0, 0, static_cast<float>(length) * kWidth};
  if (threadIdx.x >= 32) return all;
  const Moments warp = of_warps[threadIdx.x % kWarps];
  all.mean = WarpSum<kWarps>(warp.mean * (warp.count / all.count));
  const float off = warp.mean - all.mean;
  all.squares = WarpSum<kWarps>(warp.squares + warp.count * off * off);
  return all;
}

// A row's mean and 1 / deviation.
struct Row {
  float mean, scale;
};

// of_chunks: mean and squares of the row's chunks, all but the last of chunk_size numbers. A warp
// puts them together around the first chunk's mean, which costs at most as many
// units of the last place as there are chunks.
__device__ Row OfRow(const float2* of_chunks, int chunks, int chunk_size, int64_t length,
                     float eps) {
  const float pivot = __ldcg(of_chunks).x;
  const float full = static_cast<float>(chunk_size);
  const float last = static_cast<float>(length - static_cast<int64_t>(chunks - 1) * chunk_size);
  float sum = 0, squares = 0;
#pragma unroll 4
  for (int c = threadIdx.x % 32; c < chunks; c += 32) {
    const float2 chunk = __ldcg(of_chunks + c);
    const float count = c < chunks - 1 ? full : last;
    const float off = chunk.x - pivot;
    sum += count * off;
    squares += chunk.y + count * off * off;
  }
  const float total = static_cast<float>(length);
  const float off = WarpSum(sum) / total;
  const float variance = WarpSum(squares) / total - off * off;
  return {pivot + off, rsqrtf((variance < 0 ? 0 : variance) + eps)};  // a NaN stays one
}

// Of kItems vectors of the bias, how many find room in shared memory beside those of the weight.
constexpr __host__ __device__ int BiasStaged(int items) {
  return 2 * items <= kStaged ? items : kStaged - items;
}

// Block b holds chunk b % chunks of row b / chunks. A thread's part of weight and, as far as there
// is room, bias lies in shared memory, the rest of the bias in registers.
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, 1)
    OnChip(const float4* __restrict__ x, const float4* __restrict__ weight,
           const float4* __restrict__ bias, float4* __restrict__ y, float2* of_chunks, int chunks,
           int vectors, float eps) {
  constexpr int kInShared = BiasStaged(kItems);
  constexpr int kInRegisters = kItems - kInShared;
  extern __shared__ float4 staged[];
  float4* const weights = staged + threadIdx.x;
  float4* const biases = weights + kItems * kThreads;
  const int row = blockIdx.x / chunks;
  const int64_t start = static_cast<int64_t>(row) * vectors;
  const Chunk chunk = ChunkOf(blockIdx.x % chunks, kThreads * kItems, vectors);
  const int64_t place = chunk.first + threadIdx.x;
  x += start + place;
  y += start + place;
  weight += place;
  bias += place;

  float4 value[kItems], rest[kInRegisters + 1];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const bool inside = threadIdx.x + item * kThreads < chunk.length;
    value[item] = inside ? x[item * kThreads] : make_float4(0, 0, 0, 0);
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads >= chunk.length) continue;
    const int at = item * kThreads;
    __pipeline_memcpy_async(weights + at, weight + at, sizeof(float4));
    if (item < kInShared) {
      __pipeline_memcpy_async(biases + at, bias + at, sizeof(float4));
    } else {
      rest[item - kInShared] = bias[at];
    }
  }
  __pipeline_commit();

  const Moments moments = OfChunk<kThreads>(value, chunk.length);
  if (threadIdx.x == 0) of_chunks[blockIdx.x] = make_float2(moments.mean, moments.squares);
  cooperative_groups::this_grid().sync();
  __shared__ Row of_row;
  if (threadIdx.x < 32) {  // alone, because all blocks read the same lines
    of_row = OfRow(of_chunks + static_cast<int64_t>(row) * chunks, chunks, 4 * kThreads * kItems,
                   4 * static_cast<int64_t>(vectors), eps);
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  const Row scale = of_row;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads >= chunk.length) continue;
    const float4 b =
        item < kInShared ? biases[item * kThreads] : rest[item < kInShared ? 0 : item - kInShared];
    y[item * kThreads] = Normal(value[item], scale.mean, scale.scale, weights[item * kThreads], b);
  }
}

// A block tells the others numbers by words of 64 bits that hold the row's tag beside the number.
// Who reads the tag has read the number, so neither a fence nor a barrier is needed.
struct alignas(8) Word {
  float number;
  unsigned tag;
};

// What a block tells of its chunk.
struct alignas(16) Told {
  Word mean, squares;
};

__device__ void Tell(Word* to, float number, unsigned tag) {
  asm volatile(
      "{ .reg .b64 word; mov.b64 word, {%1, %2}; st.relaxed.gpu.global.b64 [%0], word; }" ::"l"(to),
      "f"(number), "r"(tag)
      : "memory");
}

__device__ Told Hear(const Told* from) {
  Told told;
  asm volatile(
      "{ .reg .b64 a, b; ld.relaxed.gpu.global.v2.b64 {a, b}, [%4];"
      " mov.b64 {%0, %1}, a; mov.b64 {%2, %3}, b; }"
      : "=f"(told.mean.number), "=r"(told.mean.tag), "=f"(told.squares.number),
        "=r"(told.squares.tag)
      : "l"(from)
      : "memory");
  return told;
}

// What a block's first warp makes of the moments of all blocks' chunks, of `of_chunk` numbers each,
// once they have been told. One warp of a block listens, because all blocks read the same lines.
__device__ Row RowOfAll(const Told* of_blocks, float of_chunk, unsigned tag, float eps) {
  const int lane = threadIdx.x;
  const int blocks = static_cast<int>(gridDim.x);
  Told told[kHeard];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int i = 0; i < kHeard; ++i) told[i] = Hear(of_blocks + min(lane + 32 * i, blocks - 1));
#pragma unroll
    for (int i = 0; i < kHeard; ++i) all &= told[i].mean.tag == tag && told[i].squares.tag == tag;
  } while (!__all_sync(~0u, all));

  const float pivot = __shfl_sync(~0u, told[0].mean.number, 0);
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < kHeard; ++i) {
    if (lane + 32 * i >= blocks) continue;
    const float off = told[i].mean.number - pivot;
    sum += off;
    squares += told[i].squares.number + of_chunk * off * off;
  }
  const float count = static_cast<float>(blocks);
  const float off = WarpSum(sum) / count;
  const float variance = WarpSum(squares) / (count * of_chunk) - off * off;
  return {pivot + off, rsqrtf((variance < 0 ? 0 : variance) + eps)};  // a NaN stays one
}

// The moments of a warp's vectors, kItems a lane, in one pass that it makes while they arrive. The
// mean of the first ones stands for that of all, which costs few digits.
template <int kItems>
class Arriving {
 public:
  __device__ void Add(float4 v) {
    if (count_ == 0) pivot_ = WarpSum(Sum(v)) / 128;
    sum_ += Sum(make_float4(v.x - pivot_, v.y - pivot_, v.z - pivot_, v.w - pivot_));
    squares_ += Squares(v, pivot_);
    ++count_;
  }
  __device__ Moments OfWarp() const {
    constexpr float kCount = 128 * kItems;
    const float off = WarpSum(sum_) / kCount;
    return {pivot_ + off, WarpSum(squares_) - kCount * off * off, kCount};
  }

 private:
  float pivot_ = 0, sum_ = 0, squares_ = 0;
  int count_ = 0;  // known to the compiler, where loops are unrolled
};

__device__ uint64_t ReadOnce() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}

__device__ void CopyAsync(float4* to, const float4* from, uint64_t policy) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(address),
               "l"(from), "l"(policy)
               : "memory");
}

// Block b holds chunk b of one row after the other; all chunks are full. Two rows are on chip: an
// even one in registers, an odd one in shared memory, where a thread reads what it has copied.
// Once a row is complete, the block tells the others its chunk's moments, hears those of the row
// before and writes that one: no block waits for another before it has told what others wait for.
// The blocks' words are there for four rows: who tells a row has heard the one two before it from
// all, who had then heard the one four before it. What warps leave to each other and what the first
// one makes of it are there for two rows, since at the beginning two are told one after the other,
// and at the end two heard.
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, 1)
    RowByRow(const float4* __restrict__ x, const float4* __restrict__ weight,
             const float4* __restrict__ bias, float4* __restrict__ y, Told* of_blocks, int rows,
             float eps) {
  constexpr int kWarps = kThreads / 32;
  constexpr int kWeightsStaged = kStaged - kItems;  // the other weights are kept in registers
  constexpr int kSize = kThreads * kItems;
  __shared__ Moments of_warps[2][kWarps];
  __shared__ Row of_rows[2];
  extern __shared__ float4 staged[];
  float4* const odd = staged + threadIdx.x;
  float4* const weights = odd + kSize;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSize + threadIdx.x;
  const int64_t vectors = static_cast<int64_t>(gridDim.x) * kSize;
  x += first;
  y += first;
  weight += first;
  bias += first;
  const uint64_t once = ReadOnce();

  float4 even[kItems], rest[kItems - kWeightsStaged];
#pragma unroll
  for (int item = 0; item < kItems; ++item) even[item] = __ldcs(x + item * kThreads);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int at = item * kThreads;
    if (item < kWeightsStaged) {
      __pipeline_memcpy_async(weights + at, weight + at, sizeof(float4));
    } else {
      rest[item - kWeightsStaged] = weight[at];
    }
  }
  __pipeline_commit();
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int at = item * kThreads;
    if (rows > 1) CopyAsync(odd + at, x + vectors + at, once);
    __pipeline_commit();
  }
  if (threadIdx.x == 0) {
    for (int set = 0; set < kRowsTold; ++set) of_blocks[set * gridDim.x + blockIdx.x] = Told{};
  }
  cooperative_groups::this_grid().sync();  // no word has a row's tag

  const auto tell = [&](int row, const Moments& of_warp) {
    if (threadIdx.x % 32 == 0) of_warps[row % 2][threadIdx.x / 32] = of_warp;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const Moments warp = of_warps[row % 2][threadIdx.x % kWarps];
    const float mean = WarpSum<kWarps>(warp.mean) / kWarps;
    const float off = warp.mean - mean;
    const float squares = WarpSum<kWarps>(warp.squares + warp.count * off * off);
    if (threadIdx.x != 0) return;
    Told* const told = of_blocks + row % kRowsTold * gridDim.x + blockIdx.x;
    Tell(&told->mean, mean, row + 1);
    Tell(&told->squares, squares, row + 1);
  };
  const auto hear = [&](int row) {
    if (threadIdx.x < 32) {
      of_rows[row % 2] = RowOfAll(of_blocks + row % kRowsTold * gridDim.x, 4 * kSize, row + 1, eps);
    }
    __syncthreads();
  };
  // Writes a row and gives its places to the row after the next.
  const auto normalize = [&](int row, auto is_odd) {
    constexpr bool kOdd = decltype(is_odd)::value;
    const bool more = row + 2 < rows;
    const float4* const next = x + (row + 2) * vectors;
    float4* const to = y + row * vectors;
    const Row scale = of_rows[row % 2];
    float4 biases[kItems];
#pragma unroll
    for (int ahead = 0; ahead < kItems + kAhead; ++ahead) {
      if (ahead < kItems) biases[ahead] = bias[ahead * kThreads];
      const int item = ahead - kAhead, at = item * kThreads;
      if (item < 0) continue;
      const float4 w = item < kWeightsStaged
                           ? weights[at]
                           : rest[item < kWeightsStaged ? 0 : item - kWeightsStaged];
      if constexpr (kOdd) {
        __stcs(to + at, Normal(odd[at], scale.mean, scale.scale, w, biases[item]));
        if (more) CopyAsync(odd + at, next + at, once);
        __pipeline_commit();
      } else {
        __stcs(to + at, Normal(even[item], scale.mean, scale.scale, w, biases[item]));
        if (more) even[item] = __ldcs(next + at);
      }
    }
  };

  for (int row = 0;; row += 2) {
    if (row < rows) {
      Arriving<kItems> arriving;
#pragma unroll
      for (int item = 0; item < kItems; ++item) arriving.Add(even[item]);
      tell(row, arriving.OfWarp());
    }
    __pipeline_wait_prior(kItems);  // for the weights
    if (row > 0) {
      hear(row - 1);
      normalize(row - 1, std::true_type());
    }
    if (row >= rows) break;

    if (row + 1 < rows) {
      Arriving<kItems> arriving;
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        __pipeline_wait_prior(kItems - 1 - item);
        arriving.Add(odd[item * kThreads]);
      }
      tell(row + 1, arriving.OfWarp());
    }
    hear(row);
    normalize(row, std::false_type());
    if (row + 1 >= rows) break;
  }
}

// The sum over the block's threads, for all of them. `partial` is for this call alone.
template <int kThreads>
__device__ float BlockSum(float value, float* partial) {
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return WarpSum(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
}

// A row of at most kRowThreads * kItems numbers.
template <int kItems>
__global__ void __launch_bounds__(kRowThreads)
    RowOfBlock(const float* __restrict__ x, const float* __restrict__ weight,
               const float* __restrict__ bias, float* __restrict__ y, int length, float eps) {
  __shared__ float partial[2][32];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * length;
  float value[kItems], w[kItems], b[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kRowThreads;
    value[item] = i < length ? x[start + i] : 0;
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kRowThreads;
    if (i < length) {
      w[item] = weight[i];
      b[item] = bias[i];
    }
  }
  const float share = 1 / static_cast<float>(length);
  float sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) sum += value[item];
  const float mean = BlockSum<kRowThreads>(sum, partial[0]) * share;
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kRowThreads;
    squares += i < length ? Squares(value[item], mean) : 0;
  }
  const float scale = rsqrtf(BlockSum<kRowThreads>(squares, partial[1]) * share + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kRowThreads;
    if (i < length) y[start + i] = Normal(value[item], mean, scale, w[item], b[item]);
  }
}

template <typename Vector>
__device__ void Load(const Vector* from, int length, Vector (&value)[kFewItems]) {
#pragma unroll
  for (int item = 0; item < kFewItems; ++item) {
    const int i = threadIdx.x + item * kFewThreads;
    value[item] = i < length ? from[i] : Vector{};
  }
}

template <typename Vector>
__global__ void __launch_bounds__(kFewThreads)
    ChunkMoments(const Vector* __restrict__ x, float2* __restrict__ of_chunks, int chunks,
                 int64_t vectors) {
  asm volatile("griddepcontrol.launch_dependents;");  // they wait for the moments by themselves
  const Chunk chunk = ChunkOf(blockIdx.x % chunks, kFewThreads * kFewItems, vectors);
  Vector value[kFewItems];
  Load(x + blockIdx.x / chunks * vectors + chunk.first, chunk.length, value);
  const Moments moments = OfChunk<kFewThreads>(value, chunk.length);
  if (threadIdx.x == 0) of_chunks[blockIdx.x] = make_float2(moments.mean, moments.squares);
}

// From the last chunk to the first: what was read last is still in the L2 cache.
template <typename Vector>
__global__ void __launch_bounds__(kFewThreads)
    Normalize(const Vector* __restrict__ x, const Vector* __restrict__ weight,
              const Vector* __restrict__ bias, const float2* of_chunks, Vector* __restrict__ y,
              int chunks, int64_t vectors, float eps) {
  constexpr int kSize = kFewThreads * kFewItems;
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  const int64_t block = gridDim.x - 1 - blockIdx.x;
  const int64_t row = block / chunks;
  const Chunk chunk = ChunkOf(block % chunks, kSize, vectors);
  const int64_t start = row * vectors + chunk.first;
  Vector value[kFewItems];
  Load(x + start, chunk.length, value);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const Row of_row = OfRow(of_chunks + row * chunks, chunks, kWidth * kSize, kWidth * vectors, eps);
#pragma unroll
  for (int item = 0; item < kFewItems; ++item) {
    const int i = threadIdx.x + item * kFewThreads;
    if (i >= chunk.length) continue;
    y[start + i] = Normal(value[item], of_row.mean, of_row.scale, weight[chunk.first + i],
                          bias[chunk.first + i]);
  }
}

// Everything of one call.
struct Call {
  torch::Tensor x, weight, bias, y;
  int64_t rows, length;
  float eps;
};

static int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int Processors() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }

static torch::Tensor Scratch(const Call& call, int64_t chunks) {
  return torch::empty({call.rows * chunks, 2}, call.x.options());
}

template <typename... Parameters, typename... Arguments>
static void LaunchTogether(void (*kernel)(Parameters...), int64_t blocks, int threads, int vectors,
                           Arguments... arguments) {
  const int bytes = vectors * threads * static_cast<int>(sizeof(float4));
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute together;
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = bytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &together;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

static const float4* Vectors(const torch::Tensor& x) {
  return static_cast<const float4*>(x.data_ptr());
}

// Whether these blocks hold all of x at once; if so, they are launched.
template <int kThreads, int kItems>
static bool TryOnChip(const Call& call) {
  const int64_t vectors = call.length / 4;
  const int64_t chunks = CeilDiv(vectors, kThreads * kItems);
  if (call.rows * chunks > Processors()) return false;
  auto of_chunks = Scratch(call, chunks);
  LaunchTogether(OnChip<kThreads, kItems>, call.rows * chunks, kThreads,
                 kItems + BiasStaged(kItems), Vectors(call.x), Vectors(call.weight),
                 Vectors(call.bias), static_cast<float4*>(call.y.data_ptr()),
                 static_cast<float2*>(of_chunks.data_ptr()), chunks, vectors, call.eps);
  return true;
}

// The same for two rows, if their chunks are full and leave few multiprocessors without work.
template <int kThreads, int kItems>
static bool TryRowByRow(const Call& call) {
  const int64_t chunks = call.length / (4 * kThreads * kItems);
  if (call.length % (4 * kThreads * kItems) != 0 || chunks > Processors() || chunks > 32 * kHeard ||
      4 * chunks < 3 * Processors()) {
    return false;
  }
  auto of_blocks =
      torch::empty({kRowsTold * chunks, sizeof(Told) / sizeof(float)}, call.x.options());
  LaunchTogether(RowByRow<kThreads, kItems>, chunks, kThreads, kStaged, Vectors(call.x),
                 Vectors(call.weight), Vectors(call.bias), static_cast<float4*>(call.y.data_ptr()),
                 static_cast<Told*>(of_blocks.data_ptr()), call.rows, call.eps);
  return true;
}

template <int kItems>
static bool TryRowOfBlock(const Call& call) {
  if (call.length > kRowThreads * kItems || call.rows >= int64_t{1} << 31) return false;
  RowOfBlock<kItems>
      <<<static_cast<unsigned>(call.rows), kRowThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          call.x.data_ptr<float>(), call.weight.data_ptr<float>(), call.bias.data_ptr<float>(),
          call.y.data_ptr<float>(), static_cast<int>(call.length), call.eps);
  return true;
}

template <typename Vector>
static void InTwoLaunches(const Call& call) {
  const int64_t vectors = call.length / (sizeof(Vector) / sizeof(float));
  const int64_t chunks = CeilDiv(vectors, kFewThreads * kFewItems);
  const int64_t blocks = call.rows * chunks;
  TORCH_CHECK(blocks < (int64_t{1} << 31), "x is too large");
  auto of_chunks = Scratch(call, chunks);
  const auto* x = static_cast<const Vector*>(call.x.data_ptr());
  auto* moments = static_cast<float2*>(of_chunks.data_ptr());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  ChunkMoments<Vector><<<static_cast<unsigned>(blocks), kFewThreads, 0, stream>>>(
      x, moments, static_cast<int>(chunks), vectors);

  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kFewThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(
      &config, Normalize<Vector>, x, static_cast<const Vector*>(call.weight.data_ptr()),
      static_cast<const Vector*>(call.bias.data_ptr()), static_cast<const float2*>(moments),
      static_cast<Vector*>(call.y.data_ptr()), static_cast<int>(chunks), vectors, call.eps));
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(float4) == 0;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(weight.numel() > 0 && weight.sizes() == bias.sizes() && x.dim() >= weight.dim() &&
                  x.sizes().slice(x.dim() - weight.dim()) == weight.sizes(),
              "weight and bias must have the last dimensions of x, which must not be empty");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && weight.scalar_type() == torch::kFloat32 &&
                  bias.scalar_type() == torch::kFloat32,
              "x, weight and bias must be float32");
  Call call;
  call.x = x.contiguous();
  call.weight = weight.contiguous();
  call.bias = bias.contiguous();
  call.y = torch::empty_like(call.x);
  if (x.numel() == 0) return call.y;
  call.length = weight.numel();
  call.rows = x.numel() / call.length;
  call.eps = static_cast<float>(eps);

  const bool in_vectors = call.length % 4 == 0 && Aligned(call.x) && Aligned(call.weight) &&
                          Aligned(call.bias) && Aligned(call.y);
  if (!in_vectors) {
    if (!TryRowOfBlock<2>(call) && !TryRowOfBlock<10>(call)) InTwoLaunches<float>(call);
  } else if (!TryOnChip<128, 1>(call) && !TryOnChip<256, 1>(call) && !TryOnChip<512, 1>(call) &&
             !TryOnChip<512, 2>(call) && !TryOnChip<512, 4>(call) && !TryOnChip<512, 8>(call) &&
             !TryOnChip<512, kLargest>(call) && !TryRowByRow<512, kLargest>(call)) {
    InTwoLaunches<float4>(call);
  }
  return call.y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Layer normalisation"); }
