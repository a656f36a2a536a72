// Gradients of convolution (no padding, stride 1), ReLU and 2x2 max pooling. A block has an image
// and some filters, and keeps the image's planes and those filters in shared memory.
//
// 1. A thread makes the four sums of a window for four filters, from its own patch of x in
// registers,
//    and notes where the window's gradient goes: a number and a place. Where two sums, or a sum and
//    zero, are as near as rounding may be wrong, a warp makes them again in double.
// 2. For grad_x a thread holds, for a window and an input channel, what all of the block's filters
// send
//    to the window's patch; patches overlap, so they are laid out in shared memory and every place
//    of x adds up those that reach it.
// 3. For the filters' gradients, which are sparse (a quarter of the sums was chosen), threads walk
// over
//    windows and meet x where the note says.
//
// What blocks of the same image or the same filter have is added up, in order, by AddParts. Planes
// too large for shared memory, and kernels that are neither 3 x 3 nor 5 x 5, go to plain kernels.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kMaxThreads = 512;  // tune: kMaxThreads in 256, 512
constexpr int kFewFilters = 16;   // tune: kFewFilters in 4, 8, 16  (of a block, few input channels)
constexpr int kManyFilters = 16;  // tune: kManyFilters in 8, 16  (the same, many)
constexpr int kMaxFilters = 16;   // of these: notes in doubt share the patches' memory
constexpr int kPer = 4;           // filters of a thread
static_assert(std::max(kFewFilters, kManyFilters) <= kMaxFilters);
constexpr int kAddThreads = 128;  // tune: kAddThreads in 64, 128, 256
constexpr int kMaxShared = 220 * 1024;

// Division by multiplication, exact for n * by < 2^32.
struct Divisor {
  uint32_t by, factor;  // factor: 2^32 / by, rounded up; 0 for by = 1
};

struct Problem {
  const float *x, *weights, *biases, *gradient;
  float* x_parts;       // [filter groups][batch][channels][height][width]
  float* filter_parts;  // [batch][padded filters][channels * taps]
  float* bias_parts;    // [batch][padded filters]
  int batch, channels, height, width;
  int out_channels, kernel_height, kernel_width, out_height, out_width;  // pooled
  int filters, groups;  // of a block; of all blocks
  int pitch;            // of a row of x in shared memory, even
  int plane;            // from one of x's planes there to the next, even
  int layers;           // input channels whose patches are in shared memory at a time
  int slices;           // threads that share a filter's gradient, a power of two
  Divisor by_width, by_windows, by_out_width, by_depth, by_places, by_channels;
};

// Where a window's gradient goes: four times the place in a plane of shared memory, and the place
// in the window, 0 to 3 in the order of rows.
struct Note {
  float gradient;
  int place;
};

// A launch may begin before the one in front of it has ended, and waits for its results here.
__device__ void WaitForLaunchBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void LetNextLaunchBegin() { asm volatile("griddepcontrol.launch_dependents;"); }

// All of what Parts counts fits in shared memory, so products stay below 2^32.
__device__ int Quotient(int n, Divisor d) {
  return d.factor == 0 ? n : static_cast<int>(__umulhi(static_cast<uint32_t>(n), d.factor));
}

__device__ int Rest(int n, int quotient, Divisor d) {
  return n - quotient * static_cast<int>(d.by);
}

__device__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies 4 bytes to shared memory, or writes zero.
__device__ void CopyFloat(float* to, const float* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

template <int kKernel>
__device__ void LoadPatch(float (&patch)[kKernel + 1][kKernel + 1], const float* corner,
                          int pitch) {
#pragma unroll
  for (int i = 0; i <= kKernel; ++i) {
#pragma unroll
    for (int j = 0; j <= kKernel; j += 2) {
      const float2 two = *reinterpret_cast<const float2*>(corner + i * pitch + j);
      patch[i][j] = two.x;
      patch[i][j + 1] = two.y;
    }
  }
}

// As PyTorch has it: the first of equal ones, and a NaN before anything else. What ReLU set to zero
// wins only where nothing is left to pass on.
template <class Real>
__device__ int Chosen(const Real (&sums)[4]) {
  Real best = 0;
  int chosen = -1;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (sums[k] > best || isnan(sums[k])) {
      best = sums[k];
      chosen = k;
    }
  }
  return chosen;
}

// By how much the largest sum, or zero, lies above the next.
__device__ float Lead(const float (&sums)[4]) {
  float best = 0;
  float second = -INFINITY;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    second = fmaxf(second, fminf(best, sums[k]));
    best = fmaxf(best, sums[k]);
  }
  return best - second;
}

template <class Real>
__device__ Real WarpSum(Real value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(~0u, value, distance);
  }
  return value;
}

template <int kKernel>
__global__ void __launch_bounds__(kMaxThreads) Parts(const __grid_constant__ Problem p) {
  constexpr int kTaps = kKernel * kKernel;
  constexpr int kSide = kKernel + 1;       // of the patch below a window
  constexpr int kReach = (kSide + 1) / 2;  // windows in a row that reach a place
  extern __shared__ float4 memory[];
  const int windows = p.out_height * p.out_width;
  const int quads = p.filters / kPer;
  const int depth = p.channels * kTaps;
  const int plane = p.plane;
  float4* const filters = memory;                                          // [quads][depth]
  Note* const notes = reinterpret_cast<Note*>(filters + quads * depth);    // [filters][windows]
  float* const x = reinterpret_cast<float*>(notes + p.filters * windows);  // [channels][plane]
  float* const patches = x + p.channels * plane;      // [layers][kSide * kSide][windows]
  int* const near = reinterpret_cast<int*>(patches);  // notes to be made again: [filters * windows]
  __shared__ int near_count;
  __shared__ float doubts[kMaxFilters];  // of a filter's sums, for each unit of x

  LetNextLaunchBegin();
  const int image = blockIdx.y;
  const int first_filter = blockIdx.x * p.filters;
  const int64_t image_size = static_cast<int64_t>(p.channels) * p.height * p.width;
  const float* source = p.x + image * image_size;
  for (int i = threadIdx.x; i < p.channels * p.height * p.width; i += blockDim.x) {
    const int row = Quotient(i, p.by_width);  // of all planes
    const int c = Quotient(i, p.by_places);
    CopyFloat(x + c * plane + (row - c * p.height) * p.pitch + Rest(i, row, p.by_width), source + i,
              true);
  }
  for (int i = threadIdx.x; i < p.filters * depth; i += blockDim.x) {
    const int filter = Quotient(i, p.by_depth);
    const bool valid = first_filter + filter < p.out_channels;
    CopyFloat(reinterpret_cast<float*>(filters) + (filter / kPer * depth + Rest(i, filter, p.by_depth)) * kPer +
                  filter % kPer,
              p.weights + (valid ? static_cast<int64_t>(first_filter) * depth + i : 0), valid);
  }
  for (int i = threadIdx.x; i < p.filters * windows; i += blockDim.x) {
    const bool valid = first_filter + Quotient(i, p.by_windows) < p.out_channels;
    const int64_t at = (static_cast<int64_t>(image) * p.out_channels + first_filter) * windows + i;
    CopyFloat(&notes[i].gradient, p.gradient + (valid ? at : 0), valid);
  }
  if (threadIdx.x == 0) near_count = 0;
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  const int lane = threadIdx.x % 32;
  for (int filter = threadIdx.x / 32; filter < p.filters; filter += blockDim.x / 32) {
    const float* of_quad = reinterpret_cast<const float*>(filters + filter / kPer * depth);
    float sum = 0;
    for (int i = lane; i < depth; i += 32) sum += fabsf(of_quad[i * kPer + filter % kPer]);
    sum = WarpSum(sum);
    // Each addition may be off by 2^-24 of what is there; two sums are compared.
    if (lane == 0) doubts[filter] = sum * static_cast<float>(depth + 1) * 0x1p-23f;
  }
  __syncthreads();

  const auto note = [=](int at, int corner, int chosen) {
    const int place = chosen < 0 ? corner : corner + chosen / 2 * p.pitch + chosen % 2;
    notes[at].place = place * 4 + max(chosen, 0);
    if (chosen < 0) notes[at].gradient = 0;
  };
  for (int item = threadIdx.x; item < quads * windows; item += blockDim.x) {
    const int quad = Quotient(item, p.by_windows);
    const int window = Rest(item, quad, p.by_windows);
    const int line = Quotient(window, p.by_out_width);
    const int corner = line * 2 * p.pitch + Rest(window, line, p.by_out_width) * 2;
    float sums[kPer][4];
#pragma unroll
    for (int f = 0; f < kPer; ++f) {
      const int filter = first_filter + quad * kPer + f;
      const float bias = filter < p.out_channels ? __ldg(p.biases + filter) : 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[f][k] = bias;
    }
    float largest = 0;
    for (int c = 0; c < p.channels; ++c) {
      float patch[kSide][kSide];
      LoadPatch<kKernel>(patch, x + c * plane + corner, p.pitch);
#pragma unroll
      for (int i = 0; i < kSide * kSide; ++i) {
        largest = fmaxf(largest, fabsf(patch[i / kSide][i % kSide]));
      }
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const float4 four = filters[quad * depth + c * kTaps + tap];
        const float by_filter[kPer] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int f = 0; f < kPer; ++f) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            sums[f][k] += by_filter[f] * patch[tap / kKernel + k / 2][tap % kKernel + k % 2];
          }
        }
      }
    }
#pragma unroll
    for (int f = 0; f < kPer; ++f) {
      const int filter = quad * kPer + f;
      note(filter * windows + window, corner, Chosen(sums[f]));
      if (!(Lead(sums[f]) >= doubts[filter] * largest)) {
        near[atomicAdd(&near_count, 1)] = filter * windows + window;
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x / 32; i < near_count; i += blockDim.x / 32) {
    const int filter = near[i] / windows;
    const int window = near[i] % windows;
    const int corner = window / p.out_width * 2 * p.pitch + window % p.out_width * 2;
    const float* of_quad = reinterpret_cast<const float*>(filters + filter / kPer * depth);
    double sums[4] = {};
    for (int k = lane; k < depth; k += 32) {
      const int tap = k % kTaps;
      const double weight = of_quad[k * kPer + filter % kPer];
      const float* at = x + k / kTaps * plane + corner + tap / kKernel * p.pitch + tap % kKernel;
#pragma unroll
      for (int m = 0; m < 4; ++m) sums[m] += weight * at[m / 2 * p.pitch + m % 2];
    }
    const bool valid = first_filter + filter < p.out_channels;
#pragma unroll
    for (double& sum : sums) {
      sum = WarpSum(sum) + (valid ? __ldg(p.biases + first_filter + filter) : 0);
    }
    if (lane == 0) note(near[i], corner, Chosen(sums));
  }

  float* x_part = p.x_parts + (static_cast<int64_t>(blockIdx.x) * p.batch + image) * image_size;
  for (int first = 0; first < p.channels; first += p.layers) {
    __syncthreads();
    const int layers = min(p.layers, p.channels - first);
    for (int item = threadIdx.x; item < layers * windows; item += blockDim.x) {
      const int layer = Quotient(item, p.by_windows);
      const int window = Rest(item, layer, p.by_windows);
      float patch[kSide][kSide] = {};
      for (int quad = 0; quad < quads; ++quad) {
        float sent[kPer][4];
#pragma unroll
        for (int f = 0; f < kPer; ++f) {
          const Note note = notes[(quad * kPer + f) * windows + window];
#pragma unroll
          for (int k = 0; k < 4; ++k) sent[f][k] = note.place % 4 == k ? note.gradient : 0;
        }
#pragma unroll
        for (int tap = 0; tap < kTaps; ++tap) {
          const float4 four = filters[quad * depth + (first + layer) * kTaps + tap];
          const float by_filter[kPer] = {four.x, four.y, four.z, four.w};
#pragma unroll
          for (int f = 0; f < kPer; ++f) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              patch[tap / kKernel + k / 2][tap % kKernel + k % 2] += by_filter[f] * sent[f][k];
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kSide * kSide; ++i) {
        patches[(layer * kSide * kSide + i) * windows + window] = patch[i / kSide][i % kSide];
      }
    }
    __syncthreads();
    const int places = p.height * p.width;
    for (int i = threadIdx.x; i < layers * places; i += blockDim.x) {
      const int layer = Quotient(i, p.by_places);
      const int in_plane = Rest(i, layer, p.by_places);
      const int row = Quotient(in_plane, p.by_width);
      const int column = Rest(in_plane, row, p.by_width);
      float sum = 0;
#pragma unroll
      for (int a = 0; a < kReach; ++a) {
#pragma unroll
        for (int b = 0; b < kReach; ++b) {
          const int down = row / 2 - a;
          const int across = column / 2 - b;
          if (down < 0 || down >= p.out_height || across < 0 || across >= p.out_width) continue;
          const int in_patch = (row % 2 + 2 * a) * kSide + column % 2 + 2 * b;
          sum += patches[(layer * kSide * kSide + in_patch) * windows + down * p.out_width +
                         across];
        }
      }
      x_part[static_cast<int64_t>(first) * places + i] = sum;
    }
  }

  // Neighbouring lanes share a filter's gradient for one input channel; whole warps take part.
  const int pairs = p.filters * p.channels;
  const int slice = threadIdx.x % p.slices;
  const int64_t filter_base = static_cast<int64_t>(image) * p.groups * p.filters + first_filter;
  for (int base = 0; base < pairs; base += blockDim.x / p.slices) {
    const int pair = base + threadIdx.x / p.slices;
    const int filter = Quotient(min(pair, pairs - 1), p.by_channels);
    const int c = Rest(min(pair, pairs - 1), filter, p.by_channels);
    float sums[kTaps + 1] = {};
#pragma unroll 4
    for (int window = slice; window < windows; window += p.slices) {
      const Note note = notes[filter * windows + window];
      const float* met = x + c * plane + note.place / 4;
      sums[kTaps] += note.gradient;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        sums[tap] += note.gradient * met[tap / kKernel * p.pitch + tap % kKernel];
      }
    }
    for (int distance = p.slices / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (float& sum : sums) sum += __shfl_xor_sync(~0u, sum, distance);
    }
    if (slice == 0 && pair < pairs) {
      float* to = p.filter_parts + (filter_base + filter) * depth + c * kTaps;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) to[tap] = sums[tap];
      if (c == 0) p.bias_parts[filter_base + filter] = sums[kTaps];
    }
  }
}

// A thread for each weight, each bias, then each element of x.
__global__ void __launch_bounds__(kAddThreads)
    AddParts(const __grid_constant__ Problem p, float* __restrict__ grad_x,
             float* __restrict__ grad_weights, float* __restrict__ grad_biases) {
  const int padded = p.groups * p.filters;
  const int depth = p.channels * p.kernel_height * p.kernel_width;
  const int64_t weights = static_cast<int64_t>(p.out_channels) * depth;
  const int64_t elements = static_cast<int64_t>(p.batch) * p.channels * p.height * p.width;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kAddThreads + threadIdx.x;
  float sum = 0;
  WaitForLaunchBefore();
  if (i < weights + p.out_channels) {
    const bool is_bias = i >= weights;
    const float* part = is_bias ? p.bias_parts + (i - weights) : p.filter_parts + i;
    const int64_t step = is_bias ? padded : static_cast<int64_t>(padded) * depth;
#pragma unroll 32
    for (int image = 0; image < p.batch; ++image) sum += part[image * step];
    *(is_bias ? grad_biases + (i - weights) : grad_weights + i) = sum;
    return;
  }
  i -= weights + p.out_channels;
  if (i >= elements) return;
#pragma unroll 8
  for (int group = 0; group < p.groups; ++group) sum += p.x_parts[group * elements + i];
  grad_x[i] = sum;
}

// The plain way: for each window where its gradient goes, 0 to 3, or 4 for nowhere.
constexpr int8_t kNone = 4;

__global__ void __launch_bounds__(kAddThreads)
    Choose(const __grid_constant__ Problem p, int8_t* __restrict__ choice) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kAddThreads + threadIdx.x;
  const int64_t plane = static_cast<int64_t>(p.out_height) * p.out_width;
  if (output >= plane * p.batch * p.out_channels) return;
  const int column = static_cast<int>(output % p.out_width) * 2;
  const int row = static_cast<int>(output / p.out_width % p.out_height) * 2;
  const int64_t channel = output / plane % p.out_channels;
  const int64_t image = output / plane / p.out_channels;
  float sums[4];
  for (float& sum : sums) sum = p.biases[channel];
  for (int c = 0; c < p.channels; ++c) {
    const float* source =
        p.x + ((image * p.channels + c) * p.height + row) * static_cast<int64_t>(p.width) + column;
    const float* filter = p.weights + (channel * p.channels + c) * p.kernel_height * p.kernel_width;
    for (int i = 0; i < p.kernel_height; ++i) {
      for (int j = 0; j < p.kernel_width; ++j) {
        const float f = filter[i * p.kernel_width + j];
        const float* at = source + static_cast<int64_t>(i) * p.width + j;
        sums[0] += at[0] * f;
        sums[1] += at[1] * f;
        sums[2] += at[p.width] * f;
        sums[3] += at[p.width + 1] * f;
      }
    }
  }
  const int chosen = Chosen(sums);
  choice[output] = chosen < 0 ? kNone : static_cast<int8_t>(chosen);
}

// What arrives at place (row, column) of the convolution's plane: zero but where it was chosen.
__device__ float Routed(const Problem& p, const int8_t* choice, int64_t plane, int row,
                        int column) {
  if (row < 0 || column < 0 || row >= 2 * p.out_height || column >= 2 * p.out_width) return 0;
  const int64_t output = (plane * p.out_height + row / 2) * p.out_width + column / 2;
  return choice[output] == row % 2 * 2 + column % 2 ? p.gradient[output] : 0;
}

__global__ void __launch_bounds__(kAddThreads)
    GradXAny(const __grid_constant__ Problem p, const int8_t* __restrict__ choice,
             float* __restrict__ grad_x) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kAddThreads + threadIdx.x;
  const int64_t plane = static_cast<int64_t>(p.height) * p.width;
  if (element >= plane * p.batch * p.channels) return;
  const int column = static_cast<int>(element % p.width);
  const int row = static_cast<int>(element / p.width % p.height);
  const int64_t c = element / plane % p.channels;
  const int64_t image = element / plane / p.channels;
  float sum = 0;
  for (int o = 0; o < p.out_channels; ++o) {
    const float* filter = p.weights + (o * p.channels + c) * p.kernel_height * p.kernel_width;
    for (int i = 0; i < p.kernel_height; ++i) {
      for (int j = 0; j < p.kernel_width; ++j) {
        sum += filter[i * p.kernel_width + j] *
               Routed(p, choice, image * p.out_channels + o, row - i, column - j);
      }
    }
  }
  grad_x[element] = sum;
}

// A warp for each weight, then one for each bias.
__global__ void __launch_bounds__(kAddThreads)
    GradFiltersAny(const __grid_constant__ Problem p, const int8_t* __restrict__ choice,
                   float* __restrict__ grad_weights, float* __restrict__ grad_biases) {
  const int64_t size = static_cast<int64_t>(p.channels) * p.kernel_height * p.kernel_width;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * (kAddThreads / 32) + threadIdx.x / 32;
  if (output >= (size + 1) * p.out_channels) return;
  const bool is_bias = output >= size * p.out_channels;
  const int64_t o = is_bias ? output - size * p.out_channels : output / size;
  const int j = static_cast<int>(output % p.kernel_width);
  const int i = static_cast<int>(output / p.kernel_width % p.kernel_height);
  const int64_t c = output % size / (p.kernel_height * p.kernel_width);
  const int height = 2 * p.out_height;
  const int width = 2 * p.out_width;
  float sum = 0;
  for (int64_t k = threadIdx.x % 32; k < static_cast<int64_t>(p.batch) * height * width; k += 32) {
    const int column = static_cast<int>(k % width);
    const int row = static_cast<int>(k / width % height);
    const int64_t image = k / width / height;
    const float routed = Routed(p, choice, image * p.out_channels + o, row, column);
    const int64_t met = ((image * p.channels + c) * p.height + row + i) * p.width + column + j;
    sum += is_bias ? routed : routed * p.x[met];
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(~0u, sum, distance);
  }
  if (threadIdx.x % 32 == 0) *(is_bias ? grad_biases + o : grad_weights + output) = sum;
}

static int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

static Divisor DivisorOf(int by) {
  const uint64_t factor = ((uint64_t{1} << 32) + by - 1) / by;
  return {static_cast<uint32_t>(by), by == 1 ? 0 : static_cast<uint32_t>(factor)};
}

// Chooses a block's filters, threads and layers; 0 if an image does not fit, else the bytes of
// shared memory.
static int64_t Arrange(Problem& p, int& threads) {
  if (p.kernel_height != p.kernel_width || (p.kernel_width != 3 && p.kernel_width != 5)) return 0;
  if (p.batch > 65535) return 0;
  const int taps = p.kernel_height * p.kernel_width;
  const int side = p.kernel_width + 1;
  const int64_t windows = int64_t{p.out_height} * p.out_width;
  p.filters = p.channels <= 4 ? kFewFilters : kManyFilters;
  p.groups = static_cast<int>(DivideUp(p.out_channels, p.filters));
  p.pitch = p.width + p.width % 2;
  // Lanes stand for neighbouring channels, which must not meet in a bank.
  p.plane = p.height * p.pitch;
  if (p.channels > 1) p.plane += (38 - p.plane % 32) % 32;
  const int64_t items = windows * (p.filters / kPer);
  // As few rounds as there must be, of equal size.
  threads = static_cast<int>(DivideUp(DivideUp(items, DivideUp(items, kMaxThreads)), 32)) * 32;
  // Every pair of a filter and an input channel gets at least two threads where a block may have as
  // many: the walk over windows is a chain of dependent loads.
  const int64_t pairs = int64_t{p.filters} * p.channels;
  if (p.channels > 4 && 2 * pairs <= kMaxThreads && 2 * pairs > threads) {
    threads = static_cast<int>(DivideUp(2 * pairs, 32)) * 32;
  }
  p.layers =
      static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(p.channels, threads / windows)));
  p.by_width = DivisorOf(p.width);
  p.by_windows = DivisorOf(static_cast<int>(windows));
  p.by_out_width = DivisorOf(p.out_width);
  p.by_depth = DivisorOf(p.channels * taps);
  p.by_places = DivisorOf(p.height * p.width);
  p.by_channels = DivisorOf(p.channels);
  p.slices = 1;
  while (p.slices < 32 && p.slices * 2 * p.filters * p.channels <= threads) p.slices *= 2;
  const int64_t shared =
      (int64_t{p.filters} * p.channels * taps + 2 * p.filters * windows +
       int64_t{p.channels} * p.plane + int64_t{p.layers} * side * side * windows) *
      static_cast<int64_t>(sizeof(float));
  return shared <= kMaxShared ? shared : 0;
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

std::vector<torch::Tensor> backward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases,
                                    torch::Tensor grad_output) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each output channel");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.size(2) > weights.size(2) && x.size(3) > weights.size(3),
              "x is too small for one pooled output");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  grad_output = grad_output.contiguous();
  Problem p = {};
  p.batch = static_cast<int>(x.size(0));
  p.channels = static_cast<int>(x.size(1));
  p.height = static_cast<int>(x.size(2));
  p.width = static_cast<int>(x.size(3));
  p.out_channels = static_cast<int>(weights.size(0));
  p.kernel_height = static_cast<int>(weights.size(2));
  p.kernel_width = static_cast<int>(weights.size(3));
  p.out_height = (p.height - p.kernel_height + 1) / 2;
  p.out_width = (p.width - p.kernel_width + 1) / 2;
  TORCH_CHECK(grad_output.dim() == 4 && grad_output.size(0) == p.batch &&
                  grad_output.size(1) == p.out_channels && grad_output.size(2) == p.out_height &&
                  grad_output.size(3) == p.out_width,
              "grad_output must have the shape of the pooled output");
  p.x = x.data_ptr<float>();
  p.weights = weights.data_ptr<float>();
  p.biases = biases.data_ptr<float>();
  p.gradient = grad_output.data_ptr<float>();
  auto grad_x = torch::empty(x.sizes(), x.options());
  auto grad_weights = torch::empty(weights.sizes(), x.options());
  auto grad_biases = torch::empty(biases.sizes(), x.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  int threads = 0;
  const int64_t shared = Arrange(p, threads);
  if (shared > 0) {
    const int64_t filters = int64_t{p.groups} * p.filters;
    auto x_parts = torch::empty({p.groups, x.numel()}, x.options());
    auto filter_parts =
        torch::empty({p.batch, filters, weights.numel() / p.out_channels}, x.options());
    auto bias_parts = torch::empty({p.batch, filters}, x.options());
    p.x_parts = x_parts.data_ptr<float>();
    p.filter_parts = filter_parts.data_ptr<float>();
    p.bias_parts = bias_parts.data_ptr<float>();
    const auto kernel = p.kernel_width == 3 ? Parts<3> : Parts<5>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared)));
    kernel<<<dim3(p.groups, p.batch), threads, shared, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t sums = weights.numel() + p.out_channels + x.numel();
    LaunchEarly(AddParts, DivideUp(sums, kAddThreads), kAddThreads, 0, stream, p,
                grad_x.data_ptr<float>(), grad_weights.data_ptr<float>(),
                grad_biases.data_ptr<float>());
    return {grad_x, grad_weights, grad_biases};
  }

  auto choice = torch::empty(grad_output.sizes(), x.options().dtype(torch::kInt8));
  int8_t* chosen = choice.data_ptr<int8_t>();
  const auto blocks = [](int64_t items, int per_block) {
    return static_cast<unsigned>(DivideUp(items, per_block));
  };
  Choose<<<blocks(choice.numel(), kAddThreads), kAddThreads, 0, stream>>>(p, chosen);
  GradXAny<<<blocks(x.numel(), kAddThreads), kAddThreads, 0, stream>>>(p, chosen,
                                                                       grad_x.data_ptr<float>());
  GradFiltersAny<<<blocks(weights.numel() + p.out_channels, kAddThreads / 32), kAddThreads, 0,
                   stream>>>(p, chosen, grad_weights.data_ptr<float>(),
                             grad_biases.data_ptr<float>());
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of convolution, ReLU and max pooling");
}
