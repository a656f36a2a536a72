// Linear layer of int8 weights, which are read once, as they are, and become numbers of the tensor
// cores' type in registers, exactly; the scale of an output is applied to its sum.
//
// Weights are the tensor cores' left factor, 16 outputs a "unit", tokens (rows of x) the right one,
// in tiles of 8. A tensor core may add up in any order: a lane takes 16 weights in a row, 16 bytes,
// for four products, and the same 16 of a token. So a lane multiplies just those weights that it
// has copied itself, asynchronously and several chunks ahead; tokens are shared through rows in
// shared memory, padded so that neither copies nor reads meet in a bank.
//
//   Up to 16 tokens: bound by reading the weights. A block makes 32 or 48 outputs, so that one
//   block a processor makes all; its warps share the depth. More tokens: a block that read all of
//   its tokens' depth would read more of x than of weights. So it makes 128 outputs of a slice of
//   the depth, and a second launch adds up the slices in order.
//
// Either way it is instructions that cost time, not bytes: addresses are those of the chunk before
// plus a constant, and what a warp asks about rows and borders it asks once.
//
// Float32 stays float32: x is split into three bfloat16, 8 + 8 + 8 bits, whose products with
// weights of 8 bits are exact. Sums leave the tensor cores, which truncate what they add, every 32
// numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

constexpr int kStep = 64;    // depth of a chunk that a warp multiplies
constexpr int kPiece = 512;  // bytes: 16 for each lane
constexpr int kMaxStages = 8;
constexpr int kSharedBytes = 227 * 1024;
constexpr int kFewerSharedBytes = 163 * 1024;  // before Hopper
constexpr int64_t kMostTokens = 65535 * 16;    // of a launch, in the smallest tiles

// Warps of a block: kTeams share each chunk of the depth, the kSides warps of a team the outputs.
template <class T_, int kUnits_, int kTiles_, int kSides_, int kTeams_, int kMost_ = kSharedBytes>
struct Shape {
  using T = T_;
  using Smaller = Shape<T_, kUnits_, kTiles_, kSides_, kTeams_, kFewerSharedBytes>;
  static constexpr int kUnits = kUnits_;  // of a warp
  static constexpr int kTiles = kTiles_;
  static constexpr int kSides = kSides_;
  static constexpr int kTeams = kTeams_;
  static constexpr int kWarps = kSides * kTeams;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kChunk = kStep * kTeams;
  static constexpr int kOutputs = 16 * kUnits * kSides;
  static constexpr int kTokens = 8 * kTiles;
  static constexpr int kTileSums = kOutputs / 16 * 32;  // in vectors: four of each lane
  static constexpr int kWeightBytes = kOutputs * kChunk;
  static constexpr int kPitch = kStep * sizeof(T) + 16;  // bytes from a token to the next
  static constexpr int kTeamBytes = kTokens * kPitch;    // of tokens
  static constexpr int kStageBytes = kWeightBytes + kTeams * kTeamBytes;
  static constexpr int kWide = kOutputs + 4;  // keeps tokens' sums in different banks
  static constexpr int kSumBytes = kTeams * kTokens * kWide * 4;
  static constexpr int kStages = std::min(kMaxStages, kMost_ / kStageBytes);
  static constexpr int kBytes = std::max(kStages * kStageBytes, kSumBytes);
  static constexpr bool kFits = kStages >= 2 && kBytes <= kMost_;
  static_assert(kFits || kMost_ == kFewerSharedBytes);
};

template <class T>
struct Layer {
  const T* x;
  const int8_t* weights;
  const T* scales;
  int tokens, in, out;
};

// 16 bytes, or as many zeros where `bytes` is 0.
__device__ void Copy(char* to, const void* from, int bytes) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(bytes));
}

// Four weights as two pairs. A byte in the low bits of a float's significand is a number; what it
// is too large by, and its sign, are subtracted, exactly.
template <class T>
__device__ void Convert(uint32_t weights, uint32_t& first, uint32_t& second) {
  if constexpr (std::is_same_v<T, at::Half>) {
    const uint32_t biased = weights ^ 0x80808080u;  // plus 128
    const uint32_t pairs[2] = {__byte_perm(biased, 0x64646464u, 0x4140),
                               __byte_perm(biased, 0x64646464u, 0x4342)};
    constexpr uint32_t kBias = 0x64806480u;  // 1024 + 128
    const auto number = [&](uint32_t pair) {
      const __half2 v =
          __hsub2(reinterpret_cast<const __half2&>(pair), reinterpret_cast<const __half2&>(kBias));
      return reinterpret_cast<const uint32_t&>(v);
    };
    first = number(pairs[0]);
    second = number(pairs[1]);
  } else {
    // 128 + the lower seven bits, minus 128, or 256 where the sign's bit is set.
    const uint32_t pairs[2] = {__byte_perm(weights, 0x43434343u, 0x4140),
                               __byte_perm(weights, 0x43434343u, 0x4342)};
    const auto number = [](uint32_t pair) {
      const uint32_t low = pair & 0xff7fff7fu, sign = pair & 0xff80ff80u;
      const __nv_bfloat162 v = __hsub2(reinterpret_cast<const __nv_bfloat162&>(low),
                                       reinterpret_cast<const __nv_bfloat162&>(sign));
      return reinterpret_cast<const uint32_t&>(v);
    };
    first = number(pairs[0]);
    second = number(pairs[1]);
  }
}

template <class T>
__device__ void MultiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
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

// Takes the upper 16 bits from two floats, as a pair of bfloat16, and leaves the rest.
__device__ uint32_t TakeUpper(uint32_t& a, uint32_t& b) {
  const uint32_t pair = __byte_perm(a, b, 0x7632);
  a = __float_as_uint(__uint_as_float(a) - __uint_as_float(a & 0xffff0000u));
  b = __float_as_uint(__uint_as_float(b) - __uint_as_float(b & 0xffff0000u));
  return pair;
}

// 64 of the depth: sums += this lane's weights, of which those of another eight outputs follow in
// another piece, times tokens.
template <class S>
__device__ void MultiplyStep(float (&sums)[S::kUnits][S::kTiles][4], const char* weights,
                             const char* tokens) {
  using T = typename S::T;
  constexpr int kUnits = S::kUnits;
  uint4 raw[kUnits][2];
#pragma unroll
  for (int i = 0; i < 2 * kUnits; ++i) {
    raw[i / 2][i % 2] = *reinterpret_cast<const uint4*>(weights + i * kPiece);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // 32 of the depth
    uint32_t a[2][kUnits][4];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 v = raw[u][i];
        Convert<T>(half == 0 ? v.x : v.z, a[0][u][i], a[0][u][i + 2]);
        Convert<T>(half == 0 ? v.y : v.w, a[1][u][i], a[1][u][i + 2]);
      }
    }
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
      const char* const tile = tokens + j * 8 * S::kPitch + half * 8 * sizeof(T);
      if constexpr (std::is_same_v<T, float>) {
        float parts[kUnits][4] = {};
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          uint4 v = *reinterpret_cast<const uint4*>(tile + s * 16);
          uint32_t b[3][2];
#pragma unroll
          for (int part = 0; part < 3; ++part) {
            b[part][0] = TakeUpper(v.x, v.y);
            b[part][1] = TakeUpper(v.z, v.w);
          }
#pragma unroll
          for (int part = 2; part >= 0; --part) {
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
              MultiplyAdd<T>(parts[u], a[s][u], b[part][0], b[part][1]);
            }
          }
        }
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[u][j][i] += parts[u][i];
        }
      } else {
        const uint4 v = *reinterpret_cast<const uint4*>(tile);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) MultiplyAdd<T>(sums[u][j], a[0][u], v.x, v.y);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) MultiplyAdd<T>(sums[u][j], a[1][u], v.z, v.w);
      }
    }
  }
}

// Sums of blockIdx.z's tokens with blockIdx.x's outputs over the blockIdx.y-th of the slices: as
// lanes hold them to `partial`, or, where a team is one warp and there is one slice, as results.
template <class S, bool kVectors>
__global__ void __launch_bounds__(S::kThreads, 1)
    Linear(Layer<typename S::T> layer, typename S::T* __restrict__ y,
           float4* __restrict__ partial) {
  using T = typename S::T;
  constexpr int kUnits = S::kUnits;
  constexpr int kRowPieces = kStep * sizeof(T) / 16;     // of x
  constexpr int kRowStep = 32 * S::kSides / kRowPieces;  // tokens that a team copies at once
  constexpr int kRows = (S::kTokens + kRowStep - 1) / kRowStep;
  extern __shared__ __align__(128) char shared[];
  asm volatile("griddepcontrol.launch_dependents;");  // they wait for the sums by themselves
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int side = warp % S::kSides, team = warp / S::kSides;
  const int first_output = static_cast<int>(blockIdx.x) * S::kOutputs;
  const int first_token = static_cast<int>(blockIdx.z) * S::kTokens;
  const int chunks = (layer.in + S::kChunk - 1) / S::kChunk;
  const int begin = static_cast<int>(static_cast<int64_t>(chunks) * blockIdx.y / gridDim.y);
  const int end = static_cast<int>(static_cast<int64_t>(chunks) * (blockIdx.y + 1) / gridDim.y);

  // What this thread copies of the next chunk. Behind the last row the last one stands in: sums of
  // such outputs and tokens go nowhere.
  int next = begin;
  const int8_t* from_weights[2 * kUnits];
  const T* from_x[kRows];
  const int x_piece = lane % kRowPieces;
  const int x_row = (side * 32 + lane) / kRowPieces;
  const int weights_k = begin * S::kChunk + team * kStep + lane % 4 * 16;
  const int x_k = begin * S::kChunk + team * kStep + x_piece * static_cast<int>(16 / sizeof(T));
  int weights_left = layer.in - weights_k, x_left = layer.in - x_k;
#pragma unroll
  for (int i = 0; i < 2 * kUnits; ++i) {
    const int row = min(first_output + side * 16 * kUnits + i * 8 + lane / 4, layer.out - 1);
    from_weights[i] = layer.weights + static_cast<int64_t>(row) * layer.in + weights_k;
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = min(first_token + x_row + i * kRowStep, layer.tokens - 1);
    from_x[i] = layer.x + static_cast<int64_t>(row) * layer.in + x_k;
  }

  const auto wait_for_team = [&] {
    if constexpr (!kVectors) {
      __syncthreads();
    } else if constexpr (S::kSides == 1) {
      __syncwarp();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(32 * S::kSides) : "memory");
    }
  };

  const auto copy = [&](int stage) {
    char* const to_weights = shared + stage * S::kStageBytes;
    char* const to_x = to_weights + S::kWeightBytes;
    if (next >= end) {
      // nothing is left, but a group is counted
    } else if constexpr (kVectors) {
      char* const mine = to_weights + (team * S::kSides + side) * kUnits * 2 * kPiece + lane * 16;
#pragma unroll
      for (int i = 0; i < 2 * kUnits; ++i) {
        Copy(mine + i * kPiece, from_weights[i], weights_left > 0 ? 16 : 0);
        from_weights[i] += S::kChunk;
      }
      char* const mine_of_x = to_x + team * S::kTeamBytes + x_row * S::kPitch + x_piece * 16;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if ((i + 1) * kRowStep <= S::kTokens || x_row + i * kRowStep < S::kTokens) {
          Copy(mine_of_x + i * kRowStep * S::kPitch, from_x[i], x_left > 0 ? 16 : 0);
        }
        from_x[i] += S::kChunk;
      }
      weights_left -= S::kChunk;
      x_left -= S::kChunk;
    } else {
      // Number by number, a row a warp, many at once; zeros behind the end of the row.
      constexpr int kMany = 8;
      constexpr int kWeightRows = S::kOutputs / S::kWarps, kTokenRows = S::kTokens / S::kWarps;
      const int k = next * S::kChunk, left = layer.in - k;
#pragma unroll 1
      for (int first = 0; first < S::kChunk && first < left; first += 32 * kMany) {
        int8_t weights[kWeightRows][kMany];
        T x[kTokenRows][kMany];
#pragma unroll
        for (int i = 0; i < kMany; ++i) {
          const int c = first + i * 32 + lane;
#pragma unroll
          for (int r = 0; r < kWeightRows; ++r) {
            const int64_t output = min(first_output + warp + r * S::kWarps, layer.out - 1);
            weights[r][i] = c < left ? layer.weights[output * layer.in + k + c] : int8_t{0};
          }
#pragma unroll
          for (int r = 0; r < kTokenRows; ++r) {
            const int64_t token = min(first_token + warp + r * S::kWarps, layer.tokens - 1);
            x[r][i] = c < left ? layer.x[token * layer.in + k + c] : T(0.0f);
          }
        }
#pragma unroll
        for (int i = 0; i < kMany; ++i) {
          const int step = first / kStep + i / 2, c = i % 2 * 32 + lane;
#pragma unroll
          for (int r = 0; r < kWeightRows; ++r) {
            const int output = warp + r * S::kWarps;
            char* const piece = to_weights + (step * kUnits * 2 + output / 8) * kPiece;
            piece[(output % 8 * 4 + c / 16) * 16 + c % 16] = static_cast<char>(weights[r][i]);
          }
#pragma unroll
          for (int r = 0; r < kTokenRows; ++r) {
            char* const row = to_x + step * S::kTeamBytes + (warp + r * S::kWarps) * S::kPitch;
            reinterpret_cast<T*>(row)[c] = x[r][i];
          }
        }
      }
    }
    ++next;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

#pragma unroll 1
  for (int i = 0; i < S::kStages - 1; ++i) copy(i);
  float sums[kUnits][S::kTiles][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int chunk = begin; chunk < end; ++chunk) {
    asm volatile("cp.async.wait_group %0;" ::"n"(S::kStages - 2) : "memory");
    wait_for_team();  // so the stage before is free, too
    copy(stage == 0 ? S::kStages - 1 : stage - 1);
    if (chunk * S::kChunk + team * kStep < layer.in) {
      const char* const weights = shared + stage * S::kStageBytes;
      MultiplyStep<S>(sums, weights + warp * kUnits * 2 * kPiece + lane * 16,
                      weights + S::kWeightBytes + team * S::kTeamBytes + lane / 4 * S::kPitch +
                          lane % 4 * 16 * static_cast<int>(sizeof(T)));
    }
    stage = stage == S::kStages - 1 ? 0 : stage + 1;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  // Teams add up, in order.
  if constexpr (S::kSides == 1) {
    float* const of_teams = reinterpret_cast<float*>(shared);
    float* const mine = of_teams + (team * S::kTokens + lane % 4 * 2) * S::kWide + lane / 4;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mine[(j * 8 + i % 2) * S::kWide + u * 16 + i / 2 * 8] = sums[u][j][i];
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < S::kTokens * S::kOutputs; i += S::kThreads) {
      const int token = first_token + i / S::kOutputs, output = first_output + i % S::kOutputs;
      if (token >= layer.tokens || output >= layer.out) continue;
      float sum = 0.0f;
#pragma unroll
      for (int t = 0; t < S::kTeams; ++t) {
        sum += of_teams[(t * S::kTokens + i / S::kOutputs) * S::kWide + i % S::kOutputs];
      }
      y[static_cast<int64_t>(token) * layer.out + output] =
          static_cast<T>(sum * static_cast<float>(layer.scales[output]));
    }
  } else {
    // Sums stay as lanes hold them, four in a vector: two tokens (the lower index) of two outputs.
    static_assert(S::kTeams == 2);
    const int mine = side * kUnits * 32 + lane;
    const auto of_other = reinterpret_cast<float4*>(shared) + mine;
    if (team == 1) {
#pragma unroll
      for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          const float(&v)[4] = sums[u][j];
          of_other[j * S::kTileSums + u * 32] = make_float4(v[0], v[1], v[2], v[3]);
        }
      }
    }
    __syncthreads();
    if (team == 1) return;
    const int64_t block =
        (static_cast<int64_t>(blockIdx.y) * gridDim.z + blockIdx.z) * gridDim.x + blockIdx.x;
    partial += block * (S::kTiles * S::kTileSums) + mine;
#pragma unroll
    for (int j = 0; j < S::kTiles; ++j) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const float(&v)[4] = sums[u][j];
        const float4 other = of_other[j * S::kTileSums + u * 32];
        partial[j * S::kTileSums + u * 32] =
            make_float4(v[0] + other.x, v[1] + other.y, v[2] + other.z, v[3] + other.w);
      }
    }
  }
}

// Adds up the slices of blockIdx.x's tile of blockIdx.z's tokens, with the outputs of the y-th
// blocks; in shared memory, results get into the order in which they are stored.
template <class S>
__global__ void __launch_bounds__(S::kTileSums)
    Add(const float4* __restrict__ partial, const typename S::T* __restrict__ scales,
        typename S::T* __restrict__ y, int slices, int tokens, int out) {
  constexpr int kAtOnce = 4;  // slices
  __shared__ float sums[8][S::kWide];
  const int lane = threadIdx.x % 32, unit = threadIdx.x / 32;
  const int output = static_cast<int>(blockIdx.y * S::kOutputs + threadIdx.x % S::kOutputs);
  const float scale = output < out ? static_cast<float>(scales[output]) : 0.0f;
  const int64_t tile =
      (static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int64_t of_slice = static_cast<int64_t>(gridDim.z) * gridDim.y * gridDim.x * S::kTileSums;
  partial += tile * S::kTileSums + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  float sum[4] = {};
#pragma unroll 1
  for (int slice = 0; slice < slices; slice += kAtOnce) {
    // Behind the last slice the last one is loaded again, so that no load waits for another.
    float4 v[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      v[i] = __ldcg(partial);
      partial += slice + i + 1 < slices ? of_slice : 0;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const bool another = slice + i < slices;
      sum[0] += another ? v[i].x : 0.0f;
      sum[1] += another ? v[i].y : 0.0f;
      sum[2] += another ? v[i].z : 0.0f;
      sum[3] += another ? v[i].w : 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[lane % 4 * 2 + i % 2][unit * 16 + i / 2 * 8 + lane / 4] = sum[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = static_cast<int>(threadIdx.x) / S::kOutputs + i * 2;
    const int64_t token = static_cast<int64_t>(blockIdx.z) * S::kTokens + blockIdx.x * 8 + row;
    if (token < tokens && output < out) {
      y[token * out + output] =
          static_cast<typename S::T>(sums[row][threadIdx.x % S::kOutputs] * scale);
    }
  }
}

static int CeilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

template <class S, bool kVectors>
static void LaunchLinear(const Layer<typename S::T>& layer, int slices, typename S::T* y,
                         float4* partial) {
  if constexpr (S::kBytes > kFewerSharedBytes) {
    const size_t most = at::cuda::getCurrentDeviceProperties()->sharedMemPerBlockOptin;
    using Smaller = typename S::Smaller;
    if constexpr (Smaller::kFits) {
      if (most < S::kBytes) return LaunchLinear<Smaller, kVectors>(layer, slices, y, partial);
    }
    TORCH_CHECK(most >= S::kBytes, "this GPU has too little shared memory for so many tokens");
  }
  constexpr auto kKernel = Linear<S, kVectors>;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes));
  const dim3 grid(static_cast<unsigned>(CeilDiv(layer.out, S::kOutputs)),
                  static_cast<unsigned>(slices),
                  static_cast<unsigned>(CeilDiv(layer.tokens, S::kTokens)));
  kKernel<<<grid, S::kThreads, S::kBytes, at::cuda::getCurrentCUDAStream()>>>(layer, y, partial);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// As many slices as processors can work on at once, all of nearly the same depth.
template <class S>
static void LaunchSlices(const Layer<typename S::T>& layer, int processors, torch::Tensor& y) {
  using T = typename S::T;
  const int outputs = CeilDiv(layer.out, S::kOutputs);
  const int groups = CeilDiv(layer.tokens, S::kTokens);
  const int chunks = CeilDiv(layer.in, S::kChunk);
  const int slices = CeilDiv(chunks, CeilDiv(chunks, std::max(1, processors / (outputs * groups))));
  auto sums = torch::empty({slices, groups * S::kTokens, outputs * S::kOutputs},
                           y.options().dtype(torch::kFloat32));
  auto* const partial = reinterpret_cast<float4*>(sums.data_ptr());
  LaunchLinear<S, true>(layer, slices, nullptr, partial);

  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(S::kTiles, static_cast<unsigned>(outputs), static_cast<unsigned>(groups));
  config.blockDim = dim3(S::kTileSums);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, Add<S>, static_cast<const float4*>(partial),
                                    layer.scales, static_cast<T*>(y.data_ptr()), slices,
                                    layer.tokens, layer.out));
}

template <class T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& scales, torch::Tensor& y) {
  constexpr bool kIsFloat = std::is_same_v<T, float>;
  if (x.size(0) > kMostTokens) {  // more than a grid has room for
    for (int64_t first = 0; first < x.size(0); first += kMostTokens) {
      const int64_t here = std::min(kMostTokens, x.size(0) - first);
      auto part = y.narrow(0, first, here);
      Launch<T>(x.narrow(0, first, here), weights, scales, part);
    }
    return;
  }
  const Layer<T> layer{x.data_ptr<T>(),
                       weights.data_ptr<int8_t>(),
                       scales.data_ptr<T>(),
                       static_cast<int>(x.size(0)),
                       static_cast<int>(x.size(1)),
                       static_cast<int>(weights.size(0))};
  const bool vectors = layer.in % 16 == 0 && reinterpret_cast<uintptr_t>(layer.x) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(layer.weights) % 16 == 0;
  const int processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  using Few = Shape<T, 2, 2, 1, 16>;
  using WideFew = Shape<T, 3, 2, 1, kIsFloat ? 8 : 16>;
  using Many = Shape<T, 2, 7, 4, 2>;
  if (!vectors) {
    LaunchLinear<Few, false>(layer, 1, y.data_ptr<T>(), nullptr);
  } else if (layer.tokens <= Few::kTokens) {
    if (CeilDiv(layer.out, Few::kOutputs) <= processors) {
      LaunchLinear<Few, true>(layer, 1, y.data_ptr<T>(), nullptr);
    } else {
      LaunchLinear<WideFew, true>(layer, 1, y.data_ptr<T>(), nullptr);
    }
  } else if (kIsFloat || layer.tokens <= Many::kTokens) {
    LaunchSlices<Many>(layer, processors, y);
  } else if constexpr (!kIsFloat) {
    LaunchSlices<Shape<T, 2, 13, 4, 2>>(layer, processors, y);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor scales) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(scales.numel() == weights.size(0), "one scale for each row of weights");
  TORCH_CHECK(weights.scalar_type() == torch::kInt8, "weights must be int8");
  TORCH_CHECK(x.scalar_type() == scales.scalar_type(), "x and scales must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  scales = scales.contiguous();
  auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
  if (y.numel() == 0) return y;
  if (x.size(1) == 0) return y.zero_();
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, scales, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, scales, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, scales, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear, int8 weights"); }
