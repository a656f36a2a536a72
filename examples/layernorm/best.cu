// Layer normalisation of long rows. A row is cut into slices that a block holds in registers. Moments
// leaves every slice's mean and squared deviation; Normalize puts those of its row together, around
// the row's mean, and writes its slice. Where all of x fits into registers, one cooperative launch does
// both.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cooperative_groups.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 128, 256, 512
constexpr int kWarps = kThreads / 32;
constexpr int kMany = 8;  // packs of a thread if there is work for all SMs; tune: kMany in 4, 8
constexpr unsigned kAll = 0xffffffffu;

template <int V>
struct alignas(4 * V) Pack {
  float v[V];
};

namespace cg = cooperative_groups;

struct Shape {
  int64_t packs;    // of a row
  unsigned slices;  // of a row; the last one may be shorter
};

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAll, value, distance);
  }
  return value;
}

// The sum over the block's threads, known to all of them. Each call needs kWarps places of its own.
__device__ __forceinline__ float BlockSum(float value, float* places) {
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) places[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += places[w];
  return sum;
}

// Packs of a slice.
template <int kPacks>
__device__ __forceinline__ int Count(const Shape& s, unsigned slice) {
  constexpr int64_t kSlice = kThreads * kPacks;
  return static_cast<int>(min(kSlice, s.packs - slice * kSlice));
}

template <int V, int kPacks>
__global__ void __launch_bounds__(kThreads)
    Moments(const Pack<V>* __restrict__ x, float2* __restrict__ moments, Shape s) {
  __shared__ float places[2][kWarps];
  constexpr int64_t kSlice = kThreads * kPacks;
  const unsigned row = blockIdx.x / s.slices;
  const unsigned slice = blockIdx.x - row * s.slices;
  const Pack<V>* from = x + row * s.packs + slice * kSlice;
  const int count = Count<kPacks>(s, slice);

  const float base = from[0].v[0];  // sums are around it, so that a common shift costs nothing
  Pack<V> pack[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = threadIdx.x + p * kThreads;
    if (i < count) pack[p] = from[i];
  }
  float sums[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    sums[p] = 0;
    if (static_cast<int>(threadIdx.x) + p * kThreads < count) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[p] += pack[p].v[v] - base;
    }
  }
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) sum += sums[p];
  const float mean = base + BlockSum(sum, places[0]) / (static_cast<float>(count) * V);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    sums[p] = 0;
    if (static_cast<int>(threadIdx.x) + p * kThreads < count) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[p] += (pack[p].v[v] - mean) * (pack[p].v[v] - mean);
    }
  }
  sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) sum += sums[p];
  const float square = BlockSum(sum, places[1]);
  if (threadIdx.x == 0) moments[blockIdx.x] = make_float2(mean, square);
}

template <int V, int kPacks>
__global__ void __launch_bounds__(kThreads)
    Normalize(const Pack<V>* __restrict__ x, const Pack<V>* __restrict__ weight,
              const Pack<V>* __restrict__ bias, const float2* __restrict__ moments,
              Pack<V>* __restrict__ y, float eps, Shape s) {
  __shared__ float places[2][kWarps];
  constexpr int64_t kSlice = kThreads * kPacks;
  const unsigned row = blockIdx.x / s.slices;
  const unsigned slice = blockIdx.x - row * s.slices;
  const int64_t place = slice * kSlice;
  const int count = Count<kPacks>(s, slice);
  x += row * s.packs + place;
  y += row * s.packs + place;
  weight += place;
  bias += place;
  moments += static_cast<int64_t>(row) * s.slices;

  Pack<V> px[kPacks];
  Pack<V> pw[kPacks];
  Pack<V> pb[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = threadIdx.x + p * kThreads;
    if (i < count) {
      px[p] = x[i];
      pw[p] = weight[i];
      pb[p] = bias[i];
    }
  }

  const float length = static_cast<float>(s.packs) * V;
  const float base = moments[0].x;
  float mean;
  float variance;
  if (s.slices <= 32) {  // each warp for itself
    const unsigned lane = threadIdx.x % 32;
    float2 part = make_float2(base, 0.0f);
    float number = 0;
    if (lane < s.slices) {
      part = moments[lane];
      number = static_cast<float>(Count<kPacks>(s, lane)) * V;
    }
    mean = base + WarpSum(number * (part.x - base)) / length;
    const float off = part.x - mean;
    variance = WarpSum(part.y + number * off * off) / length;
  } else {
    float sum = 0;
#pragma unroll 4
    for (unsigned c = threadIdx.x; c < s.slices; c += kThreads) {
      sum += static_cast<float>(Count<kPacks>(s, c)) * V * (moments[c].x - base);
    }
    mean = base + BlockSum(sum, places[0]) / length;
    sum = 0;
#pragma unroll 4
    for (unsigned c = threadIdx.x; c < s.slices; c += kThreads) {
      const float2 part = moments[c];
      const float off = part.x - mean;
      sum += part.y + static_cast<float>(Count<kPacks>(s, c)) * V * off * off;
    }
    variance = BlockSum(sum, places[1]) / length;
  }
  const float scale = rsqrtf(variance + eps);

#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = threadIdx.x + p * kThreads;
    if (i < count) {
      Pack<V> out;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        out.v[v] = (px[p].v[v] - mean) * scale * pw[p].v[v] + pb[p].v[v];
      }
      y[i] = out;
    }
  }
}

template <int V, int kPacks>
static void Run(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                torch::Tensor& y, float eps) {
  constexpr int64_t kSlice = kThreads * kPacks;
  const int64_t length = weight.numel();
  const int64_t packs = length / V;
  const int64_t slices = (packs + kSlice - 1) / kSlice;
  const int64_t blocks = x.numel() / length * slices;
  TORCH_CHECK(blocks < (int64_t{1} << 31), "x is too large");
  const Shape s{packs, static_cast<unsigned>(slices)};
  auto moments = torch::empty({2 * blocks}, x.options());
  float2* parts = reinterpret_cast<float2*>(moments.data_ptr<float>());
  const Pack<V>* from = reinterpret_cast<const Pack<V>*>(x.data_ptr<float>());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Moments<V, kPacks><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(from, parts, s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  Normalize<V, kPacks><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      from, reinterpret_cast<const Pack<V>*>(weight.data_ptr<float>()),
      reinterpret_cast<const Pack<V>*>(bias.data_ptr<float>()), parts,
      reinterpret_cast<Pack<V>*>(y.data_ptr<float>()), eps, s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// All in one launch: each warp keeps 32 * kPacks packs of a row, and of weight and bias, in registers,
// leaves its mean and squared deviation, and after the barrier of the grid puts those of its row
// together.
constexpr int kResident = 4;  // blocks that an SM is certain to hold

template <int V, int kPacks>
__global__ void __launch_bounds__(kThreads, kResident)
    Together(const Pack<V>* __restrict__ x, const Pack<V>* __restrict__ weight,
             const Pack<V>* __restrict__ bias, float2* moments, Pack<V>* __restrict__ y, float eps,
             int packs, int parts, int warps) {
  const int warp = blockIdx.x * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const bool works = warp < warps;
  const int row = works ? warp / parts : 0;
  const int place = works ? (warp - row * parts) * 32 * kPacks : 0;
  const int count = works ? min(32 * kPacks, packs - place) : 0;
  const int64_t start = static_cast<int64_t>(row) * packs + place;

  Pack<V> px[kPacks];
  Pack<V> pw[kPacks];
  Pack<V> pb[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = lane + 32 * p;
    if (i < count) px[p] = x[start + i];
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = lane + 32 * p;
    if (i < count) {
      pw[p] = weight[place + i];
      pb[p] = bias[place + i];
    }
  }

  if (works) {  // the whole warp
    const float base = __shfl_sync(kAll, px[0].v[0], 0);
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (lane + 32 * p < count) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum += px[p].v[v] - base;
      }
    }
    const float own = base + WarpSum(sum) / (static_cast<float>(count) * V);
    sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (lane + 32 * p < count) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum += (px[p].v[v] - own) * (px[p].v[v] - own);
      }
    }
    sum = WarpSum(sum);
    if (lane == 0) __stcg(moments + warp, make_float2(own, sum));
  }
  cg::this_grid().sync();
  if (!works) return;

  moments += row * parts;
  constexpr int kKept = 4;  // pairs that a lane keeps
  const float base = __ldcg(moments).x;
  float2 part[kKept];
  float number[kKept];
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int c = lane + 32 * k;
    part[k] = make_float2(base, 0.0f);
    number[k] = 0;
    if (c < parts) {
      part[k] = __ldcg(moments + c);
      number[k] = static_cast<float>(min(32 * kPacks, packs - c * 32 * kPacks)) * V;
    }
  }
  const float length = static_cast<float>(packs) * V;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) sum += number[k] * (part[k].x - base);
#pragma unroll 4
  for (int c = lane + 32 * kKept; c < parts; c += 32) {
    sum += static_cast<float>(min(32 * kPacks, packs - c * 32 * kPacks)) * V *
           (__ldcg(moments + c).x - base);
  }
  const float mean = base + WarpSum(sum) / length;
  sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const float off = part[k].x - mean;
    sum += part[k].y + number[k] * off * off;
  }
#pragma unroll 4
  for (int c = lane + 32 * kKept; c < parts; c += 32) {
    const float2 other = __ldcg(moments + c);
    const float off = other.x - mean;
    sum += other.y + static_cast<float>(min(32 * kPacks, packs - c * 32 * kPacks)) * V * off * off;
  }
  const float scale = rsqrtf(WarpSum(sum) / length + eps);

#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = lane + 32 * p;
    if (i < count) {
      Pack<V> out;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        out.v[v] = (px[p].v[v] - mean) * scale * pw[p].v[v] + pb[p].v[v];
      }
      y[start + i] = out;
    }
  }
}

// False if not all blocks would be resident.
template <int V, int kPacks>
static bool RunTogether(const torch::Tensor& x, const torch::Tensor& weight,
                        const torch::Tensor& bias, torch::Tensor& y, float eps) {
  const int64_t length = weight.numel();
  const int64_t rows = x.numel() / length;
  const int64_t all_parts = (length / V + 32 * kPacks - 1) / (32 * kPacks);
  const int64_t all_warps = rows * all_parts;
  const int64_t blocks = (all_warps + kWarps - 1) / kWarps;
  const auto* device = at::cuda::getCurrentDeviceProperties();
  if (blocks > int64_t{kResident} * device->multiProcessorCount) return false;
  int packs = static_cast<int>(length / V);
  int parts = static_cast<int>(all_parts);
  int warps = static_cast<int>(all_warps);
  auto workspace = torch::empty({2 * all_warps}, x.options());
  float2* moments = reinterpret_cast<float2*>(workspace.data_ptr<float>());
  const Pack<V>* px = reinterpret_cast<const Pack<V>*>(x.data_ptr<float>());
  const Pack<V>* pw = reinterpret_cast<const Pack<V>*>(weight.data_ptr<float>());
  const Pack<V>* pb = reinterpret_cast<const Pack<V>*>(bias.data_ptr<float>());
  Pack<V>* py = reinterpret_cast<Pack<V>*>(y.data_ptr<float>());
  void* arguments[] = {&px, &pw, &pb, &moments, &py, &eps, &packs, &parts, &warps};
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&Together<V, kPacks>),
                                             dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                                             arguments, 0, stream));
  return true;
}

static bool Aligned(const torch::Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.data_ptr<float>()) % 16 == 0;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  TORCH_CHECK(weight.numel() > 0 && weight.sizes() == bias.sizes() && x.dim() >= weight.dim() &&
                  x.sizes().slice(x.dim() - weight.dim()) == weight.sizes(),
              "weight and bias must have the last dimensions of x, which must not be empty");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weight = weight.contiguous();
  bias = bias.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const float small = static_cast<float>(eps);
  const bool wide =
      weight.numel() % 4 == 0 && Aligned(x) && Aligned(weight) && Aligned(bias) && Aligned(y);
  if (wide) {
    if (RunTogether<4, 1>(x, weight, bias, y, small)) return y;
    if (RunTogether<4, 4>(x, weight, bias, y, small)) return y;
  } else {
    if (RunTogether<1, 2>(x, weight, bias, y, small)) return y;
    if (RunTogether<1, 8>(x, weight, bias, y, small)) return y;
  }
  // Long slices only if they leave some blocks for each SM.
  const int64_t blocks = x.numel() / (int64_t{kThreads} * kMany * (wide ? 4 : 1));
  const bool many = blocks >= 4 * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  if (wide && many) {
    Run<4, kMany>(x, weight, bias, y, small);
  } else if (wide) {
    Run<4, 1>(x, weight, bias, y, small);
  } else if (many) {
    Run<1, kMany>(x, weight, bias, y, small);
  } else {
    Run<1, 1>(x, weight, bias, y, small);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Layer normalisation"); }
