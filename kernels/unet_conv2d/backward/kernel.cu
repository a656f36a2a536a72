// Gradients of a two-dimensional convolution of float32 on tensor cores, with float32's accuracy.
// Each number, times a power of two that brings the largest around it near 2^14, is the sum of two
// float16 (22 bits and a sign, and 2^-39 of the largest at worst); three products of float16, all
// but that of the two small halves, make one of float32. Tensor cores truncate their sums, so these
// are short: what a few hundred products came to is unscaled and added by ordinary fused
// multiply-adds.
//
// Prepare splits x, the gradient and the filters once, into records of sixteen channels of one
// place: large halves, then small ones. Sixteen channels of an image, or one filter, share a scale.
// It also sums the gradient over planes, for the biases.
//
// GradX is a convolution of the gradient with the filters turned around. Of a stride s, places of x
// form s * s classes that meet different places of the filter; a block takes a rectangle of one
// class. Windows and filters come through rings of asynchronous copies; every place of the filter
// is a matrix product whose rows begin at another record.
//
// GradFilters multiplies, over places, the gradient of 64 output channels by x of 32 input
// channels, for up to nine places of the filter at once: these only shift x. A block has its share
// of all rectangles of places; AddParts adds the shares up, in order, and the bias gradients.
//
// What is too large for shared memory goes to plain kernels. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kStages = 3;       // tune: kStages in 2, 3, 4  (of filters, in GradX)
constexpr int kGroup = 3;        // tune: kGroup in 1, 3  (places of the filter in a stage)
constexpr int kTiles = 3;        // tune: kTiles in 2, 3  (stages of GradFilters)
constexpr int kTilePlaces = 64;  // tune: kTilePlaces in 32, 64, 128  (of such a stage)
constexpr int kDepth = 16;       // channels of a record
constexpr int kUnits = 4;        // of 16 bytes, in a record: two of large halves, two of small ones
constexpr int kColumns = 4;      // matrices of eight channels that a warp of GradX multiplies
constexpr int kFilters = 64;     // channels of x in a tile of GradX
constexpr int kOuts = 64;        // output channels in a tile of GradFilters
constexpr int kIns = 32;         // input channels there
constexpr int kPlaces = 9;       // places of the filter there, at most
constexpr int kPrepareThreads = 256;
constexpr int kThreads = 128;        // of GradX
constexpr int kFilterThreads = 256;  // of GradFilters
constexpr int kMaxTaps = 64;         // places of a filter
constexpr int kMaxClasses = 16;
constexpr int kMaxShared = 220 * 1024;

struct Shape {
  int batch, channels, height, width;
  int out_channels, kernel_height, kernel_width, taps;
  int stride, padding;
  int out_height, out_width;
  int in_chunks, out_chunks;  // records for the channels of a place
};

__host__ __device__ int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies 16 bytes to shared memory, or writes zeros.
__device__ void CopyUnit(uint4* to, const uint4* from, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}

__device__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ void LoadMatrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

__device__ void LoadTransposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

__device__ void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The power of two that brings `largest` into [2^14, 2^15), as far as float32 has it.
__device__ float Scale(float largest) {
  float scale = 1;
  if (largest >= 0x1p15f) {
#pragma unroll
    for (int e = 64; e > 0; e /= 2) {
      if (largest * scale >= static_cast<float>(uint64_t{1} << (e / 2)) *
                                 static_cast<float>(uint64_t{1} << (e - e / 2)) * 0x1p14f) {
        scale *= 1 / (static_cast<float>(uint64_t{1} << (e / 2)) *
                      static_cast<float>(uint64_t{1} << (e - e / 2)));
      }
    }
  } else {
    if (largest < 0x1p-16f) {  // denormals and zero among them: 2^96 will do for those
      scale = 0x1p32f;
      if (largest < 0x1p-48f) scale = 0x1p64f;
      if (largest < 0x1p-80f) scale = 0x1p96f;
    }
#pragma unroll
    for (int e = 16; e > 0; e /= 2) {
      const float power = static_cast<float>(1 << e);
      if (largest * scale * power < 0x1p15f) scale *= power;
    }
  }
  return scale;
}

__device__ float Magnitude(float value) {
  const float magnitude = fabsf(value);
  return magnitude < INFINITY ? magnitude : 0;  // what is not finite stays so at any scale
}

__device__ float WarpMax(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  }
  return value;
}

// Two numbers, scaled, as two pairs of float16: large and small halves.
__device__ void Split(float a, float b, float scale, uint32_t& large, uint32_t& small) {
  a *= scale;
  b *= scale;
  const __half2 head = __floats2half2_rn(a, b);
  const float2 whole = __half22float2(head);
  const __half2 rest = __floats2half2_rn(a - whole.x, b - whole.y);
  large = reinterpret_cast<const uint32_t&>(head);
  small = reinterpret_cast<const uint32_t&>(rest);
}

// Where unit `unit` of a record lies: eight records in a row have theirs in different banks.
__device__ int Swizzled(int record, int unit) {
  return record * kUnits + (unit ^ (record >> 1 & (kUnits - 1)));
}

// value(k) for k in 0 to 7, as a unit of large halves and one of small ones, two units further on.
template <class Value>
__device__ void StoreUnits(uint4* large_at, uint4* small_at, float scale, Value value) {
  uint4 large, small;
  Split(value(0), value(1), scale, large.x, small.x);
  Split(value(2), value(3), scale, large.y, small.y);
  Split(value(4), value(5), scale, large.z, small.z);
  Split(value(6), value(7), scale, large.w, small.w);
  *large_at = large;
  *small_at = small;
}

// Places of x whose row and column leave given remainders of the stride, and what meets them.
struct Class {
  int row, column;              // the first of them
  int rows, columns;            // how many
  int first_tap, taps;          // places of the filter, in their order in Problem
  int first_row, first_column;  // of the gradient, that the first of them meets
};

struct Problem {
  Shape s;
  const uint4* gradient;           // [batch][out_chunks][places][kUnits]
  const float* gradient_unscales;  // [batch][out_chunks]
  const uint4* filters;            // [out_chunks][taps][padded_channels][kUnits]
  const float* filter_unscales;
  float* grad_x;
  int padded_channels;
  // A block's places, a power of two of columns, and the part of the gradient that they need.
  int tile_columns, tile_rows, tiles_x, tiles_y, tiles_n;
  int pitch, slots;
  int classes;
  Class of[kMaxClasses];
  int taps[kMaxTaps];     // places of the filter, class by class
  int offsets[kMaxTaps];  // from a place's first slot to that below each of these
};

struct Sources {
  Shape s;
  const float *x, *gradient, *weights;
  uint4 *x_records, *gradient_records, *filters;
  float *x_unscales, *gradient_unscales, *filter_unscales;
  float* plane_sums;  // [batch][out_chunks * kDepth], of the gradient
  int padded_channels;
  int taps[kMaxTaps];
};

// The largest of the block's, to all threads.
__device__ float BlockMax(float value) {
  __shared__ float maxima[kPrepareThreads / 32];
  value = WarpMax(value);
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = value;
  __syncthreads();
  for (const float maximum : maxima) value = fmaxf(value, maximum);
  return value;
}

// Sixteen channels of one image: `places` records. Sums over places too, if asked for.
template <bool kSums>
__device__ void SplitPlanes(const float* source, uint4* records, float* unscale, float* plane_sums,
                            int channels, int places) {
  float largest = 0;
  float sums[kDepth] = {};
  for (int i = threadIdx.x; i < places; i += kPrepareThreads) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float value = k < channels ? source[static_cast<int64_t>(k) * places + i] : 0;
      largest = fmaxf(largest, Magnitude(value));
      if (kSums) sums[k] += value;
    }
  }
  if (kSums) {
    __shared__ float of_warps[kPrepareThreads / 32][kDepth];
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[k] += __shfl_xor_sync(~0u, sums[k], distance);
      }
      if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][k] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x < kDepth) {
      float sum = 0;
      for (int warp = 0; warp < kPrepareThreads / 32; ++warp) sum += of_warps[warp][threadIdx.x];
      plane_sums[threadIdx.x] = sum;
    }
  }
  const float scale = Scale(BlockMax(largest));
  if (threadIdx.x == 0) *unscale = 1 / scale;
  for (int i = threadIdx.x; i < places; i += kPrepareThreads) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4* record = records + static_cast<int64_t>(i) * kUnits + half;
      StoreUnits(record, record + 2, scale, [=](int k) {
        const int channel = half * 8 + k;
        return channel < channels ? source[static_cast<int64_t>(channel) * places + i] : 0.0f;
      });
    }
  }
}

// One channel of x: what it has of every filter, records already swizzled.
__device__ void SplitFilters(const Sources& p, int channel) {
  const Shape& s = p.s;
  const int size = channel < s.channels ? s.out_channels * s.taps : 0;
  const float* source = p.weights + static_cast<int64_t>(channel) * s.taps;
  const int64_t filter_size = static_cast<int64_t>(s.channels) * s.taps;
  float largest = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < size; i += kPrepareThreads) {
    largest = fmaxf(largest, Magnitude(source[i / s.taps * filter_size + i % s.taps]));
  }
  const float scale = Scale(BlockMax(largest));
  if (threadIdx.x == 0) p.filter_unscales[channel] = 1 / scale;
  for (int i = threadIdx.x; i < s.out_chunks * s.taps * 2; i += kPrepareThreads) {
    const int half = i % 2;
    const int tap = p.taps[i / 2 % s.taps];
    const int first = i / 2 / s.taps * kDepth + half * 8;
    uint4* records = p.filters + static_cast<int64_t>(i / 2) * p.padded_channels * kUnits;
    StoreUnits(records + Swizzled(channel, half), records + Swizzled(channel, half + 2), scale,
               [=](int k) {
                 return size > 0 && first + k < s.out_channels
                            ? source[(first + k) * filter_size + tap]
                            : 0.0f;
               });
  }
}

// Blocks for chunks of the gradient, of x, and for each channel of x (also for those that only fill
// a tile).
__global__ void __launch_bounds__(kPrepareThreads) Prepare(const __grid_constant__ Sources p) {
  const Shape& s = p.s;
  int block = blockIdx.x;
  const int in_places = s.height * s.width;
  const int out_places = s.out_height * s.out_width;
  if (block < s.batch * s.out_chunks) {
    const int chunk = block % s.out_chunks;
    const int64_t first =
        static_cast<int64_t>(block / s.out_chunks) * s.out_channels + chunk * kDepth;
    SplitPlanes<true>(p.gradient + first * out_places,
                      p.gradient_records + static_cast<int64_t>(block) * out_places * kUnits,
                      p.gradient_unscales + block, p.plane_sums + block * kDepth,
                      min(kDepth, s.out_channels - chunk * kDepth), out_places);
    return;
  }
  block -= s.batch * s.out_chunks;
  if (block < s.batch * s.in_chunks) {
    const int chunk = block % s.in_chunks;
    const int64_t first = static_cast<int64_t>(block / s.in_chunks) * s.channels + chunk * kDepth;
    SplitPlanes<false>(
        p.x + first * in_places, p.x_records + static_cast<int64_t>(block) * in_places * kUnits,
        p.x_unscales + block, nullptr, min(kDepth, s.channels - chunk * kDepth), in_places);
    return;
  }
  SplitFilters(p, block - s.batch * s.in_chunks);
}

// kRows matrices of 16 places for each warp, two by two warps.
template <int kRows>
__global__ void __launch_bounds__(kThreads, 2) GradX(const __grid_constant__ Problem p) {
  constexpr int kStageUnits = kGroup * kFilters * kUnits;
  extern __shared__ uint4 memory[];
  uint4* const ring = memory;                             // [kStages][kStageUnits]
  uint4* const windows = memory + kStages * kStageUnits;  // [2][slots][kUnits]
  int* const places = reinterpret_cast<int*>(windows + 2 * p.slots * kUnits);  // or -1: [slots]

  const Shape& s = p.s;
  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32 % 2;
  const int warp_n = threadIdx.x / 64;
  const int first_channel = static_cast<int>(blockIdx.x % p.tiles_n) * kFilters;
  int tile = static_cast<int>(blockIdx.x / p.tiles_n);
  const int first_column = tile % p.tiles_x * p.tile_columns;
  tile /= p.tiles_x;
  const int first_row = tile % p.tiles_y * p.tile_rows;
  tile /= p.tiles_y;
  const int image = tile % s.batch;
  const Class& of = p.of[tile / s.batch];
  if (first_row >= of.rows || first_column >= of.columns) return;
  const int groups = (of.taps + kGroup - 1) / kGroup;
  const int chunks = of.taps > 0 ? s.out_chunks : 0;
  const int stages = chunks * groups;
  const int64_t plane = static_cast<int64_t>(s.out_height) * s.out_width;

  for (int slot = threadIdx.x; slot < p.slots; slot += kThreads) {
    const int row = of.first_row + first_row + slot / p.pitch;
    const int column = of.first_column + first_column + slot % p.pitch;
    const bool inside = row >= 0 && row < s.out_height && column >= 0 && column < s.out_width;
    places[slot] = inside ? row * s.out_width + column : -1;
  }
  __syncthreads();
  const auto load_windows = [&](int chunk) {
    const uint4* from =
        p.gradient + (static_cast<int64_t>(image) * s.out_chunks + chunk) * plane * kUnits;
    uint4* to = windows + chunk % 2 * p.slots * kUnits;
    for (int i = threadIdx.x; i < p.slots * kUnits; i += kThreads) {
      const int place = places[i / kUnits];
      CopyUnit(to + Swizzled(i / kUnits, i % kUnits),
               from + static_cast<int64_t>(max(place, 0)) * kUnits + i % kUnits, place >= 0);
    }
  };
  const auto load_stage = [&](int stage) {
    const int chunk = stage / groups;
    const int first = stage % groups * kGroup;
    const int units = min(kGroup, of.taps - first) * kFilters * kUnits;
    const int64_t tap_units = static_cast<int64_t>(p.padded_channels) * kUnits;
    const uint4* from =
        p.filters + (chunk * s.taps + of.first_tap + first) * tap_units + first_channel * kUnits;
    uint4* to = ring + stage % kStages * kStageUnits;
    for (int i = threadIdx.x; i < units; i += kThreads) {
      CopyUnit(to + i, from + i / (kFilters * kUnits) * tap_units + i % (kFilters * kUnits));
    }
  };

  // This lane's rows and units of the matrices that its warp loads.
  int slots[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int place = (warp_m * kRows + i) * 16 + lane % 16;
    slots[i] = place / p.tile_columns * p.pitch + place % p.tile_columns;
  }
  const uint32_t filters_at =
      SharedAddress(ring + Swizzled(warp_n * kColumns * 8 + lane % 8, lane / 8));

  float sums[kRows][kColumns][4] = {};
  if (chunks > 0) load_windows(0);
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < stages) load_stage(stage);
    CommitCopies();
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const uint32_t windows_at = SharedAddress(windows + chunk % 2 * p.slots * kUnits);
    const float unscale = __ldg(p.gradient_unscales + image * s.out_chunks + chunk);
    float parts[kRows][kColumns][4] = {};
    for (int group = 0; group < groups; ++group) {
      const int stage = chunk * groups + group;
      if (group == 0) {
        WaitForCopies<0>();
      } else {
        WaitForCopies<kStages - 2>();
      }
      __syncthreads();
      if (group == 0 && chunk + 1 < chunks) load_windows(chunk + 1);
      if (stage + kStages - 1 < stages) load_stage(stage + kStages - 1);
      CommitCopies();
      uint32_t b_at = filters_at + stage % kStages * kStageUnits * sizeof(uint4);
      const int end = min(of.taps, (group + 1) * kGroup);
      for (int tap = group * kGroup; tap < end; ++tap) {
        uint32_t large[kRows][4], small[kRows][4], b[kColumns][4];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const uint32_t at =
              Swizzled(slots[i] + p.offsets[of.first_tap + tap], lane / 16) * sizeof(uint4);
          LoadMatrices(large[i], windows_at + at);
          LoadMatrices(small[i], windows_at + (at ^ 2 * sizeof(uint4)));
        }
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          LoadMatrices(b[j], b_at + j * 8 * kUnits * sizeof(uint4));
        }
        b_at += kFilters * kUnits * sizeof(uint4);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) MultiplyAdd(parts[i][j], small[i], b[j][0], b[j][1]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) MultiplyAdd(parts[i][j], large[i], b[j][2], b[j][3]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) MultiplyAdd(parts[i][j], large[i], b[j][0], b[j][1]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int channel = first_channel + (warp_n * kColumns + j) * 8 + lane % 4 * 2;
      const float left = unscale * __ldg(p.filter_unscales + channel);
      const float right = unscale * __ldg(p.filter_unscales + channel + 1);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][j][k] += parts[i][j][k] * (k % 2 == 0 ? left : right);
      }
    }
  }

  const int64_t in_plane = static_cast<int64_t>(s.height) * s.width;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = (warp_m * kRows + i) * 16 + half * 8 + lane / 4;
      const int row = first_row + place / p.tile_columns;
      const int column = first_column + place % p.tile_columns;
      if (row >= of.rows || column >= of.columns) continue;
      float* to = p.grad_x + static_cast<int64_t>(image) * s.channels * in_plane +
                  static_cast<int64_t>(of.row + row * s.stride) * s.width + of.column +
                  column * s.stride;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int channel = first_channel + (warp_n * kColumns + j) * 8 + lane % 4 * 2 + k;
          if (channel < s.channels) to[channel * in_plane] = sums[i][j][half * 2 + k];
        }
      }
    }
  }
}

struct FilterProblem {
  Shape s;
  const uint4 *x, *gradient;
  const float *x_unscales, *gradient_unscales;
  float* parts;  // [shares][taps][out_channels][channels]
  // A stage's places, a power of two of columns, and the part of x that they meet: its columns lie
  // apart by their remainder of the stride.
  int tile_columns, tile_rows, tiles_x, tiles_y;
  int part, pitch, slots;
  int shares;
  int offsets[kMaxTaps];
};

// Blocks are (tile of input and output channels, places of the filter, share). Of eight warps, two
// divide the output channels, four the input channels.
__global__ void __launch_bounds__(kFilterThreads, 1)
    GradFilters(const __grid_constant__ FilterProblem p) {
  constexpr int kOutChunks = kOuts / kDepth;
  constexpr int kInChunks = kIns / kDepth;
  extern __shared__ uint4 memory[];
  const Shape& s = p.s;
  const int gradient_units = kOutChunks * kTilePlaces * kUnits;
  const int stage_units = gradient_units + kInChunks * p.slots * kUnits;
  // Each stage: the gradient [kOutChunks][kTilePlaces][kUnits], then x [kInChunks][slots][kUnits].

  const int lane = threadIdx.x % 32;
  const int warp_o = threadIdx.x / 32 % 2;
  const int warp_i = threadIdx.x / 64;
  const int tiles_i = (s.channels + kIns - 1) / kIns;
  const int first_in = blockIdx.x % tiles_i * kIns;
  const int first_out = blockIdx.x / tiles_i * kOuts;
  const int first_tap = blockIdx.y * kPlaces;
  const int taps = min(kPlaces, s.taps - first_tap);
  const int tiles = s.batch * p.tiles_x * p.tiles_y;
  const int first_tile = static_cast<int>(static_cast<int64_t>(tiles) * blockIdx.z / p.shares);
  const int end_tile = static_cast<int>(static_cast<int64_t>(tiles) * (blockIdx.z + 1) / p.shares);
  const int64_t in_plane = static_cast<int64_t>(s.height) * s.width;
  const int64_t out_plane = static_cast<int64_t>(s.out_height) * s.out_width;

  const auto load_tile = [&](int tile) {
    uint4* to = memory + (tile - first_tile) % kTiles * stage_units;
    const int first_column = tile % p.tiles_x * p.tile_columns;
    const int first_row = tile / p.tiles_x % p.tiles_y * p.tile_rows;
    const int64_t image = tile / p.tiles_x / p.tiles_y;
    for (int i = threadIdx.x; i < kTilePlaces * kUnits; i += kFilterThreads) {
      const int place = i / kUnits;
      const int row = first_row + place / p.tile_columns;
      const int column = first_column + place % p.tile_columns;
      const bool inside = row < s.out_height && column < s.out_width;
      const int64_t at = inside ? (static_cast<int64_t>(row) * s.out_width + column) * kUnits : 0;
#pragma unroll
      for (int k = 0; k < kOutChunks; ++k) {
        const int chunk = first_out / kDepth + k;
        const bool valid = inside && chunk < s.out_chunks;
        const int64_t plane = image * s.out_chunks + (valid ? chunk : 0);
        CopyUnit(to + k * kTilePlaces * kUnits + Swizzled(place, i % kUnits),
                 p.gradient + plane * out_plane * kUnits + at + i % kUnits, valid);
      }
    }
    to += gradient_units;
    for (int i = threadIdx.x; i < p.slots * kUnits; i += kFilterThreads) {
      const int slot = i / kUnits;
      const int in_row = slot % p.pitch;
      const int row = first_row * s.stride - s.padding + slot / p.pitch;
      const int column =
          first_column * s.stride - s.padding + in_row % p.part * s.stride + in_row / p.part;
      const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
      const int64_t at = inside ? (static_cast<int64_t>(row) * s.width + column) * kUnits : 0;
#pragma unroll
      for (int k = 0; k < kInChunks; ++k) {
        const int chunk = first_in / kDepth + k;
        const bool valid = inside && chunk < s.in_chunks;
        const int64_t plane = image * s.in_chunks + (valid ? chunk : 0);
        CopyUnit(to + k * p.slots * kUnits + Swizzled(slot, i % kUnits),
                 p.x + plane * in_plane * kUnits + at + i % kUnits, valid);
      }
    }
  };

  float sums[2][kPlaces][4] = {};
  for (int k = 0; k < kTiles - 1; ++k) {
    if (first_tile + k < end_tile) load_tile(first_tile + k);
    CommitCopies();
  }
  for (int tile = first_tile; tile < end_tile; ++tile) {
    WaitForCopies<kTiles - 2>();
    __syncthreads();
    if (tile + kTiles - 1 < end_tile) load_tile(tile + kTiles - 1);
    CommitCopies();
    const uint4* stage = memory + (tile - first_tile) % kTiles * stage_units;
    const uint32_t gradient_at = SharedAddress(stage + warp_o * 2 * kTilePlaces * kUnits);
    const uint32_t x_at = SharedAddress(stage + gradient_units + warp_i / 2 * p.slots * kUnits);
    const int image = tile / p.tiles_x / p.tiles_y;
    float unscales[2];
    const int in_chunk = min(first_in / kDepth + warp_i / 2, s.in_chunks - 1);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int out_chunk = min(first_out / kDepth + warp_o * 2 + i, s.out_chunks - 1);
      unscales[i] = __ldg(p.gradient_unscales + image * s.out_chunks + out_chunk) *
                    __ldg(p.x_unscales + image * s.in_chunks + in_chunk);
    }
    float parts[2][kPlaces][4] = {};
#pragma unroll 1
    for (int step = 0; step < kTilePlaces / 16; ++step) {
      uint32_t large[2][4], small[2][4];
      const int a_place = step * 16 + lane % 8 + lane / 16 * 8;
      const uint32_t a_at = Swizzled(a_place, lane / 8 % 2) * sizeof(uint4);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t chunk_at = gradient_at + i * kTilePlaces * kUnits * sizeof(uint4);
        LoadTransposed(large[i], chunk_at + a_at);
        LoadTransposed(small[i], chunk_at + (a_at ^ 2 * sizeof(uint4)));
      }
      const int b_place = step * 16 + lane % 16;
      const int slot = b_place / p.tile_columns * s.stride * p.pitch + b_place % p.tile_columns;
#pragma unroll
      for (int tap = 0; tap < kPlaces; ++tap) {
        if (tap >= taps) break;
        uint32_t b[4];
        LoadTransposed(
            b, x_at + Swizzled(slot + p.offsets[first_tap + tap], warp_i % 2 + lane / 16 * 2) *
                          sizeof(uint4));
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyAdd(parts[i][tap], small[i], b[0], b[1]);
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyAdd(parts[i][tap], large[i], b[2], b[3]);
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyAdd(parts[i][tap], large[i], b[0], b[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int tap = 0; tap < kPlaces; ++tap) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][tap][k] += parts[i][tap][k] * unscales[i];
      }
    }
  }

#pragma unroll
  for (int tap = 0; tap < kPlaces; ++tap) {
    if (tap >= taps) break;
    float* of_tap = p.parts + (static_cast<int64_t>(blockIdx.z) * s.taps + first_tap + tap) *
                                  s.out_channels * s.channels;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int out = first_out + (warp_o * 2 + i) * 16 + k / 2 * 8 + lane / 4;
        const int in = first_in + warp_i * 8 + lane % 4 * 2 + k % 2;
        if (out < s.out_channels && in < s.channels) {
          of_tap[static_cast<int64_t>(out) * s.channels + in] = sums[i][tap][k];
        }
      }
    }
  }
}

// A thread for each weight, then one for each bias.
__global__ void __launch_bounds__(kPrepareThreads)
    AddParts(const float* __restrict__ parts, const float* __restrict__ plane_sums,
             float* __restrict__ grad_weights, float* __restrict__ grad_biases, int shares,
             Shape s) {
  const int64_t pairs = static_cast<int64_t>(s.out_channels) * s.channels;
  const int64_t weights = pairs * s.taps;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x;
  float sum = 0;
  if (i < weights) {
#pragma unroll 8
    for (int share = 0; share < shares; ++share) sum += parts[share * weights + i];
    grad_weights[i % pairs * s.taps + i / pairs] = sum;
    return;
  }
  i -= weights;
  if (i >= s.out_channels) return;
#pragma unroll 8
  for (int image = 0; image < s.batch; ++image) {
    sum += plane_sums[image * s.out_chunks * kDepth + i];
  }
  grad_biases[i] = sum;
}

// One thread for each element of x.
__global__ void __launch_bounds__(kPrepareThreads)
    GradXAny(const float* __restrict__ gradient, const float* __restrict__ weights,
             float* __restrict__ grad_x, int64_t elements, Shape s) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x;
  if (element >= elements) return;
  const int column = static_cast<int>(element % s.width) + s.padding;
  const int row = static_cast<int>(element / s.width % s.height) + s.padding;
  const int64_t channel = element / s.width / s.height % s.channels;
  const int64_t image = element / s.width / s.height / s.channels;
  float sum = 0;
  for (int tap = 0; tap < s.taps; ++tap) {
    const int y = row - tap / s.kernel_width;
    const int x = column - tap % s.kernel_width;
    if (y < 0 || x < 0 || y % s.stride != 0 || x % s.stride != 0) continue;
    if (y / s.stride >= s.out_height || x / s.stride >= s.out_width) continue;
    for (int o = 0; o < s.out_channels; ++o) {
      sum += weights[(static_cast<int64_t>(o) * s.channels + channel) * s.taps + tap] *
             gradient[((image * s.out_channels + o) * s.out_height + y / s.stride) * s.out_width +
                      x / s.stride];
    }
  }
  grad_x[element] = sum;
}

// A warp for each weight, then one for each bias.
__global__ void __launch_bounds__(kPrepareThreads)
    GradFiltersAny(const float* __restrict__ gradient, const float* __restrict__ x,
                   float* __restrict__ grad_weights, float* __restrict__ grad_biases, Shape s) {
  const int64_t weights = static_cast<int64_t>(s.out_channels) * s.channels * s.taps;
  const int64_t output =
      static_cast<int64_t>(blockIdx.x) * (kPrepareThreads / 32) + threadIdx.x / 32;
  if (output >= weights + s.out_channels) return;
  const bool is_bias = output >= weights;
  const int tap = static_cast<int>(output % s.taps);
  const int64_t channel = output / s.taps % s.channels;
  const int64_t out = is_bias ? output - weights : output / s.taps / s.channels;
  const int64_t plane = static_cast<int64_t>(s.out_height) * s.out_width;
  float sum = 0;
  for (int64_t i = threadIdx.x % 32; i < s.batch * plane; i += 32) {
    const int64_t image = i / plane;
    const int row =
        static_cast<int>(i % plane / s.out_width) * s.stride - s.padding + tap / s.kernel_width;
    const int column =
        static_cast<int>(i % s.out_width) * s.stride - s.padding + tap % s.kernel_width;
    const float g = gradient[(image * s.out_channels + out) * plane + i % plane];
    if (is_bias) {
      sum += g;
    } else if (row >= 0 && row < s.height && column >= 0 && column < s.width) {
      sum += g * x[((image * s.channels + channel) * s.height + row) * s.width + column];
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
  }
  if (threadIdx.x % 32 == 0) *(is_bias ? grad_biases + out : grad_weights + output) = sum;
}

// Lays rectangles of `places` over planes of the given size and returns how many cover one.
template <class P>
static int64_t Tile(P& p, int places, int height, int width) {
  int64_t least = 0;
  for (int columns = 8; columns <= std::min(places, 32); columns *= 2) {
    const int rows = places / columns;
    const int64_t tiles = DivideUp(width, columns) * DivideUp(height, rows);
    if (least != 0 && tiles > least) continue;
    least = tiles;
    p.tile_columns = columns;
    p.tile_rows = rows;
  }
  p.tiles_x = static_cast<int>(DivideUp(width, p.tile_columns));
  p.tiles_y = static_cast<int>(DivideUp(height, p.tile_rows));
  return least;
}

// Sorts rows (or columns) of the filter into classes: which ones meet places of remainder r, and
// where the first of these meets the gradient.
struct Line {
  std::vector<int> taps, at;  // sorted by where they meet it
  int first = 0, span = 1;
};

static Line LineOf(int remainder, int kernel, int stride, int padding) {
  Line line;
  for (int tap = kernel - 1; tap >= 0; --tap) {
    const int met = remainder + padding - tap;
    if (met % stride != 0) continue;
    line.taps.push_back(tap);
    line.at.push_back(met / stride);
  }
  if (line.taps.empty()) return line;
  line.first = line.at.front();
  line.span = line.at.back() - line.first + 1;
  return line;
}

// Fills in the classes, the largest first; false if there are too many.
static bool Classify(Problem& p, int64_t sms) {
  const Shape& s = p.s;
  if (s.stride * s.stride > kMaxClasses) return false;
  std::vector<Line> rows, columns;
  int span_y = 1, span_x = 1;
  for (int r = 0; r < s.stride; ++r) {
    rows.push_back(LineOf(r, s.kernel_height, s.stride, s.padding));
    columns.push_back(LineOf(r, s.kernel_width, s.stride, s.padding));
    span_y = std::max(span_y, rows.back().span);
    span_x = std::max(span_x, columns.back().span);
  }
  p.classes = s.stride * s.stride;
  const int height = static_cast<int>(DivideUp(s.height, s.stride));
  const int width = static_cast<int>(DivideUp(s.width, s.stride));
  int places = 128;
  while (places > 32 &&
         s.batch * p.classes * int64_t{p.tiles_n} * Tile(p, places, height, width) * 4 < sms * 7) {
    places /= 2;
  }
  Tile(p, places, height, width);
  p.pitch = p.tile_columns - 1 + span_x;
  p.slots = (p.tile_rows - 1 + span_y) * p.pitch;

  std::vector<int> order(p.classes);
  for (int i = 0; i < p.classes; ++i) order[i] = i;
  const auto size = [&](int i) {
    return rows[i / s.stride].taps.size() * columns[i % s.stride].taps.size();
  };
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return size(a) != size(b) ? size(a) > size(b) : a < b; });
  int taps = 0;
  for (int i = 0; i < p.classes; ++i) {
    const Line& down = rows[order[i] / s.stride];
    const Line& across = columns[order[i] % s.stride];
    Class& of = p.of[i];
    of.row = order[i] / s.stride;
    of.column = order[i] % s.stride;
    of.rows = static_cast<int>(DivideUp(s.height - of.row, s.stride));
    of.columns = static_cast<int>(DivideUp(s.width - of.column, s.stride));
    of.first_tap = taps;
    of.taps = static_cast<int>(size(order[i]));
    of.first_row = down.first;
    of.first_column = across.first;
    for (size_t y = 0; y < down.taps.size(); ++y) {
      for (size_t x = 0; x < across.taps.size(); ++x, ++taps) {
        p.taps[taps] = down.taps[y] * s.kernel_width + across.taps[x];
        p.offsets[taps] = (down.at[y] - down.first) * p.pitch + across.at[x] - across.first;
      }
    }
  }
  return true;
}

static void Arrange(FilterProblem& p) {
  const Shape& s = p.s;
  Tile(p, kTilePlaces, s.out_height, s.out_width);
  const int columns = (p.tile_columns - 1) * s.stride + s.kernel_width;
  p.part = static_cast<int>(DivideUp(columns, s.stride));
  p.pitch = p.part * std::min(s.stride, columns);
  p.slots = ((p.tile_rows - 1) * s.stride + s.kernel_height) * p.pitch;
  for (int tap = 0; tap < s.taps; ++tap) {
    const int column = tap % s.kernel_width;
    p.offsets[tap] =
        tap / s.kernel_width * p.pitch + column % s.stride * p.part + column / s.stride;
  }
}

template <class Kernel, class P>
static void Launch(Kernel kernel, const P& p, dim3 grid, int threads, int64_t shared) {
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)));
  kernel<<<grid, threads, static_cast<size_t>(shared), at::cuda::getCurrentCUDAStream()>>>(p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

static Shape ShapeOf(const torch::Tensor& grad_output, const torch::Tensor& x,
                     const torch::Tensor& weights, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(stride >= 1 && padding >= 0, "stride must be positive, padding not negative");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.size(2) * x.size(3) <= INT32_MAX / kUnits, "planes of more than 2^29 elements");
  Shape s;
  s.batch = static_cast<int>(x.size(0));
  s.channels = static_cast<int>(x.size(1));
  s.height = static_cast<int>(x.size(2));
  s.width = static_cast<int>(x.size(3));
  s.out_channels = static_cast<int>(weights.size(0));
  s.kernel_height = static_cast<int>(weights.size(2));
  s.kernel_width = static_cast<int>(weights.size(3));
  s.taps = s.kernel_height * s.kernel_width;
  s.stride = static_cast<int>(stride);
  s.padding = static_cast<int>(padding);
  s.out_height = (s.height + 2 * s.padding - s.kernel_height) / s.stride + 1;
  s.out_width = (s.width + 2 * s.padding - s.kernel_width) / s.stride + 1;
  s.in_chunks = static_cast<int>(DivideUp(s.channels, kDepth));
  s.out_chunks = static_cast<int>(DivideUp(s.out_channels, kDepth));
  TORCH_CHECK(grad_output.dim() == 4 && grad_output.size(0) == s.batch &&
                  grad_output.size(1) == s.out_channels && grad_output.size(2) == s.out_height &&
                  grad_output.size(3) == s.out_width && grad_output.numel() > 0,
              "grad_output must have the shape of the output");
  return s;
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                    torch::Tensor weights, int64_t stride, int64_t padding) {
  const Shape s = ShapeOf(grad_output, x, weights, stride, padding);
  grad_output = grad_output.contiguous();
  x = x.contiguous();
  weights = weights.contiguous();
  const float* g = grad_output.data_ptr<float>();
  const float* x_data = x.data_ptr<float>();
  const float* w = weights.data_ptr<float>();
  auto grad_x = torch::empty(x.sizes(), x.options());
  auto grad_weights = torch::empty(weights.sizes(), x.options());
  auto grad_biases = torch::empty({s.out_channels}, x.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;

  Problem to_x = {};
  FilterProblem to_filters = {};
  to_x.s = to_filters.s = s;
  to_x.tiles_n = static_cast<int>(DivideUp(s.channels, kFilters));
  to_x.padded_channels = to_x.tiles_n * kFilters;
  bool fits = s.taps <= kMaxTaps && Classify(to_x, sms);
  int64_t x_shared = 0, filters_shared = 0;
  if (fits) {
    Arrange(to_filters);
    x_shared = (int64_t{kStages} * kGroup * kFilters + 2 * to_x.slots) * kUnits * sizeof(uint4) +
               to_x.slots * sizeof(int);
    filters_shared = int64_t{kTiles} *
                     (kOuts / kDepth * kTilePlaces + kIns / kDepth * to_filters.slots) * kUnits *
                     sizeof(uint4);
    fits = x_shared <= kMaxShared && filters_shared <= kMaxShared;
  }
  if (!fits) {
    GradXAny<<<static_cast<unsigned>(DivideUp(x.numel(), kPrepareThreads)), kPrepareThreads, 0,
               stream>>>(g, w, grad_x.data_ptr<float>(), x.numel(), s);
    const int64_t outputs = weights.numel() + s.out_channels;
    GradFiltersAny<<<static_cast<unsigned>(DivideUp(outputs, kPrepareThreads / 32)),
                     kPrepareThreads, 0, stream>>>(g, x_data, grad_weights.data_ptr<float>(),
                                                   grad_biases.data_ptr<float>(), s);
    return {grad_x, grad_weights, grad_biases};
  }

  const auto bytes = x.options().dtype(torch::kUInt8);
  constexpr int64_t kRecord = kUnits * sizeof(uint4);
  const int64_t in_records = int64_t{s.batch} * s.in_chunks * s.height * s.width;
  const int64_t out_records = int64_t{s.batch} * s.out_chunks * s.out_height * s.out_width;
  auto x_records = torch::empty({in_records * kRecord}, bytes);
  auto gradient_records = torch::empty({out_records * kRecord}, bytes);
  auto filters =
      torch::empty({int64_t{s.out_chunks} * s.taps * to_x.padded_channels * kRecord}, bytes);
  auto x_unscales = torch::empty({s.batch, s.in_chunks}, x.options());
  auto gradient_unscales = torch::empty({s.batch, s.out_chunks}, x.options());
  auto filter_unscales = torch::empty({to_x.padded_channels}, x.options());
  auto plane_sums = torch::empty({s.batch, s.out_chunks * kDepth}, x.options());
  Sources sources = {};
  sources.s = s;
  sources.x = x_data;
  sources.gradient = g;
  sources.weights = w;
  sources.x_records = reinterpret_cast<uint4*>(x_records.data_ptr<uint8_t>());
  sources.gradient_records = reinterpret_cast<uint4*>(gradient_records.data_ptr<uint8_t>());
  sources.filters = reinterpret_cast<uint4*>(filters.data_ptr<uint8_t>());
  sources.x_unscales = x_unscales.data_ptr<float>();
  sources.gradient_unscales = gradient_unscales.data_ptr<float>();
  sources.filter_unscales = filter_unscales.data_ptr<float>();
  sources.plane_sums = plane_sums.data_ptr<float>();
  sources.padded_channels = to_x.padded_channels;
  std::copy(to_x.taps, to_x.taps + kMaxTaps, sources.taps);
  const int64_t prepare_blocks =
      int64_t{s.batch} * (s.in_chunks + s.out_chunks) + to_x.padded_channels;
  Prepare<<<static_cast<unsigned>(prepare_blocks), kPrepareThreads, 0, stream>>>(sources);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  to_x.gradient = to_filters.gradient = sources.gradient_records;
  to_x.gradient_unscales = to_filters.gradient_unscales = sources.gradient_unscales;
  to_x.filters = sources.filters;
  to_x.filter_unscales = sources.filter_unscales;
  to_x.grad_x = grad_x.data_ptr<float>();
  const int64_t x_blocks =
      int64_t{s.batch} * to_x.classes * to_x.tiles_x * to_x.tiles_y * to_x.tiles_n;
  const int places = to_x.tile_columns * to_x.tile_rows;
  Launch(places == 128  ? GradX<4>
         : places == 64 ? GradX<2>
                        : GradX<1>,
         to_x, dim3(static_cast<unsigned>(x_blocks)), kThreads, x_shared);

  to_filters.x = sources.x_records;
  to_filters.x_unscales = sources.x_unscales;
  const int64_t filter_tiles = DivideUp(s.channels, kIns) * DivideUp(s.out_channels, kOuts);
  const int64_t tap_groups = DivideUp(s.taps, kPlaces);
  const int64_t tiles = int64_t{s.batch} * to_filters.tiles_x * to_filters.tiles_y;
  to_filters.shares =
      static_cast<int>(std::max<int64_t>(1, std::min(tiles, sms / (filter_tiles * tap_groups))));
  auto parts = torch::empty({to_filters.shares, s.taps, s.out_channels, s.channels}, x.options());
  to_filters.parts = parts.data_ptr<float>();
  Launch(GradFilters, to_filters,
         dim3(static_cast<unsigned>(filter_tiles), static_cast<unsigned>(tap_groups),
              static_cast<unsigned>(to_filters.shares)),
         kFilterThreads, filters_shared);
  AddParts<<<static_cast<unsigned>(DivideUp(weights.numel() + s.out_channels, kPrepareThreads)),
             kPrepareThreads, 0, stream>>>(parts.data_ptr<float>(), plane_sums.data_ptr<float>(),
                                           grad_weights.data_ptr<float>(),
                                           grad_biases.data_ptr<float>(), to_filters.shares, s);
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a convolution");
}
