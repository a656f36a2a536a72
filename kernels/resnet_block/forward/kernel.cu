// Basic block of ResNet with tensor cores at the accuracy of float32. A number v is held as two
// halves, s v = high + low with s a power of two, which keep 22 of its bits; a product is then
// low high' + high low' + high high', three matrix instructions of float16, each exact but for the
// last bit of its sum. Tensor cores round sums toward zero, so a sum never stays in them for more
// than three taps of 32 channels, of which the small products come first: what they give is added
// in registers, rounded to nearest.
//
// Convert writes x as halves, eight channels of a pixel side by side and pixels that a stride apart
// side by side, scaled by a guess and finding x's largest number on the way; where the guess was
// bad its second launch does it over. Normalization's factors go into the filters (PrepareFirst,
// PrepareSecond), which are split too. The result of the first convolution is stored split; its
// scale comes from a bound, the filters' sums of magnitudes times x's largest number. The 1x1
// convolution of the shortcut is more depth for the second.
//
// Convolve is an implicit product of matrices by wgmma: 64 filters times the 128 pixels of a tile
// of one image. Three warpgroups have a tile each and share filters; a thread of a fourth loads. A
// segment of the depth is 32 channels of a patch of the input in shared memory, over which the taps
// slide: as the matrices are not swizzled, one tap to the right is 16 bytes in a descriptor, and
// what lies outside of the image comes as zeros from the tensor map. With a stride there are
// segments for each first pixel.
//
// Small problems, where these launches would take longer than the sums, are one launch of ordinary
// multiply-adds: a block of ConvolveTwice makes all of the result between that its tile of y needs,
// in shared memory, although its neighbours make some of it, too.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kSlab = 32;          // channels of a segment
constexpr int kRowBytes = 128;     // a pixel's or filter's slab: 32 high halves, 32 low ones
constexpr int kChunks = 8;         // of 16 bytes in such a row
constexpr int kTileChannels = 64;  // of a block of Convolve
constexpr int kConvertThreads = 256;
constexpr int kConvertBlocksAtOnce = 6;  // tune: kConvertBlocksAtOnce in 3, 4, 5, 6
constexpr int kConvertBlocks = kConvertBlocksAtOnce * 132;
constexpr int kPrepareThreads = 256;
constexpr float kGuess = 256;  // x's scale, if x's largest number is what it mostly is
constexpr int kTwiceThreads = 384;
constexpr int kTwiceBytes = 220 * 1024;  // of shared memory, at most
constexpr double kTwiceSteps = 1024;     // four sums of a thread, at most: beyond, tensor cores win

using Optional = c10::optional<torch::Tensor>;

using Chunk = uint4;  // eight halves

__device__ void Split(const float (&v)[8], Chunk& high, Chunk& low) {
  const auto split = [&](int i, uint32_t& of_high, uint32_t& of_low) {
    const __half2 h = __floats2half2_rn(v[i], v[i + 1]);
    const __half2 l = __floats2half2_rn(v[i] - __low2float(h), v[i + 1] - __high2float(h));
    of_high = reinterpret_cast<const uint32_t&>(h);
    of_low = reinterpret_cast<const uint32_t&>(l);
  };
  split(0, high.x, low.x);
  split(2, high.y, low.y);
  split(4, high.z, low.z);
  split(6, high.w, low.w);
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

// How Convert stores x: pixels that are `stride` apart form a phase, of as many rows and columns in
// each direction.
struct Layout {
  int channels, height, width, stride, phases;  // phases: in each direction
  int stored_height, stored_width;
  int groups, items;  // of kConvertThreads pixels: of a plane, and of all
};

// The first pixel of a phase. Windows begin one pixel outside of the image, and with them the first
// phase: its pixel 0 is left out.
__device__ int FirstOf(int phase, int stride) { return phase == 0 ? stride - 1 : phase - 1; }

// x (batch, channels, height, width) to split slabs (batch, slabs, phases, chunks, stored_height,
// stored_width). A thread takes eight channels.
template <bool kAgain>
__global__ void __launch_bounds__(kConvertThreads, kAgain ? 4 : kConvertBlocksAtOnce)
    Convert(const float* __restrict__ x, Chunk* __restrict__ split, float* __restrict__ maxima,
            const Layout layout) {
  float scale = kGuess;
  if (kAgain) {
    scale = InputScale(Largest(maxima, kConvertBlocks));
    if (scale == kGuess) return;
  }
  const int slabs = (layout.channels + kSlab - 1) / kSlab;
  const int64_t plane = int64_t{1} * layout.height * layout.width;
  const int stored = layout.stored_height * layout.stored_width;
  float largest = 0;
  // Which row of planes, and which pixels of it; both advance without a division.
  const int rows_step = kConvertBlocks / layout.groups;
  const int group_step = kConvertBlocks % layout.groups;
  int of = static_cast<int>(blockIdx.x) / layout.groups;
  int group = static_cast<int>(blockIdx.x) % layout.groups;
  for (int item = blockIdx.x; item < layout.items; item += kConvertBlocks) {
    const unsigned py = static_cast<unsigned>(of) % layout.phases;
    const unsigned rest = static_cast<unsigned>(of) / layout.phases;
    const unsigned chunk = rest % 4;
    const unsigned image_slab = rest / 4;
    const unsigned image = image_slab / slabs;
    const int first = static_cast<int>(image_slab - image * slabs) * kSlab + chunk * 8;
    const float* const from = x + (int64_t{image} * layout.channels + first) * plane;
    Chunk* const to =
        split +
        ((int64_t{image_slab} * layout.phases + py) * layout.phases * kChunks + chunk) * stored;
    const int pixel = group * kConvertThreads + threadIdx.x;
    const int row = static_cast<unsigned>(pixel) / layout.stored_width;
    const int column = pixel - row * layout.stored_width;
    const int y_in = row * layout.stride + FirstOf(py, layout.stride);
    for (int px = 0; px < layout.phases; ++px) {
      const int x_in = column * layout.stride + FirstOf(px, layout.stride);
      const bool inside = pixel < stored && y_in < layout.height && x_in < layout.width;
      const float* const mine = from + static_cast<int64_t>(y_in) * layout.width + x_in;
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[i] = inside && first + i < layout.channels ? __ldg(mine + i * plane) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (fabsf(v[i]) < 3e38f) largest = fmaxf(largest, fabsf(v[i]));
        v[i] *= scale;
      }
      Chunk high, low;
      Split(v, high, low);
      if (pixel < stored) {
        Chunk* const place = to + static_cast<int64_t>(px) * kChunks * stored + pixel;
        place[0] = high;
        place[4 * static_cast<int64_t>(stored)] = low;
      }
    }
    of += rows_step;
    group += group_step;
    if (group >= layout.groups) {
      group -= layout.groups;
      ++of;
    }
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

// Splits row n of the filters, times `factor`, to where Convolve takes them: for each step
// chunk by chunk the rows of a tile.
__device__ void SplitFilters(const float* filters, bool exists, int channels, int side, int stride,
                             float factor, __half* tiles, int steps, int first_step, int n) {
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
    const int place = channel % kSlab;
    __half* to =
        tiles +
        ((static_cast<int64_t>(n / kTileChannels) * steps + step) * kChunks * kTileChannels +
         place / 8 * kTileChannels + n % kTileChannels) *
            8 +
        place % 8;
    to[0] = high;
    to[4 * kTileChannels * 8] = low;
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
                 Finish finish) {
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
  SplitFilters(layer.filters, exists, in_channels, 3, stride, scale * factor, tiles, steps, 0, n);
  if (threadIdx.x == 0) {
    finish.factor[n] = 1 / factor / input_scale;
    finish.shift[n] = shift;
    if (n == 0) finish.scales[0] = input_scale;
  }
}

__global__ void __launch_bounds__(kPrepareThreads)
    PrepareSecond(Layer layer, Layer shortcut, int in_channels, int out_channels, float eps,
                  __half* __restrict__ tiles, int steps, Finish first, Finish finish) {
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
               steps, 0, n);
  if (shortcut.filters != nullptr) {
    const int before = (out_channels + kSlab - 1) / kSlab * 9;
    SplitFilters(shortcut.filters, exists, in_channels, 1, 1,
                 shortcut_scale * (factor / input_scale), tiles, steps, before, n);
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

// A split tensor as Convolve takes it: of every 32 channels, every phase and every chunk of eight a
// plane. No slabs means no tensor.
struct Source {
  CUtensorMap map;
  int slabs = 0, stride = 1;
  int rows = 0, columns = 0;  // of a patch

  __host__ __device__ int Phases() const { return stride < 3 ? stride : 3; }
  __host__ __device__ int PatchBytes() const { return rows * columns * kRowBytes; }
};

struct Target {
  int out_channels, height, width;
  Chunk* split;           // the result split, or null
  const float* shortcut;  // to be added, or null
  float* y;               // the result as it is
  bool in_pairs;          // two numbers side by side are aligned, in shortcut and y
};

struct Work {  // of Convolve
  int steps, channel_tiles, tiles_x, tiles_y, tiles, count;
};

// Segments in their order: slab by slab of the first source, phase by phase; then of the second,
// of which only the pixels count that the middles of windows fall on.
struct Segment {
  int slab = 0, py = 0, px = 0;
  bool second = false;

  __device__ void Advance(const Source& first) {
    const int phases = second ? 1 : first.Phases();
    if (++px < phases) return;
    px = 0;
    if (++py < phases) return;
    py = 0;
    if (++slab < first.slabs || second) return;
    slab = 0;
    second = true;
  }
  __device__ int Rows(const Source& first) const { return second ? 1 : Taps(first.stride, py); }
  __device__ int Columns(const Source& first) const { return second ? 1 : Taps(first.stride, px); }
};

constexpr int kGroups = 3;     // warpgroups that multiply
constexpr int kTileWidth = 8;  // pixels of a warpgroup's tile
constexpr int kTileHeight = 16;
constexpr int kConvolveThreads = 128 * (kGroups + 1);
constexpr int kTapBytes = kTileChannels * kRowBytes;
constexpr int kFilterStages = 3;

// With a stride, patches are smaller and taps of a row fewer, and so a patch serves fewer products:
// more of them must be on their way.
template <bool kStrided>
struct ConvolveShared {
  static constexpr int kTaps = kStrided ? 2 : 3;  // of a row, at most
  static constexpr int kPatchBytes =
      (kTileWidth + kTaps - 1) * (kTileHeight + kTaps - 1) * kRowBytes;
  static constexpr int kPatchStages = kStrided ? 3 : 2;
  static constexpr int kFilterBytes = kTaps * kTapBytes;

  alignas(128) uint8_t patches[kPatchStages][kGroups][kPatchBytes];
  alignas(128) uint8_t filters[kFilterStages][kFilterBytes];
  uint64_t full_patches[kPatchStages][kGroups], empty_patches[kPatchStages][kGroups];
  uint64_t full_filters[kFilterStages], empty_filters[kFilterStages];
};
static_assert(sizeof(ConvolveShared<false>) <= 227 * 1024);
static_assert(sizeof(ConvolveShared<true>) <= 227 * 1024);

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
// The place in a ring of stages, and how often it has been gone round.
template <int kStages>
struct Place {
  int stage = 0, parity = 0;

  __device__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ void InitBarrier(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(count));
}
__device__ void WaitFor(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra AGAIN;\n}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
__device__ void ExpectBytes(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ void LoadBox(const void* to, const CUtensorMap& map, uint64_t* barrier, int x, int y,
                        int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(SharedAddress(barrier))
      : "memory");
}
__device__ void LoadBytes(const void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

// Pieces of 8 rows of 16 bytes, 128 bytes that lie together; the next eight rows are `across` bytes
// away, the next eight of the depth `deep`.
__device__ uint64_t MatrixAt(uint32_t address, int across, int deep) {
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(deep >> 4) << 16 |
         static_cast<uint64_t>(across >> 4) << 32;
}

#define CUPEL_D8(d, i)                                                                            \
  "+f"(d[i + 0]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
// d = a b or d += a b: 64 filters, 128 pixels, a depth of 16.
__device__ void Multiply(float (&d)[64], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "
      "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, "
      "%63}, %64, %65, adds, 1, 1, 0, 0;\n}"
      : CUPEL_D8(d, 0), CUPEL_D8(d, 8), CUPEL_D8(d, 16), CUPEL_D8(d, 24), CUPEL_D8(d, 32),
        CUPEL_D8(d, 40), CUPEL_D8(d, 48), CUPEL_D8(d, 56)
      : "l"(a), "l"(b), "r"(adds));
}

// The products of neighbouring taps; a piece of eight of the depth of all pixels is `plane` units
// of 16 bytes. The small products come first: what sums lose grows with them.
template <int kTaps>
__device__ void MultiplyTaps(float (&sums)[64], uint64_t a, uint64_t b, int plane) {
  constexpr int kTap = kTapBytes / 16;
  constexpr int kPiece = kTileChannels;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      Multiply(sums, a + tap * kTap + (k + 4) * kPiece, b + tap + k * plane, tap + k);
      Multiply(sums, a + tap * kTap + k * kPiece, b + tap + (k + 4) * plane, 1);
    }
  }
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      Multiply(sums, a + tap * kTap + k * kPiece, b + tap + k * plane, 1);
    }
  }
}

// Where a tile of a warpgroup lies, and whether it is one of the result.
struct Tile {
  int image, y, x;
  bool exists;

  __device__ Tile(const Work& work, int index, int group) {
    int tile = index / work.channel_tiles * kGroups + group;
    exists = tile < work.tiles;
    tile = min(tile, work.tiles - 1);
    x = tile % work.tiles_x * kTileWidth;
    y = tile / work.tiles_x % work.tiles_y * kTileHeight;
    image = tile / work.tiles_x / work.tiles_y;
  }
};

// One thread brings all that the block needs.
template <bool kStrided>
__device__ void Load(ConvolveShared<kStrided>& shared, const Source& first, const Source& second,
                     const Chunk* tiles, const Work& work) {
  Place<ConvolveShared<kStrided>::kPatchStages> patch;
  Place<kFilterStages> filter;
  const int segments = first.slabs * first.Phases() * first.Phases() + second.slabs;
  for (int index = blockIdx.x; index < work.count; index += gridDim.x) {
    const Tile of[kGroups] = {{work, index, 0}, {work, index, 1}, {work, index, 2}};
    const Chunk* from = tiles + static_cast<int64_t>(index % work.channel_tiles) * work.steps *
                                    (kTapBytes / sizeof(Chunk));
    Segment segment;
    for (int i = 0; i < segments; ++i, segment.Advance(first), patch.Advance()) {
      const Source& source = segment.second ? second : first;
      const int phases = source.Phases();
      // The phase that the middles of windows fall on is the first, or else the second.
      const int middle = phases > 1 ? 1 : 0;
      const int phase =
          segment.second ? middle * phases + middle : segment.py * phases + segment.px;
      const int left = segment.second || segment.px > 0 ? 0 : 1;
      const int above = segment.second || segment.py > 0 ? 0 : 1;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        uint64_t* const full = &shared.full_patches[patch.stage][group];
        WaitFor(&shared.empty_patches[patch.stage][group], patch.parity ^ 1);
        ExpectBytes(full, source.PatchBytes());
        const int z =
            ((of[group].image * source.slabs + segment.slab) * phases * phases + phase) * kChunks;
        LoadBox(shared.patches[patch.stage][group], source.map, full, (of[group].x - left) * 8,
                of[group].y - above, z);
      }
      const int bytes = segment.Columns(first) * kTapBytes;
      for (int row = 0; row < segment.Rows(first); ++row, filter.Advance()) {
        uint64_t* const full = &shared.full_filters[filter.stage];
        WaitFor(&shared.empty_filters[filter.stage], filter.parity ^ 1);
        ExpectBytes(full, bytes);
        LoadBytes(shared.filters[filter.stage], from, bytes, full);
        from += bytes / sizeof(Chunk);
      }
    }
  }
}

// A warpgroup asks for what the results of a tile will be added to, so that it is in the L2 then.
__device__ void Prefetch(const Target& target, const Tile& tile, int channel) {
#pragma unroll
  for (int i = 0; i < kTileChannels * kTileHeight / 128; ++i) {
    const int row = threadIdx.x % kTileHeight;
    const int mine = channel + threadIdx.x % 128 / kTileHeight + i * (128 / kTileHeight);
    if (mine >= target.out_channels || tile.y + row >= target.height) continue;
    const float* const at =
        target.shortcut +
        ((static_cast<int64_t>(tile.image) * target.out_channels + mine) * target.height + tile.y +
         row) *
            target.width +
        tile.x;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
  }
}

// Of an 8 x 8 matrix of halves that a warp holds, rows become columns.
__device__ uint32_t Transposed(__half2 pair) {
  uint32_t to;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
      : "=r"(to)
      : "r"(reinterpret_cast<const uint32_t&>(pair)));
  return to;
}

// What a lane holds of a tile: for each of its 16 rows of eight pixels two pixels of two channels,
// eight channels apart.
__device__ void StoreSplit(const float (&sums)[64], const float (&factor)[2],
                           const float (&shift)[2], float scale, const Target& target,
                           const Tile& tile, int channel8) {
  const int lane = threadIdx.x % 32;
  const int slabs = (target.out_channels + kSlab - 1) / kSlab;
  const int64_t plane = static_cast<int64_t>(target.height) * target.width;
  const bool inside = tile.exists && tile.x + lane / 4 < target.width;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int eight = channel8 + half;
    uint32_t* to =
        reinterpret_cast<uint32_t*>(
            target.split +
            (static_cast<int64_t>(tile.image * slabs + eight / 4) * kChunks + eight % 4) * plane +
            static_cast<int64_t>(tile.y) * target.width + tile.x + lane / 4) +
        lane % 4;
#pragma unroll
    for (int row = 0; row < kTileHeight; ++row) {
      float v[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        v[i] = sums[row * 4 + half * 2 + i] * factor[half] + shift[half];
        if (v[i] < 0) v[i] = 0;  // a NaN stays one
        v[i] *= scale;
      }
      const __half2 high = __floats2half2_rn(v[0], v[1]);
      const __half2 low = __floats2half2_rn(v[0] - __low2float(high), v[1] - __high2float(high));
      const uint32_t highs = Transposed(high);
      const uint32_t lows = Transposed(low);
      if (inside && eight / 4 < slabs && tile.y + row < target.height) {
        to[0] = highs;
        to[4 * 4 * plane] = lows;
      }
      to += 4 * static_cast<int64_t>(target.width);
    }
  }
}

__device__ void StoreResult(const float (&sums)[64], const float (&factor)[2],
                            const float (&shift)[2], const Target& target, const Tile& tile,
                            int channel) {
  const int x = tile.x + threadIdx.x % 4 * 2;
  const int64_t plane = static_cast<int64_t>(target.height) * target.width;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int mine = channel + half * 8;
    const int64_t at = (static_cast<int64_t>(tile.image) * target.out_channels + mine) * plane +
                       static_cast<int64_t>(tile.y) * target.width + x;
    const bool inside[2] = {tile.exists && mine < target.out_channels && x < target.width,
                            tile.exists && mine < target.out_channels && x + 1 < target.width};
    float2 shortcut[kTileHeight] = {};
    if (target.shortcut != nullptr) {
#pragma unroll
      for (int row = 0; row < kTileHeight; ++row) {
        if (tile.y + row >= target.height) continue;
        const float* const from = target.shortcut + at + row * target.width;
        if (target.in_pairs) {
          if (inside[0]) shortcut[row] = __ldg(reinterpret_cast<const float2*>(from));
        } else {
          if (inside[0]) shortcut[row].x = __ldg(from);
          if (inside[1]) shortcut[row].y = __ldg(from + 1);
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kTileHeight; ++row) {
      if (tile.y + row >= target.height) continue;
      const float* const sum = &sums[row * 4 + half * 2];
      float2 v = make_float2(sum[0] * factor[half] + shift[half] + shortcut[row].x,
                             sum[1] * factor[half] + shift[half] + shortcut[row].y);
      if (v.x < 0) v.x = 0;  // a NaN stays one
      if (v.y < 0) v.y = 0;
      float* const to = target.y + at + row * target.width;
      if (target.in_pairs) {
        if (inside[0]) __stcs(reinterpret_cast<float2*>(to), v);
      } else {
        if (inside[0]) to[0] = v.x;
        if (inside[1]) to[1] = v.y;
      }
    }
  }
}

template <bool kStrided>
__global__ void __launch_bounds__(kConvolveThreads, 1)
    Convolve(const __grid_constant__ Source first, const __grid_constant__ Source second,
             const Chunk* __restrict__ tiles, const __grid_constant__ Finish finish,
             const __grid_constant__ Target target, const __grid_constant__ Work work) {
  extern __shared__ __align__(128) uint8_t dynamic[];
  using Shared = ConvolveShared<kStrided>;
  auto& shared = *reinterpret_cast<Shared*>(dynamic);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shared::kPatchStages; ++stage) {
      for (int group = 0; group < kGroups; ++group) {
        InitBarrier(&shared.full_patches[stage][group], 1);
        InitBarrier(&shared.empty_patches[stage][group], 4);
      }
    }
    for (int stage = 0; stage < kFilterStages; ++stage) {
      InitBarrier(&shared.full_filters[stage], 1);
      InitBarrier(&shared.empty_filters[stage], 4 * kGroups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  // 128 * 24 + 384 * 160 registers are not more than the 512 * 128 of the launch.
  if (warp >= 4 * kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (warp == 4 * kGroups && lane == 0) Load(shared, first, second, tiles, work);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
  const int group = warp / 4;
  Place<Shared::kPatchStages> patch;
  Place<kFilterStages> filter;
  const int segments = first.slabs * first.Phases() * first.Phases() + second.slabs;
  const uint32_t patches = SharedAddress(shared.patches[0][group]);
  const uint64_t filters = MatrixAt(SharedAddress(shared.filters[0]), 128, kTileChannels * 16);
  for (int index = blockIdx.x; index < work.count; index += gridDim.x) {
    float sums[64], parts[64] = {};
    const Tile tile(work, index, group);
    const int first_channel = index % work.channel_tiles * kTileChannels;
    if (target.shortcut != nullptr) Prefetch(target, tile, first_channel);
#pragma unroll
    for (float& sum : sums) sum = 0;
    Segment segment;
    for (int i = 0; i < segments; ++i, segment.Advance(first), patch.Advance()) {
      const int rows = segment.Rows(first);
      const int columns = segment.Columns(first);
      const int pitch = segment.second ? second.columns : first.columns;
      const int plane = (segment.second ? second.rows : first.rows) * pitch;  // of 16 bytes
      uint64_t b =
          MatrixAt(patches + patch.stage * (kGroups * Shared::kPatchBytes), pitch * 16, plane * 16);
      WaitFor(&shared.full_patches[patch.stage][group], patch.parity);
      for (int row = 0; row < rows; ++row, filter.Advance(), b += pitch) {
        WaitFor(&shared.full_filters[filter.stage], filter.parity);
        const uint64_t a = filters + filter.stage * (Shared::kFilterBytes / 16);
        if (!kStrided && columns == 3) {
          MultiplyTaps<3>(parts, a, b, plane);
        } else if (columns == 2) {
          MultiplyTaps<2>(parts, a, b, plane);
        } else {
          MultiplyTaps<1>(parts, a, b, plane);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int j = 0; j < 64; ++j) asm volatile("" : "+f"(parts[j])::"memory");
        if (lane == 0) {
          Arrive(&shared.empty_filters[filter.stage]);
          if (row == rows - 1) Arrive(&shared.empty_patches[patch.stage][group]);
        }
#pragma unroll
        for (int j = 0; j < 64; ++j) sums[j] += parts[j];
      }
    }

    const int channel = first_channel + warp % 4 * 16;
    const float factor[2] = {finish.factor[channel + lane / 4],
                             finish.factor[channel + lane / 4 + 8]};
    const float shift[2] = {finish.shift[channel + lane / 4], finish.shift[channel + lane / 4 + 8]};
    if (target.split != nullptr) {
      StoreSplit(sums, factor, shift, finish.scales[1], target, tile, channel / 8);
    } else {
      StoreResult(sums, factor, shift, target, tile, channel + lane / 4);
    }
  }
}
#else
template <bool kStrided>
__global__ void Convolve(const __grid_constant__ Source first,
                         const __grid_constant__ Source second, const Chunk* __restrict__ tiles,
                         const __grid_constant__ Finish finish,
                         const __grid_constant__ Target target, const __grid_constant__ Work work) {
}
#endif

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

// A tensor that Convert or Convolve has written, in patches.
static Source SourceOf(const torch::Tensor& split, int batch, int channels, int height, int width,
                       int stride, bool wide) {
  Source source;
  source.slabs = Ceiling(channels, kSlab);
  source.stride = stride;
  const int taps = wide ? Taps(stride, 0) : 1;
  source.rows = kTileHeight + taps - 1;
  source.columns = kTileWidth + taps - 1;
  const int stored_height = Ceiling(height, stride);
  const int stored_width = Ceiling(width, stride);
  const int64_t planes =
      int64_t{1} * batch * source.slabs * source.Phases() * source.Phases() * kChunks;
  TORCH_CHECK(planes < int64_t{1} << 31, "x is too large");
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(stored_width) * 8,
                              static_cast<cuuint64_t>(stored_height),
                              static_cast<cuuint64_t>(planes)};
  const cuuint64_t strides[] = {sizes[0] * 2, sizes[0] * 2 * sizes[1]};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(source.columns * 8),
                            static_cast<cuuint32_t>(source.rows), kChunks};
  const cuuint32_t steps[] = {1, 1, 1};
  const CUresult error = cuTensorMapEncodeTiled(
      &source.map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, split.data_ptr<float>(), sizes, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(error == CUDA_SUCCESS, "a tensor map was refused");
  return source;
}

template <bool kStrided>
static void LaunchConvolve(const Source& first, const Source& second, const torch::Tensor& tiles,
                           int steps, const Finish& finish, const Target& target, int batch,
                           cudaStream_t stream) {
  Work work;
  work.steps = steps;
  work.channel_tiles = Ceiling(target.out_channels, kTileChannels);
  work.tiles_x = Ceiling(target.width, kTileWidth);
  work.tiles_y = Ceiling(target.height, kTileHeight);
  const int64_t count = int64_t{1} * batch * work.tiles_x * work.tiles_y;
  TORCH_CHECK((count + kGroups) * work.channel_tiles < int64_t{1} << 30, "the result is too large");
  work.tiles = static_cast<int>(count);
  work.count = Ceiling(work.tiles, kGroups) * work.channel_tiles;
  constexpr int kBytes = sizeof(ConvolveShared<kStrided>);
  C10_CUDA_CHECK(cudaFuncSetAttribute(Convolve<kStrided>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks =
      std::min(work.count, at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
  Convolve<kStrided><<<blocks, kConvolveThreads, kBytes, stream>>>(
      first, second, reinterpret_cast<const Chunk*>(tiles.data_ptr<float>()), finish, target, work);
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
  TORCH_CHECK(x.size(1) < 1 << 24 && conv1_weight.size(0) < 1 << 24, "too many channels");
  TORCH_CHECK(x.size(0) < 1 << 30, "too many images");
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
  TORCH_CHECK(x.numel() > 0, "x must not be empty where the result is not");

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

  TORCH_CHECK(at::cuda::getCurrentDeviceProperties()->major == 9, "a Hopper GPU is needed");
  const int padded = Ceiling(out_channels, kTileChannels) * kTileChannels;
  Layout layout{in_channels, height, width, static_cast<int>(stride)};
  layout.phases = std::min(layout.stride, 3);
  layout.stored_height = Ceiling(height, layout.stride);
  layout.stored_width = Ceiling(width, layout.stride);
  const int64_t plane =
      int64_t{1} * layout.phases * layout.phases * layout.stored_height * layout.stored_width;
  const int64_t out_plane = int64_t{1} * out_height * out_width;
  const int slabs = Ceiling(in_channels, kSlab);
  const int out_slabs = Ceiling(out_channels, kSlab);
  const int steps1 = slabs * 9;
  const int steps2 = out_slabs * 9 + (projected ? slabs : 0);
  constexpr int kRowFloats = kRowBytes / 4;
  auto split = torch::empty({int64_t{1} * batch * slabs * plane * kRowFloats}, x.options());
  auto middle =
      torch::empty({int64_t{1} * batch * out_slabs * out_plane * kRowFloats}, x.options());
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
  layout.groups = Ceiling(layout.stored_height * layout.stored_width, kConvertThreads);
  const int64_t items = int64_t{1} * layout.groups * batch * slabs * 4 * layout.phases;
  TORCH_CHECK(items < (int64_t{1} << 31) - kConvertBlocks, "x is too large");
  layout.items = static_cast<int>(items);
  Convert<false>
      <<<kConvertBlocks, kConvertThreads, 0, stream>>>(x.data_ptr<float>(), chunks, maxima, layout);
  Convert<true>
      <<<kConvertBlocks, kConvertThreads, 0, stream>>>(x.data_ptr<float>(), chunks, maxima, layout);
  PrepareFirst<<<padded, kPrepareThreads, 0, stream>>>(
      layer1, in_channels, out_channels, static_cast<int>(stride), static_cast<float>(eps), maxima,
      reinterpret_cast<__half*>(tiles1.data_ptr<float>()), steps1, finish1);
  PrepareSecond<<<padded, kPrepareThreads, 0, stream>>>(
      layer2, shortcut, in_channels, out_channels, static_cast<float>(eps),
      reinterpret_cast<__half*>(tiles2.data_ptr<float>()), steps2, finish1, finish2);

  const Source source = SourceOf(split, batch, in_channels, height, width, layout.stride, true);
  const Source between = SourceOf(middle, batch, out_channels, out_height, out_width, 1, true);
  const float* const added = projected ? nullptr : x.data_ptr<float>();
  const auto launch = layout.stride > 1 ? LaunchConvolve<true> : LaunchConvolve<false>;
  launch(source, Source{}, tiles1, steps1, finish1,
         {out_channels, out_height, out_width, middle_chunks, nullptr, nullptr, false}, batch,
         stream);
  LaunchConvolve<false>(
      between,
      projected ? SourceOf(split, batch, in_channels, height, width, layout.stride, false)
                : Source{},
      tiles2, steps2, finish2,
      {out_channels, out_height, out_width, nullptr, added, y.data_ptr<float>(),
       out_width % 2 == 0 && reinterpret_cast<uintptr_t>(added) % 8 == 0},
      batch, stream);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Basic block of ResNet"); }
