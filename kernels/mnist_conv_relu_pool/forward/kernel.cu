// Convolution (no padding, stride 1), ReLU and 2x2 max pooling in one. Two ways, which the host
// chooses between by the depth of a sum.
//
// Few products (Direct): a thread computes a window of four sums for four filters from its own
// patch of x in registers; a filter's four neighbours are one 16-byte load for all. The time is one
// trip to memory; blocks are as small as it takes to occupy every SM.
//
// Many products (Convolve): tensor cores with float32's accuracy. Each number, times a power of two
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
#include <cstdint>

constexpr int kDirectDepth =
    64;  // tune: kDirectDepth in 64, 128, 512  (products for which Direct is used)
constexpr int kDirectThreads = 256;  // tune: kDirectThreads in 128, 256, 512  (at most)
constexpr int kPer = 4;              // filters of a thread of Direct

constexpr int kStages = 3;   // tune: kStages in 2, 3, 4
constexpr int kGroup = 3;    // tune: kGroup in 1, 3  (places of the filter in a stage)
constexpr int kDepth = 16;   // channels of a chunk, the depth of one matrix instruction
constexpr int kUnits = 4;    // of 16 bytes, in a record: two of large halves, two of small ones
constexpr int kColumns = 4;  // matrices of eight filters that a warp multiplies
constexpr int kPrepareThreads = 256;
constexpr int kMaxTaps = 64;            // places of a filter
constexpr int kMaxShared = 110 * 1024;  // two blocks on an SM

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
template <int kKernel>
__global__ void __launch_bounds__(kDirectThreads) Direct(const __grid_constant__ Problem p) {
  constexpr int kTaps = kKernel * kKernel;
  constexpr int kSide = kKernel + 1;  // of the patch below a window
  extern __shared__ uint4 memory[];
  float4* const filters = reinterpret_cast<float4*>(memory);  // [groups][channels * kTaps]
  const int depth = p.channels * kTaps;
  float* const rows = reinterpret_cast<float*>(filters + blockDim.y * depth);

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
    CopyFloat(reinterpret_cast<float*>(filters) + (filter / kPer * depth + i % depth) * kPer +
                  filter % kPer,
              p.weights + at, valid);
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
  const float4* places = filters + threadIdx.y * depth;
  for (int c = 0; c < p.channels; ++c, corner += elements, places += kTaps) {
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
        const float4 four = places[i * kKernel + j];
        const float by_filter[kPer] = {four.x, four.y, four.z, four.w};
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

// kRows matrices of 16 outputs for each warp, kWarpsM x kWarpsN warps.
template <int kRows, int kWarpsM, int kWarpsN, int kBlocks>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32, kBlocks)
    Convolve(const __grid_constant__ Problem p) {
  constexpr int kThreads = kWarpsM * kWarpsN * 32;
  constexpr int kFilters = kWarpsN * kColumns * 8;
  constexpr int kWindows = kWarpsM * kRows * 4;
  constexpr int kStageUnits = kGroup * kFilters * kUnits;
  extern __shared__ uint4 memory[];
  __shared__ float maxima[kThreads / 32];
  uint4* const records = memory;                   // [slots][kUnits]
  uint4* const ring = records + p.slots * kUnits;  // [kStages][kStageUnits]
  float* const raw = reinterpret_cast<float*>(ring + kStages * kStageUnits);  // [kDepth][slots]
  int* const places = reinterpret_cast<int*>(raw + kDepth * p.slots);  // in a plane, or -1: [slots]

  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32 % kWarpsM;
  const int warp_n = threadIdx.x / 32 / kWarpsM;
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
    const int window = min(first_window + (warp_m * kRows + i) * 4 + lane % 8 / 2, last_window);
    slots[i] = ((window / p.strip - first_row) * 2 + lane / 8 % 2) * p.pitch +
               window % p.strip * 2 + lane % 2;
  }
  const uint32_t records_at = SharedAddress(records);
  const uint32_t filters_at =
      SharedAddress(ring + Swizzled(warp_n * kColumns * 8 + lane % 8, lane / 8));

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
    if (lane == 0) maxima[threadIdx.x / 32] = largest;
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
      const int filter = first_filter + (warp_n * kColumns + j) * 8 + lane % 4 * 2;
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
    const int window = first_window + (warp_m * kRows + i) * 4 + lane / 8;
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
      const int filter = first_filter + (warp_n * kColumns + j) * 8 + lane % 4 * 2 + own;
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

// Starts Direct if the kernel's size is one of those that it knows and the rows of x fit.
static bool TryDirect(const Problem& p, int sms, cudaStream_t stream) {
  if (p.kernel_height != p.kernel_width || (p.kernel_width != 3 && p.kernel_width != 5))
    return false;
  const int depth = p.channels * p.taps;
  if (depth > kDirectDepth || p.batch > 65535) return false;
  // As many threads side by side as windows make whole warps, then filters on top, while there is a
  // block for each SM.
  const int windows = p.out_height * p.out_width;
  const int groups = static_cast<int>(DivideUp(p.out_channels, kPer));
  const int columns = static_cast<int>(DivideUp(windows, DivideUp(windows, kDirectThreads)));
  const int64_t blocks = p.batch * DivideUp(windows, columns);
  int layers = std::min(groups, kDirectThreads / columns);
  while (layers > 1 && blocks * DivideUp(groups, layers) < sms) layers = (layers + 1) / 2;
  const int rows = std::min(p.out_height, (columns + p.out_width - 2) / p.out_width + 1) * 2 +
                   p.kernel_height - 1;
  const int64_t shared = (int64_t{layers} * kPer * depth + int64_t{p.channels} * rows * p.width) *
                         static_cast<int64_t>(sizeof(float));
  const int64_t grid_y = DivideUp(groups, layers);
  if (shared > 48 * 1024 || grid_y > 65535) return false;
  const dim3 grid(static_cast<unsigned>(DivideUp(windows, columns)), static_cast<unsigned>(grid_y),
                  static_cast<unsigned>(p.batch));
  const auto kernel = p.kernel_width == 3 ? Direct<3> : Direct<5>;
  kernel<<<grid, dim3(columns, layers), shared, stream>>>(p);
  return true;
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
  for (int tap = 0; tap < p.taps && tap < kMaxTaps; ++tap) {
    p.offsets[tap] = tap / p.kernel_width * p.pitch + tap % p.kernel_width;
  }
  return least;
}

// A launch that may begin before the one in front of it has ended.
template <typename... Parameters, typename... Arguments>
static void LaunchEarly(void (*kernel)(Parameters...), int64_t blocks, int threads, int64_t shared,
                        cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

template <int kRows, int kWarpsM, int kWarpsN, int kBlocks>
static void Launch(const Problem& p, int shared, cudaStream_t stream) {
  const auto kernel = Convolve<kRows, kWarpsM, kWarpsN, kBlocks>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  const int64_t blocks = int64_t{p.batch} * p.strips * p.tiles * p.tiles_n;
  LaunchEarly(kernel, blocks, kWarpsM * kWarpsN * 32, shared, stream, p);
}

// Starts Convolve unless a block's rows of x are too large for shared memory.
static bool TryConvolve(Problem& p, int sms, const torch::Tensor& x, cudaStream_t stream) {
  constexpr int kFilters = 32;  // of a tile
  p.chunks = static_cast<int>(DivideUp(p.channels, kDepth));
  p.tiles_n = static_cast<int>(DivideUp(p.out_channels, kFilters));
  p.padded_channels = p.tiles_n * kFilters;
  // The larger tile if there are two for every SM.
  int windows = 32;
  if (p.batch * p.tiles_n * Tile(p, windows) < 2 * sms) windows = 16;
  Tile(p, windows);
  const int64_t shared =
      int64_t{p.slots} * (kUnits * sizeof(uint4) + kDepth * sizeof(float) + sizeof(int)) +
      kStages * kGroup * kFilters * kUnits * sizeof(uint4);
  if (p.taps > kMaxTaps || shared > kMaxShared) return false;
  const int64_t bytes = int64_t{p.chunks} * p.taps * p.padded_channels * kUnits * sizeof(uint4);
  auto prepared = torch::empty({bytes}, x.options().dtype(torch::kUInt8));
  auto unscales = torch::empty({p.padded_channels}, x.options());
  p.filters = reinterpret_cast<const uint4*>(prepared.data_ptr<uint8_t>());
  p.unscales = unscales.data_ptr<float>();
  PrepareFilters<<<p.padded_channels, kPrepareThreads, 0, stream>>>(
      p.weights, reinterpret_cast<uint4*>(prepared.data_ptr<uint8_t>()), unscales.data_ptr<float>(),
      p.channels, p.taps, p.chunks, p.out_channels);
  if (windows == 32) {
    Launch<2, 4, 1, 3>(p, static_cast<int>(shared), stream);
  } else {
    Launch<1, 4, 1, 3>(p, static_cast<int>(shared), stream);
  }
  return true;
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
  if (TryDirect(p, sms, stream) || TryConvolve(p, sms, x, stream)) return y;
  ConvolveAny<<<static_cast<unsigned>(DivideUp(y.numel(), kPrepareThreads)), kPrepareThreads, 0,
                stream>>>(y.numel(), p);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Convolution, ReLU and max pooling");
}
