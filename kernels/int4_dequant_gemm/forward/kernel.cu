// Linear layer of 4-bit weights for few tokens: bound by reading the weights once.
//
// A block has up to 4096 features and walks over tiles of 16 outputs. Each of its warps keeps its
// 256 features of 8 or 16 tokens in registers, as the tensor cores' right factor; weights are the
// left one. The order of the depth is free: 16 bytes of a row give a lane eight of its products,
// and four lanes have a group of 128 features. So a lane multiplies just what it has copied itself,
// asynchronously, several tiles ahead.
//
// Four bits in the low bits of a significand are that number plus a power of two. What is left
// after the power and the zero point are subtracted is exact in 16 bits; sums of a group leave the
// tensor cores and are scaled in float32. Scales and zero points of a block wait in shared memory.
//
// The warps' sums of a tile are added up in order, in the end those of the blocks of a cluster,
// which share the depth. Code is short: it comes from memory, too.
//
// Rows that are no whole vectors of 16 bytes, and very deep ones, take a warp for each output
// (LinearAny).
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kGroup = 128;  // features of a scale and a zero point
constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kOfWarp = 2;                     // groups
constexpr int kMostGroups = kOfWarp * kWarps;  // of a block
constexpr int kMostTiles = 28;                 // of 16 outputs, of a block
constexpr int kMostSplits = 8;
constexpr int kStages = 4;   // tiles that are on their way or in use
constexpr int kPiece = 512;  // bytes: 16 of each lane

template <class T>
struct Layer {
  const T* x;
  const uint8_t* weights;
  const T* scales;
  const uint8_t* zeros;
  T* y;
  int tokens, in, out, bytes, groups;
};

// 4, 8 or 16 bytes, or zeros.
template <int kBytes>
__device__ void Copy(void* to, const void* from, bool exists) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(exists ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(kBytes), "r"(exists ? kBytes : 0)
                 : "memory");
  }
}
__device__ void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void WaitForAllBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

template <class T>
__device__ void Multiply(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, at::Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// (a & b) | c in one instruction.
template <uint32_t b, uint32_t c>
__device__ uint32_t AndOr(uint32_t a) {
  uint32_t v;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(v) : "r"(a), "n"(b), "n"(c));
  return v;
}

// The zero point of a row, prepared for its weights.
template <class T>
struct Zero;

template <>
struct Zero<at::Half> {
  uint32_t plus_1024, minus_64;  // twice: 1024 + zero; -64 - zero

  __device__ explicit Zero(uint32_t zero)
      : plus_1024((zero | 0x6400) * 0x10001), minus_64((zero << 4 | 0xd400) * 0x10001) {}

  // Four bits at the bottom of each half of v.
  __device__ uint32_t Low(uint32_t v) const {
    uint32_t d;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(AndOr<0xf000f, 0x64006400>(v)), "r"(plus_1024));
    return d;
  }
  // The four bits above them: 1024 + 16 times the number, divided by 16.
  __device__ uint32_t High(uint32_t v) const {
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(d)
        : "r"(AndOr<0xf000f0, 0x64006400>(v)), "r"(0x2c002c00), "r"(minus_64));
    return d;
  }
};

template <>
struct Zero<at::BFloat16> {
  uint32_t plus_128;

  __device__ explicit Zero(uint32_t zero) : plus_128((zero | 0x4300) * 0x10001) {}

  __device__ uint32_t Low(uint32_t v) const {
    uint32_t d;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(AndOr<0xf000f, 0x43004300>(v)), "r"(plus_128));
    return d;
  }
  __device__ uint32_t High(uint32_t v) const { return Low(v >> 4); }
};

template <class T, int kTokenTiles>
struct Shared {
  static constexpr int kPitch = 20;                                // floats of a token: other banks
  static constexpr int kWarpPitch = 8 * kTokenTiles * kPitch + 2;  // likewise

  char weights[kStages][kWarps][kOfWarp][2 * kPiece];
  float of_warps[kWarps * kWarpPitch];
  float sums[kMostTiles][8 * kTokenTiles][16];
  alignas(8) T scales[kMostTiles * 16][kMostGroups + 4];  // of an output: whole vectors of 8 bytes
  alignas(4) uint8_t zeros[kMostTiles * 16][kMostGroups + 4];
};

__device__ void SyncCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
#endif
}

// blockIdx.x: which tiles, and which of 2^log_splits parts of the depth; blockIdx.y: which tokens.
template <class T, int kTokenTiles>
__global__ void __launch_bounds__(kThreads, 1)
    Linear(const Layer<T> layer, int tiles_of_block, int log_splits, bool vectors) {
  using S = Shared<T, kTokenTiles>;
  extern __shared__ __align__(128) char dynamic[];
  auto& shared = *reinterpret_cast<S*>(dynamic);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int split = static_cast<int>(blockIdx.x) & ((1 << log_splits) - 1);
  const int first_output = static_cast<int>(blockIdx.x >> log_splits) * tiles_of_block * 16;
  const int outputs = min(layer.out - first_output, tiles_of_block * 16);
  const int tiles = (outputs + 15) / 16;
  const int quads = (layer.groups + 3) / 4;
  const int first_group = (quads * split >> log_splits) * 4;
  const int groups = min((quads * (split + 1) >> log_splits) * 4, layer.groups) - first_group;
  const int row = lane / 4;

  // This lane's features of each group: 32 in a row.
  const int k = (first_group + warp * kOfWarp) * kGroup + lane % 4 * (kGroup / 4);
  bool exists[kOfWarp];
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) {
    exists[i] = warp * kOfWarp + i < groups && k + i * kGroup < layer.in;
  }
  const uint8_t* from =
      layer.weights + static_cast<int64_t>(first_output + row) * layer.bytes + k / 2;
  int rows_left = outputs - row, to_stage = 0;
  const auto copy = [&] {  // the next tile's weights
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool copied = exists[i] && rows_left > j * 8;
        Copy<16>(shared.weights[to_stage][warp][i] + j * kPiece + lane * 16,
                 copied ? from + (static_cast<int64_t>(j * 8) * layer.bytes + i * (kGroup / 2))
                        : layer.weights,
                 copied);
      }
    }
    from += static_cast<int64_t>(16) * layer.bytes;
    rows_left -= 16;
    to_stage = to_stage == kStages - 1 ? 0 : to_stage + 1;
  };
  copy();
  // Scales and zero points, four groups of an output at a time.
  {
    const int of_row = static_cast<int>(threadIdx.x) % (kMostGroups / 4) * 4;
#pragma unroll 1
    for (int output = threadIdx.x / (kMostGroups / 4); output < tiles * 16;
         output += kThreads / (kMostGroups / 4)) {
      const int64_t at =
          static_cast<int64_t>(first_output + output) * layer.groups + first_group + of_row;
      if (vectors) {
        const bool copied = output < outputs && of_row < groups;
        Copy<8>(&shared.scales[output][of_row], layer.scales + (copied ? at : 0), copied);
        Copy<4>(&shared.zeros[output][of_row], layer.zeros + (copied ? at : 0), copied);
      } else {
#pragma unroll 1
        for (int i = 0; i < 4; ++i) {
          const bool copied = output < outputs && of_row + i < groups;
          shared.scales[output][of_row + i] = copied ? layer.scales[at + i] : T(0.0f);
          shared.zeros[output][of_row + i] = copied ? layer.zeros[at + i] : uint8_t{0};
        }
      }
    }
  }
  Commit();
#pragma unroll 1
  for (int i = 1; i < kStages - 1; ++i) {
    copy();
    Commit();
  }

  // Pairs of x as pairs of weights come out of a word: features 0 and 4, 1 and 5 ...
  uint32_t x[kOfWarp][kTokenTiles][4][4];
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) {
#pragma unroll
    for (int t = 0; t < kTokenTiles; ++t) {
      const int token = static_cast<int>(blockIdx.y) * 8 * kTokenTiles + t * 8 + row;
      const auto* const of_token = reinterpret_cast<const uint4*>(
          layer.x + static_cast<int64_t>(token) * layer.in + k + i * kGroup);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint4 v =
            exists[i] && token < layer.tokens ? __ldg(of_token + j) : make_uint4(0u, 0u, 0u, 0u);
        x[i][t][j][0] = __byte_perm(v.x, v.z, 0x5410);
        x[i][t][j][1] = __byte_perm(v.x, v.z, 0x7632);
        x[i][t][j][2] = __byte_perm(v.y, v.w, 0x5410);
        x[i][t][j][3] = __byte_perm(v.y, v.w, 0x7632);
      }
    }
  }
  WaitForAllBut<kStages - 2>();
  __syncthreads();  // scales are there

  // Which of a tile's sums this thread adds up in the end, with its neighbours.
  constexpr int kAdders = kThreads / (8 * kTokenTiles * 16);
  const int token = static_cast<int>(threadIdx.x) / (16 * kAdders);
  const int output = static_cast<int>(threadIdx.x) / kAdders % 16;
  const int tokens = layer.tokens - static_cast<int>(blockIdx.y) * 8 * kTokenTiles;
  T* const y = layer.y + (static_cast<int64_t>(blockIdx.y) * 8 * kTokenTiles + token) * layer.out +
               first_output + output;
  int stage = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    copy();
    Commit();
    WaitForAllBut<kStages - 1>();
    float sums[kTokenTiles][4] = {};
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
      uint32_t words[2][4];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint4 v = *reinterpret_cast<const uint4*>(shared.weights[stage][warp][i] +
                                                        j * kPiece + lane * 16);
        words[j][0] = v.x;
        words[j][1] = v.y;
        words[j][2] = v.z;
        words[j][3] = v.w;
      }
      const int group = warp * kOfWarp + i;
      const Zero<T> upper(shared.zeros[tile * 16 + row][group]),
          lower(shared.zeros[tile * 16 + row + 8][group]);
      float parts[kTokenTiles][4] = {};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint32_t u = words[0][j / 2] >> (j % 2 * 8), l = words[1][j / 2] >> (j % 2 * 8);
        const uint32_t a[4] = {upper.Low(u), lower.Low(l), upper.High(u), lower.High(l)};
#pragma unroll
        for (int t = 0; t < kTokenTiles; ++t) {
          Multiply<T>(parts[t], a, x[i][t][j / 2][j % 2 * 2], x[i][t][j / 2][j % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float scale = static_cast<float>(shared.scales[tile * 16 + row + j * 8][group]);
#pragma unroll
        for (int t = 0; t < kTokenTiles; ++t) {
          sums[t][2 * j] += parts[t][2 * j] * scale;
          sums[t][2 * j + 1] += parts[t][2 * j + 1] * scale;
        }
      }
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
#pragma unroll
    for (int t = 0; t < kTokenTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        shared.of_warps[warp * S::kWarpPitch + (t * 8 + lane % 4 * 2 + j % 2) * S::kPitch +
                        j / 2 * 8 + row] = sums[t][j];
      }
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps / kAdders; ++w) {
      const int of_warp = static_cast<int>(threadIdx.x) % kAdders * (kWarps / kAdders) + w;
      sum += shared.of_warps[of_warp * S::kWarpPitch + token * S::kPitch + output];
    }
#pragma unroll
    for (int distance = 1; distance < kAdders; distance *= 2) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    }
    if (threadIdx.x % kAdders == 0) {
      if (log_splits > 0) {
        shared.sums[tile][token][output] = sum;
      } else if (token < tokens && tile * 16 + output < outputs) {
        y[tile * 16] = static_cast<T>(sum);
      }
    }
    __syncthreads();
  }
  WaitForAllBut<0>();
  if (log_splits == 0) return;

#if __CUDA_ARCH__ >= 900
  // Each block of the cluster adds up an equal share.
  SyncCluster();
  const int splits = 1 << log_splits;
#pragma unroll 1
  for (int i = split * kThreads + threadIdx.x; i < tiles * (8 * kTokenTiles * 16);
       i += splits * kThreads) {
    const int of_tile = i % (8 * kTokenTiles * 16), first = i - of_tile;
    const auto mine = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.sums[0][0][0] + i));
    float sum = 0.0f;
#pragma unroll 4
    for (int other = 0; other < splits; ++other) {
      float v;
      asm volatile(
          "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\n"
          "ld.shared::cluster.f32 %0, [there];\n}"
          : "=f"(v)
          : "r"(mine), "r"(other)
          : "memory");
      sum += v;
    }
    const int of_token = of_tile / 16, of_output = first / (8 * kTokenTiles) + of_tile % 16;
    if (of_token < tokens && of_output < outputs) {
      layer.y[(static_cast<int64_t>(blockIdx.y) * 8 * kTokenTiles + of_token) * layer.out +
              first_output + of_output] = static_cast<T>(sum);
    }
  }
  SyncCluster();  // no block may leave while others read its sums
#endif
}

constexpr int kAnyTokens = 4;

// A warp for each output, for kAnyTokens tokens at a time; a lane takes a byte of the row.
template <class T>
__global__ void __launch_bounds__(kThreads) LinearAny(const Layer<T> layer) {
  const int lane = threadIdx.x % 32;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (output >= layer.out) return;
  const uint8_t* const weights = layer.weights + output * layer.bytes;
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kAnyTokens; first < layer.tokens;
       first += static_cast<int64_t>(gridDim.y) * kAnyTokens) {
    float sums[kAnyTokens] = {};
#pragma unroll 4
    for (int i = lane; i < layer.bytes; i += 32) {
      const int pair = weights[i];
      const int64_t group = output * layer.groups + i / (kGroup / 2);
      const int zero = layer.zeros[group];
      const float scale = static_cast<float>(layer.scales[group]);
      const float w[2] = {static_cast<float>((pair & 15) - zero) * scale,
                          static_cast<float>((pair >> 4) - zero) * scale};
#pragma unroll
      for (int j = 0; j < 2 * kAnyTokens; ++j) {
        const int64_t token = first + j / 2;
        if (token < layer.tokens && i * 2 + j % 2 < layer.in) {
          sums[j / 2] += static_cast<float>(layer.x[token * layer.in + i * 2 + j % 2]) * w[j % 2];
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kAnyTokens; ++j) {
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[j] += __shfl_xor_sync(~0u, sums[j], distance);
      }
      if (lane == 0 && first + j < layer.tokens) {
        layer.y[(first + j) * layer.out + output] = static_cast<T>(sums[j]);
      }
    }
  }
}

static int CeilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

template <class T, int kTokenTiles>
static void LaunchTiles(const Layer<T>& layer, int log_splits, int processors) {
  constexpr auto kKernel = Linear<T, kTokenTiles>;
  constexpr int kBytes = sizeof(Shared<T, kTokenTiles>);
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  // A block for each processor. Large clusters leave some out, since they lie within groups of
  // processors: on an H200, 30 of four and 15 of eight run at once.
  const int tiles = CeilDiv(layer.out, 16);
  const int at_once =
      std::max(1, (log_splits > 1 ? processors / 16 * 15 : processors) >> log_splits);
  const int of_block = std::min(CeilDiv(tiles, at_once), kMostTiles);
  const bool vectors = layer.groups % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(layer.scales) % 8 == 0 &&
                       reinterpret_cast<uintptr_t>(layer.zeros) % 4 == 0;
  cudaLaunchAttribute size;
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = 1u << log_splits;
  size.val.clusterDim.y = 1;
  size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(CeilDiv(tiles, of_block)) << log_splits,
                        static_cast<unsigned>(CeilDiv(layer.tokens, 8 * kTokenTiles)));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &size;
  config.numAttrs = log_splits > 0 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kKernel, layer, of_block, log_splits, vectors));
}

template <class T>
static void Launch(const Layer<T>& layer) {
  const auto* const properties = at::cuda::getCurrentDeviceProperties();
  int log_splits = 0;
  while (1 << log_splits < kMostSplits && layer.groups > kMostGroups << log_splits) ++log_splits;
  const bool vectors = layer.in % 32 == 0 && reinterpret_cast<uintptr_t>(layer.x) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(layer.weights) % 16 == 0;
  if (properties->major != 9 || !vectors || layer.groups > kMostGroups << log_splits ||
      layer.tokens > 65535) {
    const dim3 grid(static_cast<unsigned>(CeilDiv(layer.out, kWarps)),
                    static_cast<unsigned>(std::min(CeilDiv(layer.tokens, kAnyTokens), 65535)));
    LinearAny<T><<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(layer);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else if (layer.tokens <= 8) {
    LaunchTiles<T, 1>(layer, log_splits, properties->multiProcessorCount);
  } else {
    LaunchTiles<T, 2>(layer, log_splits, properties->multiProcessorCount);
  }
}

template <class T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& scales, const torch::Tensor& zeros, torch::Tensor& y) {
  Launch(Layer<T>{x.data_ptr<T>(), weights.data_ptr<uint8_t>(), scales.data_ptr<T>(),
                  zeros.data_ptr<uint8_t>(), y.data_ptr<T>(), static_cast<int>(x.size(0)),
                  static_cast<int>(x.size(1)), static_cast<int>(weights.size(0)),
                  static_cast<int>(weights.size(1)), static_cast<int>(scales.size(1))});
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor scales,
                      torch::Tensor zeros) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(weights.size(1) == (x.size(1) + 1) / 2, "a byte for each two columns of x");
  TORCH_CHECK(scales.dim() == 2 && scales.size(0) == weights.size(0) &&
                  scales.size(1) == CeilDiv(x.size(1), kGroup),
              "a scale for each output and 128 columns of x");
  TORCH_CHECK(zeros.sizes() == scales.sizes(), "as many zero points as scales");
  TORCH_CHECK(weights.scalar_type() == torch::kUInt8 && zeros.scalar_type() == torch::kUInt8,
              "weights and zeros must be uint8");
  TORCH_CHECK(x.scalar_type() == scales.scalar_type(), "x and scales must be of one type");
  TORCH_CHECK(x.size(0) <= INT32_MAX - 1024 && x.size(1) <= INT32_MAX - 1024 &&
                  weights.size(0) <= INT32_MAX - 1024,
              "the matrices are too large");
  x = x.contiguous();
  weights = weights.contiguous();
  scales = scales.contiguous();
  zeros = zeros.contiguous();
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  if (x.size(1) == 0) return y.zero_();
  switch (x.scalar_type()) {
    case torch::kFloat16:
      Launch<at::Half>(x, weights, scales, zeros, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, scales, zeros, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear, 4-bit weights"); }
