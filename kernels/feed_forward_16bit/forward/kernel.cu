// Feed-forward block with SwiGLU in 16 bits. Few tokens are bound by reading the weights, so they
// take one cooperative launch that never stops reading: while a block finishes its hidden
// features and waits for the others', its weights of the second product are already on their way.
//
//   1. Blocks share the hidden features, 8 to a "unit": a tile of 16 rows for the tensor cores, 8
//      of gate and 8 of up, so that one thread holds both sums of a feature.
//   2. After a barrier of the grid, a block multiplies kDownUnits * 2 tiles of 16 rows of down with
//      a slice of hidden. 3. After another one, all sum up the slices.
//
// Weights are the tensor cores' left factor, tokens the right one, in tiles of 8. A block walks the
// depth in chunks of 128; of its 8 warps, 4 take 32 of these each, for either half of the units. A
// tensor core may add up in any order: a lane takes 8 numbers in a row, 16 bytes, for two products
// of depth 16, of weights and tokens alike. So a lane multiplies just those weights that it has
// copied itself, asynchronously and several chunks ahead; only tokens are shared.
//
// Every block reads all tokens, from L2. More than 32 are as many bytes as the weights: the one
// launch serves up to 64 where hidden features are so few that a block has one unit for each half
// of its warps. Blocks start at different chunks lest they all ask for the same lines at once.
//
// Small matrices whose rows lie askew take two launches of a warp for each feature (SmallLinear);
// cuBLAS multiplies all others, with silu(gate) * up in one kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kDepthWarps = 4;                // share a chunk
constexpr int kSides = kWarps / kDepthWarps;  // share the units
constexpr int kChunk = 32 * kDepthWarps;
constexpr int kDownUnits = 2;  // tune: kDownUnits in 2, 4; of a warp
constexpr int kMaxStages = 8;  // tune: kMaxStages in 4, 6, 8
constexpr int kSharedBytes = 200 * 1024;
constexpr int kPiece = 512;     // bytes: 16 for each lane
constexpr int kFewTokens = 32;  // of the one launch
constexpr int kMaxTokens = 64;  // of the one launch, with few hidden features
constexpr int kGateThreads = 256;
constexpr int kSmallWarps = 4;
constexpr int kSmallTokens = 4;
constexpr int kSmallBatch = 8;
constexpr int64_t kMaxSmall = int64_t{1} << 23;  // multiplications

template <int kUnits, int kTiles>
struct Layout {
  static constexpr int kWeightBytes = kWarps * kUnits * 2 * kPiece;
  static constexpr int kStageBytes = kWeightBytes + kDepthWarps * kTiles * kPiece;
  static constexpr int kStages = std::min(kMaxStages, kSharedBytes / kStageBytes);
  static constexpr int kSumBytes = kWarps * kUnits * kTiles * kPiece;
  static_assert(kStages >= 3 && kSumBytes <= kSharedBytes);
};

// The rows of weights that a lane copies: two for each unit.
template <class T>
struct Rows {
  const T* first;
  int64_t unit_stride, half_stride;  // in elements
  int unit_rows, half_rows;          // the same in rows of what is left
  int left;
};

template <class T>
struct Matrix {
  const T* data;
  int rows, columns;
};

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Eight numbers, or zeros if there are none left.
template <class T>
__device__ void Copy(char* to, const T* from, int left, const T* valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)),
               "l"(left > 0 ? from : valid), "r"(left > 0 ? 16 : 0));
}

__device__ void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kGroups>
__device__ void WaitForAllBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

template <class T>
__device__ void MultiplyAdd(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                            uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, at::Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// The product of a block's rows of weights with all tokens over chunks [begin, end) of the depth.
template <class T, int kUnits, int kTiles>
struct Product {
  using L = Layout<kUnits, kTiles>;
  static constexpr int kAhead = L::kStages - 1;

  char* shared;
  Rows<T> rows;
  Matrix<T> tokens;
  int begin, end;
  int turn;  // below end - begin: where the walk of the chunks starts

  __device__ char* Stage(int chunk) const {
    return shared + (chunk - begin) % L::kStages * L::kStageBytes;
  }

  // The depth at which the chunk starts that comes when `chunk` would without the turn.
  __device__ int Depth(int chunk) const {
    const int turned = chunk + turn;
    return (turned < end ? turned : turned - (end - begin)) * kChunk;
  }

  __device__ void CopyWeights(int chunk) const {
    if (chunk >= end) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k = Depth(chunk) + warp % kDepthWarps * 32 + lane % 4 * 8;
    char* const to = Stage(chunk) + warp * kUnits * 2 * kPiece + lane * 16;
#pragma unroll
    for (int i = 0; i < 2 * kUnits; ++i) {
      const bool inside = i / 2 * rows.unit_rows + i % 2 * rows.half_rows < rows.left;
      Copy(to + i * kPiece, rows.first + i / 2 * rows.unit_stride + i % 2 * rows.half_stride + k,
           inside ? tokens.columns - k : 0, tokens.data);
    }
  }

  __device__ void CopyTokens(int chunk) const {
    if (chunk >= end) return;
#pragma unroll
    for (int i = threadIdx.x; i < kDepthWarps * kTiles * 32; i += kThreads) {
      const int row = i / 32 % kTiles * 8 + i % 32 / 4;
      const int k = Depth(chunk) + i / 32 / kTiles * 32 + i % 4 * 8;
      Copy(Stage(chunk) + L::kWeightBytes + i * 16,
           tokens.data + static_cast<int64_t>(row) * tokens.columns + k,
           row < tokens.rows ? tokens.columns - k : 0, tokens.data);
    }
  }

  // The first chunks' weights [from, to), which may start before there are tokens.
  __device__ void StartWeights(int from, int to) const {
#pragma unroll 1
    for (int i = from; i < to; ++i) CopyWeights(begin + i);
  }

  __device__ void StartTokens() const {
#pragma unroll 1
    for (int i = 0; i < kAhead; ++i) {
      CopyTokens(begin + i);
      Commit();
    }
  }

  __device__ void Start() const {
#pragma unroll 1
    for (int i = 0; i < kAhead; ++i) {
      CopyWeights(begin + i);
      CopyTokens(begin + i);
      Commit();
    }
  }

  __device__ void Run(float (&sums)[kUnits][kTiles][4]) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int chunk = begin; chunk < end; ++chunk) {
      WaitForAllBut<kAhead - 1>();
      __syncthreads();
      CopyWeights(chunk + kAhead);
      CopyTokens(chunk + kAhead);
      Commit();
      const char* const stage = Stage(chunk) + lane * 16;
      uint4 a[kUnits][2];
#pragma unroll
      for (int i = 0; i < 2 * kUnits; ++i) {
        a[i / 2][i % 2] = *reinterpret_cast<const uint4*>(stage + (warp * kUnits * 2 + i) * kPiece);
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const uint4 b = *reinterpret_cast<const uint4*>(stage + L::kWeightBytes +
                                                        (warp % kDepthWarps * kTiles + j) * kPiece);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          MultiplyAdd<T>(sums[u][j], a[u][0].x, a[u][1].x, a[u][0].y, a[u][1].y, b.x, b.y);
          MultiplyAdd<T>(sums[u][j], a[u][0].z, a[u][1].z, a[u][0].w, a[u][1].w, b.z, b.w);
        }
      }
    }
    WaitForAllBut<0>();
    __syncthreads();
  }

  // Adds up what the warps that share a chunk have summed, by way of `buffer`: use(side, u, first
  // token, sums). A loop, since code comes from memory, too.
  template <class Use>
  __device__ void Finish(char* buffer, const float (&sums)[kUnits][kTiles][4], Use use) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto* const places = reinterpret_cast<float4*>(buffer) + lane;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const auto& sum = sums[u][j];
        places[((warp * kUnits + u) * kTiles + j) * 32] =
            make_float4(sum[0], sum[1], sum[2], sum[3]);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = warp; i < kSides * kUnits * kTiles; i += kWarps) {
      const int side = i / (kUnits * kTiles), tile = i % (kUnits * kTiles);
      float total[4] = {};
#pragma unroll
      for (int of_depth = 0; of_depth < kDepthWarps; ++of_depth) {
        const float4 more = places[((side * kDepthWarps + of_depth) * kUnits * kTiles + tile) * 32];
        total[0] += more.x, total[1] += more.y, total[2] += more.z, total[3] += more.w;
      }
      use(side, tile / kTiles, tile % kTiles * 8 + lane % 4 * 2, total);
    }
  }
};

template <class T, int kTiles, int kHiddenUnits>
__global__ void __launch_bounds__(kThreads, 1)
    FeedForward(Matrix<T> x, Matrix<T> gate, const T* __restrict__ up, Matrix<T> down, T* hidden,
                float* partial, T* __restrict__ y, int workers, int slices) {
  extern __shared__ __align__(128) char shared[];
  using Up = Product<T, kHiddenUnits, kTiles>;
  using Down = Product<T, kDownUnits, kTiles>;
  constexpr int kDownRows = 16 * kDownUnits * kSides;
  const auto grid = cooperative_groups::this_grid();
  const int lane = threadIdx.x % 32;
  const int my_side = threadIdx.x / 32 / kDepthWarps;

  const int tiles = (down.rows + kDownRows - 1) / kDownRows;
  const int chunks = (down.columns + kChunk - 1) / kChunk;
  const auto down_product = [&](int item) {
    Down product;
    const int row = item % tiles * kDownRows + my_side * 16 + lane / 4;
    product.shared = shared;
    product.rows = {down.data + static_cast<int64_t>(row) * down.columns,
                    static_cast<int64_t>(16 * kSides) * down.columns,
                    static_cast<int64_t>(8) * down.columns,
                    16 * kSides,
                    8,
                    down.rows - row};
    product.tokens = {hidden, x.rows, down.columns};
    const bool any = item < tiles * slices;
    const int slice = item / tiles;
    product.begin = any ? chunks * slice / slices : 0;
    product.end = any ? chunks * (slice + 1) / slices : 0;
    product.turn = kTiles > 1 && any ? item % (product.end - product.begin) : 0;
    return product;
  };
  const Down first_down = down_product(blockIdx.x);
  // While sums of the hidden features lie in the upper part of shared memory.
  constexpr int kUpperPart = kSharedBytes - Up::L::kSumBytes;
  constexpr int kEarly = std::min(Down::kAhead, kUpperPart / Down::L::kStageBytes);

  // The first blocks, the workers, share the units evenly.
  const int units = (gate.rows + 7) / 8;
  const int blocks = static_cast<int>(gridDim.x);
  const auto share = [&](int block) {
    return static_cast<int>(static_cast<int64_t>(units) * min(block, workers) / workers);
  };
  const int last = share(blockIdx.x + 1);
  int unit = share(blockIdx.x);
  if (unit == last) first_down.StartWeights(0, kEarly);
  for (; unit < last; unit += kSides * kHiddenUnits) {
    const int first_row = unit * 8;
    const int rows = min(last * 8, gate.rows) - first_row;
    const int row = my_side * 8 + lane / 4;
    Up product;
    product.shared = shared;
    product.rows = {gate.data + static_cast<int64_t>(first_row + row) * gate.columns,
                    static_cast<int64_t>(8 * kSides) * gate.columns,
                    up - gate.data,
                    8 * kSides,
                    0,
                    rows - row};
    product.tokens = x;
    product.begin = 0;
    product.end = (x.columns + kChunk - 1) / kChunk;
    product.turn = kTiles > 1 ? static_cast<int>(blockIdx.x) % product.end : 0;
    product.Start();
    float sums[kHiddenUnits][kTiles][4] = {};
    product.Run(sums);
    if (unit + kSides * kHiddenUnits >= last) first_down.StartWeights(0, kEarly);
    product.Finish(shared + kUpperPart, sums,
                   [&](int side, int u, int token, const float(&total)[4]) {
                     const int of_block = (u * kSides + side) * 8 + lane / 4;
                     if (of_block >= rows) return;
#pragma unroll
                     for (int i = 0; i < 2; ++i) {
                       if (token + i >= x.rows) continue;
                       const float value = total[i] / (1.0f + __expf(-total[i])) * total[i + 2];
                       hidden[static_cast<int64_t>(token + i) * gate.rows + first_row + of_block] =
                           static_cast<T>(value);
                     }
                   });
    __syncthreads();
  }
  first_down.StartWeights(kEarly, Down::kAhead);
  grid.sync();

  for (int item = blockIdx.x; item < tiles * slices; item += blocks) {
    const Down product = item == blockIdx.x ? first_down : down_product(item);
    if (item == blockIdx.x) {
      product.StartTokens();
    } else {
      product.Start();
    }
    float sums[kDownUnits][kTiles][4] = {};
    product.Run(sums);
    float* const to = partial + static_cast<int64_t>(item / tiles) * x.rows * down.rows;
    product.Finish(shared, sums, [&](int side, int u, int token, const float(&total)[4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = item % tiles * kDownRows + (u * kSides + side) * 16 + i / 2 * 8 + lane / 4;
        if (row >= down.rows || token + i % 2 >= x.rows) continue;
        to[static_cast<int64_t>(token + i % 2) * down.rows + row] = total[i];
      }
    });
    __syncthreads();
  }
  grid.sync();

  // Warps next to each other in memory are of different blocks, so that all take part.
  const int64_t size = static_cast<int64_t>(x.rows) * down.rows;
  const int64_t warp = static_cast<int64_t>(threadIdx.x / 32) * blocks + blockIdx.x;
  for (int64_t i = (warp * 32 + lane) * 4; i < size;
       i += static_cast<int64_t>(blocks) * kThreads * 4) {
    float total[4] = {};
#pragma unroll 8
    for (int slice = 0; slice < slices; ++slice) {
      const float4 more = *reinterpret_cast<const float4*>(partial + slice * size + i);
      total[0] += more.x, total[1] += more.y, total[2] += more.z, total[3] += more.w;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) y[i + j] = static_cast<T>(total[j]);
  }
}

template <class T, int kTiles, int kHiddenUnits>
static void Launch(Matrix<T> x, Matrix<T> gate, const T* up, Matrix<T> down, T* hidden, T* y,
                   const torch::TensorOptions& options) {
  constexpr int kDownRows = 16 * kDownUnits * kSides;
  const auto kernel = FeedForward<T, kTiles, kHiddenUnits>;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const int blocks = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  int workers = blocks;
  if (kTiles > 4) workers = std::min(blocks, (gate.rows - 1) / (8 * kSides * kHiddenUnits) + 1);
  const int tiles = (down.rows + kDownRows - 1) / kDownRows;
  const int chunks = (down.columns + kChunk - 1) / kChunk;
  int slices = std::max(1, std::min(blocks / tiles, chunks));
  auto partial = torch::empty({slices, x.rows, down.rows}, options);
  float* sums = partial.template data_ptr<float>();
  void* arguments[] = {&x, &gate, &up, &down, &hidden, &sums, &y, &workers, &slices};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(blocks),
                                             dim3(kThreads), arguments, kSharedBytes,
                                             at::cuda::getCurrentCUDAStream()));
}

// Of a small matrix a warp takes one row of the weights, or one of gate and one of up, and
// kSmallTokens tokens; all loads are on their way at once, up to a depth of 32 * kSmallBatch.
// Those of x wait for the launch before.
template <class T, bool kGated>
__global__ void __launch_bounds__(32 * kSmallWarps)
    SmallLinear(const T* x, const T* __restrict__ weights, const T* __restrict__ up, T* y,
                int tokens, int depth, int rows) {
  constexpr int kMatrices = kGated ? 2 : 1;
  asm volatile("griddepcontrol.launch_dependents;");
  const int lane = threadIdx.x % 32;
  const int row = static_cast<int>(blockIdx.x * kSmallWarps + threadIdx.x / 32);
  const int first = static_cast<int>(blockIdx.y) * kSmallTokens;
  const T* const from[2] = {weights + static_cast<int64_t>(row) * depth,
                            kGated ? up + static_cast<int64_t>(row) * depth : nullptr};
  float sums[kMatrices][kSmallTokens] = {};
  for (int begin = 0; begin < depth; begin += 32 * kSmallBatch) {
    float w[kMatrices][kSmallBatch];
#pragma unroll
    for (int i = 0; i < kSmallBatch; ++i) {
      const int k = begin + i * 32 + lane;
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        w[m][i] = row < rows && k < depth ? static_cast<float>(from[m][k]) : 0.0f;
      }
    }
    if (begin == 0) asm volatile("griddepcontrol.wait;" ::: "memory");
    T values[kSmallBatch][kSmallTokens];
#pragma unroll
    for (int i = 0; i < kSmallBatch; ++i) {
      const int k = begin + i * 32 + lane;
#pragma unroll
      for (int t = 0; t < kSmallTokens; ++t) {
        values[i][t] = first + t < tokens && k < depth
                           ? x[static_cast<int64_t>(first + t) * depth + k]
                           : static_cast<T>(0.0f);
      }
    }
#pragma unroll
    for (int i = 0; i < kSmallBatch; ++i) {
#pragma unroll
      for (int t = 0; t < kSmallTokens; ++t) {
        const float value = static_cast<float>(values[i][t]);
#pragma unroll
        for (int m = 0; m < kMatrices; ++m) sums[m][t] += w[m][i] * value;
      }
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kMatrices * kSmallTokens; ++i) {
      float& sum = (&sums[0][0])[i];
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
  }
  if (lane != 0 || row >= rows) return;
#pragma unroll
  for (int t = 0; t < kSmallTokens; ++t) {
    if (first + t >= tokens) break;
    float value = sums[0][t];
    if constexpr (kGated) value = value / (1.0f + __expf(-value)) * sums[1][t];
    y[static_cast<int64_t>(first + t) * rows + row] = static_cast<T>(value);
  }
}

template <class T, bool kGated>
static void LaunchSmallLinear(const T* x, const torch::Tensor& weights, const T* up, T* y,
                              int tokens) {
  const int rows = static_cast<int>(weights.size(0));
  cudaLaunchAttribute early;  // may begin before the launch in front of it has ended
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>((rows - 1) / kSmallWarps + 1),
                        static_cast<unsigned>((tokens - 1) / kSmallTokens + 1));
  config.blockDim = dim3(32 * kSmallWarps);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = kGated ? 0 : 1;  // the first one's x is whoever's
  const T* const from = weights.data_ptr<T>();
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, SmallLinear<T, kGated>, x, from, up, y, tokens,
                                    static_cast<int>(weights.size(1)), rows));
}

template <class T>
static void LaunchSmall(const torch::Tensor& x, const torch::Tensor& gate, const torch::Tensor& up,
                        const torch::Tensor& down, torch::Tensor& y) {
  const int tokens = static_cast<int>(x.size(0));
  auto hidden = torch::empty({x.size(0), gate.size(0)}, x.options());
  LaunchSmallLinear<T, true>(x.data_ptr<T>(), gate, up.data_ptr<T>(), hidden.data_ptr<T>(), tokens);
  LaunchSmallLinear<T, false>(hidden.data_ptr<T>(), down, nullptr, y.data_ptr<T>(), tokens);
}

// gate = silu(gate) * up.
template <class T>
__global__ void __launch_bounds__(kGateThreads)
    Gate(T* __restrict__ gate, const T* __restrict__ up, int64_t size) {
  constexpr int kWide = 4;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kGateThreads + threadIdx.x) * kWide;
  const auto gated = [](T g, T u) {
    const float value = static_cast<float>(g);
    return static_cast<T>(value / (1.0f + __expf(-value)) * static_cast<float>(u));
  };
  if (i + kWide <= size) {
    uint2 gates = *reinterpret_cast<const uint2*>(gate + i);
    const uint2 ups = *reinterpret_cast<const uint2*>(up + i);
    T* const g = reinterpret_cast<T*>(&gates);
#pragma unroll
    for (int j = 0; j < kWide; ++j) g[j] = gated(g[j], reinterpret_cast<const T*>(&ups)[j]);
    *reinterpret_cast<uint2*>(gate + i) = gates;
  } else {
    for (int64_t j = i; j < size; ++j) gate[j] = gated(gate[j], up[j]);
  }
}

// y = x weights^T.
template <class T>
static void Multiply(const T* x, int64_t tokens, const torch::Tensor& weights, T* y) {
  constexpr auto kType = std::is_same_v<T, at::Half> ? CUDA_R_16F : CUDA_R_16BF;
  const float one = 1.0f, zero = 0.0f;
  const int rows = static_cast<int>(weights.size(0)), columns = static_cast<int>(weights.size(1));
  TORCH_CHECK(cublasGemmEx(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_T, CUBLAS_OP_N, rows,
                           static_cast<int>(tokens), columns, &one, weights.data_ptr(), kType,
                           columns, x, kType, columns, &zero, y, kType, rows, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS,
              "cuBLAS could not multiply");
}

template <class T>
static void LaunchMany(const torch::Tensor& x, const torch::Tensor& gate, const torch::Tensor& up,
                       const torch::Tensor& down, torch::Tensor& y) {
  auto hidden = torch::empty({x.size(0), gate.size(0)}, x.options());
  auto ups = torch::empty({x.size(0), gate.size(0)}, x.options());
  Multiply(x.data_ptr<T>(), x.size(0), gate, hidden.data_ptr<T>());
  Multiply(x.data_ptr<T>(), x.size(0), up, ups.data_ptr<T>());
  const int64_t size = hidden.numel();
  Gate<T><<<static_cast<unsigned>((size - 1) / (4 * kGateThreads) + 1), kGateThreads, 0,
            at::cuda::getCurrentCUDAStream()>>>(hidden.data_ptr<T>(), ups.data_ptr<T>(), size);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  Multiply(hidden.data_ptr<T>(), x.size(0), down, y.data_ptr<T>());
}

template <class T>
static void LaunchFew(const torch::Tensor& x, const torch::Tensor& gate, const torch::Tensor& up,
                      const torch::Tensor& down, torch::Tensor& y) {
  const auto matrix = [](const torch::Tensor& tensor) {
    return Matrix<T>{tensor.data_ptr<T>(), static_cast<int>(tensor.size(0)),
                     static_cast<int>(tensor.size(1))};
  };
  auto hidden = torch::empty({x.size(0), gate.size(0)}, x.options());
  const auto launch = x.size(0) <= 8            ? Launch<T, 1, 3>
                      : x.size(0) <= kFewTokens ? Launch<T, 4, 3>
                                                : Launch<T, 8, 1>;
  launch(matrix(x), matrix(gate), up.data_ptr<T>(), matrix(down), hidden.data_ptr<T>(),
         y.data_ptr<T>(), x.options().dtype(torch::kFloat32));
}

template <class T>
static void LaunchAll(const torch::Tensor& x, const torch::Tensor& gate, const torch::Tensor& up,
                      const torch::Tensor& down, torch::Tensor& y) {
  bool aligned = x.size(1) % 8 == 0 && gate.size(0) % 8 == 0;
  for (const void* pointer : {x.data_ptr(), gate.data_ptr(), up.data_ptr(), down.data_ptr()}) {
    aligned = aligned && reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  }
  const bool small = gate.numel() <= kMaxSmall / x.size(0) &&
                     x.size(0) <= int64_t{65535} * kSmallTokens;  // of a grid
  const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const bool narrow = gate.size(0) <= 8 * kSides * processors;
  const bool few = x.size(0) <= (narrow ? kMaxTokens : kFewTokens);
  const auto launch = aligned && few      ? LaunchFew<T>
                      : !aligned && small ? LaunchSmall<T>
                                          : LaunchMany<T>;
  launch(x, gate, up, down, y);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor down) {
  TORCH_CHECK(x.dim() == 2 && gate.dim() == 2 && down.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(gate.size(1) == x.size(1) && up.sizes() == gate.sizes() &&
                  down.size(0) == x.size(1) && down.size(1) == gate.size(0),
              "the shapes of x and weights do not fit together");
  TORCH_CHECK(x.scalar_type() == gate.scalar_type() && x.scalar_type() == up.scalar_type() &&
                  x.scalar_type() == down.scalar_type(),
              "x and weights must be of one type");
  TORCH_CHECK(x.numel() > 0 && gate.numel() > 0, "x and weights must not be empty");
  x = x.contiguous();
  gate = gate.contiguous();
  up = up.contiguous();
  down = down.contiguous();
  auto y = torch::empty_like(x);
  switch (x.scalar_type()) {
    case torch::kFloat16:
      LaunchAll<at::Half>(x, gate, up, down, y);
      break;
    case torch::kBFloat16:
      LaunchAll<at::BFloat16>(x, gate, up, down, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Feed-forward block"); }
