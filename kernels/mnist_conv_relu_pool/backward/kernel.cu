// Gradients of convolution (no padding, stride 1), ReLU and 2x2 max pooling. A block has an image
// and 16 filters, and keeps the image's planes and those filters in shared memory.
//
// 1. A thread makes the four sums of a window for some filters, from its own patch of x in
//    registers, and notes where the window's gradient goes: a number and a place. Where two sums,
//    or a sum and zero, are as near as rounding may be wrong, a warp makes them again in double.
// 2. For grad_x a thread has a cell of 2x2 places of x for several channels, and gathers what the
//    windows that reach it send. Neighbouring lanes may share the filters.
// 3. For the filters' gradients, which are sparse (a quarter of the sums was chosen), half a warp
//    has the 16 filters as its lanes and walks over windows: it meets at most four places of x at a
//    time, so that loads are broadcasts.
//
// Stages 2 and 3 only read what stage 1 left; warps do them in different order, so that they
// overlap. What blocks of the same image or the same filter have is added up, in order, by
// AddParts. Planes too large for shared memory, and kernels that are neither 3 x 3 nor 5 x 5, go to
// plain kernels.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <vector>

constexpr int kThreads = 416;      // of a block of Parts
constexpr int kFilters = 16;       // of a block
constexpr int kFilterPitch = 20;   // of a row of filters, fewer bank conflicts than 16
constexpr int kAddThreads = 128;
constexpr int kMaxShared = 220 * 1024;

// n / divisor = umulhi(2 n, factor), exact where n * divisor < 2^31.
struct Divider {
  uint32_t factor;
};

struct Problem {
  const float *x, *weights, *biases, *gradient;
  float* x_parts;       // [filter groups][batch][channels][height][width]
  float* filter_parts;  // [batch][filter groups][channels * taps + 1 (bias)][kFilters]
  int batch, channels, height, width;
  int out_channels, kernel_height, kernel_width, out_height, out_width;  // pooled
  int groups;       // of filters
  int pitch;        // of a row of x in shared memory, even
  int note_pitch;   // of a filter's notes in shared memory, odd
  int blocks;       // of input channels in the second stage
  int split_bits;   // lanes that share a cell, as a power of two
  int x_floats;          // sizes in shared memory
  int by_filter_floats;
  int partial_floats;
  int vector;       // whether an image may be copied by 16 bytes
  Divider by_windows, by_out_width, by_width, by_depth, by_blocks, by_cells, by_cell_columns;
};

__device__ __forceinline__ int Divide(int n, Divider d) {
  return static_cast<int>(__umulhi(2u * static_cast<uint32_t>(n), d.factor));
}

// A launch may begin before the one in front of it has ended, and waits for its results here.
__device__ void WaitForLaunchBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ void LetNextLaunchBegin() { asm volatile("griddepcontrol.launch_dependents;"); }

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies 4 bytes to shared memory, or writes zero.
__device__ __forceinline__ void CopyFloat(float* to, const float* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

__device__ __forceinline__ void CopyFour(float* to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SharedAddress(to)), "l"(from)
               : "memory");
}

template <int kKernel>
__device__ __forceinline__ void LoadPatch(float (&patch)[kKernel + 1][kKernel + 1],
                                          const float* corner, int pitch) {
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
__device__ __forceinline__ int Chosen(const Real (&sums)[4]) {
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
__device__ __forceinline__ float Lead(const float (&sums)[4]) {
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
__device__ __forceinline__ Real WarpSum(Real value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(~0u, value, distance);
  }
  return value;
}

// kPer: filters of a thread in the first stage; kChannels: channels of a thread in the second.
template <int kKernel, int kPer, int kChannels>
__global__ void __launch_bounds__(kThreads, kKernel == 3 ? 2 : 1)
    Parts(const __grid_constant__ Problem p) {
  constexpr int kTaps = kKernel * kKernel;
  constexpr int kSide = kKernel + 1;                          // of the patch below a window
  constexpr int kReach = kSide / 2;                           // windows in a row that reach a cell
  constexpr int kSlots = kChannels == 7 ? 8 : kChannels;      // written for a tap
  constexpr int kPitch = kChannels == 7 ? 12 : kChannels;     // from tap to tap
  static_assert(kPer % 4 == 0 && kFilters % kPer == 0, "quads of filters");
  static_assert(kChannels == 1 || kChannels == 4 || kChannels == 7, "see the loads of weights");
  extern __shared__ float4 memory[];
  const int windows = p.out_height * p.out_width;
  const int depth = p.channels * kTaps;
  const int plane = p.height * p.pitch;
  const int pitch = p.pitch;
  const int note_pitch = p.note_pitch;
  float* const x = reinterpret_cast<float*>(memory);        // [channels][plane]
  float* const by_depth = x + p.x_floats;                   // [depth][kFilterPitch]
  float* const by_filter = by_depth + depth * kFilterPitch;  // [kFilters][blocks][kTaps][kPitch]
  // Where a window's gradient goes: the gradient; and, as the bits of an int, four times the place
  // in a plane of shared memory, plus the place in the window, 0 to 3 in the order of rows. Behind
  // a filter's windows lies at least one note of zero.
  float2* const notes = reinterpret_cast<float2*>(by_filter + p.by_filter_floats);
  float* const partial = reinterpret_cast<float*>(notes + kFilters * note_pitch);
  uint16_t* const doubtful = reinterpret_cast<uint16_t*>(partial + p.partial_floats);
  __shared__ int doubtful_count;
  __shared__ float doubts[kFilters];  // of a filter's sums, for each unit of x
  __shared__ float biases[kFilters];

  LetNextLaunchBegin();
  const int tid = threadIdx.x;
  const int lane = tid % 32;
  const int warp = tid / 32;
  const int warps = kThreads / 32;
  const int image = blockIdx.y;
  const int first_filter = blockIdx.x * kFilters;
  const int image_size = p.channels * p.height * p.width;
  const float* source = p.x + static_cast<int64_t>(image) * image_size;
  if (p.vector) {
    for (int i = tid; i < image_size / 4; i += kThreads) CopyFour(x + 4 * i, source + 4 * i);
  } else {
    const int more = pitch - p.width;
    for (int i = tid; i < image_size; i += kThreads) {
      CopyFloat(x + i + Divide(i, p.by_width) * more, source + i, true);
    }
  }
  for (int i = tid; i < kFilters * depth; i += kThreads) {
    const int filter = Divide(i, p.by_depth);
    const bool valid = first_filter + filter < p.out_channels;
    CopyFloat(by_depth + (i - filter * depth) * kFilterPitch + filter,
              p.weights + (valid ? static_cast<int64_t>(first_filter) * depth + i : 0), valid);
  }
  for (int i = tid; i < kFilters * windows; i += kThreads) {
    const int filter = Divide(i, p.by_windows);
    const bool valid = first_filter + filter < p.out_channels;
    const int64_t at = (static_cast<int64_t>(image) * p.out_channels + first_filter) * windows + i;
    CopyFloat(&notes[filter * note_pitch + (i - filter * windows)].x,
              p.gradient + (valid ? at : 0), valid);
  }
  for (int i = tid; i < kFilters * p.blocks * kTaps * kSlots; i += kThreads) {
    const int slot = i % kSlots;
    const int rest = i / kSlots;
    const int tap = rest % kTaps;
    const int of = rest / kTaps;
    const int filter = Divide(of, p.by_blocks);
    const int c = (of - filter * p.blocks) * kChannels + slot;
    const bool valid =
        slot < kChannels && c < p.channels && first_filter + filter < p.out_channels;
    const int64_t at = static_cast<int64_t>(first_filter + filter) * depth + c * kTaps + tap;
    CopyFloat(by_filter + rest * kPitch + slot, p.weights + (valid ? at : 0), valid);
  }
  // Each addition may be off by 2^-24 of what is there; two sums are compared.
  const float unit = static_cast<float>(depth + 1) * 0x1p-23f;
  for (int filter = warp; filter < kFilters; filter += warps) {
    float sum = 0;
    if (first_filter + filter < p.out_channels) {
      const float* of = p.weights + static_cast<int64_t>(first_filter + filter) * depth;
      for (int i = lane; i < depth; i += 32) sum += fabsf(__ldg(of + i));
    }
    sum = WarpSum(sum);
    if (lane == 0) doubts[filter] = sum * unit;
  }
  if (tid < kFilters) {
    biases[tid] = first_filter + tid < p.out_channels ? __ldg(p.biases + first_filter + tid) : 0.0f;
    for (int i = windows; i < note_pitch; ++i) {
      notes[tid * note_pitch + i] = make_float2(0.0f, 0.0f);
    }
  }
  if (tid == 0) doubtful_count = 0;
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  // Stage 1.
  const auto note = [=](int at, int corner, int chosen) {
    const int place = chosen < 0 ? corner : corner + chosen / 2 * pitch + chosen % 2;
    notes[at].y = __int_as_float(place * 4 + max(chosen, 0));
    if (chosen < 0) notes[at].x = 0;
  };
  for (int item = tid; item < kFilters / kPer * windows; item += kThreads) {
    const int set = Divide(item, p.by_windows);
    const int window = item - set * windows;
    const int window_row = Divide(window, p.by_out_width);
    const int corner = window_row * 2 * pitch + (window - window_row * p.out_width) * 2;
    float sums[kPer][4];
#pragma unroll
    for (int f = 0; f < kPer; ++f) {
      const float bias = biases[set * kPer + f];
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[f][k] = bias;
    }
    float largest = 0;
    const float* at = x + corner;
    const float* of = by_depth + set * kPer;
#pragma unroll 1
    for (int c = 0; c < p.channels; ++c) {
      float patch[kSide][kSide];
      LoadPatch<kKernel>(patch, at, pitch);
#pragma unroll
      for (int i = 0; i < kSide * kSide; ++i) {
        largest = fmaxf(largest, fabsf(patch[i / kSide][i % kSide]));
      }
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
#pragma unroll
        for (int quad = 0; quad < kPer / 4; ++quad) {
          const float4 four =
              *reinterpret_cast<const float4*>(of + tap * kFilterPitch + quad * 4);
          const float weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
          for (int f = 0; f < 4; ++f) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              sums[quad * 4 + f][k] +=
                  weight[f] * patch[tap / kKernel + k / 2][tap % kKernel + k % 2];
            }
          }
        }
      }
      at += plane;
      of += kTaps * kFilterPitch;
    }
#pragma unroll
    for (int f = 0; f < kPer; ++f) {
      const int filter = set * kPer + f;
      note(filter * note_pitch + window, corner, Chosen(sums[f]));
      const float doubt = doubts[filter] * largest + fabsf(biases[filter]) * unit;
      if (!(Lead(sums[f]) >= doubt)) {
        doubtful[atomicAdd(&doubtful_count, 1)] =
            static_cast<uint16_t>(filter * windows + window);
      }
    }
  }
  __syncthreads();
  const int again = doubtful_count;
  for (int i = warp; i < again; i += warps) {
    const int which = doubtful[i];
    const int filter = Divide(which, p.by_windows);
    const int window = which - filter * windows;
    const int window_row = Divide(window, p.by_out_width);
    const int corner = window_row * 2 * pitch + (window - window_row * p.out_width) * 2;
    double sums[4] = {};
    for (int k = lane; k < depth; k += 32) {
      const int tap = k % kTaps;
      const double weight = by_depth[k * kFilterPitch + filter];
      const float* at = x + k / kTaps * plane + corner + tap / kKernel * pitch + tap % kKernel;
#pragma unroll
      for (int m = 0; m < 4; ++m) sums[m] += weight * at[m / 2 * pitch + m % 2];
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) sums[m] = WarpSum(sums[m]) + biases[filter];
    if (lane == 0) note(filter * note_pitch + window, corner, Chosen(sums));
  }
  __syncthreads();

  // Stages 2 and 3, in an order that depends on the warp.
  const int per_channel = max(1, warps / p.channels);  // warps that share a channel in stage 3
  float* const filter_part =
      p.filter_parts +
      (static_cast<int64_t>(image) * p.groups + blockIdx.x) * (depth + 1) * kFilters;
  const bool filters_first = warp / 4 % 2 != 0;
#pragma unroll 1
  for (int step = 0; step < 2; ++step) {
    if ((step == 1) == filters_first) {
      // Stage 2.
      float* const x_part =
          p.x_parts + (static_cast<int64_t>(blockIdx.x) * p.batch + image) * image_size;
      const int splits = 1 << p.split_bits;
      const int cell_columns = (p.width + 1) / 2;
      const int cells = (p.height + 1) / 2 * cell_columns;
      const int items = (cells * p.blocks) << p.split_bits;
#pragma unroll 1
      for (int base = warp * 32; base < items; base += kThreads) {
        const int wanted = base + lane;
        const bool valid = wanted < items;
        const int split = lane & (splits - 1);
        const int item = min(wanted, items - 1) >> p.split_bits;
        const int block = Divide(item, p.by_cells);
        const int cell = item - block * cells;
        const int row = Divide(cell, p.by_cell_columns);
        const int column = cell - row * cell_columns;
        const float2* from[kReach][kReach];
#pragma unroll
        for (int a = 0; a < kReach; ++a) {
#pragma unroll
          for (int b = 0; b < kReach; ++b) {
            const int down = row - (kReach - 1) + a;
            const int across = column - (kReach - 1) + b;
            const bool inside =
                down >= 0 && down < p.out_height && across >= 0 && across < p.out_width;
            from[a][b] =
                notes + split * note_pitch + (inside ? down * p.out_width + across : windows);
          }
        }
        const float* of = by_filter + (split * p.blocks + block) * kTaps * kPitch;
        const int next_of = (p.blocks * kTaps * kPitch) << p.split_bits;
        const int next_note = note_pitch << p.split_bits;
        float sums[kChannels][4];
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sums[c][k] = 0;
        }
#pragma unroll 1
        for (int filter = split; filter < kFilters; filter += splits) {
          float sent[kSide][kSide];
#pragma unroll
          for (int a = 0; a < kReach; ++a) {
#pragma unroll
            for (int b = 0; b < kReach; ++b) {
              const float2 one = *from[a][b];
              from[a][b] += next_note;
              const int chosen = __float_as_int(one.y) & 3;
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                sent[2 * a + k / 2][2 * b + k % 2] = chosen == k ? one.x : 0.0f;
              }
            }
          }
#pragma unroll
          for (int tap = 0; tap < kTaps; ++tap) {
            float weight[kSlots];
            if constexpr (kChannels == 1) {
              weight[0] = of[tap];
            } else {
#pragma unroll
              for (int s = 0; s < kSlots; s += 4) {
                const float4 four = *reinterpret_cast<const float4*>(of + tap * kPitch + s);
                weight[s] = four.x;
                weight[s + 1] = four.y;
                weight[s + 2] = four.z;
                weight[s + 3] = four.w;
              }
            }
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                sums[c][k] += weight[c] * sent[k / 2 - tap / kKernel + kKernel - 1]
                                              [k % 2 - tap % kKernel + kKernel - 1];
              }
            }
          }
          of += next_of;
        }
        for (int distance = splits / 2; distance > 0; distance /= 2) {
#pragma unroll
          for (int c = 0; c < kChannels; ++c) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              sums[c][k] += __shfl_xor_sync(~0u, sums[c][k], distance);
            }
          }
        }
        if (valid && split == 0) {
#pragma unroll
          for (int c = 0; c < kChannels; ++c) {
            const int channel = block * kChannels + c;
            if (channel < p.channels) {
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const int place_row = 2 * row + i;
                if (place_row < p.height) {
                  float* to = x_part + (channel * p.height + place_row) * p.width + 2 * column;
                  if (p.width % 2 == 0) {
                    *reinterpret_cast<float2*>(to) =
                        make_float2(sums[c][2 * i], sums[c][2 * i + 1]);
                  } else {
                    to[0] = sums[c][2 * i];
                    if (2 * column + 1 < p.width) to[1] = sums[c][2 * i + 1];
                  }
                }
              }
            }
          }
        }
      }
    } else {
      // Stage 3.
      const int filter = lane % kFilters;
      const float2* const of_filter = notes + filter * note_pitch;
      const int slices = 2 * per_channel;
      const int slice = warp % per_channel * 2 + lane / kFilters;
#pragma unroll 1
      for (int c = warp / per_channel; c < p.channels; c += warps / per_channel) {
        const char* const of_channel = reinterpret_cast<const char*>(x + c * plane);
        float sums[kTaps + 1];
#pragma unroll
        for (int tap = 0; tap <= kTaps; ++tap) sums[tap] = 0;
#pragma unroll 2
        for (int window = slice; window < windows; window += slices) {
          const float2 one = of_filter[window];
          const float* met =
              reinterpret_cast<const float*>(of_channel + (__float_as_int(one.y) & ~3));
          sums[kTaps] += one.x;
#pragma unroll
          for (int tap = 0; tap < kTaps; ++tap) {
            sums[tap] += one.x * met[tap / kKernel * pitch + tap % kKernel];
          }
        }
        __syncwarp();
#pragma unroll
        for (int tap = 0; tap <= kTaps; ++tap) {
          sums[tap] += __shfl_xor_sync(~0u, sums[tap], 16);
        }
        if (lane < kFilters) {
          if (per_channel == 1) {
#pragma unroll
            for (int tap = 0; tap < kTaps; ++tap) {
              filter_part[(c * kTaps + tap) * kFilters + filter] = sums[tap];
            }
            if (c == 0) filter_part[depth * kFilters + filter] = sums[kTaps];
          } else {
#pragma unroll
            for (int tap = 0; tap <= kTaps; ++tap) {
              partial[(warp * (kTaps + 1) + tap) * kFilters + filter] = sums[tap];
            }
          }
        }
      }
    }
  }
  if (per_channel > 1) {
    __syncthreads();
    for (int i = tid; i < (depth + 1) * kFilters; i += kThreads) {
      const int filter = i % kFilters;
      const int d = i / kFilters;
      const int c = d == depth ? 0 : d / kTaps;
      const int tap = d == depth ? kTaps : d % kTaps;
      float sum = 0;
      for (int s = 0; s < per_channel; ++s) {
        sum += partial[((c * per_channel + s) * (kTaps + 1) + tap) * kFilters + filter];
      }
      filter_part[i] = sum;
    }
  }
}

// First a block for 16 filters and a weight of each (or the biases), eight threads for each; then a
// thread for each element of x, or for four.
__global__ void __launch_bounds__(kAddThreads)
    AddParts(const __grid_constant__ Problem p, float* __restrict__ grad_x,
             float* __restrict__ grad_weights, float* __restrict__ grad_biases, int weight_blocks,
             int by_four) {
  constexpr int kSlices = kAddThreads / kFilters;
  __shared__ float slices[kAddThreads];
  const int tid = threadIdx.x;
  WaitForLaunchBefore();
  if (static_cast<int>(blockIdx.x) < weight_blocks) {
    const int row = blockIdx.x;
    const int64_t step = static_cast<int64_t>(weight_blocks) * kFilters;
    const float* part = p.filter_parts + static_cast<int64_t>(row) * kFilters + tid % kFilters;
    float sum = 0;
#pragma unroll 8
    for (int image = tid / kFilters; image < p.batch; image += kSlices) sum += part[image * step];
    slices[tid] = sum;
    __syncthreads();
    if (tid < kFilters) {
      float total = 0;
#pragma unroll
      for (int s = 0; s < kSlices; ++s) total += slices[s * kFilters + tid];
      const int depth = p.channels * p.kernel_height * p.kernel_width;
      const int group = row / (depth + 1);
      const int d = row - group * (depth + 1);
      const int filter = group * kFilters + tid;
      if (filter < p.out_channels) {
        if (d < depth) {
          grad_weights[static_cast<int64_t>(filter) * depth + d] = total;
        } else {
          grad_biases[filter] = total;
        }
      }
    }
    return;
  }
  const int64_t elements = static_cast<int64_t>(p.batch) * p.channels * p.height * p.width;
  const int64_t i = static_cast<int64_t>(blockIdx.x - weight_blocks) * kAddThreads + tid;
  if (by_four) {
    const int64_t fours = elements / 4;
    if (i >= fours) return;
    const float4* part = reinterpret_cast<const float4*>(p.x_parts) + i;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int group = 0; group < p.groups; ++group) {
      const float4 four = part[group * fours];
      sum.x += four.x;
      sum.y += four.y;
      sum.z += four.z;
      sum.w += four.w;
    }
    reinterpret_cast<float4*>(grad_x)[i] = sum;
  } else {
    if (i >= elements) return;
    float sum = 0;
#pragma unroll 4
    for (int group = 0; group < p.groups; ++group) sum += p.x_parts[group * elements + i];
    grad_x[i] = sum;
  }
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
  double sums[4];  // where two are near, rounding must not choose
  for (double& sum : sums) sum = p.biases[channel];
  for (int c = 0; c < p.channels; ++c) {
    const float* source =
        p.x + ((image * p.channels + c) * p.height + row) * static_cast<int64_t>(p.width) + column;
    const float* filter = p.weights + (channel * p.channels + c) * p.kernel_height * p.kernel_width;
    for (int i = 0; i < p.kernel_height; ++i) {
      for (int j = 0; j < p.kernel_width; ++j) {
        const double f = filter[i * p.kernel_width + j];
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

static Divider MakeDivider(int64_t divisor) {
  Divider d;
  d.factor = static_cast<uint32_t>(DivideUp(int64_t{1} << 31, divisor));
  return d;
}

// Lays out shared memory; 0 if an image does not fit, else the bytes of shared memory.
static int64_t Arrange(Problem& p, int channels_of_thread) {
  if (p.batch > 65535) return 0;
  const int64_t taps = int64_t{p.kernel_height} * p.kernel_width;
  const int64_t windows = int64_t{p.out_height} * p.out_width;
  const int64_t depth = p.channels * taps;
  const int64_t slot_pitch = channels_of_thread == 7 ? 12 : channels_of_thread;
  const int64_t blocks = DivideUp(p.channels, channels_of_thread);
  const int64_t pitch = int64_t{p.width} + p.width % 2;
  const int64_t note_pitch = (windows + 1) | 1;
  const int64_t x_floats = DivideUp(int64_t{p.channels} * p.height * pitch, 4) * 4;
  const int64_t by_filter_floats = DivideUp(kFilters * blocks * taps * slot_pitch, 4) * 4;
  const int64_t warps = kThreads / 32;
  const int64_t partial_floats = warps / p.channels > 1 ? warps * (taps + 1) * kFilters : 0;
  const int64_t shared = (x_floats + depth * kFilterPitch + by_filter_floats +
                          2 * kFilters * note_pitch + partial_floats) *
                             static_cast<int64_t>(sizeof(float)) +
                         kFilters * windows * static_cast<int64_t>(sizeof(uint16_t));
  if (shared > kMaxShared) return 0;
  p.groups = static_cast<int>(DivideUp(p.out_channels, kFilters));
  p.pitch = static_cast<int>(pitch);
  p.note_pitch = static_cast<int>(note_pitch);
  p.blocks = static_cast<int>(blocks);
  p.x_floats = static_cast<int>(x_floats);
  p.by_filter_floats = static_cast<int>(by_filter_floats);
  p.partial_floats = static_cast<int>(partial_floats);
  const int64_t cell_columns = (int64_t{p.width} + 1) / 2;
  const int64_t cells = (int64_t{p.height} + 1) / 2 * cell_columns;
  p.split_bits = 0;
  while (p.split_bits < 4 && ((cells * blocks) << (p.split_bits + 1)) <= kThreads) ++p.split_bits;
  const int64_t image_size = int64_t{p.channels} * p.height * p.width;
  p.vector = p.width % 2 == 0 && image_size % 4 == 0 &&
             reinterpret_cast<uintptr_t>(p.x) % 16 == 0;
  p.by_windows = MakeDivider(windows);
  p.by_out_width = MakeDivider(p.out_width);
  p.by_width = MakeDivider(p.width);
  p.by_depth = MakeDivider(depth);
  p.by_blocks = MakeDivider(blocks);
  p.by_cells = MakeDivider(cells);
  p.by_cell_columns = MakeDivider(cell_columns);
  return shared;
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
  TORCH_CHECK(weights.scalar_type() == torch::kFloat32 && biases.scalar_type() == torch::kFloat32 &&
                  grad_output.scalar_type() == torch::kFloat32,
              "weights, biases and grad_output must be float32");
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

  void (*kernel)(const Problem) = nullptr;
  int channels_of_thread = 1;
  if (p.kernel_height == 3 && p.kernel_width == 3) {
    if (p.channels == 1) {
      kernel = Parts<3, 4, 1>;
    } else {
      channels_of_thread = 7;
      if (int64_t{p.out_height} * p.out_width >= 128) {
        kernel = Parts<3, 8, 7>;
      } else {
        kernel = Parts<3, 4, 7>;
      }
    }
  } else if (p.kernel_height == 5 && p.kernel_width == 5) {
    channels_of_thread = 4;
    kernel = Parts<5, 4, 4>;
  }
  const int64_t shared = kernel == nullptr ? 0 : Arrange(p, channels_of_thread);
  if (shared > 0) {
    const int64_t rows = weights.numel() / p.out_channels + 1;
    auto x_parts = torch::empty({p.groups, x.numel()}, x.options());
    auto filter_parts = torch::empty({p.batch, p.groups, rows, kFilters}, x.options());
    p.x_parts = x_parts.data_ptr<float>();
    p.filter_parts = filter_parts.data_ptr<float>();
    C10_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared)));
    kernel<<<dim3(static_cast<unsigned>(p.groups), static_cast<unsigned>(p.batch)), kThreads,
             static_cast<size_t>(shared), stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t weight_blocks = rows * p.groups;
    const bool by_four = x.numel() % 4 == 0;
    const int64_t sums = by_four ? x.numel() / 4 : x.numel();
    LaunchEarly(AddParts, weight_blocks + DivideUp(sums, kAddThreads), kAddThreads, 0, stream, p,
                grad_x.data_ptr<float>(), grad_weights.data_ptr<float>(),
                grad_biases.data_ptr<float>(), static_cast<int>(weight_blocks),
                by_four ? 1 : 0);
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
