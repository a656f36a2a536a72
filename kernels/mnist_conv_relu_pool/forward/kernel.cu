// Convolution (no padding, stride 1), ReLU and 2x2 max pooling in one. Two templates, each compiled
// for several tiles (kWays); the host takes the one that a model of their time, whose constants
// the tuner's measurements gave, holds for the fastest.
//
// Direct, for few products: a thread computes a window of four sums for two, four or eight filters
// from its own patch of x in registers; neighbouring filters are one load for all. The time is one
// trip to memory; blocks are as small as it takes to occupy every SM.
//
// Convolve, for many: tensor cores with float32's accuracy. Each number, times a power of two
// that brings the largest around it near 2^14, is the sum of two float16 (22 bits and a sign, and
// 2^-39 of the largest at worst); three products of float16, all but that of the two small halves,
// make one of float32. PrepareFilters splits the filters, a scale for each, into the order in which
// they are needed. A block takes some windows of an image, in the order in which they lie in memory
// (or in a strip of it), for some filters. It walks the channels in chunks of sixteen: the rows of
// x arrive in shared memory as they are, get a scale of their own, and are split into records of
// one place each: sixteen channels' large halves, then their small ones. Every place of the filter
// is then a matrix product whose rows begin at another record. Tensor cores truncate their sums, so
// a chunk's are kept apart, and added, unscaled, by ordinary fused multiply-adds. The rows of a
// matrix are four windows, the upper places before the lower: a window lies in two neighbouring
// groups of lanes.
//
// What fits neither way goes to ConvolveAny. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

// One of kWays for everything that it can do, from 1 on; 0: the fastest, as far as the model knows.
constexpr int kWay = 0;  // tune: kWay in 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

constexpr int kDirectThreads = 256;  // at most
constexpr int kDirectResident = 16;  // blocks on an SM, at most
constexpr int kThreadsOfSm = 2048;

constexpr int kStages = 3;
constexpr int kGroup = 3;   // places of the filter in a stage
constexpr int kDepth = 16;  // channels of a chunk, the depth of one matrix instruction
constexpr int kUnits = 4;   // of 16 bytes, in a record: two of large halves, two of small ones
constexpr int kConvolveWarps = 4;  // of a block
constexpr int kConvolveThreads = kConvolveWarps * 32;
constexpr int kPrepareThreads = 256;
constexpr int kMaxTaps = 64;            // places of a filter
constexpr int kMaxShared = 110 * 1024;  // two blocks on an SM
constexpr int kDirectShared = 48 * 1024;
constexpr int64_t kSharedOfSm = 227 * 1024;
constexpr int64_t kSharedOfSystem = 1024;  // beside each block's

struct Problem {
  const float* x;
  const float* weights;
  const uint4* filters;   // prepared
  const float* unscales;  // of the filters
  const float* biases;
  float* y;
  int batch, channels, height, width;
  int out_channels, padded_channels, out_height, out_width;  // pooled
  int kernel_height, kernel_width, taps;
  int chunks;
  // Windows are counted in strips of `strip` columns of them; a block takes kWindows in a row,
  // which lie in at most `rows` rows of x.
  int strip, strips, tiles, tiles_n;
  int pitch, rows, slots;
  int offsets[kMaxTaps];  // from an output's first slot to that below a place of the filter
};

// The larger one, or a NaN if either is.
__device__ float Larger(float a, float b) { return a > b || isnan(a) ? a : b; }

__device__ float Rectified(float value) { return value < 0 ? 0 : value; }

// A launch may begin before the one in front of it has ended, and waits for its results here.
__device__ void WaitForLaunchBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void LetNextLaunchBegin() { asm volatile("griddepcontrol.launch_dependents;"); }

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies 4 bytes to shared memory, or writes zero.
__device__ void CopyFloat(float* to, const float* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

__device__ void CopyUnit(uint4* to, const uint4* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(to)), "l"(from)
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

// value(k) for k in 0 to 7, as a unit of large halves and one of small ones of a record.
template <class Value>
__device__ void StoreRecord(uint4* records, int record, int half, float scale, Value value) {
  uint4 large, small;
  Split(value(0), value(1), scale, large.x, small.x);
  Split(value(2), value(3), scale, large.y, small.y);
  Split(value(4), value(5), scale, large.z, small.z);
  Split(value(6), value(7), scale, large.w, small.w);
  records[Swizzled(record, half)] = large;
  records[Swizzled(record, half + 2)] = small;
}

// A block for each filter, also for those that only fill a tile. prepared: records of filters, in
// each chunk of channels, for each place.
__global__ void __launch_bounds__(kPrepareThreads)
    PrepareFilters(const float* __restrict__ weights, uint4* __restrict__ prepared,
                   float* __restrict__ unscales, int channels, int taps, int chunks,
                   int out_channels) {
  __shared__ float maxima[kPrepareThreads / 32];
  LetNextLaunchBegin();
  const int filter = blockIdx.x;
  const int filters = gridDim.x;
  const int size = filter < out_channels ? channels * taps : 0;
  const float* source = weights + static_cast<int64_t>(filter) * channels * taps;
  float largest = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < size; i += kPrepareThreads) {
    largest = fmaxf(largest, Magnitude(source[i]));
  }
  largest = WarpMax(largest);
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = largest;
  __syncthreads();
  for (const float maximum : maxima) largest = fmaxf(largest, maximum);
  const float scale = Scale(largest);
  if (threadIdx.x == 0) unscales[filter] = 1 / scale;

  for (int i = threadIdx.x; i < chunks * taps * 2; i += kPrepareThreads) {
    const int half = i % 2;
    const int tap = i / 2 % taps;
    const int chunk = i / 2 / taps;
    uint4* records = prepared + static_cast<int64_t>(chunk * taps + tap) * filters * kUnits;
    StoreRecord(records, filter, half, scale, [=](int k) {
      const int at = (chunk * kDepth + half * 8 + k) * taps + tap;
      return at < size ? source[at] : 0.0f;
    });
  }
}

// Threads are (window, group of kPer filters), blockDim.x of the former and blockDim.y of the
// latter.
template <int kKernel, int kPer>
__global__ void __launch_bounds__(kDirectThreads) Direct(const __grid_constant__ Problem p) {
  constexpr int kTaps = kKernel * kKernel;
  constexpr int kSide = kKernel + 1;  // of the patch below a window
  using Vector = std::conditional_t<kPer == 2, float2, float4>;
  constexpr int kVectors =
      kPer * static_cast<int>(sizeof(float)) / static_cast<int>(sizeof(Vector));
  extern __shared__ uint4 memory[];
  float* const filters = reinterpret_cast<float*>(memory);  // [groups][channels * kTaps][kPer]
  const int depth = p.channels * kTaps;
  float* const rows = filters + blockDim.y * depth * kPer;

  const int threads = blockDim.x * blockDim.y;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int windows = p.out_height * p.out_width;
  const int first_window = blockIdx.x * blockDim.x;
  const int last_window = min(first_window + static_cast<int>(blockDim.x), windows) - 1;
  const int first_row = first_window / p.out_width * 2;
  const int elements =
      (last_window / p.out_width * 2 + kSide - first_row) * p.width;  // of a channel
  const int first_filter = blockIdx.y * blockDim.y * kPer;
  const int64_t image = blockIdx.z;
  const float* source =
      p.x + (image * p.channels * p.height + first_row) * static_cast<int64_t>(p.width);
  for (int c = 0; c < p.channels; ++c) {
    const float* of_channel = source + static_cast<int64_t>(c) * p.height * p.width;
    for (int i = thread; i < elements; i += threads) {
      CopyFloat(rows + c * elements + i, of_channel + i, true);
    }
  }
  for (int i = thread; i < static_cast<int>(blockDim.y) * kPer * depth; i += threads) {
    const int filter = i / depth;
    const bool valid = first_filter + filter < p.out_channels;
    const int64_t at = valid ? static_cast<int64_t>(first_filter) * depth + i : 0;
    CopyFloat(filters + (filter / kPer * depth + i % depth) * kPer + filter % kPer, p.weights + at,
              valid);
  }
  const int window = first_window + threadIdx.x;
  const int filter = first_filter + threadIdx.y * kPer;
  float bias[kPer];
#pragma unroll
  for (int f = 0; f < kPer; ++f) bias[f] = filter + f < p.out_channels ? p.biases[filter + f] : 0;
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  if (window > last_window) return;

  float sums[kPer][4] = {};
  const float* corner =
      rows + (window / p.out_width * 2 - first_row) * p.width + window % p.out_width * 2;
  const Vector* places = reinterpret_cast<const Vector*>(filters) + threadIdx.y * depth * kVectors;
  for (int c = 0; c < p.channels; ++c, corner += elements, places += kTaps * kVectors) {
    float patch[kSide][kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) patch[i][j] = corner[i * p.width + j];
    }
#pragma unroll
    for (int i = 0; i < kKernel; ++i) {
#pragma unroll
      for (int j = 0; j < kKernel; ++j) {
        float by_filter[kPer];
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          reinterpret_cast<Vector*>(by_filter)[v] = places[(i * kKernel + j) * kVectors + v];
        }
#pragma unroll
        for (int f = 0; f < kPer; ++f) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sums[f][k] += by_filter[f] * patch[i + k / 2][j + k % 2];
        }
      }
    }
  }
  float* to = p.y + (image * p.out_channels + filter) * windows + window;
#pragma unroll
  for (int f = 0; f < kPer; ++f) {
    if (filter + f >= p.out_channels) break;
    const float largest = Larger(Larger(sums[f][0], sums[f][1]), Larger(sums[f][2], sums[f][3]));
    to[static_cast<int64_t>(f) * windows] = Rectified(largest + bias[f]);
  }
}

// A warp multiplies kRows matrices of 16 outputs by kColumns matrices of eight filters.
template <int kRows, int kColumns>
__global__ void __launch_bounds__(kConvolveThreads, kColumns < 8 ? 3 : 2)
    Convolve(const __grid_constant__ Problem p) {
  constexpr int kThreads = kConvolveThreads;
  constexpr int kFilters = kColumns * 8;
  constexpr int kWindows = kConvolveWarps * kRows * 4;
  constexpr int kStageUnits = kGroup * kFilters * kUnits;
  extern __shared__ uint4 memory[];
  __shared__ float maxima[kThreads / 32];
  uint4* const records = memory;                   // [slots][kUnits]
  uint4* const ring = records + p.slots * kUnits;  // [kStages][kStageUnits]
  float* const raw = reinterpret_cast<float*>(ring + kStages * kStageUnits);  // [kDepth][slots]
  int* const places = reinterpret_cast<int*>(raw + kDepth * p.slots);  // in a plane, or -1: [slots]

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int first_filter = static_cast<int>(blockIdx.x % p.tiles_n) * kFilters;
  const int tile = static_cast<int>(blockIdx.x / p.tiles_n);
  const int first_column = tile / p.tiles % p.strips * p.strip;
  const int image = tile / p.tiles / p.strips;
  const int first_window = tile % p.tiles * kWindows;
  const int last_window = p.strip * p.out_height - 1;
  const int first_row = first_window / p.strip;
  const int groups = (p.taps + kGroup - 1) / kGroup;
  const int stages = p.chunks * groups;

  // Each thread looks after the same slots throughout.
  for (int slot = threadIdx.x; slot < p.slots; slot += kThreads) {
    const int row = first_row * 2 + slot / p.pitch;
    const int column = first_column * 2 + slot % p.pitch;
    places[slot] = row < p.height && column < p.width ? row * p.width + column : -1;
  }
  const auto load_windows = [&](int chunk) {
    const int64_t plane = static_cast<int64_t>(p.height) * p.width;
    const int channel = chunk * kDepth;
    const float* of_chunk = p.x + (static_cast<int64_t>(image) * p.channels + channel) * plane;
    for (int slot = threadIdx.x; slot < p.slots; slot += kThreads) {
      const bool inside = places[slot] >= 0;
      const float* from = of_chunk + max(places[slot], 0);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        CopyFloat(raw + k * p.slots + slot, from, inside && channel + k < p.channels);
        if (channel + k + 1 < p.channels) from += plane;
      }
    }
  };
  const auto load_stage = [&](int stage) {
    const int chunk = stage / groups;
    const int first = stage % groups * kGroup;
    const int units = min(kGroup, p.taps - first) * kFilters * kUnits;
    const int64_t tap_units = static_cast<int64_t>(p.padded_channels) * kUnits;
    const uint4* from = p.filters + (chunk * p.taps + first) * tap_units + first_filter * kUnits;
    uint4* to = ring + stage % kStages * kStageUnits;
    for (int i = threadIdx.x; i < units; i += kThreads) {
      CopyUnit(to + i, from + i / (kFilters * kUnits) * tap_units + i % (kFilters * kUnits));
    }
  };

  // This lane's rows and units of the matrices that its warp loads.
  int slots[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int window = min(first_window + (warp * kRows + i) * 4 + lane % 8 / 2, last_window);
    slots[i] = ((window / p.strip - first_row) * 2 + lane / 8 % 2) * p.pitch +
               window % p.strip * 2 + lane % 2;
  }
  const uint32_t records_at = SharedAddress(records);
  const uint32_t filters_at = SharedAddress(ring + Swizzled(lane % 8, lane / 8));

  float sums[kRows][kColumns][4] = {};
  load_windows(0);
  WaitForLaunchBefore();  // for the filters
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < stages) load_stage(stage);
    CommitCopies();
  }
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    WaitForCopies<0>();
    __syncthreads();
    float largest = 0;
    for (int i = threadIdx.x; i < p.slots * kUnits; i += kThreads) {
      const float4 four = reinterpret_cast<const float4*>(raw)[i];
      largest = fmaxf(fmaxf(largest, fmaxf(Magnitude(four.x), Magnitude(four.y))),
                      fmaxf(Magnitude(four.z), Magnitude(four.w)));
    }
    largest = WarpMax(largest);
    if (lane == 0) maxima[warp] = largest;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) largest = fmaxf(largest, maxima[i]);
    const float scale = Scale(largest);
    for (int slot = threadIdx.x; slot < p.slots; slot += kThreads) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        StoreRecord(records, slot, half, scale,
                    [=](int k) { return raw[(half * 8 + k) * p.slots + slot]; });
      }
    }
    __syncthreads();
    if (chunk + 1 < p.chunks) load_windows(chunk + 1);

    float parts[kRows][kColumns][4] = {};
    for (int group = 0; group < groups; ++group) {
      const int stage = chunk * groups + group;
      if (group > 0) {
        WaitForCopies<kStages - 2>();
        __syncthreads();
      }
      if (stage + kStages - 1 < stages) load_stage(stage + kStages - 1);
      CommitCopies();
      uint32_t b_at = filters_at + stage % kStages * kStageUnits * sizeof(uint4);
      const int end = min(p.taps, (group + 1) * kGroup);
      for (int tap = group * kGroup; tap < end; ++tap) {
        uint32_t large[kRows][4], small[kRows][4], b[kColumns][4];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const uint32_t at = Swizzled(slots[i] + p.offsets[tap], lane / 16) * sizeof(uint4);
          LoadMatrices(large[i], records_at + at);
          LoadMatrices(small[i], records_at + (at ^ 2 * sizeof(uint4)));
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
    const float unscale = 1 / scale;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int filter = first_filter + j * 8 + lane % 4 * 2;
      const float left = unscale * __ldg(p.unscales + filter);
      const float right = unscale * __ldg(p.unscales + filter + 1);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][j][k] += parts[i][j][k] * (k % 2 == 0 ? left : right);
      }
    }
  }

  // A lane has an upper and a lower place of two filters, its neighbour four lanes on those beside
  // them: of either filter, one of the two finishes the window.
  const int64_t plane = static_cast<int64_t>(p.out_height) * p.out_width;
  const int own = lane / 4 % 2;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int window = first_window + (warp * kRows + i) * 4 + lane / 8;
    const int row = window / p.strip;
    const int column = first_column + window % p.strip;
    const bool valid = window <= last_window && column < p.out_width;
    float* to = p.y + static_cast<int64_t>(image) * p.out_channels * plane +
                static_cast<int64_t>(row) * p.out_width + column;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float left = Larger(sums[i][j][0], sums[i][j][2]);
      const float right = Larger(sums[i][j][1], sums[i][j][3]);
      const float beside = __shfl_xor_sync(~0u, own == 0 ? right : left, 4);
      const int filter = first_filter + j * 8 + lane % 4 * 2 + own;
      if (valid && filter < p.out_channels) {
        to[filter * plane] =
            Rectified(Larger(own == 0 ? left : right, beside) + __ldg(p.biases + filter));
      }
    }
  }
}

// One thread for each output.
__global__ void __launch_bounds__(kPrepareThreads) ConvolveAny(int64_t outputs, Problem p) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x;
  if (output >= outputs) return;
  const int column = static_cast<int>(output % p.out_width) * 2;
  const int row = static_cast<int>(output / p.out_width % p.out_height) * 2;
  const int64_t filter = output / p.out_width / p.out_height % p.out_channels;
  const int64_t image = output / p.out_width / p.out_height / p.out_channels;
  float sums[4] = {};
  for (int c = 0; c < p.channels; ++c) {
    const float* plane = p.x + (image * p.channels + c) * p.height * p.width;
    const float* places = p.weights + (filter * p.channels + c) * p.taps;
    for (int tap = 0; tap < p.taps; ++tap) {
      const float* at = plane + (row + tap / p.kernel_width) * static_cast<int64_t>(p.width) +
                        column + tap % p.kernel_width;
      for (int k = 0; k < 4; ++k) sums[k] += places[tap] * at[k / 2 * p.width + k % 2];
    }
  }
  const float largest = Larger(Larger(sums[0], sums[1]), Larger(sums[2], sums[3]));
  p.y[output] = Rectified(largest + p.biases[filter]);
}

static int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A way to compute it, and what it takes: microseconds a call, for each step of each wave of
// blocks, and for each block that an SM has, by steps and beside them.
struct Way {
  bool is_direct;
  int filters;  // of a thread of Direct, of a tile of Convolve
  int windows;  // of a tile of Convolve
  float call, step, share, block;
};

// The last four of each are fitted to times of the tuner's variants, kWay = 1 to 9, on an H200
// (bench/fit/conv_relu_pool.py).
constexpr Way kWays[] = {
    {true, 2, 0, 1.873f, 0.000841f, 0.02841f, 0.1405f},    // 1
    {true, 4, 0, 1.605f, 0, 0.02612f, 0.374f},             // 2
    {true, 8, 0, 2.047f, 0.04099f, 0.01423f, 0.4205f},     // 3
    {false, 16, 16, 6.101f, 0, 0.162f, 0.1679f},           // 4
    {false, 32, 16, 7.779f, 0, 0.2264f, 0.1209f},          // 5
    {false, 64, 16, 3.86f, 0.627f, 0, 1.948f},             // 6
    {false, 16, 32, 6.678f, 0.04235f, 0.2156f, 0.01678f},  // 7
    {false, 32, 32, 4.256f, 0.5147f, 0.08673f, 1.293f},    // 8
    {false, 64, 32, 7.073f, 0.2997f, 0.4339f, 0.7121f},    // 9
};

// A launch that is ready.
struct Launch {
  const Way* way = nullptr;
  float time = INFINITY;  // as the model has it
  Problem problem;
  dim3 grid, threads;
  int shared = 0;
};

// `resident` blocks on an SM at once, unless shared memory allows fewer: waves of blocks wait for
// their steps one after the other, and all of an SM's share what it can do.
static float Time(const Way& way, int64_t blocks, int64_t steps, int64_t resident, int64_t shared,
                  int sms) {
  resident = std::min(resident, kSharedOfSm / (shared + kSharedOfSystem));
  const auto waves = static_cast<float>(DivideUp(blocks, resident * sms));
  const auto of_sm = static_cast<float>(blocks) / static_cast<float>(sms);
  const auto serial = static_cast<float>(steps);
  return way.call + way.step * waves * serial + of_sm * (way.share * serial + way.block);
}

// Error-free launches only: `way` stays null where Direct cannot do it.
static Launch PlanDirect(const Way& way, const Problem& p, int sms) {
  Launch launch;
  const int depth = p.channels * p.taps;
  if (p.kernel_height != p.kernel_width || (p.kernel_width != 3 && p.kernel_width != 5) ||
      p.batch > 65535) {
    return launch;
  }
  // As many threads side by side as windows make whole warps, then filters on top, while there is a
  // block for each SM.
  const int windows = p.out_height * p.out_width;
  const int groups = static_cast<int>(DivideUp(p.out_channels, way.filters));
  const int columns = static_cast<int>(DivideUp(windows, DivideUp(windows, kDirectThreads)));
  const int64_t blocks = p.batch * DivideUp(windows, columns);
  int layers = std::min(groups, kDirectThreads / columns);
  while (layers > 1 && blocks * DivideUp(groups, layers) < sms) layers = (layers + 1) / 2;
  const int rows = std::min(p.out_height, (columns + p.out_width - 2) / p.out_width + 1) * 2 +
                   p.kernel_height - 1;
  const int64_t shared =
      (int64_t{layers} * way.filters * depth + int64_t{p.channels} * rows * p.width) *
      static_cast<int64_t>(sizeof(float));
  const int64_t grid_y = DivideUp(groups, layers);
  if (shared > kDirectShared || grid_y > 65535) return launch;
  launch.grid = dim3(static_cast<unsigned>(DivideUp(windows, columns)),
                     static_cast<unsigned>(grid_y), static_cast<unsigned>(p.batch));
  launch.threads = dim3(columns, layers);
  launch.shared = static_cast<int>(shared);
  launch.problem = p;
  launch.time = Time(way, blocks * grid_y, depth,
                     std::min(kDirectResident, kThreadsOfSm / (columns * layers)), shared, sms);
  launch.way = &way;
  return launch;
}

// Cuts the planes into strips and these into tiles, and returns how many tiles cover an image.
static int64_t Tile(Problem& p, int windows) {
  int64_t least = 0;
  for (int strip = std::min(p.out_width, 32); strip >= std::min(p.out_width, 4); --strip) {
    const int64_t strips = DivideUp(p.out_width, strip);
    const int64_t tiles = DivideUp(int64_t{strip} * p.out_height, windows);
    if (least != 0 && strips * tiles >= least) continue;
    least = strips * tiles;
    p.strip = strip;
    p.strips = static_cast<int>(strips);
    p.tiles = static_cast<int>(tiles);
  }
  p.pitch = p.strip * 2 + p.kernel_width - 1;
  p.rows = std::min(p.out_height, (windows + p.strip - 2) / p.strip + 1) * 2 + p.kernel_height - 1;
  p.slots = p.rows * p.pitch;
  return least;
}

// The same for Convolve, which cannot where a block's rows of x are too large for shared memory.
static Launch PlanConvolve(const Way& way, const Problem& problem, int sms) {
  Launch launch;
  Problem& p = launch.problem = problem;
  if (p.taps > kMaxTaps) return launch;
  p.chunks = static_cast<int>(DivideUp(p.channels, kDepth));
  p.tiles_n = static_cast<int>(DivideUp(p.out_channels, way.filters));
  p.padded_channels = p.tiles_n * way.filters;
  const int64_t blocks = p.batch * p.tiles_n * Tile(p, way.windows);
  const int64_t shared =
      int64_t{p.slots} * (kUnits * sizeof(uint4) + kDepth * sizeof(float) + sizeof(int)) +
      kStages * kGroup * way.filters * kUnits * sizeof(uint4);
  if (shared > kMaxShared || blocks > INT32_MAX) return launch;
  for (int tap = 0; tap < p.taps; ++tap) {
    p.offsets[tap] = tap / p.kernel_width * p.pitch + tap % p.kernel_width;
  }
  launch.grid = dim3(static_cast<unsigned>(blocks));
  launch.threads = dim3(kConvolveThreads);
  launch.shared = static_cast<int>(shared);
  launch.time =
      Time(way, blocks, int64_t{p.chunks} * p.taps, way.filters < 64 ? 3 : 2, shared, sms);
  launch.way = &way;
  return launch;
}

// The launch by kWay, or by the way that the model holds for the fastest; none if no way can.
static Launch Plan(const Problem& p, int sms) {
  Launch best;
  for (const Way& way : kWays) {
    if (kWay != 0 && &way != &kWays[std::max(kWay - 1, 0)]) continue;
    const Launch launch = way.is_direct ? PlanDirect(way, p, sms) : PlanConvolve(way, p, sms);
    if (launch.way != nullptr && launch.time < best.time) best = launch;
  }
  return best;
}

static auto DirectOf(const Launch& launch) {
  const bool three = launch.problem.kernel_width == 3;
  switch (launch.way->filters) {
    case 2:
      return three ? Direct<3, 2> : Direct<5, 2>;
    case 4:
      return three ? Direct<3, 4> : Direct<5, 4>;
    default:
      return three ? Direct<3, 8> : Direct<5, 8>;
  }
}

static auto ConvolveOf(const Way& way) {
  const bool small = way.windows == kConvolveWarps * 4;
  switch (way.filters) {
    case 16:
      return small ? Convolve<1, 2> : Convolve<2, 2>;
    case 32:
      return small ? Convolve<1, 4> : Convolve<2, 4>;
    default:
      return small ? Convolve<1, 8> : Convolve<2, 8>;
  }
}

// Prepares the filters, then convolves; the second launch may begin before the first has ended.
static void RunConvolve(Launch& launch, const torch::Tensor& x, cudaStream_t stream) {
  Problem& p = launch.problem;
  const int64_t bytes = int64_t{p.chunks} * p.taps * p.padded_channels * kUnits * sizeof(uint4);
  auto prepared = torch::empty({bytes}, x.options().dtype(torch::kUInt8));
  auto unscales = torch::empty({p.padded_channels}, x.options());
  p.filters = reinterpret_cast<const uint4*>(prepared.data_ptr<uint8_t>());
  p.unscales = unscales.data_ptr<float>();
  PrepareFilters<<<p.padded_channels, kPrepareThreads, 0, stream>>>(
      p.weights, reinterpret_cast<uint4*>(prepared.data_ptr<uint8_t>()), unscales.data_ptr<float>(),
      p.channels, p.taps, p.chunks, p.out_channels);
  const auto kernel = ConvolveOf(*launch.way);
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared));
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = launch.grid;
  config.blockDim = launch.threads;
  config.dynamicSmemBytes = static_cast<size_t>(launch.shared);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, p));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each output channel");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.size(2) > weights.size(2) && x.size(3) > weights.size(3),
              "x is too small for one pooled output");
  TORCH_CHECK(x.size(2) * x.size(3) <= INT32_MAX, "planes of more than 2^31 elements");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  Problem p = {};
  p.batch = static_cast<int>(x.size(0));
  p.channels = static_cast<int>(x.size(1));
  p.height = static_cast<int>(x.size(2));
  p.width = static_cast<int>(x.size(3));
  p.out_channels = static_cast<int>(weights.size(0));
  p.kernel_height = static_cast<int>(weights.size(2));
  p.kernel_width = static_cast<int>(weights.size(3));
  p.taps = p.kernel_height * p.kernel_width;
  p.out_height = (p.height - p.kernel_height + 1) / 2;
  p.out_width = (p.width - p.kernel_width + 1) / 2;
  auto y = torch::empty({p.batch, p.out_channels, p.out_height, p.out_width}, x.options());
  if (y.numel() == 0) return y;
  p.x = x.data_ptr<float>();
  p.weights = weights.data_ptr<float>();
  p.biases = biases.data_ptr<float>();
  p.y = y.data_ptr<float>();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  Launch launch = Plan(p, sms);
  if (launch.way != nullptr && launch.way->is_direct) {
    DirectOf(launch)<<<launch.grid, launch.threads, launch.shared, stream>>>(launch.problem);
    return y;
  }
  if (launch.way != nullptr) {
    RunConvolve(launch, x, stream);
    return y;
  }
  ConvolveAny<<<static_cast<unsigned>(DivideUp(y.numel(), kPrepareThreads)), kPrepareThreads, 0,
                stream>>>(y.numel(), p);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Convolution, ReLU and max pooling");
}
