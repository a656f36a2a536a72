// Feed-forward block with SwiGLU in 16 bits. More than kMaxTokens tokens: products by cuBLAS, and
// silu(gate) * up in one kernel. Few tokens are bound by reading the weights, so one cooperative
// launch that never stops reading: while a block finishes its hidden features and waits for the
// others', its weights of the second product are already on their way.
//
//   1. Blocks share the hidden features evenly, 8 to a "unit": a tile of 16 rows for the tensor
//      cores, 8 of gate and 8 of up, so that one thread holds both sums of a feature.
//   2. After a barrier of the grid, a block multiplies kDownUnits * 2 tiles of 16 rows of down with
//      a slice of hidden. 3. After another one, all sum up the slices.
//
// Weights are the tensor cores' left factor, tokens the right one, in tiles of 8. A block walks the
// depth in chunks of 128; of its 8 warps, 4 take 32 of these each, for either half of the units. A
// tensor core may add up in any order: a lane takes 8 numbers in a row, 16 bytes, for two products
// of depth 16, of weights and tokens alike. So a lane multiplies just those weights that it has
// copied itself, asynchronously and several chunks ahead; only tokens are shared.
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
constexpr int kHiddenUnits = 3;  // tune: kHiddenUnits in 1, 2, 3; of a warp
constexpr int kDownUnits = 2;    // tune: kDownUnits in 2, 4
constexpr int kMaxStages = 8;    // tune: kMaxStages in 4, 6, 8
constexpr int kSharedBytes = 200 * 1024;
constexpr int kPiece = 512;     // bytes: 16 for each lane
constexpr int kMaxTokens = 32;  // of the one launch; cuBLAS multiplies more
constexpr int kGateThreads = 256;

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

// Eight numbers, those from `left` on as zeros.
template <bool kAligned, class T>
__device__ void Copy(char* to, const T* from, int left, const T* valid) {
  if constexpr (kAligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)),
                 "l"(left > 0 ? from : valid), "r"(left > 0 ? 16 : 0));
  } else {
    auto* const values = reinterpret_cast<unsigned short*>(to);
    const auto* const bits = reinterpret_cast<const unsigned short*>(from);
    // From L2, where other blocks' hidden features are; as a global address, which nvcc 13 else
    // takes for a shared one here.
#pragma unroll 1
    for (int i = 0; i < 8; ++i) values[i] = i < left ? __ldcg(bits + i) : 0;
  }
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
template <class T, int kUnits, int kTiles, bool kAligned>
struct Product {
  using L = Layout<kUnits, kTiles>;
  static constexpr int kAhead = L::kStages - 1;

  char* shared;
  Rows<T> rows;
  Matrix<T> tokens;
  int begin, end;

  __device__ char* Stage(int chunk) const {
    return shared + (chunk - begin) % L::kStages * L::kStageBytes;
  }

  __device__ void CopyWeights(int chunk) const {
    if (chunk >= end) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k = chunk * kChunk + warp % kDepthWarps * 32 + lane % 4 * 8;
    char* const to = Stage(chunk) + warp * kUnits * 2 * kPiece + lane * 16;
#pragma unroll
    for (int i = 0; i < 2 * kUnits; ++i) {
      const bool inside = i / 2 * rows.unit_rows + i % 2 * rows.half_rows < rows.left;
      Copy<kAligned>(to + i * kPiece,
                     rows.first + i / 2 * rows.unit_stride + i % 2 * rows.half_stride + k,
                     inside ? tokens.columns - k : 0, tokens.data);
    }
  }

  __device__ void CopyTokens(int chunk) const {
    if (chunk >= end) return;
#pragma unroll
    for (int i = threadIdx.x; i < kDepthWarps * kTiles * 32; i += kThreads) {
      const int row = i / 32 % kTiles * 8 + i % 32 / 4;
      const int k = chunk * kChunk + i / 32 / kTiles * 32 + i % 4 * 8;
      Copy<kAligned>(Stage(chunk) + L::kWeightBytes + i * 16,
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

  // Adds up what the warps that share a chunk have summed, and hands each tile of sums to one of
  // them: use(unit, first token, sums).
  template <class Use>
  __device__ void Finish(char* buffer, const float (&sums)[kUnits][kTiles][4], Use use) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto place = [&](int of_warp, int u, int j) -> float4& {
      return reinterpret_cast<float4*>(buffer)[((of_warp * kUnits + u) * kTiles + j) * 32 + lane];
    };
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (j % kDepthWarps == warp % kDepthWarps) continue;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        place(warp, u, j) = make_float4(sums[u][j][0], sums[u][j][1], sums[u][j][2], sums[u][j][3]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (j % kDepthWarps != warp % kDepthWarps) continue;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        float total[4] = {sums[u][j][0], sums[u][j][1], sums[u][j][2], sums[u][j][3]};
#pragma unroll
        for (int other = 1; other < kDepthWarps; ++other) {
          const int of_depth = (warp + other) % kDepthWarps;
          const float4 more = place(warp / kDepthWarps * kDepthWarps + of_depth, u, j);
          total[0] += more.x, total[1] += more.y, total[2] += more.z, total[3] += more.w;
        }
        use(u, j * 8 + lane % 4 * 2, total);
      }
    }
  }
};

template <class T, int kTiles, bool kAligned>
__global__ void __launch_bounds__(kThreads, 1)
    FeedForward(Matrix<T> x, Matrix<T> gate, const T* __restrict__ up, Matrix<T> down, T* hidden,
                float* partial, T* __restrict__ y, int slices) {
  extern __shared__ __align__(128) char shared[];
  using Up = Product<T, kHiddenUnits, kTiles, kAligned>;
  using Down = Product<T, kDownUnits, kTiles, kAligned>;
  constexpr int kDownRows = 16 * kDownUnits * kSides;
  const auto grid = cooperative_groups::this_grid();
  const int lane = threadIdx.x % 32;
  const int side = threadIdx.x / 32 / kDepthWarps;

  const int tiles = (down.rows + kDownRows - 1) / kDownRows;
  const int chunks = (down.columns + kChunk - 1) / kChunk;
  const auto down_product = [&](int item) {
    Down product;
    const int row = item % tiles * kDownRows + side * 16 + lane / 4;
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
    return product;
  };
  const Down first_down = down_product(blockIdx.x);
  // While sums of the hidden features lie in the upper part of shared memory.
  constexpr int kUpperPart = kSharedBytes - Up::L::kSumBytes;
  constexpr int kEarly = std::min(Down::kAhead, kUpperPart / Down::L::kStageBytes);

  const int units = (gate.rows + 7) / 8;
  const int blocks = static_cast<int>(gridDim.x);
  const int last = static_cast<int>(static_cast<int64_t>(units) * (blockIdx.x + 1) / blocks);
  int unit = static_cast<int>(static_cast<int64_t>(units) * blockIdx.x / blocks);
  for (; unit < last; unit += kSides * kHiddenUnits) {
    const int row = (unit + side) * 8 + lane / 4;
    Up product;
    product.shared = shared;
    product.rows = {gate.data + static_cast<int64_t>(row) * gate.columns,
                    static_cast<int64_t>(8 * kSides) * gate.columns,
                    up - gate.data,
                    8 * kSides,
                    0,
                    min(last * 8, gate.rows) - row};
    product.tokens = x;
    product.begin = 0;
    product.end = (x.columns + kChunk - 1) / kChunk;
    product.Start();
    float sums[kHiddenUnits][kTiles][4] = {};
    product.Run(sums);
    if (unit + kSides * kHiddenUnits >= last) first_down.StartWeights(0, kEarly);
    product.Finish(shared + kUpperPart, sums, [&](int u, int token, const float(&total)[4]) {
      if (u * 8 * kSides >= product.rows.left) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (token + i >= x.rows) continue;
        const float value = total[i] / (1.0f + __expf(-total[i])) * total[i + 2];
        hidden[static_cast<int64_t>(token + i) * gate.rows + row + u * 8 * kSides] =
            static_cast<T>(value);
      }
    });
    __syncthreads();
  }
  if (last == static_cast<int>(static_cast<int64_t>(units) * blockIdx.x / blocks)) {
    first_down.StartWeights(0, kEarly);  // a block without hidden features
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
    const int row = down.rows - product.rows.left;
    product.Finish(shared, sums, [&](int u, int token, const float(&total)[4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int of_row = u * 16 * kSides + i / 2 * 8;
        if (of_row >= product.rows.left || token + i % 2 >= x.rows) continue;
        to[static_cast<int64_t>(token + i % 2) * down.rows + row + of_row] = total[i];
      }
    });
    __syncthreads();
  }
  grid.sync();

  const int64_t size = static_cast<int64_t>(x.rows) * down.rows;
  constexpr int kWide = kAligned ? 4 : 1;
  const int64_t thread = static_cast<int64_t>(threadIdx.x) * blocks + blockIdx.x;
  for (int64_t i = thread * kWide; i < size; i += static_cast<int64_t>(blocks) * kThreads * kWide) {
    float total[kWide] = {};
#pragma unroll 8
    for (int slice = 0; slice < slices; ++slice) {
      if constexpr (kAligned) {
        const float4 more = *reinterpret_cast<const float4*>(partial + slice * size + i);
        total[0] += more.x, total[1] += more.y, total[2] += more.z, total[3] += more.w;
      } else {
        total[0] += partial[slice * size + i];
      }
    }
#pragma unroll
    for (int j = 0; j < kWide; ++j) y[i + j] = static_cast<T>(total[j]);
  }
}

template <class T, int kTiles, bool kAligned>
static void Launch(Matrix<T> x, Matrix<T> gate, const T* up, Matrix<T> down, T* hidden, T* y,
                   const torch::TensorOptions& options) {
  constexpr int kDownRows = 16 * kDownUnits * kSides;
  const auto kernel = FeedForward<T, kTiles, kAligned>;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const int blocks = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int tiles = (down.rows + kDownRows - 1) / kDownRows;
  const int chunks = (down.columns + kChunk - 1) / kChunk;
  int slices = std::max(1, std::min(blocks / tiles, chunks));
  auto partial = torch::empty({slices, x.rows, down.rows}, options);
  float* sums = partial.template data_ptr<float>();
  void* arguments[] = {&x, &gate, &up, &down, &hidden, &sums, &y, &slices};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(blocks),
                                             dim3(kThreads), arguments, kSharedBytes,
                                             at::cuda::getCurrentCUDAStream()));
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
  bool aligned = x.size(1) % 8 == 0 && gate.size(0) % 8 == 0;
  for (const void* pointer : {x.data_ptr(), gate.data_ptr(), up.data_ptr(), down.data_ptr()}) {
    aligned = aligned && reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
  }
  const auto launch = !aligned         ? Launch<T, kMaxTokens / 8, false>
                      : x.size(0) <= 8 ? Launch<T, 1, true>
                                       : Launch<T, kMaxTokens / 8, true>;
  launch(matrix(x), matrix(gate), up.data_ptr<T>(), matrix(down), hidden.data_ptr<T>(),
         y.data_ptr<T>(), x.options().dtype(torch::kFloat32));
}

template <class T>
static void LaunchAll(const torch::Tensor& x, const torch::Tensor& gate, const torch::Tensor& up,
                      const torch::Tensor& down, torch::Tensor& y) {
  const auto launch = x.size(0) > kMaxTokens ? LaunchMany<T> : LaunchFew<T>;
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
