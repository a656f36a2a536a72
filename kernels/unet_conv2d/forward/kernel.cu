// Two-dimensional convolution of float32 on tensor cores, with float32's accuracy. Each number,
// times a power of two that brings the largest around it near 2^14, is the sum of two float16 (22
// bits and a sign, and 2^-39 of the largest at worst); three products of float16, all but that of
// the two small halves, make one of float32.
//
// PrepareFilters splits the filters once, a scale for each, into the order in which they are
// needed. Convolve gives a block a rectangle of outputs of one image for some filters. It walks the
// input channels in chunks of sixteen: the rectangle's windows arrive in shared memory as they are
// (each element once, for all places of the filter), get a scale of their own, and are split into
// records of one place each: sixteen channels' large halves, then their small ones. Every place of
// the filter is then a matrix product whose rows begin at another record. Filters come through a
// ring of stages, some places of the filter each. Tensor cores truncate their sums, so a chunk's
// are kept apart, and added, unscaled, by ordinary fused multiply-adds. Channels and filters that
// fill no chunk or tile are zeros. Windows too large for shared memory go to ConvolveAny.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

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
  const uint4* filters;   // prepared
  const float* unscales;  // of the filters
  const float* biases;
  float* y;
  int channels, height, width;
  int out_channels, padded_channels, out_height, out_width;
  int kernel_width, taps, stride, padding;
  int chunks;
  // A block's outputs, a power of two of columns, and the part of x that they need: its columns lie
  // apart by their remainder of the stride, so that neighbouring outputs meet neighbouring slots.
  int tile_columns, tile_rows, tiles_x, tiles_y, tiles_n;
  int part, pitch, slots;
  int offsets[kMaxTaps];  // from an output's first slot to that below a place of the filter
};

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

// kRows matrices of 16 outputs for each warp, kWarpsM x kWarpsN warps.
template <int kRows, int kWarpsM, int kWarpsN, int kBlocks>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32, kBlocks)
    Convolve(const __grid_constant__ Problem p) {
  constexpr int kThreads = kWarpsM * kWarpsN * 32;
  constexpr int kFilters = kWarpsN * kColumns * 8;
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
  const int first_column = tile % p.tiles_x * p.tile_columns;
  const int first_row = tile / p.tiles_x % p.tiles_y * p.tile_rows;
  const int image = tile / p.tiles_x / p.tiles_y;
  const int groups = (p.taps + kGroup - 1) / kGroup;
  const int stages = p.chunks * groups;

  // Each thread looks after the same slots throughout.
  for (int slot = threadIdx.x; slot < p.slots; slot += kThreads) {
    const int in_row = slot % p.pitch;
    const int row = first_row * p.stride - p.padding + slot / p.pitch;
    const int column =
        first_column * p.stride - p.padding + in_row % p.part * p.stride + in_row / p.part;
    const bool inside = row >= 0 && row < p.height && column >= 0 && column < p.width;
    places[slot] = inside ? row * p.width + column : -1;
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
    const int output = (warp_m * kRows + i) * 16 + lane % 16;
    slots[i] = output / p.tile_columns * p.stride * p.pitch + output % p.tile_columns;
  }
  const uint32_t records_at = SharedAddress(records);
  const uint32_t filters_at =
      SharedAddress(ring + Swizzled(warp_n * kColumns * 8 + lane % 8, lane / 8));

  float sums[kRows][kColumns][4] = {};
  load_windows(0);
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

  const int64_t plane = static_cast<int64_t>(p.out_height) * p.out_width;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = (warp_m * kRows + i) * 16 + half * 8 + lane / 4;
      const int row = first_row + output / p.tile_columns;
      const int column = first_column + output % p.tile_columns;
      if (row >= p.out_height || column >= p.out_width) continue;
      float* to = p.y + static_cast<int64_t>(image) * p.out_channels * plane +
                  static_cast<int64_t>(row) * p.out_width + column;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int filter = first_filter + (warp_n * kColumns + j) * 8 + lane % 4 * 2 + k;
          if (filter < p.out_channels) {
            to[filter * plane] = sums[i][j][half * 2 + k] + __ldg(p.biases + filter);
          }
        }
      }
    }
  }
}

// One thread for each output.
__global__ void __launch_bounds__(kPrepareThreads)
    ConvolveAny(const float* __restrict__ weights, int64_t outputs, Problem p) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kPrepareThreads + threadIdx.x;
  if (output >= outputs) return;
  const int column = static_cast<int>(output % p.out_width) * p.stride - p.padding;
  const int row = static_cast<int>(output / p.out_width % p.out_height) * p.stride - p.padding;
  const int64_t filter = output / p.out_width / p.out_height % p.out_channels;
  const int64_t image = output / p.out_width / p.out_height / p.out_channels;
  float sum = 0;
  for (int c = 0; c < p.channels; ++c) {
    const float* plane = p.x + (image * p.channels + c) * p.height * p.width;
    const float* places = weights + (filter * p.channels + c) * p.taps;
    for (int tap = 0; tap < p.taps; ++tap) {
      const int y = row + tap / p.kernel_width;
      const int x = column + tap % p.kernel_width;
      if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
      sum += places[tap] * plane[static_cast<int64_t>(y) * p.width + x];
    }
  }
  p.y[output] = sum + p.biases[filter];
}

static int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Lays rectangles of `outputs` outputs over the planes and returns how many cover an image.
static int64_t Tile(Problem& p, int outputs, int kernel_height) {
  int64_t least = 0;
  for (int columns = 8; columns <= std::min(outputs, 32); columns *= 2) {
    const int rows = outputs / columns;
    const int64_t tiles = DivideUp(p.out_width, columns) * DivideUp(p.out_height, rows);
    if (least != 0 && tiles > least) continue;
    least = tiles;
    p.tile_columns = columns;
    p.tile_rows = rows;
  }
  p.tiles_x = static_cast<int>(DivideUp(p.out_width, p.tile_columns));
  p.tiles_y = static_cast<int>(DivideUp(p.out_height, p.tile_rows));
  const int columns = (p.tile_columns - 1) * p.stride + p.kernel_width;
  p.part = static_cast<int>(DivideUp(columns, p.stride));
  p.pitch = p.part * std::min(p.stride, columns);
  p.slots = ((p.tile_rows - 1) * p.stride + kernel_height) * p.pitch;
  for (int tap = 0; tap < p.taps && tap < kMaxTaps; ++tap) {
    const int column = tap % p.kernel_width;
    p.offsets[tap] =
        tap / p.kernel_width * p.pitch + column % p.stride * p.part + column / p.stride;
  }
  return least;
}

template <int kRows, int kWarpsM, int kWarpsN, int kBlocks>
static void Launch(const Problem& p, int64_t batch, int shared) {
  const auto kernel = Convolve<kRows, kWarpsM, kWarpsN, kBlocks>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  const int64_t blocks = batch * p.tiles_x * p.tiles_y * p.tiles_n;
  kernel<<<static_cast<unsigned>(blocks), kWarpsM * kWarpsN * 32, shared,
           at::cuda::getCurrentCUDAStream()>>>(p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
  TORCH_CHECK(x.size(2) * x.size(3) <= INT32_MAX, "planes of more than 2^31 elements");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int kernel_height = static_cast<int>(weights.size(2));
  Problem p = {};
  p.channels = static_cast<int>(x.size(1));
  p.height = static_cast<int>(x.size(2));
  p.width = static_cast<int>(x.size(3));
  p.out_channels = static_cast<int>(weights.size(0));
  p.kernel_width = static_cast<int>(weights.size(3));
  p.taps = kernel_height * p.kernel_width;
  p.stride = static_cast<int>(stride);
  p.padding = static_cast<int>(padding);
  p.out_height = (p.height + 2 * p.padding - kernel_height) / p.stride + 1;
  p.out_width = (p.width + 2 * p.padding - p.kernel_width) / p.stride + 1;
  const int64_t batch = x.size(0);
  auto y = torch::empty({batch, p.out_channels, p.out_height, p.out_width}, x.options());
  if (y.numel() == 0) return y;
  p.x = x.data_ptr<float>();
  p.biases = biases.data_ptr<float>();
  p.y = y.data_ptr<float>();
  p.chunks = static_cast<int>(DivideUp(p.channels, kDepth));
  constexpr int kFilters = 64;  // of a tile, in all that follows
  p.tiles_n = static_cast<int>(DivideUp(p.out_channels, kFilters));
  p.padded_channels = p.tiles_n * kFilters;

  // The largest tile of which there are enough for all SMs.
  const int64_t sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  int outputs = 128;
  while (outputs > 32 && batch * p.tiles_n * Tile(p, outputs, kernel_height) * 4 < sms * 7) {
    outputs /= 2;
  }
  Tile(p, outputs, kernel_height);
  const int64_t shared =
      int64_t{p.slots} * (kUnits * sizeof(uint4) + kDepth * sizeof(float) + sizeof(int)) +
      kStages * kGroup * kFilters * kUnits * sizeof(uint4);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (p.taps > kMaxTaps || shared > kMaxShared) {
    ConvolveAny<<<static_cast<unsigned>(DivideUp(y.numel(), kPrepareThreads)), kPrepareThreads, 0,
                  stream>>>(weights.data_ptr<float>(), y.numel(), p);
    return y;
  }
  const int64_t bytes = int64_t{p.chunks} * p.taps * p.padded_channels * kUnits * sizeof(uint4);
  auto prepared = torch::empty({bytes}, x.options().dtype(torch::kUInt8));
  auto unscales = torch::empty({p.padded_channels}, x.options());
  p.filters = reinterpret_cast<const uint4*>(prepared.data_ptr<uint8_t>());
  p.unscales = unscales.data_ptr<float>();
  PrepareFilters<<<p.padded_channels, kPrepareThreads, 0, stream>>>(
      weights.data_ptr<float>(), reinterpret_cast<uint4*>(prepared.data_ptr<uint8_t>()),
      unscales.data_ptr<float>(), p.channels, p.taps, p.chunks, p.out_channels);
  if (outputs == 128) {
    Launch<4, 2, 2, 2>(p, batch, static_cast<int>(shared));
  } else if (outputs == 64) {
    Launch<2, 2, 2, 2>(p, batch, static_cast<int>(shared));
  } else {
    Launch<1, 2, 2, 2>(p, batch, static_cast<int>(shared));
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Convolution"); }
