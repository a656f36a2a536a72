// Linear layer of 4-bit weights for few tokens: bound by reading the weights once.
//
// Each warp has an equal share of its block's weights: tiles of 16 outputs, 256 features at a time.
// It copies them asynchronously, several slabs ahead, and waits for no other warp. Weights are the
// tensor cores' left factor, 8 or 16 tokens the right one. The order of the depth is free: 16 bytes
// of a row give a lane eight of its products, so a lane multiplies just what it has copied itself.
// x waits in shared memory in the order in which lanes need it.
//
// Four bits in the low bits of a significand are that number plus a power of two. What is left
// after the power and the zero point are subtracted is exact in 16 bits; sums of a group leave the
// tensor cores and are scaled in float32.
//
// Blocks of a cluster share the depth, and warps may share a tile. In the end, or in several rounds
// if shared memory is too small for all sums, the cluster adds them up, always in the same order.
//
// What this cannot do (see Launch) takes a warp for each output (LinearAny).
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
constexpr int kSlab = 256;   // features that are loaded at once: 128 bytes of a row
constexpr int kTile = 16;    // outputs of a warp's product
constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kLaneBytes = 32 * 16;                        // that a warp copies at once
constexpr int kWeightBytes = kTile * kSlab / 2;            // of a slab of a tile
constexpr int kPieceBytes = kWeightBytes + 2 * kTile * 4;  // with scales and zero points
constexpr int kSharedBytes = 227 * 1024;

template <class T>
struct Layer {
  const T* x;
  const uint8_t* weights;
  const T* scales;
  const uint8_t* zeros;
  T* y;
  int tokens, in, out, bytes, groups;
};

// How the work is divided.
struct Plan {
  int log_splits;  // blocks of a cluster share the depth
  int slabs;       // of a block
  int outputs;     // of a cluster
  int tiles;       // of a round, at whose end a cluster adds up its sums
  int rounds;
  int sums, ring;  // where they begin in shared memory; x comes first
  bool pairs;      // scales and zero points of two groups lie in one word
};

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// 16 bytes, or zeros.
__device__ void Copy(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
// 4 bytes, or zeros.
__device__ void CopyWord(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ uint32_t LoadWord(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
__device__ uint4 LoadVector(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
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

__device__ uint32_t WordOf(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
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

// A warp's way through the tiles of a block: an equal share of each round's slabs.
struct Way {
  int round, tile, slab, left;

  __device__ void Begin(const Plan& plan, int tiles, int warp) {
    const int here = max(0, min(plan.tiles, tiles - round * plan.tiles)), units = here * plan.slabs;
    const int first = units * warp / kWarps;
    left = units * (warp + 1) / kWarps - first;
    tile = here * warp / kWarps;
    slab = first - tile * plan.slabs;
    tile += round * plan.tiles;
  }
  // To a round that has something to do, if there is one.
  __device__ void Skip(const Plan& plan, int tiles, int warp) {
    while (left == 0 && round + 1 < plan.rounds) {
      ++round;
      Begin(plan, tiles, warp);
    }
  }
  __device__ void Advance(const Plan& plan) {
    --left;
    if (++slab == plan.slabs) {
      slab = 0;
      ++tile;
    }
  }
};

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
// Accesses to shared memory of the cluster before this are over after it.
__device__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
// This only says that all blocks are here.
__device__ void MeetCluster() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

// blockIdx.x: which outputs, and which of 2^log_splits parts of the depth. blockIdx.y: which
// tokens.
template <class T, int kTokens, int kStages>
__global__ void __launch_bounds__(kThreads, 1) Linear(const Layer<T> layer, const Plan plan) {
  constexpr int kTokenTiles = kTokens / 8;
  extern __shared__ __align__(128) uint8_t dynamic[];
  const uint32_t base = SharedAddress(dynamic);
  const int lane = threadIdx.x % 32, row = lane / 4;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int split = static_cast<int>(blockIdx.x) & ((1 << plan.log_splits) - 1);
  const int first_output = static_cast<int>(blockIdx.x >> plan.log_splits) * plan.outputs;
  const int outputs = min(layer.out - first_output, plan.outputs);
  const int tiles = (outputs + kTile - 1) / kTile;
  const int first_slab = split * plan.slabs, first_group = first_slab * 2;
  const int tokens = min(layer.tokens - static_cast<int>(blockIdx.y) * kTokens, kTokens);

  const uint32_t ring = base + plan.ring + warp * kStages * kPieceBytes;
  Way at, fetched;
  at.round = 0;
  at.Begin(plan, tiles, warp);
  fetched = at;
  fetched.Skip(plan, tiles, warp);
  // A lane copies the weights that it multiplies, and its part of the scales and zero points: of
  // two groups of an output, the word in which they are.
  const uint8_t *upper_from, *lower_from, *word_from;
  int left_of_row = 0;
  bool upper_exists = false, lower_exists = false, word_exists = false;
  const auto locate = [&] {  // what `fetched` is at
    const int output = fetched.tile * kTile + row, slab = first_slab + fetched.slab;
    const int byte = slab * (kSlab / 2) + lane % 4 * 16;
    upper_exists = output < outputs;
    lower_exists = output + 8 < outputs;
    left_of_row = layer.bytes - byte;
    upper_from = layer.weights + static_cast<int64_t>(first_output + output) * layer.bytes + byte;
    lower_from = upper_from + static_cast<int64_t>(8) * layer.bytes;
    const int of_word = fetched.tile * kTile + lane % 16;
    const int64_t group = static_cast<int64_t>(first_output + of_word) * layer.groups + slab * 2;
    word_exists = of_word < outputs;
    word_from =
        lane < 16 ? reinterpret_cast<const uint8_t*>(layer.scales + group) : layer.zeros + group;
  };
  locate();
  const auto fetch = [&](int stage) {  // the next slab of a tile
    if (fetched.left > 0) {
      const uint32_t to = ring + stage * kPieceBytes + lane * 16;
      const bool first = left_of_row > 0, second = left_of_row > 64;
      Copy(to, upper_from, first && upper_exists ? 16 : 0);
      Copy(to + kLaneBytes, lower_from, first && lower_exists ? 16 : 0);
      Copy(to + 2 * kLaneBytes, upper_from + 64, second && upper_exists ? 16 : 0);
      Copy(to + 3 * kLaneBytes, lower_from + 64, second && lower_exists ? 16 : 0);
      const uint32_t place = ring + stage * kPieceBytes + kWeightBytes + lane * 4;
      const int groups = layer.groups - (first_slab + fetched.slab) * 2;
      if (plan.pairs) {
        const uint64_t word = reinterpret_cast<uint64_t>(word_from) & ~uint64_t{3};
        CopyWord(place, reinterpret_cast<const void*>(word), word_exists && groups > 0 ? 4 : 0);
      } else {
        uint32_t word = 0;
#pragma unroll 1
        for (int i = 0; i < 2 && word_exists && i < groups; ++i) {
          word |= lane < 16 ? static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(word_from)[i])
                                  << (i * 16)
                            : static_cast<uint32_t>(word_from[i]) << (i * 8);
        }
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(place), "r"(word) : "memory");
      }
      fetched.Advance(plan);
      upper_from += kSlab / 2;
      lower_from += kSlab / 2;
      word_from += lane < 16 ? 4 : 2;
      left_of_row -= kSlab / 2;
      if (fetched.slab == 0 || fetched.left == 0) {
        fetched.Skip(plan, tiles, warp);
        locate();
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  // x, as the tensor cores want it: pairs of features as pairs of weights come out of a word, 0 and
  // 4, 1 and 5 ... It is requested before the weights, which keep the memory busy for a while.
  {
    const int word = threadIdx.x % 4, token = static_cast<int>(threadIdx.x) / 4 % kTokens;
    const T* const of_token =
        layer.x + (static_cast<int64_t>(blockIdx.y) * kTokens + token) * layer.in;
    constexpr int kStep = kThreads / (4 * kTokens), kAtOnce = 2;
#pragma unroll 1
    for (int first = 0; first < plan.slabs * 2; first += kStep * kAtOnce) {
      uint4 v[kAtOnce][4];
#pragma unroll
      for (int i = 0; i < kAtOnce * 4; ++i) {
        const int group = first + i / 4 * kStep + static_cast<int>(threadIdx.x) / (4 * kTokens);
        const int k = (first_group + group) * kGroup + i % 4 * 32 + word * 8;
        v[i / 4][i % 4] = token < tokens && k < layer.in
                              ? __ldg(reinterpret_cast<const uint4*>(of_token + k))
                              : make_uint4(0u, 0u, 0u, 0u);
      }
      if (first == 0) {
#pragma unroll 1
        for (int i = 0; i < kStages - 1; ++i) fetch(i);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce * 4; ++i) {
        const int group = first + i / 4 * kStep + static_cast<int>(threadIdx.x) / (4 * kTokens);
        if (group >= plan.slabs * 2) break;
        const uint4& u = v[i / 4][i % 4];
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                         base + (((group * 4 + word) * kTokens + token) * 4 + i % 4) * 16),
                     "r"(__byte_perm(u.x, u.z, 0x5410)), "r"(__byte_perm(u.x, u.z, 0x7632)),
                     "r"(__byte_perm(u.y, u.w, 0x5410)), "r"(__byte_perm(u.y, u.w, 0x7632))
                     : "memory");
      }
    }
  }
  __syncthreads();

  int stage = 0;
#pragma unroll 1
  for (int round = 0; round < plan.rounds; ++round) {
    const int tiles_here = min(plan.tiles, tiles - round * plan.tiles);
    if (tiles_here <= 0) break;
    const int units = tiles_here * plan.slabs;
    at.round = round;
    at.Begin(plan, tiles, warp);
    float sums[kTokenTiles][4] = {};
#pragma unroll 1
    while (at.left > 0) {
      __syncwarp();  // all have read the last slab's scales
      fetch(stage == 0 ? kStages - 1 : stage - 1);
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
      __syncwarp();  // others have copied scales of this slab
      const uint32_t piece = ring + stage * kPieceBytes;
      const uint32_t first_zero =
          static_cast<uint32_t>(first_output + at.tile * kTile + row) * layer.groups +
          (first_slab + at.slab) * 2;
      const uint32_t zero_shift = plan.pairs ? first_zero % 4 * 8 : 0;
      uint32_t scale_pairs[2], zero_pairs[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        scale_pairs[i] = LoadWord(piece + kWeightBytes + (row + i * 8) * 4);
        zero_pairs[i] = LoadWord(piece + kWeightBytes + (kTile + row + i * 8) * 4) >> zero_shift;
      }
      uint32_t x = base + at.slab * (kSlab * 2 * kTokens) + lane * 16;
#pragma unroll 1
      for (int g = 0; g < 2; ++g) {
        const uint32_t of_group = piece + g * 2 * kLaneBytes + lane * 16;
        const uint4 words[2] = {LoadVector(of_group), LoadVector(of_group + kLaneBytes)};
        const Zero<T> upper(zero_pairs[0] >> (g * 8) & 0xff),
            lower(zero_pairs[1] >> (g * 8) & 0xff);
        float parts[kTokenTiles][4] = {};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          uint4 v[kTokenTiles];
#pragma unroll
          for (int t = 0; t < kTokenTiles; ++t) v[t] = LoadVector(x + (w * kTokens + t * 8) * 64);
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const uint32_t u = WordOf(words[0], w) >> (j * 8), l = WordOf(words[1], w) >> (j * 8);
            const uint32_t a[4] = {upper.Low(u), lower.Low(l), upper.High(u), lower.High(l)};
#pragma unroll
            for (int t = 0; t < kTokenTiles; ++t) {
              Multiply<T>(parts[t], a, j == 0 ? v[t].x : v[t].z, j == 0 ? v[t].y : v[t].w);
            }
          }
        }
        x += kGroup * 2 * kTokens;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const auto scale = static_cast<float>(
              __builtin_bit_cast(T, static_cast<uint16_t>(scale_pairs[i] >> (g * 16))));
#pragma unroll
          for (int t = 0; t < kTokenTiles; ++t) {
            sums[t][i * 2] += parts[t][i * 2] * scale;
            sums[t][i * 2 + 1] += parts[t][i * 2 + 1] * scale;
          }
        }
      }
      stage = stage == kStages - 1 ? 0 : stage + 1;
      const int tile = at.tile - round * plan.tiles;
      at.Advance(plan);
      if (at.slab > 0 && at.left > 0) continue;
      // Warps that share a tile have places for it that follow each other.
#pragma unroll
      for (int t = 0; t < kTokenTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          asm volatile("st.shared.f32 [%0], %1;" ::"r"(
                           base + plan.sums +
                           (((tile + warp) * kTokens + t * 8 + lane % 4 * 2 + i % 2) * kTile +
                            i / 2 * 8 + row) *
                               4),
                       "f"(sums[t][i])
                       : "memory");
          sums[t][i] = 0.0f;
        }
      }
    }

    // Each block of the cluster adds up an equal share, four outputs at a time.
    if (plan.log_splits > 0) {
      SyncCluster();
    } else {
      __syncthreads();
    }
    const int rows = min(outputs - round * plan.tiles * kTile, plan.tiles * kTile);
    const int vectors = (rows + 3) / 4;
    const bool whole = layer.out % 4 == 0;
#pragma unroll 1
    for (int i = split * kThreads + threadIdx.x; i < vectors * tokens;
         i += kThreads << plan.log_splits) {
      const int token = i / vectors, output = (i - token * vectors) * 4, tile = output / kTile;
      float sum[4] = {};
      // The warps that had slabs of this tile.
      int t = max(tile * kWarps / tiles_here - 1, 0);
#pragma unroll 1
      for (; t < kWarps && units * t / kWarps < (tile + 1) * plan.slabs; ++t) {
        if (max(units * t / kWarps, tile * plan.slabs) >= units * (t + 1) / kWarps) continue;
        const uint32_t mine =
            base + plan.sums + (((tile + t) * kTokens + token) * kTile + output % kTile) * 4;
#pragma unroll 4
        for (int other = 0; other < 1 << plan.log_splits; ++other) {
          float v[4];
          asm volatile(
              "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
              "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
              : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
              : "r"(mine), "r"(other)
              : "memory");
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[j] += v[j];
        }
      }
      T* const y = layer.y + (static_cast<int64_t>(blockIdx.y) * kTokens + token) * layer.out +
                   first_output + round * plan.tiles * kTile + output;
      uint32_t bits[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        bits[j] = __builtin_bit_cast(uint16_t, static_cast<T>(sum[j]));
      }
      if (whole) {
        *reinterpret_cast<uint2*>(y) = make_uint2(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (output + j < rows) y[j] = __builtin_bit_cast(T, static_cast<uint16_t>(bits[j]));
        }
      }
    }
    // No block may overwrite its sums, or leave, while others read them.
    if (plan.log_splits == 0) {
      __syncthreads();
    } else if (round + 1 < plan.rounds) {
      SyncCluster();
    } else {
      MeetCluster();
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}
#else  // other GPUs take LinearAny
template <class T, int kTokens, int kStages>
__global__ void Linear(const Layer<T>, const Plan) {
  __trap();
}
#endif

constexpr int kAnyTokens = 4, kAnyWarps = 16;

// A warp for each output, for kAnyTokens tokens at a time; a lane takes a byte of the row.
template <class T>
__global__ void __launch_bounds__(32 * kAnyWarps) LinearAny(const Layer<T> layer) {
  const int lane = threadIdx.x % 32;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kAnyWarps + threadIdx.x / 32;
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

constexpr int kMostX = 64 * 1024;  // bytes of x of a block, if more blocks can share the depth

// False: shared memory is too small.
template <class T, int kTokens, int kStages>
static bool LaunchTokens(const Layer<T>& layer, int processors, int most_rounds) {
  const int slabs = CeilDiv(layer.in, kSlab);
  Plan plan{};
  const auto x_bytes = [&] { return plan.slabs * kSlab * 2 * kTokens; };
  plan.slabs = slabs;
  while (plan.log_splits < 3 && x_bytes() > kMostX) {
    plan.slabs = CeilDiv(slabs, 1 << ++plan.log_splits);
  }
  // A block for each processor. Large clusters leave some out, since they lie within groups of
  // processors: on an H200, 30 of four and 15 of eight run at once.
  const int at_once =
      std::max(1, (plan.log_splits > 1 ? processors / 16 * 15 : processors) >> plan.log_splits);
  plan.outputs = CeilDiv(CeilDiv(layer.out, kTile), at_once) * kTile;
  const int clusters = CeilDiv(layer.out, plan.outputs), tiles = CeilDiv(plan.outputs, kTile);
  plan.sums = x_bytes();
  do {
    if (plan.tiles == 1 || plan.rounds == most_rounds) return false;
    plan.tiles = CeilDiv(tiles, ++plan.rounds);
    plan.ring = plan.sums + (plan.tiles + kWarps - 1) * kTokens * kTile * 4;
  } while (plan.ring + kWarps * kStages * kPieceBytes > kSharedBytes);
  plan.pairs = layer.groups % 2 == 0 && static_cast<int64_t>(layer.groups) * layer.out % 4 == 0 &&
               reinterpret_cast<uintptr_t>(layer.scales) % 4 == 0 &&
               reinterpret_cast<uintptr_t>(layer.zeros) % 4 == 0;
  constexpr auto kKernel = Linear<T, kTokens, kStages>;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  cudaLaunchAttribute size;
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = 1u << plan.log_splits;
  size.val.clusterDim.y = 1;
  size.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(clusters) << plan.log_splits,
                        static_cast<unsigned>(CeilDiv(layer.tokens, kTokens)));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(plan.ring + kWarps * kStages * kPieceBytes);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &size;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kKernel, layer, plan));
  return true;
}

template <class T>
static void Launch(const Layer<T>& layer) {
  const auto* const properties = at::cuda::getCurrentDeviceProperties();
  const int processors = properties->multiProcessorCount;
  if (properties->major == 9 && layer.in % 32 == 0 && layer.in <= 1 << 16 &&
      layer.tokens <= 65535 * 8 && reinterpret_cast<uintptr_t>(layer.x) % 16 == 0 &&
      reinterpret_cast<uintptr_t>(layer.weights) % 16 == 0) {
    if (layer.tokens > 8) {
      if (LaunchTokens<T, 16, 3>(layer, processors, layer.out)) return;
    }
    if (LaunchTokens<T, 8, 3>(layer, processors, layer.out)) return;
  }
  const dim3 grid(static_cast<unsigned>(CeilDiv(layer.out, kAnyWarps)),
                  static_cast<unsigned>(std::min(CeilDiv(layer.tokens, kAnyTokens), 65535)));
  LinearAny<T><<<grid, 32 * kAnyWarps, 0, at::cuda::getCurrentCUDAStream()>>>(layer);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
