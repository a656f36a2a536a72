// Residual, RMS normalisation and linear layer, in two launches: Norm adds the residual and
// normalises, a block a token; then comes the product.
//
//   Up to 24 tokens are bound by reading the weights, float32 has products of its own:
//   Product begins together with Norm, and its weights are on their way before it waits for the
//   tokens. Weights are the tensor cores' left factor, 16 outputs a "unit", tokens the right one,
//   in tiles of 8. A tensor core may add up in any order: a lane takes 16 bytes in a row of either
//   factor for two products. So a lane multiplies just those weights that it has copied itself,
//   asynchronously and several chunks ahead. Norm lays its numbers out in that order, so that a
//   bulk copy brings what a warp needs of a chunk. Warps share each chunk of the depth, and where
//   there are many tokens the outputs, too ("sides").
//
//   Other 16-bit products are cuBLAS's.
//
// Float32 stays float32: each number is split into two TF32 parts, and three products of parts are
// summed for 16 of the depth at a time, since tensor cores truncate what they add.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

constexpr int kNormThreads = 512;  // tune: kNormThreads in 256, 512
constexpr int kPiece = 512;        // bytes: 16 for each lane
constexpr int kTokenRow = 64;      // of them, for the four lanes of a token
constexpr int kMaxStages = 8;
constexpr int kSharedBytes = 208 * 1024;
constexpr int kFewTokens = 24;
constexpr int kSmallTokens = 96;  // where rows do not come in vectors

// Warps of a block of Product: kSides share the outputs, kDepthWarps each chunk of the depth.
template <class T_, int kTiles_, int kSides_, int kDepthWarps_>
struct Shape {
  using T = T_;
  static constexpr int kUnits = 2;  // of a warp
  static constexpr int kTiles = kTiles_;
  static constexpr int kSides = kSides_;
  static constexpr int kDepthWarps = kDepthWarps_;
  static constexpr int kWarps = kSides * kDepthWarps;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kPerLane = 16 / sizeof(T);
  static constexpr int kStep = 4 * kPerLane;  // depth of a chunk that a warp multiplies
  static constexpr int kChunk = kStep * kDepthWarps;
  static constexpr int kOutputs = 16 * kUnits * kSides;
  static constexpr int kTokens = 8 * kTiles;
  static constexpr int kWeightBytes = kWarps * kUnits * 2 * kPiece;
  static constexpr int kTokenBytes = kDepthWarps * kTiles * kPiece;
  static constexpr int kStageBytes = kWeightBytes + kTokenBytes;
  static constexpr int kStages = std::min(kMaxStages, kSharedBytes / kStageBytes);
  static constexpr int kWide = kOutputs + 4;  // keeps tokens' sums in different banks
  static constexpr int kSumBytes = kDepthWarps * kTokens * kWide * 4;
  static constexpr int kBytes = std::max(kStages * kStageBytes, kSumBytes);
  static_assert(kStages >= 3 && kBytes <= kSharedBytes);
};

// Where Norm's numbers go: row after row, or (tiles > 0) as Product wants them, by groups of
// tokens, steps of the depth, tokens, lanes of a token. What lies beyond a row's end is zero there.
struct Layout {
  int tiles, steps;
  int columns;  // with those beyond the end

  template <int kPerLane>
  __device__ int64_t Place(int token, int k) const {
    if (tiles == 0) return static_cast<int64_t>(token) * columns + k;
    const int unit = k / kPerLane, of_group = 8 * tiles;
    const int64_t step = static_cast<int64_t>(token / of_group) * steps + unit / 4;
    return ((step * of_group + token % of_group) * 4 + unit % 4) * kPerLane + k % kPerLane;
  }
};

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T at[kWidth];
};

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// The sum over the block's threads, for all of them. To be called once.
__device__ float BlockSum(float value) {
  constexpr int kWarps = kNormThreads / 32;
  __shared__ float partial[kWarps];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += partial[warp];
  return sum;
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kNormThreads)
    Norm(const T* __restrict__ x, const T* __restrict__ residual, const T* __restrict__ scales,
         T* total, T* __restrict__ normal, int features, float eps, Layout layout) {
  using V = Vector<T, kWidth>;
  asm volatile("griddepcontrol.launch_dependents;");  // they wait for the numbers by themselves
  const int token = static_cast<int>(blockIdx.x);
  const int vectors = features / kWidth;
  const int64_t start = static_cast<int64_t>(token) * features;
  const auto load = [](const T* from, int i) { return reinterpret_cast<const V*>(from)[i]; };
  const auto place = [&](int i) {
    return reinterpret_cast<V*>(normal + layout.Place<16 / sizeof(T)>(token, i * kWidth));
  };
  // A thread keeps its first vector; of longer rows it reads what it has written.
  const int mine = static_cast<int>(threadIdx.x);
  V kept, other, scale;
  if (mine < vectors) {
    kept = load(x + start, mine);
    other = load(residual + start, mine);
    scale = load(scales, mine);
  }

  float squares = 0;
  // Replaces a vector by its sum with another one.
  const auto add = [&](V& v, const V& more, int i) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      v.at[e] = static_cast<T>(static_cast<float>(v.at[e]) + static_cast<float>(more.at[e]));
      squares += static_cast<float>(v.at[e]) * static_cast<float>(v.at[e]);
    }
    reinterpret_cast<V*>(total + start)[i] = v;
  };
  if (mine < vectors) add(kept, other, mine);
#pragma unroll 1
  for (int i = mine + kNormThreads; i < vectors; i += kNormThreads) {
    V v = load(x + start, i);
    add(v, load(residual + start, i), i);
  }
  const float factor = rsqrtf(BlockSum(squares) / static_cast<float>(features) + eps);

  const auto normalised = [&](V v, const V& by) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      v.at[e] = static_cast<T>(static_cast<float>(v.at[e]) * factor * static_cast<float>(by.at[e]));
    }
    return v;
  };
  if (mine < vectors) *place(mine) = normalised(kept, scale);
#pragma unroll 1
  for (int i = mine + kNormThreads; i < vectors; i += kNormThreads) {
    *place(i) = normalised(load(total + start, i), load(scales, i));
  }
#pragma unroll 1
  for (int i = vectors + mine; i < layout.columns / kWidth; i += kNormThreads) {
    *place(i) = V{};
  }
}

// 16 bytes, the numbers from `left` on as zeros.
template <bool kAligned, class T>
__device__ void Copy(char* to, const T* from, int left, const T* valid) {
  if constexpr (kAligned) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)),
                 "l"(left > 0 ? from : valid), "r"(left > 0 ? 16 : 0));
  } else {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    const auto* const bits = reinterpret_cast<const Bits*>(from);
    alignas(16) Bits values[16 / sizeof(T)];
#pragma unroll
    for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
      values[i] = i < left ? __ldg(bits + i) : Bits{0};
    }
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(values);
  }
}

__device__ void InitBarrier(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(barrier)) : "memory");
}

// The barrier's phase ends when that many bytes have come.
__device__ void Expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ void CopyBulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

__device__ void WaitFor(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

__device__ void MultiplyTf32(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint32_t Tf32(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}

// 16 bytes of a row as the tensor cores want them.
template <class T>
struct Factor {
  uint32_t words[4];

  __device__ explicit Factor(uint4 v) : words{v.x, v.y, v.z, v.w} {}
};

template <>
struct Factor<float> {
  uint32_t high[4], low[4];

  __device__ explicit Factor(uint4 v) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = __uint_as_float(words[i]);
      high[i] = Tf32(value);
      low[i] = Tf32(value - __uint_as_float(high[i]));
    }
  }
};

// sums += upper and lower eight rows of weights times eight tokens.
template <class T>
__device__ void MultiplyAdd(float (&sums)[4], const Factor<T>& upper, const Factor<T>& lower,
                            const Factor<T>& tokens) {
  if constexpr (std::is_same_v<T, float>) {
    float parts[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t high[4] = {upper.high[i], lower.high[i], upper.high[i + 1], lower.high[i + 1]};
      const uint32_t low[4] = {upper.low[i], lower.low[i], upper.low[i + 1], lower.low[i + 1]};
      MultiplyTf32(parts, low, tokens.high[i], tokens.high[i + 1]);
      MultiplyTf32(parts, high, tokens.low[i], tokens.low[i + 1]);
      MultiplyTf32(parts, high, tokens.high[i], tokens.high[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += parts[i];
  } else {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      if constexpr (std::is_same_v<T, at::Half>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(upper.words[i]), "r"(lower.words[i]), "r"(upper.words[i + 1]),
              "r"(lower.words[i + 1]), "r"(tokens.words[i]), "r"(tokens.words[i + 1]));
      } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(upper.words[i]), "r"(lower.words[i]), "r"(upper.words[i + 1]),
              "r"(lower.words[i + 1]), "r"(tokens.words[i]), "r"(tokens.words[i + 1]));
      }
    }
  }
}

// y of blockIdx.y's tokens and blockIdx.x's outputs; `normal` as Layout says.
template <class S, bool kAligned>
__global__ void __launch_bounds__(S::kThreads, 1)
    Product(const typename S::T* __restrict__ weights, const char* __restrict__ normal,
            typename S::T* __restrict__ y, int tokens, int in, int out) {
  using T = typename S::T;
  constexpr int kUnits = S::kUnits, kTiles = S::kTiles, kAhead = S::kStages - 1;
  extern __shared__ __align__(128) char shared[];
  __shared__ uint64_t landed[S::kStages];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int side = warp / S::kDepthWarps, of_depth = warp % S::kDepthWarps;
  const int chunks = (in + S::kChunk - 1) / S::kChunk;
  const int first_output = static_cast<int>(blockIdx.x) * S::kOutputs;
  const int first_token = static_cast<int>(blockIdx.y) * S::kTokens;

  const int row = first_output + side * 16 * kUnits + lane / 4;
  const T* const from_weights = weights + static_cast<int64_t>(row) * in;
  const auto stage = [&](int chunk) { return shared + chunk % S::kStages * S::kStageBytes; };
  const auto copy_weights = [&](int chunk) {
    if (chunk < chunks) {
      const int k = chunk * S::kChunk + of_depth * S::kStep + lane % 4 * S::kPerLane;
      char* const to = stage(chunk) + warp * kUnits * 2 * kPiece + lane * 16;
#pragma unroll
      for (int i = 0; i < 2 * kUnits; ++i) {
        Copy<kAligned>(to + i * kPiece, from_weights + static_cast<int64_t>(i * 8) * in + k,
                       row + i * 8 < out ? in - k : 0, weights);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  // One copy for each step of the depth, of those tokens that there are.
  const int here = min(S::kTokens, tokens - first_token);
  const char* const from_tokens =
      normal + static_cast<int64_t>(blockIdx.y) * chunks * S::kTokenBytes;
  const auto copy_tokens = [&](int chunk) {
    if (warp != 0 || chunk >= chunks) return;
    uint64_t* const barrier = &landed[chunk % S::kStages];
    if (lane == 0) Expect(barrier, S::kDepthWarps * here * kTokenRow);
    __syncwarp();
    if (lane >= S::kDepthWarps) return;
    const int step = lane * kTiles * kPiece;
    CopyBulk(stage(chunk) + S::kWeightBytes + step,
             from_tokens + static_cast<int64_t>(chunk) * S::kTokenBytes + step, here * kTokenRow,
             barrier);
  };

#pragma unroll 1
  for (int i = 0; i < kAhead; ++i) copy_weights(i);
  if (here < S::kTokens) {  // the others are zeros
    for (int i = threadIdx.x; i < S::kStages * S::kTokenBytes / 16; i += S::kThreads) {
      constexpr int kOfStage = S::kTokenBytes / 16;
      reinterpret_cast<uint4*>(stage(i / kOfStage) + S::kWeightBytes)[i % kOfStage] = uint4{};
    }
  }
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : landed) InitBarrier(&barrier);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  asm volatile("griddepcontrol.wait;" ::: "memory");
#pragma unroll 1
  for (int i = 0; i < kAhead; ++i) copy_tokens(i);

  float sums[kUnits][kTiles][4] = {};
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kAhead - 1) : "memory");
    __syncthreads();  // all have multiplied the chunk before, whose place is now free
    copy_weights(chunk + kAhead);
    copy_tokens(chunk + kAhead);
    WaitFor(&landed[chunk % S::kStages], chunk / S::kStages % 2);
    const char* const from = stage(chunk) + lane * 16;
    const auto factor = [&](int offset) {
      return Factor<T>(*reinterpret_cast<const uint4*>(from + offset));
    };
    const auto of_weights = [&](int i) { return factor((warp * kUnits * 2 + i) * kPiece); };
    const Factor<T> a[4] = {of_weights(0), of_weights(1), of_weights(2), of_weights(3)};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const Factor<T> b = factor(S::kWeightBytes + (of_depth * kTiles + j) * kPiece);
      MultiplyAdd<T>(sums[0][j], a[0], a[1], b);
      MultiplyAdd<T>(sums[1][j], a[2], a[3], b);
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  // Warps that have shared the depth add up, in order.
  float* const of_warps = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = of_depth * S::kTokens + j * 8 + lane % 4 * 2 + i % 2;
        const int output = (side * kUnits + u) * 16 + i / 2 * 8 + lane / 4;
        of_warps[token * S::kWide + output] = sums[u][j][i];
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < S::kTokens * S::kOutputs; i += S::kThreads) {
    const int token = first_token + i / S::kOutputs, output = first_output + i % S::kOutputs;
    if (token >= tokens || output >= out) continue;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < S::kDepthWarps; ++w) {
      sum += of_warps[(w * S::kTokens + i / S::kOutputs) * S::kWide + i % S::kOutputs];
    }
    y[static_cast<int64_t>(token) * out + output] = static_cast<T>(sum);
  }
}

template <class T>
struct Call {
  const T* x;
  const T* residual;
  const T* scales;
  const T* weights;
  T* total;
  T* y;
  int tokens, in, out;
  float eps;
  bool aligned;  // rows come in vectors of 16 bytes
  torch::TensorOptions options;
};

static int CeilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

template <class T>
static void LaunchNorm(const Call<T>& call, torch::Tensor& normal, Layout layout) {
  const auto kernel = call.aligned ? Norm<T, 16 / sizeof(T)> : Norm<T, 1>;
  kernel<<<static_cast<unsigned>(call.tokens), kNormThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      call.x, call.residual, call.scales, call.total, normal.data_ptr<T>(), call.in, call.eps,
      layout);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class S, bool kAligned>
static void LaunchProduct(const Call<typename S::T>& call) {
  using T = typename S::T;
  const int groups = CeilDiv(call.tokens, S::kTokens);
  const int chunks = CeilDiv(call.in, S::kChunk);
  const int tokens = groups * S::kTokens, columns = chunks * S::kChunk;
  auto normal = torch::empty({tokens, columns}, call.options);
  LaunchNorm<T>(call, normal, Layout{S::kTiles, chunks * S::kDepthWarps, columns});

  constexpr auto kKernel = Product<S, kAligned>;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes));
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(CeilDiv(call.out, S::kOutputs)), static_cast<unsigned>(groups));
  config.blockDim = dim3(S::kThreads);
  config.dynamicSmemBytes = S::kBytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kKernel, call.weights,
                                    static_cast<const char*>(normal.data_ptr()), call.y,
                                    call.tokens, call.in, call.out));
}

template <class T>
static void LaunchLibrary(const Call<T>& call) {
  auto normal = torch::empty({call.tokens, call.in}, call.options);
  LaunchNorm<T>(call, normal, Layout{0, 0, call.in});
  constexpr auto kType = std::is_same_v<T, at::Half> ? CUDA_R_16F : CUDA_R_16BF;
  const float one = 1.0f, zero = 0.0f;
  TORCH_CHECK(cublasGemmEx(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_T, CUBLAS_OP_N, call.out,
                           call.tokens, call.in, &one, call.weights, kType, call.in,
                           normal.data_ptr(), kType, call.in, &zero, call.y, kType, call.out,
                           CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS,
              "cuBLAS could not multiply");
}

template <class T>
static void Launch(const torch::Tensor& x, const torch::Tensor& residual,
                   const torch::Tensor& scales, const torch::Tensor& weights, torch::Tensor& total,
                   torch::Tensor& y, float eps) {
  Call<T> call{x.data_ptr<T>(),
               residual.data_ptr<T>(),
               scales.data_ptr<T>(),
               weights.data_ptr<T>(),
               total.data_ptr<T>(),
               y.data_ptr<T>(),
               static_cast<int>(x.size(0)),
               static_cast<int>(x.size(1)),
               static_cast<int>(weights.size(0)),
               eps,
               x.size(1) * static_cast<int64_t>(sizeof(T)) % 16 == 0,
               x.options()};
  for (const torch::Tensor* tensor : {&x, &residual, &scales, &weights}) {
    call.aligned = call.aligned && reinterpret_cast<uintptr_t>(tensor->data_ptr()) % 16 == 0;
  }
  using Few = Shape<T, kFewTokens / 8, 1, 8>;
  if constexpr (std::is_same_v<T, float>) {
    using Many = Shape<T, 5, 4, 2>;
    if (!call.aligned) {
      LaunchProduct<Few, false>(call);
    } else if (call.tokens <= kFewTokens) {
      LaunchProduct<Few, true>(call);
    } else {
      LaunchProduct<Many, true>(call);
    }
  } else {
    if (call.aligned && call.tokens <= kFewTokens) {
      LaunchProduct<Few, true>(call);
    } else if (!call.aligned && call.tokens <= kSmallTokens) {
      LaunchProduct<Few, false>(call);
    } else {
      LaunchLibrary<T>(call);
    }
  }
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, torch::Tensor residual,
                                                 torch::Tensor scales, torch::Tensor weights,
                                                 double eps) {
  TORCH_CHECK(x.dim() == 2 && x.sizes() == residual.sizes(),
              "x and residual must be matrices of one shape");
  TORCH_CHECK(weights.dim() == 2 && weights.size(1) == x.size(1) && scales.numel() == x.size(1),
              "scales and rows of weights must be as long as rows of x");
  TORCH_CHECK(x.scalar_type() == residual.scalar_type() &&
                  x.scalar_type() == scales.scalar_type() &&
                  x.scalar_type() == weights.scalar_type(),
              "all tensors must be of one type");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "x and weights must not be empty");
  x = x.contiguous();
  residual = residual.contiguous();
  scales = scales.contiguous();
  weights = weights.contiguous();
  auto total = torch::empty_like(x);
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  const float epsilon = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, residual, scales, weights, total, y, epsilon);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, residual, scales, weights, total, y, epsilon);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, residual, scales, weights, total, y, epsilon);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return {y, total};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Residual, RMS normalisation and linear layer");
}
