// Two-dimensional convolution of float32 on tensor cores, with float32's accuracy. Each number,
// times a power of two that brings the largest around it near 2^14, is the sum of two float16 (22
// bits and a sign, and 2^-39 of the largest at worst); three products of float16, all but that of
// the two small halves, make one of float32.
//
// Prepare splits x and the filters, into records of sixteen channels of one place: large halves,
// then small ones. Sixteen channels of an image, or one filter, share a scale. The records of a
// plane come with the padding around them, and in the order in which shared memory will have them.
//
// Convolve gives a block a rectangle of outputs of one image for 64 filters, and walks the input
// channels in chunks of sixteen. The rectangle's windows and some places of the filters at a time
// come by bulk copies, rows and filters being in one piece each; every place of the filter is a
// matrix product whose rows begin at another record. Tensor cores truncate their sums, so a chunk's
// are kept apart, and added, unscaled, by ordinary fused multiply-adds. Channels and filters that
// fill no chunk or tile are zeros. Windows too large for shared memory go to ConvolveAny.
//
// Small problems, where two launches and the splitting would take longer than the products, are one
// launch of ordinary multiply-adds, ConvolveSmall.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kStages = 3;  // tune: kStages in 2, 3, 4  (of filters)
constexpr int kGroup = 3;   // tune: kGroup in 1, 3  (places of the filter in a stage)
constexpr int kDepth = 16;  // channels of a record
constexpr int kUnits = 4;   // of 16 bytes, in a record: two of large halves, two of small ones
constexpr int kRecord = kUnits * 16;
constexpr int kColumns = 4;           // matrices of eight filters that a warp multiplies
constexpr int kFilters = 64;          // of a block
constexpr int kThreads = 128;         // of a team
constexpr int kPrepareThreads = 512;  // tune: kPrepareThreads in 256, 512, 1024
constexpr int kHeld = 2;              // tune: kHeld in 1, 2, 4  (places of a thread in registers)
constexpr int kMaxTaps = 64;          // places of a filter
constexpr int kMaxClasses = 1;
constexpr int kMaxShared = 220 * 1024;
constexpr int kSmallThreads = 256;
constexpr int64_t kSmallProducts = 4 << 20;  // at most

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

// A small problem, and how ConvolveSmall shares it out.
struct Small {
  const float *x, *weights, *biases;
  float* y;
  int channels, height, width, outputs, out_height, out_width;
  int kernel_height, kernel_width, stride, padding;
  // Of a block: a rectangle of outputs for `group` filters, a multiple of four. `parts` threads
  // share a sum.
  int rows, columns, group, parts;
  Divisor of_taps, of_kernel_width, of_patch_rows, of_part, of_pixels, of_columns;

  __host__ __device__ int Depth() const { return channels * kernel_height * kernel_width; }
  __host__ __device__ int Pixels() const { return rows * columns; }
  __host__ __device__ int PatchRows() const { return (rows - 1) * stride + kernel_height; }
  __host__ __device__ int PatchColumns() const { return (columns - 1) * stride + kernel_width; }
  // Quads of filters from one depth to the next, an odd number, for few bank conflicts.
  __host__ __device__ int Quads() const { return group / 4 | 1; }
  int64_t Floats() const {
    return int64_t{Depth()} * (Quads() * 4 + 1) + int64_t{channels} * PatchRows() * PatchColumns() +
           int64_t{parts} * group * Pixels();
  }
};

__device__ void CopyNumber(float* to, const float* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(exists ? 4 : 0)
               : "memory");
}

// A thread makes four sums, of four filters at one place, over its part of the depth.
__global__ void __launch_bounds__(kSmallThreads) ConvolveSmall(const __grid_constant__ Small p) {
  extern __shared__ __align__(16) float numbers[];
  const int depth = p.Depth();
  const int quads = p.Quads();
  const int patch_rows = p.PatchRows();
  const int patch_columns = p.PatchColumns();
  const int pixels = p.Pixels();
  float4* const filters = reinterpret_cast<float4*>(numbers);            // [depth][quads]
  int* const offsets = reinterpret_cast<int*>(filters + depth * quads);  // in the patch, [depth]
  float* const patch = reinterpret_cast<float*>(offsets + depth);
  float* const partial = patch + p.channels * patch_rows * patch_columns;

  const int groups = (p.outputs + p.group - 1) / p.group;
  const int first_output = blockIdx.x % groups * p.group;
  const int first_column = blockIdx.x / groups * p.columns;
  const int first_row = blockIdx.y * p.rows;
  const int64_t image = blockIdx.z;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;

  const float* const planes = p.x + image * p.channels * p.height * p.width;
  for (int line = warp; line < p.channels * patch_rows; line += kSmallThreads / 32) {
    int row = line;
    const int64_t channel = p.of_patch_rows.Split(row);
    row += first_row * p.stride - p.padding;
    for (int i = lane; i < patch_columns; i += 32) {
      const int column = first_column * p.stride - p.padding + i;
      CopyNumber(patch + line * patch_columns + i,
                 planes + (channel * p.height + row) * p.width + column,
                 row >= 0 && row < p.height && column >= 0 && column < p.width);
    }
  }
  for (int i = warp; i < p.group; i += kSmallThreads / 32) {
    const float* filter = p.weights + static_cast<int64_t>(first_output + i) * depth;
    for (int k = lane; k < depth; k += 32) {
      CopyNumber(reinterpret_cast<float*>(filters + k * quads) + i, filter + k,
                 first_output + i < p.outputs);
    }
  }
  for (int k = threadIdx.x; k < depth; k += kSmallThreads) {
    int column = k;
    const int channel = p.of_taps.Split(column);
    const int row = p.of_kernel_width.Split(column);
    offsets[k] = (channel * patch_rows + row) * patch_columns + column;
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  for (int i = threadIdx.x; i < p.parts * p.group / 4 * pixels; i += kSmallThreads) {
    int pixel = i;
    const int part = p.of_part.Split(pixel);
    const int quad = p.of_pixels.Split(pixel);
    int column = pixel;
    const int row = p.of_columns.Split(column);
    const float* window = patch + (row * patch_columns + column) * p.stride;
    float sums[4] = {};
#pragma unroll 4
    for (int k = part; k < depth; k += p.parts) {
      const float v = window[offsets[k]];
      const float4 w = filters[k * quads + quad];
      sums[0] += v * w.x;
      sums[1] += v * w.y;
      sums[2] += v * w.z;
      sums[3] += v * w.w;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      partial[(part * p.group + quad * 4 + j) * pixels + pixel] = sums[j];
    }
  }
  __syncthreads();

  for (int i = threadIdx.x; i < p.group * pixels; i += kSmallThreads) {
    int pixel = i;
    const int output = first_output + p.of_pixels.Split(pixel);
    int column = pixel;
    const int row = first_row + p.of_columns.Split(column);
    column += first_column;
    if (output >= p.outputs || row >= p.out_height || column >= p.out_width) continue;
    float sum = __ldg(p.biases + output);
#pragma unroll 4
    for (int part = 0; part < p.parts; ++part) sum += partial[part * p.group * pixels + i];
    p.y[((image * p.outputs + output) * p.out_height + row) * p.out_width + column] = sum;
  }
}

// Does a problem that is small enough; false where it is not. Of several shares of a block those
// are taken by which a multiprocessor has the fewest steps of four multiply-adds a thread.
static bool LaunchConvolveSmall(Small p, int batch) {
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t sums = int64_t{batch} * p.outputs * p.out_height * p.out_width;
  const int64_t taps = int64_t{p.kernel_height} * p.kernel_width;
  if (sums > kSmallProducts || sums * p.channels * taps > kSmallProducts) return false;
  Small best{};
  dim3 best_grid(0);
  double least = 0;
  for (int rows = 1; rows <= 8; rows *= 2) {
    for (int group = 4; group <= 32; group *= 2) {
      p.rows = std::min(rows, p.out_height);
      p.columns = std::min(p.out_width, 32);
      p.group = static_cast<int>(std::min<int64_t>(group, DivideUp(p.outputs, 4) * 4));
      const int of_part = p.group / 4 * p.Pixels();
      p.parts = std::clamp(kSmallThreads / of_part, 1, p.Depth());
      const dim3 grid(
          static_cast<unsigned>(DivideUp(p.out_width, p.columns) * DivideUp(p.outputs, p.group)),
          static_cast<unsigned>(DivideUp(p.out_height, p.rows)), batch);
      if (p.Floats() * 4 > kMaxShared || grid.y > 65535 || grid.z > 65535) continue;
      const double steps = static_cast<double>(p.Floats()) / kSmallThreads +
                           static_cast<double>(DivideUp(p.Depth(), p.parts) *
                                               DivideUp(p.parts * of_part, kSmallThreads));
      const double blocks = 1.0 * grid.x * grid.y * grid.z;
      const double cost = steps * std::max(1.0, blocks / static_cast<double>(sms));
      if (best_grid.x != 0 && cost >= least) continue;
      least = cost;
      best = p;
      best_grid = grid;
    }
  }
  if (best_grid.x == 0) return false;
  best.of_taps = Divisor(static_cast<uint32_t>(taps));
  best.of_kernel_width = Divisor(best.kernel_width);
  best.of_patch_rows = Divisor(best.PatchRows());
  best.of_part = Divisor(best.group / 4 * best.Pixels());
  best.of_pixels = Divisor(best.Pixels());
  best.of_columns = Divisor(best.columns);
  const int bytes = static_cast<int>(best.Floats() * 4);
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(ConvolveSmall, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  ConvolveSmall<<<best_grid, kSmallThreads, bytes, at::cuda::getCurrentCUDAStream()>>>(best);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return true;
}

static torch::Tensor Records(int64_t count, const torch::Tensor& like) {
  return torch::empty({count * kRecord}, like.options().dtype(torch::kUInt8));
}

struct Sources {
  Sheets sheets;
  Filters shape;
  const float *x, *weights;
  uint4 *records, *filters;
  float *unscales, *filter_unscales;
  int batch;
};

// Blocks for filters, then for chunks of x.
__global__ void __launch_bounds__(kPrepareThreads, 2) Prepare(const __grid_constant__ Sources p) {
  LetNextLaunchBegin();
  const int sheets = p.batch * p.sheets.chunks;
  const int sheet = static_cast<int>(blockIdx.x) - (static_cast<int>(gridDim.x) - sheets);
  if (sheet < 0) {
    SplitFilter(p.shape, blockIdx.x, p.weights, p.filters, p.filter_unscales);
  } else {
    SplitSheet<false>(p.sheets, sheet, p.x, p.records, p.unscales, nullptr);
  }
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

// One thread for each output.
__global__ void __launch_bounds__(kPrepareThreads)
    ConvolveAny(const float* __restrict__ x, const float* __restrict__ weights, int64_t outputs,
                int kernel_width, int padding, Problem p) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x;
  if (output >= outputs) return;
  const int column = static_cast<int>(output % p.width) * p.in.stride - padding;
  const int row = static_cast<int>(output / p.width % p.height) * p.in.stride - padding;
  const int64_t filter = output / p.width / p.height % p.outputs;
  const int64_t image = output / p.width / p.height / p.outputs;
  LongSum sum;
  for (int c = 0; c < p.in.channels; ++c) {
    float part = 0;
    const float* plane = x + (image * p.in.channels + c) * p.in.height * p.in.width;
    const float* places = weights + (filter * p.in.channels + c) * p.taps;
    for (int tap = 0; tap < p.taps; ++tap) {
      const int down = row + tap / kernel_width;
      const int across = column + tap % kernel_width;
      if (down < 0 || down >= p.in.height || across < 0 || across >= p.in.width) continue;
      part += places[tap] * plane[static_cast<int64_t>(down) * p.in.width + across];
    }
    sum.Add(part);
  }
  p.out[output] = sum.sum + p.biases[filter];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride,
                      int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each output channel");
  TORCH_CHECK(stride >= 1 && padding >= 0, "stride must be positive, padding not negative");
  TORCH_CHECK(
      x.size(2) + 2 * padding >= weights.size(2) && x.size(3) + 2 * padding >= weights.size(3),
      "x is too small for one output");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK((x.size(2) + 2 * padding + 128) * (x.size(3) + 2 * padding + 128) <= INT32_MAX / 16,
              "planes are too large");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int kernel_height = static_cast<int>(weights.size(2));
  const int kernel_width = static_cast<int>(weights.size(3));
  Problem p = {};
  Sheets& in = p.in;
  in.channels = static_cast<int>(x.size(1));
  in.height = static_cast<int>(x.size(2));
  in.width = static_cast<int>(x.size(3));
  in.chunks = static_cast<int>(DivideUp(in.channels, kDepth));
  in.stride = static_cast<int>(stride);
  in.top = in.left = static_cast<int>(padding);
  p.batch = static_cast<int>(x.size(0));
  p.outputs = static_cast<int>(weights.size(0));
  p.height = (in.height + 2 * in.top - kernel_height) / in.stride + 1;
  p.width = (in.width + 2 * in.left - kernel_width) / in.stride + 1;
  p.taps = kernel_height * kernel_width;
  auto y = torch::empty({p.batch, p.outputs, p.height, p.width}, x.options());
  if (y.numel() == 0) return y;
  p.biases = biases.data_ptr<float>();
  p.out = y.data_ptr<float>();
  const Small small = {x.data_ptr<float>(),
                       weights.data_ptr<float>(),
                       p.biases,
                       p.out,
                       in.channels,
                       in.height,
                       in.width,
                       p.outputs,
                       p.height,
                       p.width,
                       kernel_height,
                       kernel_width,
                       in.stride,
                       in.top};
  if (LaunchConvolveSmall(small, p.batch)) return y;
  p.tiles_n = static_cast<int>(DivideUp(p.outputs, kFilters));
  TileForAll(p, p.batch, p.height, p.width);
  const int reach = (kernel_width - 1) / in.stride;  // of a window, beyond its first column
  p.window_rows = (p.tile_rows - 1) * in.stride + kernel_height;
  p.window_columns = p.tile_columns + reach;
  in.rows = (p.tiles_y * p.tile_rows - 1) * in.stride + kernel_height;
  in.columns = p.tiles_x * p.tile_columns + reach;
  while (p.teams > 1 && (p.teams > in.chunks || SharedBytes(p) > kMaxShared)) p.teams /= 2;
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (p.taps > kMaxTaps || SharedBytes(p) > kMaxShared) {
    ConvolveAny<<<static_cast<unsigned>(DivideUp(y.numel(), kPrepareThreads)), kPrepareThreads, 0,
                  stream>>>(x.data_ptr<float>(), weights.data_ptr<float>(), y.numel(), kernel_width,
                            in.top, p);
    return y;
  }
  p.step = p.classes = 1;
  p.of[0].rows = p.height;
  p.of[0].columns = p.width;
  p.of[0].taps = p.taps;

  Sources sources = {};
  Filters& shape = sources.shape;
  shape.inputs = in.channels;
  shape.outputs = p.outputs;
  shape.chunks = in.chunks;
  shape.input_step = shape.taps = p.taps;
  shape.output_step = int64_t{in.channels} * p.taps;
  for (int tap = 0; tap < p.taps; ++tap) {
    const int column = tap % kernel_width;
    shape.order[tap] = tap;
    p.shifts[tap] = column / in.stride;
    p.offsets[tap] =
        (tap / kernel_width * in.stride + column % in.stride) * p.window_columns + p.shifts[tap];
  }
  const int64_t sheets = int64_t{p.batch} * in.chunks;
  const int64_t padded = int64_t{p.tiles_n} * kFilters;
  auto records = Records(sheets * in.Size(), x);
  auto filters = Records(padded * in.chunks * p.taps, x);
  auto unscales = torch::empty({sheets}, x.options());
  auto filter_unscales = torch::empty({padded}, x.options());
  sources.sheets = in;
  sources.batch = p.batch;
  sources.x = x.data_ptr<float>();
  sources.weights = weights.data_ptr<float>();
  p.records = sources.records = reinterpret_cast<uint4*>(records.data_ptr<uint8_t>());
  p.filters = sources.filters = reinterpret_cast<uint4*>(filters.data_ptr<uint8_t>());
  p.unscales = sources.unscales = unscales.data_ptr<float>();
  p.filter_unscales = sources.filter_unscales = filter_unscales.data_ptr<float>();
  Prepare<<<static_cast<unsigned>(padded + sheets), kPrepareThreads, 0, stream>>>(sources);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  LaunchConvolve(p);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Convolution"); }
