// Basic block of ResNet with tensor cores at the accuracy of float32. A number v is held as two
// halves, s v = high + low with s a power of two, which keep 22 of its bits; a product is then
// low high' + high low' + high high', three matrix instructions of float16, each exact but for the
// last bit of its sum. Tensor cores round sums toward zero, so a sum never stays in them for more
// than six instructions: what they give is added in registers, rounded to nearest.
//
// Convert writes x as halves with channels innermost, scaled by a guess and finding x's largest
// number on the way; where the guess was bad its second launch does it over. Normalization's
// factors go into the filters (PrepareFirst, PrepareSecond), which are split too. The result of the
// first convolution is stored split; its scale comes from a bound, the filters' sums of magnitudes
// times x's largest number. The 1x1 convolution of the shortcut is more depth for the second.
//
// Convolve is an implicit product of matrices: pixels (a tile of one image) times output channels.
// A segment of its depth is 32 channels of a patch of the input in shared memory, over which the
// filter's taps slide; filters come tap by tap. With a stride of s the patch holds every s-th pixel
// of every s-th row, and there are segments for each first pixel.
//
// Small problems, where these launches would take longer than the sums, are one launch of ordinary
// multiply-adds: a block of ConvolveTwice makes all of the result between that its tile of y needs,
// in shared memory, although its neighbours make some of it, too.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kSlab = 32;       // channels of a segment
constexpr int kRowBytes = 128;  // a pixel's or filter's slab: 32 high halves, 32 low ones
constexpr int kChunks = 8;      // of 16 bytes in such a row
constexpr int kTileWidth = 16;  // pixels of a matrix instruction lie in one row
constexpr int kPitch = kTileWidth + 2;
constexpr int kFilterStages = 3;         // tune: kFilterStages in 3, 4
constexpr int kWarpsM = 4, kWarpsN = 1;  // tune: warps of a block, 4 x 1, 2 x 2, 4 x 2
constexpr int kConvertThreads = 256;
constexpr int kConvertBlocks = 8 * 132;
constexpr int kPrepareThreads = 256;
constexpr float kGuess = 256;  // x's scale, if x's largest number is what it mostly is
constexpr int kTwiceThreads = 384;
constexpr int kTwiceBytes = 220 * 1024;  // of shared memory, at most
constexpr double kTwiceSteps = 1024;     // four sums of a thread, at most: beyond, tensor cores win

using Optional = c10::optional<torch::Tensor>;

// The place of channel `c` of a slab among its halves: a thread of Convolve holds channels 8 j + 2
// q and 8 j + 2 q + 1 of its results, q being its number among four, and stores them side by side.
__host__ __device__ constexpr int Place(int c) { return c / 2 % 4 * 8 + c / 8 * 2 + c % 2; }

struct alignas(16) Chunk {
  __half2 pairs[4];
};

__device__ void Split(const float (&v)[8], Chunk& high, Chunk& low) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    high.pairs[i] = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
    low.pairs[i] = __floats2half2_rn(v[2 * i] - __low2float(high.pairs[i]),
                                     v[2 * i + 1] - __high2float(high.pairs[i]));
  }
}

// The power of two that takes `largest` to [2^14, 2^15), where float16 has room on both sides.
__device__ float ScaleFor(float largest) {
  if (largest == 0) return 1;
  float scale = 1;
  for (int bits = 64; bits > 0; bits /= 2) {
    const float factor = exp2f(static_cast<float>(bits));
    if (largest * scale * factor < 32768.0f && scale * factor < 1e20f) scale *= factor;
    if (largest * scale / factor >= 16384.0f && scale / factor > 1e-36f) scale /= factor;
  }
  return scale;
}

__device__ float InputScale(float largest) {
  const float scaled = largest * kGuess;
  if (largest == 0 || (scaled >= 64 && scaled < 32768)) return kGuess;
  return ScaleFor(largest);
}

template <typename Combine>
__device__ float Reduce(float value, Combine combine) {
  __shared__ float partial[32];
  for (int lane = 16; lane > 0; lane /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffff, value, lane));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) value = combine(value, partial[w]);
  return value;
}

__device__ float ReduceMax(float value) {
  return Reduce(value, [](float a, float b) { return fmaxf(a, b); });
}

__device__ float Largest(const float* __restrict__ numbers, int count) {
  float largest = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) largest = fmaxf(largest, numbers[i]);
  return ReduceMax(largest);
}

// x (batch, channels, plane) to split slabs (batch, slabs, plane). Eight lanes take neighbouring
// pixels, four the chunks of a row: whole sectors on either side.
template <bool kAgain>
__global__ void __launch_bounds__(kConvertThreads)
    Convert(const float* __restrict__ x, Chunk* __restrict__ split, float* __restrict__ maxima,
            int channels, int64_t plane, int64_t groups, int64_t items) {
  constexpr int kPixels = kConvertThreads / 4;  // of an item
  float scale = kGuess;
  if (kAgain) {
    scale = InputScale(Largest(maxima, kConvertBlocks));
    if (scale == kGuess) return;
  }
  const int q = threadIdx.x / 8 % 4;
  const int slabs = (channels + kSlab - 1) / kSlab;
  float largest = 0;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int64_t image_slab = item / groups;
    const int64_t pixel = item % groups * kPixels + threadIdx.x / 32 * 8 + threadIdx.x % 8;
    if (pixel >= plane) continue;
    const int first = static_cast<int>(image_slab % slabs) * kSlab + 2 * q;
    const float* from = x + (image_slab / slabs * channels + first) * plane + pixel;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int c = i / 2 * 8 + i % 2;
      v[i] = first + c < channels ? __ldg(from + c * plane) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (fabsf(v[i]) < 3e38f) largest = fmaxf(largest, fabsf(v[i]));
      v[i] *= scale;
    }
    Chunk high, low;
    Split(v, high, low);
    Chunk* to = split + (image_slab * plane + pixel) * kChunks + q;
    to[0] = high;
    to[4] = low;
  }
  if (!kAgain) {
    largest = ReduceMax(largest);
    if (threadIdx.x == 0) maxima[blockIdx.x] = largest;
  }
}

// Filters (or null), their bias (or null), and the normalization that follows.
struct Layer {
  const float *filters, *bias, *weight, *offset, *mean, *variance;

  __device__ float Scale(int n, float eps) const {
    const float v = variance[n] + eps;
    const float root = rsqrtf(v);
    return weight[n] * (root * (1.5f - 0.5f * v * root * root));
  }
  __device__ float Shift(int n, float scale) const {
    return offset[n] + ((bias == nullptr ? 0.0f : bias[n]) - mean[n]) * scale;
  }
};

// What Convolve's sums go through, for each output channel; and scales of whole tensors.
struct Finish {
  float *factor, *shift, *bound;
  float* scales;  // of x, of the first convolution's result
};

// How many taps of three fall on every stride-th pixel from `phase` on.
__host__ __device__ constexpr int Taps(int stride, int phase) { return (2 - phase) / stride + 1; }

// Where in a slab's sequence of steps the tap (row, column) comes.
__device__ int StepOf(int row, int column, int stride) {
  int step = 0;
  for (int py = 0; py < min(stride, 3); ++py) {
    for (int px = 0; px < min(stride, 3); ++px) {
      if (row % stride == py && column % stride == px) {
        return step + row / stride * Taps(stride, px) + column / stride;
      }
      step += Taps(stride, py) * Taps(stride, px);
    }
  }
  return step;
}

// Splits row n of the filters, times `factor`, to where Convolve takes them: a tile of kChannels
// rows for each step, chunks already where its shared memory wants them.
__device__ void SplitFilters(const float* filters, bool exists, int channels, int side, int stride,
                             float factor, __half* tiles, int steps, int first_step, int n,
                             int tile_channels) {
  const int taps = side * side;
  const int slabs = (channels + kSlab - 1) / kSlab;
  for (int i = threadIdx.x; i < slabs * kSlab * taps; i += blockDim.x) {
    const int channel = i / taps;
    const int tap = i % taps;
    const float v =
        exists && channel < channels
            ? filters[(static_cast<int64_t>(n) * channels + channel) * taps + tap] * factor
            : 0.0f;
    const __half high = __float2half_rn(v);
    const __half low = __float2half_rn(v - __half2float(high));
    const int step = first_step + channel / kSlab * taps +
                     (side == 1 ? 0 : StepOf(tap / side, tap % side, stride));
    const int place = Place(channel % kSlab);
    __half* row =
        tiles + ((static_cast<int64_t>(n / tile_channels) * steps + step) * tile_channels +
                 n % tile_channels) *
                    (kRowBytes / 2);
    row[((place / 8) ^ (n % 8)) * 8 + place % 8] = high;
    row[((place / 8 + 4) ^ (n % 8)) * 8 + place % 8] = low;
  }
}

__device__ float2 LargestAndSum(const float* row, int count) {
  float largest = 0;
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    largest = fmaxf(largest, fabsf(row[i]));
    sum += fabsf(row[i]);
  }
  return {ReduceMax(largest), Reduce(sum, [](float a, float b) { return a + b; })};
}

// One block for each output channel, padded ones too.
__global__ void __launch_bounds__(kPrepareThreads)
    PrepareFirst(Layer layer, int in_channels, int out_channels, int stride, float eps,
                 const float* __restrict__ maxima, __half* __restrict__ tiles, int steps,
                 int tile_channels, Finish finish) {
  const int n = blockIdx.x;
  const bool exists = n < out_channels;
  const int depth = in_channels * 9;
  const float largest = Largest(maxima, kConvertBlocks);
  const float input_scale = InputScale(largest);
  float scale = 0, shift = 0, factor = 1;
  if (exists) {
    scale = layer.Scale(n, eps);
    shift = layer.Shift(n, scale);
    const float2 row = LargestAndSum(layer.filters + static_cast<int64_t>(n) * depth, depth);
    factor = ScaleFor(row.x * fabsf(scale));
    if (threadIdx.x == 0) {
      finish.bound[n] = 1.001f * (row.y * fabsf(scale) * largest + fabsf(shift));
    }
  }
  SplitFilters(layer.filters, exists, in_channels, 3, stride, scale * factor, tiles, steps, 0, n,
               tile_channels);
  if (threadIdx.x == 0) {
    finish.factor[n] = 1 / factor / input_scale;
    finish.shift[n] = shift;
    if (n == 0) finish.scales[0] = input_scale;
  }
}

__global__ void __launch_bounds__(kPrepareThreads)
    PrepareSecond(Layer layer, Layer shortcut, int in_channels, int out_channels, float eps,
                  __half* __restrict__ tiles, int steps, int tile_channels, Finish first,
                  Finish finish) {
  const int n = blockIdx.x;
  const bool exists = n < out_channels;
  const int depth = out_channels * 9;
  const float middle_scale = ScaleFor(Largest(first.bound, out_channels));
  const float input_scale = first.scales[0];
  float scale = 0, shortcut_scale = 0, shift = 0, factor = 1;
  if (exists) {
    scale = layer.Scale(n, eps);
    shift = layer.Shift(n, scale);
    const float largest =
        LargestAndSum(layer.filters + static_cast<int64_t>(n) * depth, depth).x * fabsf(scale);
    factor = ScaleFor(largest) * middle_scale;
    if (shortcut.filters != nullptr) {
      // Both products go to one sum, and so must have one scale.
      shortcut_scale = shortcut.Scale(n, eps);
      shift += shortcut.Shift(n, shortcut_scale);
      const float* row = shortcut.filters + static_cast<int64_t>(n) * in_channels;
      const float other = LargestAndSum(row, in_channels).x * fabsf(shortcut_scale);
      const float shortcut_factor = ScaleFor(other) * input_scale;
      if (largest == 0) factor = shortcut_factor;
      if (other != 0) factor = fminf(factor, shortcut_factor);
    }
  }
  SplitFilters(layer.filters, exists, out_channels, 3, 1, scale * (factor / middle_scale), tiles,
               steps, 0, n, tile_channels);
  if (shortcut.filters != nullptr) {
    const int before = (out_channels + kSlab - 1) / kSlab * 9;
    SplitFilters(shortcut.filters, exists, in_channels, 1, 1,
                 shortcut_scale * (factor / input_scale), tiles, steps, before, n, tile_channels);
  }
  if (threadIdx.x == 0) {
    finish.factor[n] = 1 / factor;
    finish.shift[n] = shift;
    if (n == 0) first.scales[1] = middle_scale;
  }
}

__device__ void CopyAsync(uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}

__device__ void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ void Await() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ void Multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
}

// A split tensor that is convolved; no channels means no tensor.
struct Source {
  const Chunk* split;
  int channels, height, width, stride;
  bool wide;  // 3x3 with a padding of one, or else 1x1

  __host__ __device__ int Slabs() const { return (channels + kSlab - 1) / kSlab; }
};

// By members: a choice between kernel parameters as wholes would copy them to local memory.
__device__ Source Chosen(bool a_chosen, const Source& a, const Source& b) {
  return {a_chosen ? a.split : b.split,   a_chosen ? a.channels : b.channels,
          a_chosen ? a.height : b.height, a_chosen ? a.width : b.width,
          a_chosen ? a.stride : b.stride, a_chosen ? a.wide : b.wide};
}

struct Target {
  int out_channels, height, width;
  Chunk* split;           // the result split, or null
  const float* shortcut;  // to be added, or null
  float* y;               // the result as it is
};

// Segments in their order: slab by slab of the first source, phase by phase; then of the second.
struct Segment {
  int slab = 0, py = 0, px = 0;
  bool second = false;

  __device__ void Advance(const Source& first) {
    const int phases = !second ? min(first.stride, 3) : 1;
    if (++px < phases) return;
    px = 0;
    if (++py < phases) return;
    py = 0;
    if (++slab < first.Slabs() || second) return;
    slab = 0;
    second = true;
  }
  __device__ int Rows(const Source& first) const { return second ? 1 : Taps(first.stride, py); }
  __device__ int Columns(const Source& first) const { return second ? 1 : Taps(first.stride, px); }
};

// kM x kN warps of 64 pixels x 64 channels: 4 kM rows of a tile.
template <int kM, int kN>
struct Tile {
  static constexpr int kThreads = 32 * kM * kN;
  static constexpr int kHeight = 4 * kM;
  static constexpr int kChannels = 64 * kN;
  static constexpr int kPatchBytes = (kHeight + 2) * kPitch * kRowBytes;
  static constexpr int kFilterBytes = kChannels * kRowBytes;
  static constexpr int kBytes = 2 * kPatchBytes + kFilterStages * kFilterBytes;
};

template <int kM, int kN>
__device__ void LoadPatch(const Source& source, const Segment& segment, int rows, int columns,
                          int image, int y0, int x0, uint32_t patch) {
  using T = Tile<kM, kN>;
  const int chunk = threadIdx.x % kChunks;
  const int first = threadIdx.x % 32 / kChunks;  // of every fourth pixel of a row
  const int64_t plane = static_cast<int64_t>(source.height) * source.width;
  const Chunk* from =
      source.split +
      (static_cast<int64_t>(image) * source.Slabs() + segment.slab) * plane * kChunks + chunk;
  const int margin = source.wide ? 1 : 0;
  const int x_first = (x0 + first) * source.stride + segment.px - margin;
  for (int r = threadIdx.x / 32; r < T::kHeight + rows - 1; r += T::kThreads / 32) {
    const int y = (y0 + r) * source.stride + segment.py - margin;
    // As large numbers, negative ones are outside, too.
    const bool row_inside = static_cast<unsigned>(y) < static_cast<unsigned>(source.height);
    const Chunk* line = from + y * source.width * kChunks;
#pragma unroll
    for (int i = 0; i < (kPitch + 3) / 4; ++i) {
      const int c = first + 4 * i;
      const int x = x_first + 4 * i * source.stride;
      const int p = r * kPitch + c;
      if (4 * i + 3 < kTileWidth || c < kTileWidth + columns - 1) {
        CopyAsync(patch + p * kRowBytes + ((chunk ^ (p % 8)) << 4), line + x * kChunks,
                  row_inside && static_cast<unsigned>(x) < static_cast<unsigned>(source.width));
      }
    }
  }
}

template <int kM, int kN>
__global__ void __launch_bounds__(Tile<kM, kN>::kThreads, 256 / Tile<kM, kN>::kThreads)
    Convolve(Source first, Source second, const Chunk* __restrict__ tiles, int steps, Finish finish,
             Target target, int tiles_x, int tiles_y) {
  using T = Tile<kM, kN>;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t patches = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t filters = patches + 2 * T::kPatchBytes;
  const int channel_tiles = (target.out_channels + T::kChannels - 1) / T::kChannels;
  unsigned block = blockIdx.x;
  const int channel_tile = block % channel_tiles;
  block /= channel_tiles;
  const int x0 = block % tiles_x * kTileWidth;
  block /= tiles_x;
  const int y0 = block % tiles_y * T::kHeight;
  const int image = block / tiles_y;
  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32 % kM;
  const int warp_n = threadIdx.x / 32 / kM;

  const Chunk* wanted = tiles + static_cast<int64_t>(channel_tile) * steps * T::kChannels * kChunks;
  const auto load_filters = [&](int step) {
    const Chunk* from = wanted + static_cast<int64_t>(step) * T::kChannels * kChunks + threadIdx.x;
    const uint32_t to = filters + step % kFilterStages * T::kFilterBytes + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < T::kFilterBytes / 16 / T::kThreads; ++i) {
      CopyAsync(to + i * T::kThreads * 16, from + i * T::kThreads, true);
    }
  };

  // Lanes' places in the matrices that they load.
  const int pixel = (warp_m * 4) * kPitch + lane % 16;
  const int pixel_half = lane / 16;
  const int filter = warp_n * 64 + lane / 16 * 8 + lane % 8;
  const uint32_t filter_offset = filter * kRowBytes + (((lane / 8 % 2) ^ (lane % 8)) << 4);

  // The shortcut is waited for in the end; until then it comes as near as L2.
  if (target.shortcut != nullptr) {
    for (int i = threadIdx.x; i < T::kChannels * T::kHeight; i += T::kThreads) {
      const int channel = channel_tile * T::kChannels + i / T::kHeight;
      const int y = y0 + i % T::kHeight;
      if (channel < target.out_channels && y < target.height) {
        const float* row =
            target.shortcut +
            ((static_cast<int64_t>(image) * target.out_channels + channel) * target.height + y) *
                target.width +
            x0;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(row));
      }
    }
  }

  float sums[4][8][4] = {};
  Segment segment, next;
  int rows = segment.Rows(first), columns = segment.Columns(first);
  LoadPatch<kM, kN>(first, segment, rows, columns, image, y0, x0, patches);
  for (int step = 0; step < kFilterStages - 1; ++step) {
    if (step < steps) load_filters(step);
    Commit();
  }
  next.Advance(first);
  int row = 0, column = 0, buffer = 0;
  bool urgent = true;  // the patch that comes next was asked for only one step ago
  for (int step = 0; step < steps; ++step) {
    const bool enters = row == 0 && column == 0;
    if (enters && urgent) {
      Await<0>();
    } else {
      Await<kFilterStages - 2>();
    }
    __syncthreads();
    if (step + kFilterStages - 1 < steps) load_filters(step + kFilterStages - 1);
    if (enters) {
      urgent = rows * columns < kFilterStages - 1;
      if (step + rows * columns < steps) {
        const Source source = Chosen(next.second, second, first);
        LoadPatch<kM, kN>(source, next, next.Rows(first), next.Columns(first), image, y0, x0,
                          patches + (buffer ^ 1) * T::kPatchBytes);
      }
    }
    Commit();

    const uint32_t patch = patches + buffer * T::kPatchBytes;
    const uint32_t tile = filters + step % kFilterStages * T::kFilterBytes + filter_offset;
    const int p = pixel + row * kPitch + column;
    uint32_t b_high[2][4][4], b_low[2][4][4];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        LoadMatrices(b_high[k][j], (tile ^ (k * 32)) + j * 16 * kRowBytes);
        LoadMatrices(b_low[k][j], (tile ^ (k * 32 + 64)) + j * 16 * kRowBytes);
      }
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int mine = p + m * kPitch;
      float part[8][4] = {};
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const uint32_t at = patch + mine * kRowBytes + (((pixel_half + 2 * k) ^ (mine % 8)) << 4);
        uint32_t a_high[4], a_low[4];
        LoadMatrices(a_high, at);
        LoadMatrices(a_low, at ^ 64);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          Multiply(part[n], a_low, b_high[k][n / 2][n % 2 * 2], b_high[k][n / 2][n % 2 * 2 + 1],
                   part[n]);
        }
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          Multiply(part[n], a_high, b_low[k][n / 2][n % 2 * 2], b_low[k][n / 2][n % 2 * 2 + 1],
                   part[n]);
        }
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          Multiply(part[n], a_high, b_high[k][n / 2][n % 2 * 2], b_high[k][n / 2][n % 2 * 2 + 1],
                   part[n]);
        }
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][n][i] += part[n][i];
      }
    }
    if (++column == columns) {
      column = 0;
      if (++row == rows) {
        row = 0;
        buffer ^= 1;
        segment = next;
        next.Advance(first);
        rows = segment.Rows(first);
        columns = segment.Columns(first);
      }
    }
  }

  const int channel0 = channel_tile * T::kChannels + warp_n * 64 + lane % 4 * 2;
  const int64_t plane = static_cast<int64_t>(target.height) * target.width;
  float2 factor[8], shift[8];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    factor[n] = *reinterpret_cast<const float2*>(finish.factor + channel0 + n * 8);
    shift[n] = *reinterpret_cast<const float2*>(finish.shift + channel0 + n * 8);
  }
  const float scale = finish.scales[1];
  const int slabs = (target.out_channels + kSlab - 1) / kSlab;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int y = y0 + warp_m * 4 + m;
    if (y >= target.height) break;
    const int64_t row_place = static_cast<int64_t>(y) * target.width + x0 + lane / 4;
    const int64_t row_at =
        (static_cast<int64_t>(image) * target.out_channels + channel0) * plane + row_place;
    const auto exists = [&](int half, int channel) {
      return x0 + half * 8 + lane / 4 < target.width && channel0 + channel < target.out_channels;
    };
    // All numbers of the shortcut that belong to these sums, before the first is used.
    float shortcut[2][16];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int channel = i / 2 * 8 + i % 2;
        shortcut[half][i] = target.shortcut != nullptr && exists(half, channel)
                                ? __ldg(target.shortcut + row_at + half * 8 + channel * plane)
                                : 0.0f;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int slab = 0; slab < 2; ++slab) {
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int n = slab * 4 + i / 2;
          v[i] = sums[m][n][half * 2 + i % 2] * (i % 2 == 0 ? factor[n].x : factor[n].y) +
                 (i % 2 == 0 ? shift[n].x : shift[n].y) + shortcut[half][slab * 8 + i];
          if (v[i] < 0) v[i] = 0;  // a NaN stays one
        }
        if (target.split != nullptr) {
          const int mine = channel_tile * (T::kChannels / kSlab) + warp_n * 2 + slab;
          if (mine >= slabs || x0 + half * 8 + lane / 4 >= target.width) continue;
#pragma unroll
          for (float& number : v) number *= scale;
          Chunk high, low;
          Split(v, high, low);
          Chunk* to =
              target.split +
              ((static_cast<int64_t>(image) * slabs + mine) * plane + row_place + half * 8) *
                  kChunks +
              lane % 4;
          to[0] = high;
          to[4] = low;
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int channel = slab * kSlab + i / 2 * 8 + i % 2;
            if (exists(half, channel)) target.y[row_at + half * 8 + channel * plane] = v[i];
          }
        }
      }
    }
  }
}

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  Divisor() : Divisor(1) {}
  explicit Divisor(uint32_t d) : value(d), shift(0) {
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

// A small problem, and how ConvolveTwice shares it out.
struct Small {
  const float* x;
  float* y;
  Layer first, second, shortcut;  // no filters: x itself is the shortcut
  int in_channels, out_channels, height, width, out_height, out_width, stride;
  float eps;
  // Of a block: a tile of y for `group` channels, a multiple of four. `parts` threads share a sum
  // of the second convolution.
  int rows, columns, group, parts;
  Divisor of_patch_rows, of_middle, of_middle_columns, of_part, of_pixels, of_columns;

  // Floats from one tap to the next; an odd number of quads, for few bank conflicts.
  __host__ __device__ static int Pitch(int channels) { return ((channels + 3) / 4 | 1) * 4; }
  __host__ __device__ int MiddlePixels() const { return (rows + 2) * (columns + 2); }
  __host__ __device__ int PatchRows() const { return (rows + 1) * stride + 3; }
  __host__ __device__ int PatchColumns() const { return (columns + 1) * stride + 3; }

  // In shared memory, in this order, in floats.
  __host__ __device__ int FirstFilters() const { return in_channels * 9 * Pitch(out_channels); }
  __host__ __device__ int SecondFilters() const { return out_channels * 9 * Pitch(group); }
  __host__ __device__ int ShortcutFilters() const {
    return shortcut.filters != nullptr ? in_channels * Pitch(group) : 0;
  }
  __host__ __device__ int Norms() const { return 2 * (out_channels + 2 * group); }
  __host__ __device__ int Patch() const { return in_channels * PatchRows() * PatchColumns(); }
  __host__ __device__ int Middle() const { return out_channels * MiddlePixels(); }
  __host__ __device__ int Sums() const { return parts * group * rows * columns; }
  int Floats() const {
    return FirstFilters() + SecondFilters() + ShortcutFilters() + Norms() + Patch() + Middle() +
           Sums();
  }
};

__device__ void CopyNumber(float* to, const float* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(exists ? 4 : 0)
               : "memory");
}

// `count` filters of `depth` numbers, side by side in shared memory; zeros up to whole quads.
__device__ void CopyFilters(float* to, const float* filters, int depth, int count) {
  const int pitch = Small::Pitch(count);
  for (int n = threadIdx.x / 32; n < (count + 3) / 4 * 4; n += kTwiceThreads / 32) {
    for (int k = threadIdx.x % 32; k < depth; k += 32) {
      CopyNumber(to + k * pitch + n, filters + static_cast<int64_t>(n) * depth + k, n < count);
    }
  }
}

// Adds the nine products of a channel's window with four filters.
__device__ void AddWindow(float (&sums)[4], const float* window, int line, const float4* filters,
                          int quads) {
#pragma unroll
  for (int tap = 0; tap < 9; ++tap) {
    const float v = window[tap / 3 * line + tap % 3];
    const float4 w = filters[tap * quads];
    sums[0] += v * w.x;
    sums[1] += v * w.y;
    sums[2] += v * w.z;
    sums[3] += v * w.w;
  }
}

__global__ void __launch_bounds__(kTwiceThreads) ConvolveTwice(const __grid_constant__ Small p) {
  extern __shared__ __align__(16) float numbers[];
  float* const filters1 = numbers;
  float* const filters2 = filters1 + p.FirstFilters();
  float* const filters3 = filters2 + p.SecondFilters();
  float2* const norms1 = reinterpret_cast<float2*>(filters3 + p.ShortcutFilters());
  float2* const norms2 = norms1 + p.out_channels;
  float2* const norms3 = norms2 + p.group;
  float* const patch = filters3 + p.ShortcutFilters() + p.Norms();
  float* const middle = patch + p.Patch();
  float* const partial = middle + p.Middle();

  const int groups = (p.out_channels + p.group - 1) / p.group;
  const int x0 = blockIdx.x / groups * p.columns;
  const int y0 = blockIdx.y * p.rows;
  const int channel0 = blockIdx.x % groups * p.group;
  const int64_t image = blockIdx.z;
  const int count = min(p.group, p.out_channels - channel0);

  const int patch_rows = p.PatchRows();
  const int patch_columns = p.PatchColumns();
  const float* const plane = p.x + image * p.in_channels * p.height * p.width;
  for (int i = threadIdx.x / 32; i < p.in_channels * patch_rows; i += kTwiceThreads / 32) {
    int row = i;
    const int channel = p.of_patch_rows.Split(row);
    const int y = (y0 - 1) * p.stride - 1 + row;
    for (int column = threadIdx.x % 32; column < patch_columns; column += 32) {
      const int x = (x0 - 1) * p.stride - 1 + column;
      CopyNumber(patch + i * patch_columns + column,
                 plane + (static_cast<int64_t>(channel) * p.height + y) * p.width + x,
                 y >= 0 && y < p.height && x >= 0 && x < p.width);
    }
  }
  CopyFilters(filters1, p.first.filters, p.in_channels * 9, p.out_channels);
  Commit();
  const int depth2 = p.out_channels * 9;
  CopyFilters(filters2, p.second.filters + static_cast<int64_t>(channel0) * depth2, depth2, count);
  if (p.shortcut.filters != nullptr) {
    CopyFilters(filters3, p.shortcut.filters + static_cast<int64_t>(channel0) * p.in_channels,
                p.in_channels, count);
  }
  Commit();
  const auto norm = [&](const Layer& layer, int n) {
    const float scale = layer.Scale(n, p.eps);
    return make_float2(scale, layer.Shift(n, scale));
  };
  for (int i = threadIdx.x; i < p.out_channels + 2 * count; i += kTwiceThreads) {
    const int of_group = i - p.out_channels;
    if (of_group < 0) {
      norms1[i] = norm(p.first, i);
    } else if (of_group < count) {
      norms2[of_group] = norm(p.second, channel0 + of_group);
    } else if (p.shortcut.filters != nullptr) {
      norms3[of_group - count] = norm(p.shortcut, channel0 + of_group - count);
    }
  }
  Await<1>();
  __syncthreads();

  // The result between, and zeros around the image.
  const int middle_columns = p.columns + 2;
  const int pixels = p.MiddlePixels();
  const int quads1 = Small::Pitch(p.out_channels) / 4;
  for (int i = threadIdx.x; i < (p.out_channels + 3) / 4 * pixels; i += kTwiceThreads) {
    int pixel = i;
    const int quad = p.of_middle.Split(pixel);
    int column = pixel;
    const int row = p.of_middle_columns.Split(column);
    const bool inside =
        y0 + row > 0 && y0 + row <= p.out_height && x0 + column > 0 && x0 + column <= p.out_width;
    float sums[4] = {};
    if (inside) {
      const float* window = patch + row * p.stride * patch_columns + column * p.stride;
      const float4* filters = reinterpret_cast<const float4*>(filters1) + quad;
#pragma unroll 1
      for (int c = 0; c < p.in_channels; ++c) {
        AddWindow(sums, window, patch_columns, filters, quads1);
        window += patch_rows * patch_columns;
        filters += 9 * quads1;
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int n = quad * 4 + j;
      if (n >= p.out_channels) break;
      float v = sums[j] * norms1[n].x + norms1[n].y;
      if (!inside || v < 0) v = 0;  // a NaN stays one
      middle[n * pixels + pixel] = v;
    }
  }
  Await<0>();
  __syncthreads();

  const int out_pixels = p.rows * p.columns;
  const int quads2 = Small::Pitch(count) / 4;
  for (int i = threadIdx.x; i < p.parts * p.group / 4 * out_pixels; i += kTwiceThreads) {
    int pixel = i;
    const int part = p.of_part.Split(pixel);
    const int quad = p.of_pixels.Split(pixel);
    if (quad * 4 >= count) continue;
    int column = pixel;
    const int row = p.of_columns.Split(column);
    const float* window = middle + row * middle_columns + column;
    const float4* filters = reinterpret_cast<const float4*>(filters2) + quad;
    float sums[4] = {};
#pragma unroll 1
    for (int c = part; c < p.out_channels; c += p.parts) {
      AddWindow(sums, window + c * pixels, middle_columns, filters + c * 9 * quads2, quads2);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      partial[(part * p.group + quad * 4 + j) * out_pixels + pixel] = sums[j];
    }
  }
  __syncthreads();

  for (int i = threadIdx.x; i < count * out_pixels; i += kTwiceThreads) {
    int pixel = i;
    const int n = p.of_pixels.Split(pixel);
    int column = pixel;
    const int row = p.of_columns.Split(column);
    if (y0 + row >= p.out_height || x0 + column >= p.out_width) continue;
    float sum = 0;
#pragma unroll 4
    for (int part = 0; part < p.parts; ++part) {
      sum += partial[(part * p.group + n) * out_pixels + pixel];
    }
    float v = sum * norms2[n].x + norms2[n].y;
    const float* const of_x =
        patch + ((row + 1) * p.stride + 1) * patch_columns + (column + 1) * p.stride + 1;
    if (p.shortcut.filters == nullptr) {
      v += of_x[(channel0 + n) * patch_rows * patch_columns];
    } else {
      float shortcut = 0;
#pragma unroll 4
      for (int c = 0; c < p.in_channels; ++c) {
        shortcut += of_x[c * patch_rows * patch_columns] * filters3[c * quads2 * 4 + n];
      }
      v += shortcut * norms3[n].x + norms3[n].y;
    }
    if (v < 0) v = 0;
    p.y[((image * p.out_channels + channel0 + n) * p.out_height + y0 + row) * p.out_width + x0 +
        column] = v;
  }
}

static int Ceiling(int a, int b) { return (a + b - 1) / b; }

// Does a problem that is small enough; false where it is not. Of several tiles the one is taken by
// which a multiprocessor has the fewest steps of four multiply-adds a thread.
static bool LaunchConvolveTwice(Small p, int batch, cudaStream_t stream) {
  constexpr int kThreads = kTwiceThreads;
  const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  Small best{};
  dim3 best_grid(0);
  double least = kTwiceSteps;
  for (int rows = 1; rows <= 8; rows *= 2) {
    for (int group = 4; group <= 32; group *= 2) {
      p.rows = std::min(rows, p.out_height);
      p.columns = std::min(p.out_width, 16);
      p.group = std::min(group, Ceiling(p.out_channels, 4) * 4);
      const int of_part = p.group / 4 * p.rows * p.columns;
      p.parts = std::clamp(kThreads / of_part, 1, p.out_channels);
      // In double: sizes that are too large must not look small.
      const double floats =
          (9.0 * p.out_channels + p.PatchRows() * p.PatchColumns()) * p.in_channels +
          9.0 * p.out_channels * p.group;
      if (floats * 4 > kTwiceBytes || p.Floats() * 4 > kTwiceBytes) continue;
      const dim3 grid(Ceiling(p.out_width, p.columns) * Ceiling(p.out_channels, p.group),
                      Ceiling(p.out_height, p.rows), batch);
      const double blocks = 1.0 * grid.x * grid.y * grid.z;
      const int items = Ceiling(p.out_channels, 4) * p.MiddlePixels();
      const double steps =
          floats / kThreads + 9.0 * p.in_channels * Ceiling(items, kThreads) +
          9.0 * Ceiling(p.out_channels, p.parts) * Ceiling(p.parts * of_part, kThreads);
      const double cost = steps * std::max(1.0, blocks / sms);
      if (cost >= least || grid.y > 65535 || grid.z > 65535) continue;
      least = cost;
      best = p;
      best_grid = grid;
    }
  }
  if (best_grid.x == 0) return false;
  best.of_patch_rows = Divisor(best.PatchRows());
  best.of_middle = Divisor(best.MiddlePixels());
  best.of_middle_columns = Divisor(best.columns + 2);
  best.of_part = Divisor(best.group / 4 * best.rows * best.columns);
  best.of_pixels = Divisor(best.rows * best.columns);
  best.of_columns = Divisor(best.columns);
  const int bytes = best.Floats() * 4;
  C10_CUDA_CHECK(
      cudaFuncSetAttribute(ConvolveTwice, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  ConvolveTwice<<<best_grid, kThreads, bytes, stream>>>(best);
  return true;
}

template <int kM, int kN>
static void LaunchConvolve(const Source& first, const Source& second, const torch::Tensor& tiles,
                           int steps, const Finish& finish, const Target& target, int batch,
                           cudaStream_t stream) {
  using T = Tile<kM, kN>;
  const int tiles_x = Ceiling(target.width, kTileWidth);
  const int tiles_y = Ceiling(target.height, T::kHeight);
  const int64_t blocks =
      int64_t{1} * batch * tiles_x * tiles_y * Ceiling(target.out_channels, T::kChannels);
  TORCH_CHECK(blocks < int64_t{1} << 31, "the result is too large");
  C10_CUDA_CHECK(cudaFuncSetAttribute(Convolve<kM, kN>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      T::kBytes));
  Convolve<kM, kN><<<static_cast<unsigned>(blocks), T::kThreads, T::kBytes, stream>>>(
      first, second, reinterpret_cast<const Chunk*>(tiles.data_ptr<float>()), steps, finish, target,
      tiles_x, tiles_y);
}

// A layer's tensors, contiguous, while their pointers are in use.
struct LayerTensors {
  torch::Tensor filters;
  Optional bias;
  torch::Tensor weight, offset, mean, variance;

  Layer Pointers(int64_t in_channels, int64_t out_channels, int64_t side) {
    TORCH_CHECK(filters.dim() == 4 && filters.size(0) == out_channels &&
                    filters.size(1) == in_channels && filters.size(2) == side &&
                    filters.size(3) == side,
                "filters must be 3x3, the shortcut's 1x1, with as many channels as their input");
    for (torch::Tensor* t : {&weight, &offset, &mean, &variance}) {
      TORCH_CHECK(t->numel() == out_channels, "one number of each kind for an output channel");
      *t = t->contiguous();
    }
    filters = filters.contiguous();
    if (bias.has_value()) bias = bias->contiguous();
    return {filters.data_ptr<float>(), bias.has_value() ? bias->data_ptr<float>() : nullptr,
            weight.data_ptr<float>(),  offset.data_ptr<float>(),
            mean.data_ptr<float>(),    variance.data_ptr<float>()};
  }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias,
                      torch::Tensor bn1_weight, torch::Tensor bn1_bias, torch::Tensor bn1_mean,
                      torch::Tensor bn1_var, torch::Tensor conv2_weight, Optional conv2_bias,
                      torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias,
                      Optional downsample_bn_mean, Optional downsample_bn_var, int64_t stride,
                      double eps) {
  TORCH_CHECK(x.dim() == 4 && x.size(1) > 0, "x must have four dimensions");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(stride >= 1 && stride < 1024, "stride must be positive");
  TORCH_CHECK(x.size(2) * x.size(3) < int64_t{1} << 27, "images are too large");
  TORCH_CHECK(conv1_weight.dim() == 4 && conv1_weight.size(0) > 0, "filters of four dimensions");
  x = x.contiguous();
  const int batch = static_cast<int>(x.size(0));
  const int in_channels = static_cast<int>(x.size(1));
  const int height = static_cast<int>(x.size(2));
  const int width = static_cast<int>(x.size(3));
  const int out_channels = static_cast<int>(conv1_weight.size(0));
  const int out_height = (height - 1) / static_cast<int>(stride) + 1;
  const int out_width = (width - 1) / static_cast<int>(stride) + 1;
  const bool projected = downsample_weight.has_value();
  TORCH_CHECK(projected || (stride == 1 && in_channels == out_channels),
              "x must have the result's shape if it is the shortcut");
  auto y = torch::empty({batch, out_channels, out_height, out_width}, x.options());
  if (y.numel() == 0) return y;

  LayerTensors tensors1{conv1_weight, conv1_bias, bn1_weight, bn1_bias, bn1_mean, bn1_var};
  LayerTensors tensors2{conv2_weight, conv2_bias, bn2_weight, bn2_bias, bn2_mean, bn2_var};
  const Layer layer1 = tensors1.Pointers(in_channels, out_channels, 3);
  const Layer layer2 = tensors2.Pointers(out_channels, out_channels, 3);
  LayerTensors tensors3{};
  Layer shortcut{};
  if (projected) {
    tensors3 = {*downsample_weight,  downsample_bias,     *downsample_bn_weight,
                *downsample_bn_bias, *downsample_bn_mean, *downsample_bn_var};
    shortcut = tensors3.Pointers(in_channels, out_channels, 1);
  }
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const Small small{x.data_ptr<float>(),
                    y.data_ptr<float>(),
                    layer1,
                    layer2,
                    shortcut,
                    in_channels,
                    out_channels,
                    height,
                    width,
                    out_height,
                    out_width,
                    static_cast<int>(stride),
                    static_cast<float>(eps)};
  if (LaunchConvolveTwice(small, batch, stream)) return y;

  const int tile_channels = Tile<kWarpsM, kWarpsN>::kChannels;
  const int padded = Ceiling(out_channels, tile_channels) * tile_channels;
  const int64_t plane = int64_t{1} * height * width;
  const int64_t out_plane = int64_t{1} * out_height * out_width;
  const int slabs = Ceiling(in_channels, kSlab);
  const int out_slabs = Ceiling(out_channels, kSlab);
  const int steps1 = slabs * 9;
  const int steps2 = out_slabs * 9 + (projected ? slabs : 0);
  constexpr int kRowFloats = kRowBytes / 4;
  auto split = torch::empty({batch * slabs * plane * kRowFloats}, x.options());
  auto middle = torch::empty({batch * out_slabs * out_plane * kRowFloats}, x.options());
  auto tiles1 = torch::empty({int64_t{1} * steps1 * padded * kRowFloats}, x.options());
  auto tiles2 = torch::empty({int64_t{1} * steps2 * padded * kRowFloats}, x.options());
  auto numbers = torch::empty({kConvertBlocks + 5 * padded + 2}, x.options());
  float* maxima = numbers.data_ptr<float>();
  float* scales = maxima + kConvertBlocks + 5 * padded;
  const auto column = [&](int i) { return maxima + kConvertBlocks + i * padded; };
  const Finish finish1{column(0), column(1), column(4), scales};
  const Finish finish2{column(2), column(3), nullptr, scales};

  auto* chunks = reinterpret_cast<Chunk*>(split.data_ptr<float>());
  auto* middle_chunks = reinterpret_cast<Chunk*>(middle.data_ptr<float>());
  const int64_t groups = (plane + kConvertThreads / 4 - 1) / (kConvertThreads / 4);
  const int64_t items = groups * batch * slabs;
  Convert<false><<<kConvertBlocks, kConvertThreads, 0, stream>>>(
      x.data_ptr<float>(), chunks, maxima, in_channels, plane, groups, items);
  Convert<true><<<kConvertBlocks, kConvertThreads, 0, stream>>>(x.data_ptr<float>(), chunks, maxima,
                                                                in_channels, plane, groups, items);
  PrepareFirst<<<padded, kPrepareThreads, 0, stream>>>(
      layer1, in_channels, out_channels, static_cast<int>(stride), static_cast<float>(eps), maxima,
      reinterpret_cast<__half*>(tiles1.data_ptr<float>()), steps1, tile_channels, finish1);
  PrepareSecond<<<padded, kPrepareThreads, 0, stream>>>(
      layer2, shortcut, in_channels, out_channels, static_cast<float>(eps),
      reinterpret_cast<__half*>(tiles2.data_ptr<float>()), steps2, tile_channels, finish1, finish2);

  const Source source{chunks, in_channels, height, width, static_cast<int>(stride), true};
  const Source projection{chunks, projected ? in_channels : 0, height,
                          width,  static_cast<int>(stride),    false};
  const Source between{middle_chunks, out_channels, out_height, out_width, 1, true};
  LaunchConvolve<kWarpsM, kWarpsN>(
      source, Source{}, tiles1, steps1, finish1,
      {out_channels, out_height, out_width, middle_chunks, nullptr, nullptr}, batch, stream);
  LaunchConvolve<kWarpsM, kWarpsN>(between, projection, tiles2, steps2, finish2,
                                   {out_channels, out_height, out_width, nullptr,
                                    projected ? nullptr : x.data_ptr<float>(), y.data_ptr<float>()},
                                   batch, stream);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Basic block of ResNet"); }
