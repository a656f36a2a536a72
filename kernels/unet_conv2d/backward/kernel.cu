// Gradients of a two-dimensional convolution of float32 on tensor cores, with float32's accuracy.
// Each number, times a power of two that brings the largest around it near 2^14, is the sum of two
// float16 (22 bits and a sign, and 2^-39 of the largest at worst); three products of float16, all
// but that of the two small halves, make one of float32. Tensor cores truncate their sums, so these
// are short: what a few hundred products came to is unscaled and added by ordinary fused
// multiply-adds.
//
// Prepare splits x, the gradient and the filters, into records of sixteen channels of one place:
// large halves, then small ones. Sixteen channels of an image, or of one filter, share a scale. The
// records of a plane come with zeros around them, in the order in which shared memory will have
// them, so that a row of a tile is one bulk copy. It also sums the gradient over planes, for the
// biases.
//
// Convolve makes the gradient of x, a convolution of the gradient with the filters turned around.
// Of a stride s, places of x form s * s classes that meet different places of the filter; a block
// takes a rectangle of one class and walks the output channels in chunks of sixteen; every place of
// the filter is a matrix product whose rows begin at another record.
//
// GradFilters multiplies, over places, the gradient of 64 output channels by x of 32 input
// channels, for up to nine places of the filter at once: these only shift x. A block has its share
// of all rectangles of places; AddParts adds the shares up, in order, and the bias gradients.
//
// What is too large for shared memory goes to plain kernels.
//
// Small problems, where four launches and the splitting would take longer than the products, are
// one launch of ordinary multiply-adds, GradSmall: some of its blocks make the gradient of x, the
// others those of the filters and biases.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kStages = 3;  // tune: kStages in 2, 3, 4  (of filters, in Convolve)
constexpr int kGroup = 3;   // tune: kGroup in 1, 3  (places of the filter in a stage)
constexpr int kTiles = 3;   // tune: kTiles in 2, 3  (stages of GradFilters)
constexpr int kTogether =
    2;  // tune: kTogether in 1, 2, 4  (stages whose sums stay in tensor cores)
constexpr int kTilePlaces = 64;  // tune: kTilePlaces in 32, 64, 128  (of such a stage)
constexpr int kDepth = 16;       // channels of a record
constexpr int kUnits = 4;        // of 16 bytes, in a record: two of large halves, two of small ones
constexpr int kRecord = kUnits * 16;
constexpr int kColumns = 4;    // matrices of eight channels that a warp of Convolve multiplies
constexpr int kFilters = 64;   // channels of x in a tile of Convolve
constexpr int kOuts = 64;      // output channels in a tile of GradFilters
constexpr int kIns = 32;       // input channels there
constexpr int kPlaces = 9;     // places of the filter there, at most
constexpr int kThreads = 128;  // of a team in Convolve
constexpr int kFilterThreads = 256;   // of GradFilters
constexpr int kPrepareThreads = 512;  // tune: kPrepareThreads in 256, 512, 1024
constexpr int kHeld = 2;              // tune: kHeld in 1, 2, 4  (places of a thread in registers)
constexpr int kAddThreads = 256;
constexpr int kMaxTaps = 64;  // places of a filter
constexpr int kMaxClasses = 16;
constexpr int kMaxShared = 220 * 1024;
constexpr int kSmallThreads = 256;
constexpr int64_t kSmallProducts = 4 << 20;  // at most, for a gradient

struct Shape {
  int batch, channels, height, width;
  int out_channels, kernel_height, kernel_width, taps;
  int stride, padding;
  int out_height, out_width;
};

__host__ __device__ int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A tensor of planes as records. Those of sixteen channels of one image are a sheet: rows with
// zeros around them, whose columns lie apart by their remainder of `stride`:
// [rows][stride][columns].
struct Sheets {
  int channels, height, width;  // of the tensor
  int chunks;                   // sheets of an image
  int stride;
  int top, left;  // zeros before
  int rows, columns;

  __host__ __device__ int64_t Size() const { return int64_t{rows} * stride * columns; }
};

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void InitBarrier(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(barrier)) : "memory");
}

// A launch may begin before the one in front of it has ended, and waits for its results here.
__device__ void WaitForLaunchBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void LetNextLaunchBegin() { asm volatile("griddepcontrol.launch_dependents;"); }

// The barrier's phase ends when so many bytes have been copied.
__device__ void ExpectBytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ void Wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n  .reg .pred p;\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "  selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
}

__device__ void CopyBytes(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

// Makes barriers that one thread has set up known to all, and to the copies.
__device__ void PublishBarriers() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
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
      const float root = static_cast<float>(uint64_t{1} << (e / 2));
      const float power = e == 1 ? 2.0f : root * root;
      if (largest * scale >= power * 0x1p14f) scale *= 1 / power;
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

// The largest of the block's, to all threads.
__device__ float BlockMax(float value) {
  __shared__ float maxima[kPrepareThreads / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  }
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = value;
  __syncthreads();
  for (const float maximum : maxima) value = fmaxf(value, maximum);
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

// Unit `unit` of a record lies at unit ^ Turn(column): eight neighbours have theirs in different
// banks.
__device__ int Turn(int column) { return column >> 1 & (kUnits - 1); }

// value(k) for k in 0 to 15, as the record of a column.
template <class Value>
__device__ void StoreRecord(uint4* record, int column, float scale, Value value) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint4 large, small;
    Split(value(half * 8), value(half * 8 + 1), scale, large.x, small.x);
    Split(value(half * 8 + 2), value(half * 8 + 3), scale, large.y, small.y);
    Split(value(half * 8 + 4), value(half * 8 + 5), scale, large.z, small.z);
    Split(value(half * 8 + 6), value(half * 8 + 7), scale, large.w, small.w);
    record[half ^ Turn(column)] = large;
    record[(half + 2) ^ Turn(column)] = small;
  }
}

// One sheet, by one block. sums: of each channel, if asked for.
template <bool kSums>
__device__ void SplitSheet(const Sheets& s, int sheet, const float* tensor, uint4* records,
                           float* unscales, float* sums) {
  const int chunk = sheet % s.chunks;
  const int channels = min(kDepth, s.channels - chunk * kDepth);
  const int places = s.height * s.width;
  const float* source =
      tensor + (static_cast<int64_t>(sheet / s.chunks) * s.channels + chunk * kDepth) * places;
  records += sheet * s.Size() * kUnits;
  const auto load = [=](int place, int k) {
    return k < channels ? source[static_cast<int64_t>(k) * places + place] : 0.0f;
  };
  const auto store = [=](int place, float scale, auto value) {
    const int row = place / s.width + s.top;
    const int column = place % s.width + s.left;
    if (row >= s.rows || column / s.stride >= s.columns) return;  // no window meets it
    const int at = (row * s.stride + column % s.stride) * s.columns + column / s.stride;
    StoreRecord(records + static_cast<int64_t>(at) * kUnits, column / s.stride, scale, value);
  };

  // What small planes hold stays in registers, the rest of large ones is read twice.
  float held[kHeld][kDepth];
  float largest = 0;
  float totals[kDepth] = {};
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int place = threadIdx.x + j * kPrepareThreads;
#pragma unroll
    for (int k = 0; k < kDepth; ++k) held[j][k] = place < places ? load(place, k) : 0;
  }
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      largest = fmaxf(largest, Magnitude(held[j][k]));
      if (kSums) totals[k] += held[j][k];
    }
  }
  for (int place = threadIdx.x + kHeld * kPrepareThreads; place < places;
       place += kPrepareThreads) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float value = load(place, k);
      largest = fmaxf(largest, Magnitude(value));
      if (kSums) totals[k] += value;
    }
  }
  if (kSums) {
    __shared__ float of_warps[kPrepareThreads / 32][kDepth];
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        totals[k] += __shfl_xor_sync(~0u, totals[k], distance);
      }
      if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][k] = totals[k];
    }
    __syncthreads();
    if (threadIdx.x < kDepth) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kPrepareThreads / 32; ++warp) sum += of_warps[warp][threadIdx.x];
      sums[sheet * kDepth + threadIdx.x] = sum;
    }
  }
  const float scale = Scale(BlockMax(largest));
  if (threadIdx.x == 0) unscales[sheet] = 1 / scale;
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int place = threadIdx.x + j * kPrepareThreads;
    if (place < places) store(place, scale, [&](int k) { return held[j][k]; });
  }
  for (int place = threadIdx.x + kHeld * kPrepareThreads; place < places;
       place += kPrepareThreads) {
    store(place, scale, [=](int k) { return load(place, k); });
  }
  for (int i = threadIdx.x; i < static_cast<int>(s.Size()); i += kPrepareThreads) {
    const int column = i % s.columns * s.stride + i / s.columns % s.stride - s.left;
    const int row = i / s.columns / s.stride - s.top;
    if (row >= 0 && row < s.height && column >= 0 && column < s.width) continue;
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) records[i * int64_t{kUnits} + unit] = {0, 0, 0, 0};
  }
}

// The filters, as a convolution of `inputs` channels to `outputs` has them.
struct Filters {
  int inputs, outputs;
  int chunks;
  int64_t input_step, output_step;  // in the tensor; places of a filter lie side by side
  int taps;
  int order[kMaxTaps];  // places of a filter, as they will be needed
};

// One output channel, by one block; also those that only fill a tile, with zeros.
// prepared: [tiles][chunks][taps][kFilters][kUnits].
__device__ void SplitFilter(const Filters& f, int output, const float* weights, uint4* prepared,
                            float* unscales) {
  const bool exists = output < f.outputs;
  const float* source = weights + output * f.output_step;
  float largest = 0;
  if (exists) {
#pragma unroll 4
    for (int i = threadIdx.x; i < f.inputs * f.taps; i += kPrepareThreads) {
      largest = fmaxf(largest, Magnitude(source[i / f.taps * f.input_step + i % f.taps]));
    }
  }
  const float scale = Scale(BlockMax(largest));
  if (threadIdx.x == 0) unscales[output] = 1 / scale;
  const int of_tile = output % kFilters;
  prepared += static_cast<int64_t>(output / kFilters) * f.chunks * f.taps * kFilters * kUnits;
  for (int i = threadIdx.x; i < f.chunks * f.taps; i += kPrepareThreads) {
    const int input = i / f.taps * kDepth;
    const int tap = f.order[i % f.taps];
    StoreRecord(prepared + (static_cast<int64_t>(i) * kFilters + of_tile) * kUnits, of_tile, scale,
                [=](int k) {
                  return exists && input + k < f.inputs ? source[(input + k) * f.input_step + tap]
                                                        : 0.0f;
                });
  }
}

// Outputs whose row and column leave given remainders of `step`, and what meets them.
struct Class {
  int row, column;              // the first of them
  int rows, columns;            // how many
  int first_tap, taps;          // places of the filter
  int first_row, first_column;  // of the sheet, where the first of them begins
};

struct Problem {
  Sheets in;
  const uint4* records;
  const float* unscales;
  const uint4* filters;  // prepared
  const float* filter_unscales;
  const float* biases;  // or null
  float* out;
  int batch, outputs, height, width;  // of out
  int teams;
  int step;  // between neighbours of a class
  int taps;
  // A block's outputs, a power of two of columns, and the part of a sheet that they need.
  int tile_columns, tile_rows, tiles_x, tiles_y, tiles_n;
  int window_rows, window_columns;
  int classes;
  Class of[kMaxClasses];
  int offsets[kMaxTaps];  // from an output's first record to that below a place of the filter
  int shifts[kMaxTaps];   // and how many columns that is to the right
};

// Stages of filters, fewer where many teams need their own.
__host__ __device__ constexpr int StagesOf(int teams) { return teams > 2 ? 2 : kStages; }

// Waits for the other warps of a team.
__device__ void SyncTeam(int team) {
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kThreads) : "memory");
}

// A block is kTeams teams of two by two warps; each has its share of the chunks and works by itself
// until their sums are added. A warp has kRows matrices of 16 outputs.
template <int kRows, int kTeams>
__global__ void __launch_bounds__(kThreads* kTeams, kTeams == 1 ? 2 : 1)
    Convolve(const __grid_constant__ Problem p) {
  constexpr int kTapBytes = kFilters * kRecord;
  constexpr int kSlots = StagesOf(kTeams);
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ uint64_t barriers[kTeams][kSlots + 2];
  const int lines = p.window_rows * p.in.stride;
  const int window_bytes = lines * p.window_columns * kRecord;
  const int team = threadIdx.x / kThreads;
  uint64_t* const filters_here = barriers[team];
  uint64_t* const windows_here = barriers[team] + kSlots;
  // [kSlots][kGroup][kFilters] records, then [2][lines][window_columns].
  uint8_t* const ring = memory + team * (kSlots * kGroup * kTapBytes + 2 * window_bytes);
  uint8_t* const windows = ring + kSlots * kGroup * kTapBytes;

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x % kThreads / 32;
  const int warp_m = warp % 2;
  const int warp_n = warp / 2;
  const int tile_n = static_cast<int>(blockIdx.x) % p.tiles_n;
  int tile = static_cast<int>(blockIdx.x) / p.tiles_n;
  const int first_column = tile % p.tiles_x * p.tile_columns;
  tile /= p.tiles_x;
  const int first_row = tile % p.tiles_y * p.tile_rows;
  tile /= p.tiles_y;
  const int image = tile % p.batch;
  const Class& of = p.of[tile / p.batch];
  if (first_row >= of.rows || first_column >= of.columns) return;
  const int taps = of.taps;
  const int groups = (taps + kGroup - 1) / kGroup;
  // Those of the team: first, first + kTeams and so on.
  const int first_chunk = team;
  const int chunks = taps > 0 ? (p.in.chunks - first_chunk + kTeams - 1) / kTeams : 0;
  const int stages = chunks * groups;
  const int sheet_column = of.first_column + first_column;

  const uint4* const sheets =
      p.records +
      (image * p.in.chunks * p.in.Size() +
       static_cast<int64_t>(of.first_row + first_row * p.in.stride) * p.in.stride * p.in.columns +
       sheet_column) *
          kUnits;
  const uint4* const filters =
      p.filters +
      (static_cast<int64_t>(tile_n) * p.in.chunks * p.taps + of.first_tap) * kFilters * kUnits;
  // Both by the team's first warp.
  const auto load_windows = [&](int chunk) {
    uint64_t* barrier = windows_here + chunk % 2;
    if (lane == 0) ExpectBytes(barrier, window_bytes);
    __syncwarp();
    for (int line = lane; line < lines; line += 32) {
      CopyBytes(
          windows + chunk % 2 * window_bytes + line * p.window_columns * kRecord,
          sheets + ((first_chunk + chunk * kTeams) * p.in.Size() + int64_t{line} * p.in.columns) *
                       kUnits,
          p.window_columns * kRecord, barrier);
    }
  };
  const auto load_stage = [&](int chunk, int group, int slot) {
    if (lane != 0) return;
    const int bytes = min(kGroup, taps - group * kGroup) * kTapBytes;
    ExpectBytes(filters_here + slot, bytes);
    CopyBytes(
        ring + slot * kGroup * kTapBytes,
        filters + (static_cast<int64_t>(first_chunk + chunk * kTeams) * p.taps + group * kGroup) *
                      kFilters * kUnits,
        bytes, filters_here + slot);
  };
  // The stage that will be loaded next.
  int next_chunk = 0;
  int next_group = 0;
  const auto load_next = [&](int slot) {
    if (next_chunk >= chunks) return;
    load_stage(next_chunk, next_group, slot);
    if (++next_group == groups) {
      next_group = 0;
      ++next_chunk;
    }
  };

  if (threadIdx.x == 0) {
    for (auto& of_team : barriers) {
      for (uint64_t& barrier : of_team) InitBarrier(&barrier);
    }
  }
  PublishBarriers();
  LetNextLaunchBegin();
  WaitForLaunchBefore();
  if (warp == 0) {
    for (int chunk = 0; chunk < min(2, chunks); ++chunk) load_windows(chunk);
    for (int slot = 0; slot < min(kSlots, stages); ++slot) load_next(slot);
  }

  // This lane's rows of the matrices that its warp loads.
  uint32_t rows_at[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int place = (warp_m * kRows + i) * 16 + lane % 16;
    rows_at[i] = SharedAddress(windows) +
                 (place / p.tile_columns * p.in.stride * p.in.stride * p.window_columns +
                  place % p.tile_columns) *
                     kRecord;
  }
  const int b_row = warp_n * kColumns * 8 + lane % 8;
  const uint32_t filters_at =
      SharedAddress(ring) + b_row * kRecord + ((lane / 8) ^ Turn(b_row)) * sizeof(uint4);

  float sums[kRows][kColumns][4] = {};
  int slot = 0;
  uint32_t parity = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float unscale = __ldg(p.unscales + image * p.in.chunks + first_chunk + chunk * kTeams);
    Wait(windows_here + chunk % 2, chunk / 2 % 2);
    const uint32_t window_at = chunk % 2 * window_bytes;
    float parts[kRows][kColumns][4] = {};
    for (int group = 0; group < groups; ++group) {
      Wait(filters_here + slot, parity);
      const uint32_t slot_at = filters_at + slot * kGroup * kTapBytes;
#pragma unroll
      for (int in_group = 0; in_group < kGroup; ++in_group) {
        const int tap = group * kGroup + in_group;
        if (tap >= taps) break;
        uint32_t large[kRows][4], small[kRows][4], b[kColumns][4];
        const int shift = p.shifts[of.first_tap + tap];
        const uint32_t unit = ((lane / 16) ^ Turn(sheet_column + lane + shift)) * sizeof(uint4);
        const uint32_t at = window_at + p.offsets[of.first_tap + tap] * kRecord;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          LoadMatrices(large[i], rows_at[i] + (at + unit));
          LoadMatrices(small[i], rows_at[i] + (at + (unit ^ 2 * sizeof(uint4))));
        }
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          LoadMatrices(b[j], slot_at + in_group * kTapBytes + j * 8 * kRecord);
        }
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
      SyncTeam(team);  // nobody reads this stage any more
      if (warp == 0) {
        load_next(slot);
        if (group + 1 == groups && chunk + 2 < chunks) load_windows(chunk + 2);
      }
      if (++slot == kSlots) {
        slot = 0;
        parity ^= 1;
      }
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int output = tile_n * kFilters + (warp_n * kColumns + j) * 8 + lane % 4 * 2;
      const float left = unscale * __ldg(p.filter_unscales + output);
      const float right = unscale * __ldg(p.filter_unscales + output + 1);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][j][k] += parts[i][j][k] * (k % 2 == 0 ? left : right);
      }
    }
  }

  if (kTeams > 1) {
    // [kTeams - 1][kRows * kColumns * 4][kThreads], in the order of teams.
    float* const others = reinterpret_cast<float*>(memory) + threadIdx.x % kThreads;
    __syncthreads();
    if (team > 0) {
#pragma unroll
      for (int k = 0; k < kRows * kColumns * 4; ++k) {
        others[((team - 1) * kRows * kColumns * 4 + k) * kThreads] =
            sums[k / 4 / kColumns][k / 4 % kColumns][k % 4];
      }
    }
    __syncthreads();
    if (team > 0) return;
#pragma unroll
    for (int other = 0; other < kTeams - 1; ++other) {
#pragma unroll
      for (int k = 0; k < kRows * kColumns * 4; ++k) {
        sums[k / 4 / kColumns][k / 4 % kColumns][k % 4] +=
            others[(other * kRows * kColumns * 4 + k) * kThreads];
      }
    }
  }

  const int64_t plane = static_cast<int64_t>(p.height) * p.width;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = (warp_m * kRows + i) * 16 + half * 8 + lane / 4;
      const int row = first_row + place / p.tile_columns;
      const int column = first_column + place % p.tile_columns;
      if (row >= of.rows || column >= of.columns) continue;
      float* to = p.out + image * p.outputs * plane +
                  static_cast<int64_t>(of.row + row * p.step) * p.width + of.column +
                  column * p.step;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int output = tile_n * kFilters + (warp_n * kColumns + j) * 8 + lane % 4 * 2 + k;
          if (output >= p.outputs) continue;
          const float bias = p.biases != nullptr ? __ldg(p.biases + output) : 0;
          to[output * plane] = sums[i][j][half * 2 + k] + bias;
        }
      }
    }
  }
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

// The same with the largest rectangle of which there are two for every SM, or one with two teams,
// or any with four.
static void TileForAll(Problem& p, int64_t planes, int height, int width) {
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  for (int places = 128; places >= 32; places /= 2) {
    const int64_t blocks = planes * p.tiles_n * Tile(p, places, height, width);
    p.teams = 1;
    if (blocks * 4 >= sms * 7) return;
    p.teams = places == 64 ? 2 : 4;
    if (places == 64 && blocks * 4 >= sms * 3) return;
  }
}

static int64_t SharedBytes(const Problem& p) {
  return kRecord * p.teams *
         (int64_t{StagesOf(p.teams)} * kGroup * kFilters +
          int64_t{2} * p.window_rows * p.in.stride * p.window_columns);
}

// A launch that may begin before the one in front of it has ended.
template <typename... Parameters, typename... Arguments>
static void Launch(void (*kernel)(Parameters...), dim3 grid, dim3 threads, int64_t shared,
                   const Arguments&... arguments) {
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)));
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &early;
  config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

static void LaunchConvolve(const Problem& p) {
  const int places = p.tile_columns * p.tile_rows;
  const int64_t blocks = int64_t{p.batch} * p.classes * p.tiles_x * p.tiles_y * p.tiles_n;
  const auto kernel = places == 128  ? Convolve<4, 1>
                      : places == 64 ? (p.teams == 1 ? Convolve<2, 1> : Convolve<2, 2>)
                      : p.teams == 1 ? Convolve<1, 1>
                      : p.teams == 2 ? Convolve<1, 2>
                                     : Convolve<1, 4>;
  Launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads * p.teams), SharedBytes(p), p);
}

static torch::Tensor Records(int64_t count, const torch::Tensor& like) {
  return torch::empty({count * kRecord}, like.options().dtype(torch::kUInt8));
}

struct Sources {
  Sheets x_sheets, gradient_sheets;
  Filters shape;
  const float *x, *gradient, *weights;
  uint4 *x_records, *gradient_records, *filters;
  float *x_unscales, *gradient_unscales, *filter_unscales;
  float* plane_sums;  // [batch][gradient's chunks * kDepth]
  int batch, padded;  // channels of x, to whole tiles
};

// Blocks for filters, for chunks of the gradient, and for those of x.
__global__ void __launch_bounds__(kPrepareThreads, 2) Prepare(const __grid_constant__ Sources p) {
  LetNextLaunchBegin();
  int block = blockIdx.x;
  if (block < p.padded) {
    SplitFilter(p.shape, block, p.weights, p.filters, p.filter_unscales);
    return;
  }
  block -= p.padded;
  if (block < p.batch * p.gradient_sheets.chunks) {
    SplitSheet<true>(p.gradient_sheets, block, p.gradient, p.gradient_records, p.gradient_unscales,
                     p.plane_sums);
    return;
  }
  block -= p.batch * p.gradient_sheets.chunks;
  SplitSheet<false>(p.x_sheets, block, p.x, p.x_records, p.x_unscales, nullptr);
}

struct FilterProblem {
  Sheets x_sheets, gradient_sheets;
  const uint4 *x, *gradient;
  const float *x_unscales, *gradient_unscales;
  float* parts;  // [shares][taps][out_channels][channels]
  int batch, taps;
  // A stage's places, a power of two of columns, and the part of x that they meet.
  int tile_columns, tile_rows, tiles_x, tiles_y;
  int window_rows, window_columns;
  int shares;
  int offsets[kMaxTaps];  // from a place's first record of x to that below a place of the filter
  int shifts[kMaxTaps];   // and how many columns that is to the right
};

// Blocks are (tile of input and output channels, places of the filter, share). Of eight warps, two
// divide the output channels, four the input channels.
__global__ void __launch_bounds__(kFilterThreads, 1)
    GradFilters(const __grid_constant__ FilterProblem p) {
  constexpr int kOutChunks = kOuts / kDepth;
  constexpr int kInChunks = kIns / kDepth;
  constexpr int kGradientBytes = kTilePlaces * kRecord;  // of a chunk
  extern __shared__ __align__(128) uint8_t memory[];
  __shared__ uint64_t tiles_here[kTiles];
  const Sheets& xs = p.x_sheets;
  const Sheets& gs = p.gradient_sheets;
  const int lines = p.window_rows * xs.stride;
  const int x_bytes = lines * p.window_columns * kRecord;  // of a chunk
  const int stage_bytes = kOutChunks * kGradientBytes + kInChunks * x_bytes;
  // Each stage: the gradient [kOutChunks][kTilePlaces], then x [kInChunks][lines][window_columns].

  const int lane = threadIdx.x % 32;
  const int warp_o = threadIdx.x / 32 % 2;
  const int warp_i = threadIdx.x / 64;
  const int tiles_i = (xs.channels + kIns - 1) / kIns;
  const int first_in = static_cast<int>(blockIdx.x) % tiles_i * kIns;
  const int first_out = static_cast<int>(blockIdx.x) / tiles_i * kOuts;
  const int first_tap = blockIdx.y * kPlaces;
  const int taps = min(kPlaces, p.taps - first_tap);
  const int tiles = p.batch * p.tiles_x * p.tiles_y;
  const int first_tile = static_cast<int>(static_cast<int64_t>(tiles) * blockIdx.z / p.shares);
  const int end_tile = static_cast<int>(static_cast<int64_t>(tiles) * (blockIdx.z + 1) / p.shares);
  // Chunks that do not exist are stood in for by the last one; nobody asks for what comes of them.
  const auto out_chunk = [&](int k) { return min(first_out / kDepth + k, gs.chunks - 1); };
  const auto in_chunk = [&](int k) { return min(first_in / kDepth + k, xs.chunks - 1); };

  // By the first warp.
  const auto load_tile = [&](int tile) {
    const int stage = (tile - first_tile) % kTiles;
    uint64_t* barrier = tiles_here + stage;
    uint8_t* to = memory + stage * stage_bytes;
    const int column = tile % p.tiles_x * p.tile_columns;
    const int row = tile / p.tiles_x % p.tiles_y * p.tile_rows;
    const int64_t image = tile / p.tiles_x / p.tiles_y;
    if (lane == 0) ExpectBytes(barrier, stage_bytes);
    __syncwarp();
    const int64_t gradient_at = static_cast<int64_t>(gs.top + row) * gs.columns + gs.left + column;
    for (int i = lane; i < kOutChunks * p.tile_rows; i += 32) {
      const int64_t at = (image * gs.chunks + out_chunk(i / p.tile_rows)) * gs.Size() +
                         gradient_at + i % p.tile_rows * int64_t{gs.columns};
      CopyBytes(to + i * p.tile_columns * kRecord, p.gradient + at * kUnits,
                p.tile_columns * kRecord, barrier);
    }
    to += kOutChunks * kGradientBytes;
    const int64_t x_at = static_cast<int64_t>(row) * xs.stride * xs.stride * xs.columns + column;
    for (int i = lane; i < kInChunks * lines; i += 32) {
      const int64_t at = (image * xs.chunks + in_chunk(i / lines)) * xs.Size() + x_at +
                         i % lines * int64_t{xs.columns};
      CopyBytes(to + i * p.window_columns * kRecord, p.x + at * kUnits, p.window_columns * kRecord,
                barrier);
    }
  };

  if (threadIdx.x == 0) {
    for (uint64_t& barrier : tiles_here) InitBarrier(&barrier);
  }
  PublishBarriers();
  LetNextLaunchBegin();
  WaitForLaunchBefore();
  if (threadIdx.x < 32) {
    for (int tile = first_tile; tile < min(first_tile + kTiles, end_tile); ++tile) load_tile(tile);
  }

  // Where this lane's rows of matrices lie: the gradient's, and x's for each place of the filter.
  const int a_row = lane % 8 + lane / 16 * 8;
  const uint32_t a_unit = ((lane / 8 % 2) ^ Turn(gs.left + lane)) * sizeof(uint4);
  const uint32_t a_at = SharedAddress(memory) + warp_o * 2 * kGradientBytes + a_row * kRecord;
  const uint32_t b_at = SharedAddress(memory) + kOutChunks * kGradientBytes + warp_i / 2 * x_bytes;
  uint32_t taps_at[kPlaces];
#pragma unroll
  for (int tap = 0; tap < kPlaces; ++tap) {
    const int of = first_tap + min(tap, taps - 1);
    taps_at[tap] = p.offsets[of] * kRecord +
                   ((warp_i % 2 + lane / 16 * 2) ^ Turn(lane + p.shifts[of])) * sizeof(uint4);
  }

  float sums[2][kPlaces][4] = {};
  float parts[2][kPlaces][4] = {};
  int stage = 0;
  uint32_t parity = 0;
  for (int tile = first_tile; tile < end_tile; ++tile) {
    const int image = tile / p.tiles_x / p.tiles_y;
    const float x_unscale = __ldg(p.x_unscales + image * xs.chunks + in_chunk(warp_i / 2));
    float unscales[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unscales[i] =
          x_unscale * __ldg(p.gradient_unscales + image * gs.chunks + out_chunk(warp_o * 2 + i));
    }
    Wait(tiles_here + stage, parity);
#pragma unroll 1
    for (int step = 0; step < kTilePlaces / 16; ++step) {
      uint32_t large[2][4], small[2][4];
      const uint32_t gradient_at = a_at + stage * stage_bytes + step * 16 * kRecord;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        LoadTransposed(large[i], gradient_at + i * kGradientBytes + a_unit);
        LoadTransposed(small[i], gradient_at + i * kGradientBytes + (a_unit ^ 2 * sizeof(uint4)));
      }
      const int place = step * 16 + lane % 16;
      const uint32_t x_at = b_at + stage * stage_bytes +
                            (place / p.tile_columns * xs.stride * xs.stride * p.window_columns +
                             place % p.tile_columns) *
                                kRecord;
#pragma unroll
      for (int tap = 0; tap < kPlaces; ++tap) {
        if (tap >= taps) break;
        uint32_t b[4];
        LoadTransposed(b, x_at + taps_at[tap]);
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyAdd(parts[i][tap], small[i], b[0], b[1]);
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyAdd(parts[i][tap], large[i], b[2], b[3]);
#pragma unroll
        for (int i = 0; i < 2; ++i) MultiplyAdd(parts[i][tap], large[i], b[0], b[1]);
      }
    }
    __syncthreads();  // nobody reads this stage any more
    if (threadIdx.x < 32 && tile + kTiles < end_tile) load_tile(tile + kTiles);
    if (++stage == kTiles) {
      stage = 0;
      parity ^= 1;
    }
    const int done = tile + 1 - first_tile;
    if (done % kTogether != 0 && tile + 1 < end_tile &&
        (tile + 1) / p.tiles_x / p.tiles_y == image) {
      continue;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int tap = 0; tap < kPlaces; ++tap) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          sums[i][tap][k] += parts[i][tap][k] * unscales[i];
          parts[i][tap][k] = 0;
        }
      }
    }
  }

#pragma unroll
  for (int tap = 0; tap < kPlaces; ++tap) {
    if (tap >= taps) break;
    float* of_tap = p.parts + (static_cast<int64_t>(blockIdx.z) * p.taps + first_tap + tap) *
                                  gs.channels * xs.channels;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int out = first_out + (warp_o * 2 + i) * 16 + k / 2 * 8 + lane / 4;
        const int in = first_in + warp_i * 8 + lane % 4 * 2 + k % 2;
        if (out < gs.channels && in < xs.channels) {
          of_tap[static_cast<int64_t>(out) * xs.channels + in] = sums[i][tap][k];
        }
      }
    }
  }
}

// Threads are (weight, then bias; a part of the shares, or of the images).
__global__ void __launch_bounds__(kAddThreads)
    AddParts(const float* __restrict__ parts, const float* __restrict__ plane_sums,
             float* __restrict__ grad_weights, float* __restrict__ grad_biases, int shares,
             int padded_outs, Shape s) {
  __shared__ float sums[kAddThreads];
  const int64_t pairs = static_cast<int64_t>(s.out_channels) * s.channels;
  const int64_t weights = pairs * s.taps;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool is_bias = i >= weights;
  const bool exists = i < weights + s.out_channels;
  float sum = 0;
  WaitForLaunchBefore();
  if (exists) {
    const float* from = is_bias ? plane_sums + (i - weights) : parts + i;
    const int64_t step = is_bias ? padded_outs : weights;
    const int count = is_bias ? s.batch : shares;
#pragma unroll 8
    for (int k = threadIdx.y; k < count; k += blockDim.y) sum += from[k * step];
  }
  sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || !exists) return;
  for (int y = 1; y < blockDim.y; ++y) sum += sums[y * blockDim.x + threadIdx.x];
  *(is_bias ? grad_biases + (i - weights) : grad_weights + i % pairs * s.taps + i / pairs) = sum;
}

// A sum that keeps what its additions lose: long sums in one thread stay float32's.
struct LongSum {
  float sum = 0, lost = 0;

  __device__ void Add(float v) {
    const float y = v - lost;
    const float t = sum + y;
    lost = fabsf(t) < INFINITY ? (t - sum) - y : 0;
    sum = t;
  }
};

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
  LongSum sum;
  for (int tap = 0; tap < s.taps; ++tap) {
    const int y = row - tap / s.kernel_width;
    const int x = column - tap % s.kernel_width;
    if (y < 0 || x < 0 || y % s.stride != 0 || x % s.stride != 0) continue;
    if (y / s.stride >= s.out_height || x / s.stride >= s.out_width) continue;
    for (int o = 0; o < s.out_channels; ++o) {
      sum.Add(weights[(static_cast<int64_t>(o) * s.channels + channel) * s.taps + tap] *
              gradient[((image * s.out_channels + o) * s.out_height + y / s.stride) * s.out_width +
                       x / s.stride]);
    }
  }
  grad_x[element] = sum.sum;
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
  LongSum part;
  for (int64_t i = threadIdx.x % 32; i < s.batch * plane; i += 32) {
    const int64_t image = i / plane;
    const int row =
        static_cast<int>(i % plane / s.out_width) * s.stride - s.padding + tap / s.kernel_width;
    const int column =
        static_cast<int>(i % s.out_width) * s.stride - s.padding + tap % s.kernel_width;
    const float g = gradient[(image * s.out_channels + out) * plane + i % plane];
    if (is_bias) {
      part.Add(g);
    } else if (row >= 0 && row < s.height && column >= 0 && column < s.width) {
      part.Add(g * x[((image * s.channels + channel) * s.height + row) * s.width + column]);
    }
  }
  float sum = part.sum;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
  }
  if (threadIdx.x % 32 == 0) *(is_bias ? grad_biases + out : grad_weights + output) = sum;
}

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d = 1) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  // The remainder stays in n.
  __device__ int Split(int& n) const {
    const uint32_t quotient = (__umulhi(n, magic) + n) >> shift;
    n -= quotient * value;
    return quotient;
  }
};

// A small problem, and how GradSmall shares it out.
struct Small {
  Shape s;
  const float *gradient, *x, *weights;
  float *grad_x, *grad_weights, *grad_biases;
  Divisor of_stride, of_taps, of_kernel_width;

  // The first blocks: a rectangle of grad_x for `group` channels, a multiple of four. `parts`
  // threads share a sum.
  int x_blocks, rows, columns, group, parts;
  Divisor of_groups, of_tiles_x, of_tiles_y;
  Divisor of_patch_rows, of_patch_columns, of_group, of_part, of_pixels, of_columns;

  int filter_parts;  // threads that share a sum of the others
  Divisor of_quads, of_plane, of_out_width, of_window_rows, of_window_columns, of_sums;

  // Of the gradient, for a rectangle of grad_x.
  __host__ __device__ int PatchRows() const {
    return (rows - 1 + s.kernel_height - 1) / s.stride + 1;
  }
  __host__ __device__ int PatchColumns() const {
    return (columns - 1 + s.kernel_width - 1) / s.stride + 1;
  }
  // Quads of channels from one place of a filter to the next, an odd number: few bank conflicts.
  __host__ __device__ int Quads() const { return group / 4 | 1; }
  int64_t FloatsOfX() const {
    return int64_t{s.out_channels} * (s.taps * Quads() * 4 + PatchRows() * PatchColumns()) +
           int64_t{parts} * group * rows * columns;
  }

  // Places of the output; and of x, those that windows meet.
  __host__ __device__ int Places() const { return s.batch * s.out_height * s.out_width; }
  __host__ __device__ int WindowRows() const {
    return (s.out_height - 1) * s.stride + s.kernel_height;
  }
  __host__ __device__ int WindowColumns() const {
    return (s.out_width - 1) * s.stride + s.kernel_width;
  }
  int64_t FloatsOfFilters() const {
    return int64_t{Places()} * 5 + int64_t{4} * filter_parts * (s.taps + 1) +
           int64_t{s.batch} * WindowRows() * WindowColumns();
  }
};

__device__ void CopyNumber(float* to, const float* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(exists ? 4 : 0)
               : "memory");
}

__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

__device__ void AddProducts(float4& sums, float v, float4 w) {
  sums.x += v * w.x;
  sums.y += v * w.y;
  sums.z += v * w.z;
  sums.w += v * w.w;
}

// A thread makes four sums, of four channels at one place of x, over its part of the output
// channels. It meets every stride-th row and column of the filters.
__device__ void SmallGradX(const Small& p, int block, float4* numbers) {
  const Shape& s = p.s;
  const int patch_rows = p.PatchRows();
  const int patch_columns = p.PatchColumns();
  const int patch_size = patch_rows * patch_columns;
  const int quads = p.Quads();
  const int pixels = p.rows * p.columns;
  float4* const filters = numbers;  // [out_channels][taps][quads]
  float* const patch = reinterpret_cast<float*>(filters + s.out_channels * s.taps * quads);
  float* const partial = patch + s.out_channels * patch_size;

  int group = block;
  int tile_x = p.of_groups.Split(group);
  int tile_y = p.of_tiles_x.Split(tile_x);
  const int64_t image = p.of_tiles_y.Split(tile_y);
  const int first_channel = group * p.group;
  const int first_row = tile_y * p.rows;
  const int first_column = tile_x * p.columns;
  int last_row = first_row + p.rows - 1 + s.padding;
  int last_column = first_column + p.columns - 1 + s.padding;
  const int top = p.of_stride.Split(last_row) - patch_rows + 1;
  const int left = p.of_stride.Split(last_column) - patch_columns + 1;

  for (int i = threadIdx.x; i < s.out_channels * patch_size; i += kSmallThreads) {
    int column = i;
    int row = p.of_patch_columns.Split(column);
    const int64_t plane = image * s.out_channels + p.of_patch_rows.Split(row);
    row += top;
    column += left;
    CopyNumber(patch + i, p.gradient + (plane * s.out_height + row) * s.out_width + column,
               row >= 0 && row < s.out_height && column >= 0 && column < s.out_width);
  }
  for (int i = threadIdx.x; i < s.out_channels * p.group * s.taps; i += kSmallThreads) {
    int tap = i;
    int channel = p.of_taps.Split(tap);
    const int out = p.of_group.Split(channel);
    CopyNumber(reinterpret_cast<float*>(filters + (out * s.taps + tap) * quads) + channel,
               p.weights +
                   (static_cast<int64_t>(out) * s.channels + first_channel + channel) * s.taps +
                   tap,
               first_channel + channel < s.channels);
  }
  WaitForCopies();

  for (int i = threadIdx.x; i < p.parts * p.group / 4 * pixels; i += kSmallThreads) {
    int pixel = i;
    const int part = p.of_part.Split(pixel);
    const int quad = p.of_pixels.Split(pixel);
    int column = pixel;
    int tap_y = first_row + p.of_columns.Split(column) + s.padding;
    int tap_x = first_column + column + s.padding;
    const int y = p.of_stride.Split(tap_y) - top;
    const int x = p.of_stride.Split(tap_x) - left;
    float4 sums = {};
    for (int out = part; out < s.out_channels; out += p.parts) {
      const float* row = patch + out * patch_size + y * patch_columns + x;
      for (int down = tap_y; down < s.kernel_height; down += s.stride, row -= patch_columns) {
        const float4* of_row = filters + (out * s.taps + down * s.kernel_width) * quads + quad;
        const float* from = row;
        for (int across = tap_x; across < s.kernel_width; across += s.stride, --from) {
          AddProducts(sums, *from, of_row[across * quads]);
        }
      }
    }
    float* const to = partial + (part * p.group + quad * 4) * pixels + pixel;
    to[0] = sums.x;
    to[pixels] = sums.y;
    to[2 * pixels] = sums.z;
    to[3 * pixels] = sums.w;
  }
  __syncthreads();

  for (int i = threadIdx.x; i < p.group * pixels; i += kSmallThreads) {
    int pixel = i;
    const int channel = first_channel + p.of_pixels.Split(pixel);
    int column = pixel;
    const int row = first_row + p.of_columns.Split(column);
    column += first_column;
    if (channel >= s.channels || row >= s.height || column >= s.width) continue;
    float sum = 0;
#pragma unroll 4
    for (int part = 0; part < p.parts; ++part) sum += partial[part * p.group * pixels + i];
    p.grad_x[((image * s.channels + channel) * s.height + row) * s.width + column] = sum;
  }
}

// Filters of four output channels, for one input channel. A thread makes four sums, of one place of
// the filters, over its part of the places of the output; a last place meets ones: the biases.
__device__ void SmallGradFilters(const Small& p, int block, float4* numbers) {
  const Shape& s = p.s;
  const int places = p.Places();
  const int window_rows = p.WindowRows();
  const int window_columns = p.WindowColumns();
  const int plane = s.out_height * s.out_width;
  const int count = s.taps + 1;
  float4* const gradients = numbers;  // [places]
  float4* const partial = gradients + places;
  int* const offsets = reinterpret_cast<int*>(partial + p.filter_parts * count);  // in planes
  float* const planes = reinterpret_cast<float*>(offsets + places);

  int quad = block;
  const int64_t channel = p.of_quads.Split(quad);
  const int first_out = quad * 4;
  for (int i = threadIdx.x; i < places; i += kSmallThreads) {
    int place = i;
    const int64_t image = p.of_plane.Split(place);
    const float* from = p.gradient + (image * s.out_channels + first_out) * plane + place;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      CopyNumber(reinterpret_cast<float*>(gradients + i) + j, from + int64_t{j} * plane,
                 first_out + j < s.out_channels);
    }
    int column = place;
    const int row = p.of_out_width.Split(column);
    offsets[i] = ((static_cast<int>(image) * window_rows) + row * s.stride) * window_columns +
                 column * s.stride;
  }
  for (int i = threadIdx.x; i < s.batch * window_rows * window_columns; i += kSmallThreads) {
    int column = i;
    int row = p.of_window_columns.Split(column);
    const int64_t image = p.of_window_rows.Split(row);
    row -= s.padding;
    column -= s.padding;
    CopyNumber(planes + i,
               p.x + ((image * s.channels + channel) * s.height + row) * s.width + column,
               row >= 0 && row < s.height && column >= 0 && column < s.width);
  }
  WaitForCopies();

  for (int i = threadIdx.x; i < p.filter_parts * count; i += kSmallThreads) {
    int column = i;
    const int part = p.of_sums.Split(column);
    const bool is_bias = column == s.taps;
    const int row = p.of_kernel_width.Split(column);
    const float* from = planes + (is_bias ? 0 : row * window_columns + column);
    float4 sums = {};
#pragma unroll 4
    for (int place = part; place < places; place += p.filter_parts) {
      const float v = from[offsets[place]];
      AddProducts(sums, is_bias ? 1.0f : v, gradients[place]);
    }
    partial[i] = sums;
  }
  __syncthreads();

  for (int i = threadIdx.x; i < count * 4; i += kSmallThreads) {
    const int out = first_out + i % 4;
    if (out >= s.out_channels) continue;
    float sum = 0;
#pragma unroll 4
    for (int part = 0; part < p.filter_parts; ++part) {
      sum += reinterpret_cast<const float*>(partial)[part * count * 4 + i];
    }
    if (i / 4 < s.taps) {
      p.grad_weights[(out * s.channels + channel) * s.taps + i / 4] = sum;
    } else if (channel == 0) {
      p.grad_biases[out] = sum;
    }
  }
}

__global__ void __launch_bounds__(kSmallThreads) GradSmall(const __grid_constant__ Small p) {
  extern __shared__ __align__(16) float4 numbers[];
  const int block = static_cast<int>(blockIdx.x);
  if (block < p.x_blocks) {
    SmallGradX(p, block, numbers);
  } else {
    SmallGradFilters(p, block - p.x_blocks, numbers);
  }
}

// Does a problem that is small enough; false where it is not. Of several shares of grad_x those are
// taken by which a multiprocessor has the fewest steps of four multiply-adds a thread.
static bool LaunchGradSmall(Small p) {
  const Shape& s = p.s;
  const int64_t outputs = int64_t{s.batch} * s.out_height * s.out_width * s.out_channels;
  if (outputs > kSmallProducts || outputs * s.channels * s.taps > kSmallProducts ||
      int64_t{s.batch} * s.channels * s.height * s.width > kSmallProducts ||
      s.stride > s.height + 2 * s.padding) {
    return false;
  }
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  p.filter_parts = std::clamp(kSmallThreads / (s.taps + 1), 1, p.Places());
  Small best{};
  double least = 0;
  for (int rows = 1; rows <= 8; rows *= 2) {
    for (int group = 4; group <= 32; group *= 2) {
      p.rows = std::min(rows, s.height);
      p.columns = std::min(s.width, 32);
      p.group = static_cast<int>(std::min<int64_t>(group, DivideUp(s.channels, 4) * 4));
      const int of_part = p.group / 4 * p.rows * p.columns;
      p.parts = std::clamp(kSmallThreads / of_part, 1, s.out_channels);
      if (p.FloatsOfX() * 4 > kMaxShared) continue;
      const int64_t tiles_x = DivideUp(s.width, p.columns);
      const int64_t tiles_y = DivideUp(s.height, p.rows);
      const int64_t groups = DivideUp(s.channels, p.group);
      p.x_blocks = static_cast<int>(s.batch * tiles_x * tiles_y * groups);
      const double steps = static_cast<double>(p.FloatsOfX()) / kSmallThreads +
                           static_cast<double>(s.taps * DivideUp(s.out_channels, p.parts) *
                                               DivideUp(p.parts * of_part, kSmallThreads));
      const double cost = steps * std::max(1.0, static_cast<double>(p.x_blocks) / sms);
      if (best.rows != 0 && cost >= least) continue;
      least = cost;
      best = p;
      best.of_groups = Divisor(groups);
      best.of_tiles_x = Divisor(tiles_x);
      best.of_tiles_y = Divisor(tiles_y);
    }
  }
  const int64_t bytes = 4 * std::max(best.FloatsOfX(), p.FloatsOfFilters());
  if (best.rows == 0 || bytes > kMaxShared) return false;
  const int64_t quads = DivideUp(s.out_channels, 4);
  best.of_stride = Divisor(s.stride);
  best.of_taps = Divisor(s.taps);
  best.of_kernel_width = Divisor(s.kernel_width);
  best.of_patch_rows = Divisor(best.PatchRows());
  best.of_patch_columns = Divisor(best.PatchColumns());
  best.of_group = Divisor(best.group);
  best.of_part = Divisor(best.group / 4 * best.rows * best.columns);
  best.of_pixels = Divisor(best.rows * best.columns);
  best.of_columns = Divisor(best.columns);
  best.of_quads = Divisor(quads);
  best.of_plane = Divisor(s.out_height * s.out_width);
  best.of_out_width = Divisor(s.out_width);
  best.of_window_rows = Divisor(best.WindowRows());
  best.of_window_columns = Divisor(best.WindowColumns());
  best.of_sums = Divisor(s.taps + 1);
  C10_CUDA_CHECK(cudaFuncSetAttribute(GradSmall, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(bytes)));
  GradSmall<<<static_cast<unsigned>(best.x_blocks + quads * s.channels), kSmallThreads, bytes,
              at::cuda::getCurrentCUDAStream()>>>(best);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return true;
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

// Arranges the convolution that makes grad_x: its classes, the largest first, and of the gradient's
// sheets the padding. False if there are too many classes.
static bool Classify(Problem& p, Filters& shape, const Shape& s) {
  if (s.stride * s.stride > kMaxClasses || s.taps > kMaxTaps) return false;
  std::vector<Line> rows, columns;
  int span_y = 1, span_x = 1;
  Sheets& in = p.in;
  in.stride = 1;
  for (int r = 0; r < s.stride; ++r) {
    rows.push_back(LineOf(r, s.kernel_height, s.stride, s.padding));
    columns.push_back(LineOf(r, s.kernel_width, s.stride, s.padding));
    span_y = std::max(span_y, rows.back().span);
    span_x = std::max(span_x, columns.back().span);
    in.top = std::max(in.top, -rows.back().first);
    in.left = std::max(in.left, -columns.back().first);
  }
  p.step = s.stride;
  p.classes = s.stride * s.stride;
  TileForAll(p, int64_t{s.batch} * p.classes, static_cast<int>(DivideUp(s.height, s.stride)),
             static_cast<int>(DivideUp(s.width, s.stride)));
  p.window_rows = p.tile_rows - 1 + span_y;
  p.window_columns = p.tile_columns - 1 + span_x;

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
    of.first_row = in.top + down.first;
    of.first_column = in.left + across.first;
    in.rows = std::max(in.rows, of.first_row + p.tiles_y * p.tile_rows - 1 + span_y);
    in.columns = std::max(in.columns, of.first_column + p.tiles_x * p.tile_columns - 1 + span_x);
    for (size_t y = 0; y < down.taps.size(); ++y) {
      for (size_t x = 0; x < across.taps.size(); ++x, ++taps) {
        shape.order[taps] = down.taps[y] * s.kernel_width + across.taps[x];
        p.shifts[taps] = across.at[x] - across.first;
        p.offsets[taps] = (down.at[y] - down.first) * p.window_columns + p.shifts[taps];
      }
    }
  }
  return true;
}

// Arranges the product that makes grad_weights, and of both kinds of sheets the extent; returns the
// bytes of shared memory.
static int64_t Arrange(FilterProblem& p, Sheets& gradient_sheets, const Shape& s) {
  Tile(p, kTilePlaces, s.out_height, s.out_width);
  const int reach = (s.kernel_width - 1) / s.stride;
  p.window_rows = (p.tile_rows - 1) * s.stride + s.kernel_height;
  p.window_columns = p.tile_columns + reach;
  for (int tap = 0; tap < s.taps; ++tap) {
    const int column = tap % s.kernel_width;
    p.shifts[tap] = column / s.stride;
    p.offsets[tap] =
        (tap / s.kernel_width * s.stride + column % s.stride) * p.window_columns + p.shifts[tap];
  }
  Sheets& xs = p.x_sheets;
  xs.channels = s.channels;
  xs.height = s.height;
  xs.width = s.width;
  xs.chunks = static_cast<int>(DivideUp(s.channels, kDepth));
  xs.stride = s.stride;
  xs.top = xs.left = s.padding;
  xs.rows = (p.tiles_y * p.tile_rows - 1) * s.stride + s.kernel_height;
  xs.columns = p.tiles_x * p.tile_columns + reach;
  Sheets& gs = gradient_sheets;
  gs.rows = std::max(gs.rows, gs.top + p.tiles_y * p.tile_rows);
  gs.columns = std::max(gs.columns, gs.left + p.tiles_x * p.tile_columns);
  p.gradient_sheets = gs;
  return int64_t{kTiles} * kRecord *
         (kOuts / kDepth * kTilePlaces +
          int64_t{kIns / kDepth} * p.window_rows * s.stride * p.window_columns);
}

static Shape ShapeOf(const torch::Tensor& grad_output, const torch::Tensor& x,
                     const torch::Tensor& weights, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(stride >= 1 && padding >= 0, "stride must be positive, padding not negative");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK((x.size(2) + 2 * padding + 128) * (x.size(3) + 2 * padding + 128) <= INT32_MAX / 16,
              "planes are too large");
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
  const float* w = weights.data_ptr<float>();
  auto grad_x = torch::empty(x.sizes(), x.options());
  auto grad_weights = torch::empty(weights.sizes(), x.options());
  auto grad_biases = torch::empty({s.out_channels}, x.options());
  Small small{};
  small.s = s;
  small.gradient = g;
  small.x = x.data_ptr<float>();
  small.weights = w;
  small.grad_x = grad_x.data_ptr<float>();
  small.grad_weights = grad_weights.data_ptr<float>();
  small.grad_biases = grad_biases.data_ptr<float>();
  if (LaunchGradSmall(small)) return {grad_x, grad_weights, grad_biases};

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Sources sources = {};
  Problem to_x = {};
  FilterProblem to_filters = {};
  Sheets& gs = to_x.in;
  gs.channels = s.out_channels;
  gs.height = s.out_height;
  gs.width = s.out_width;
  gs.chunks = static_cast<int>(DivideUp(s.out_channels, kDepth));
  to_x.batch = to_filters.batch = sources.batch = s.batch;
  to_x.taps = to_filters.taps = s.taps;
  to_x.outputs = s.channels;
  to_x.height = s.height;
  to_x.width = s.width;
  to_x.out = grad_x.data_ptr<float>();
  to_x.tiles_n = static_cast<int>(DivideUp(s.channels, kFilters));
  int64_t filters_shared = 0;
  bool fits = Classify(to_x, sources.shape, s);
  if (fits) {
    while (to_x.teams > 1 && (to_x.teams > gs.chunks || SharedBytes(to_x) > kMaxShared)) {
      to_x.teams /= 2;
    }
    filters_shared = Arrange(to_filters, gs, s);
    fits = SharedBytes(to_x) <= kMaxShared && filters_shared <= kMaxShared;
  }
  if (!fits) {
    GradXAny<<<static_cast<unsigned>(DivideUp(x.numel(), kPrepareThreads)), kPrepareThreads, 0,
               stream>>>(g, w, grad_x.data_ptr<float>(), x.numel(), s);
    const int64_t outputs = weights.numel() + s.out_channels;
    GradFiltersAny<<<static_cast<unsigned>(DivideUp(outputs, kPrepareThreads / 32)),
                     kPrepareThreads, 0, stream>>>(
        g, x.data_ptr<float>(), grad_weights.data_ptr<float>(), grad_biases.data_ptr<float>(), s);
    return {grad_x, grad_weights, grad_biases};
  }

  const Sheets& xs = to_filters.x_sheets;
  const int64_t x_count = int64_t{s.batch} * xs.chunks;
  const int64_t gradient_count = int64_t{s.batch} * gs.chunks;
  const int64_t padded = int64_t{to_x.tiles_n} * kFilters;
  auto x_records = Records(x_count * xs.Size(), x);
  auto gradient_records = Records(gradient_count * gs.Size(), x);
  auto filters = Records(padded * gs.chunks * s.taps, x);
  auto x_unscales = torch::empty({x_count}, x.options());
  auto gradient_unscales = torch::empty({gradient_count}, x.options());
  auto filter_unscales = torch::empty({padded}, x.options());
  auto plane_sums = torch::empty({gradient_count * kDepth}, x.options());
  Filters& shape = sources.shape;
  shape.inputs = s.out_channels;
  shape.outputs = s.channels;
  shape.chunks = gs.chunks;
  shape.input_step = int64_t{s.channels} * s.taps;
  shape.output_step = shape.taps = s.taps;
  sources.x_sheets = xs;
  sources.gradient_sheets = gs;
  sources.x = x.data_ptr<float>();
  sources.gradient = g;
  sources.weights = w;
  sources.x_records = reinterpret_cast<uint4*>(x_records.data_ptr<uint8_t>());
  sources.gradient_records = reinterpret_cast<uint4*>(gradient_records.data_ptr<uint8_t>());
  sources.filters = reinterpret_cast<uint4*>(filters.data_ptr<uint8_t>());
  sources.x_unscales = x_unscales.data_ptr<float>();
  sources.gradient_unscales = gradient_unscales.data_ptr<float>();
  sources.filter_unscales = filter_unscales.data_ptr<float>();
  sources.plane_sums = plane_sums.data_ptr<float>();
  sources.padded = static_cast<int>(padded);
  Prepare<<<static_cast<unsigned>(padded + gradient_count + x_count), kPrepareThreads, 0, stream>>>(
      sources);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  to_x.records = to_filters.gradient = sources.gradient_records;
  to_x.unscales = to_filters.gradient_unscales = sources.gradient_unscales;
  to_x.filters = sources.filters;
  to_x.filter_unscales = sources.filter_unscales;
  LaunchConvolve(to_x);

  to_filters.x = sources.x_records;
  to_filters.x_unscales = sources.x_unscales;
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t filter_tiles = DivideUp(s.channels, kIns) * DivideUp(s.out_channels, kOuts);
  const int64_t tap_groups = DivideUp(s.taps, kPlaces);
  const int64_t tiles = int64_t{s.batch} * to_filters.tiles_x * to_filters.tiles_y;
  to_filters.shares =
      static_cast<int>(std::max<int64_t>(1, std::min(tiles, sms / (filter_tiles * tap_groups))));
  auto parts = torch::empty({to_filters.shares, s.taps, s.out_channels, s.channels}, x.options());
  to_filters.parts = parts.data_ptr<float>();
  Launch(GradFilters,
         dim3(static_cast<unsigned>(filter_tiles), static_cast<unsigned>(tap_groups),
              static_cast<unsigned>(to_filters.shares)),
         dim3(kFilterThreads), filters_shared, to_filters);
  const int layers = to_filters.shares >= 32 ? 8 : to_filters.shares >= 16 ? 4 : 1;
  const int across = kAddThreads / layers;
  Launch(AddParts, dim3(static_cast<unsigned>(DivideUp(weights.numel() + s.out_channels, across))),
         dim3(across, layers), 0, parts.data_ptr<float>(), plane_sums.data_ptr<float>(),
         grad_weights.data_ptr<float>(), grad_biases.data_ptr<float>(), to_filters.shares,
         gs.chunks * kDepth, s);
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of a convolution");
}
