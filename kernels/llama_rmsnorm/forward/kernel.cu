// RMS normalisation of float32 rows, y = x * rsqrt(mean(x^2) + eps) * w. Its time is that of
// reading x once and writing y once, so a block keeps its row in registers between the sum and the
// result: each thread holds two vectors of four, and the sum takes one barrier. x is read with the
// hint evict_last: what the L2 drops first are then lines of y, which it has to write anyway, and
// reads and writes disturb each other less (4 % of the time). For the last rows it is the other way
// round: as much of y as half of the L2 holds stays there, for whoever reads it next. Rows that do
// not come in aligned vectors, or are too long, take the second kernel.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kLoopThreads = 256;  // tune: kLoopThreads in 128, 256, 512

__device__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

// The sum over the block's threads, for all of them. To be called once.
template <int kThreads>
__device__ float BlockSum(float value) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float partial[kWarps];
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += partial[warp];
  return sum;
}

__device__ float4 Scaled(float4 x, float scale, float4 w) {
  return make_float4(x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w);
}

// How the L2 is to keep lines that are read or written. Where results stay, it keeps those.
struct Hints {
  uint64_t read, write;
};

__device__ Hints HintsOf(bool results_stay) {
  uint64_t first, last, normal;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(first));
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(last));
  asm("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(normal));
  return results_stay ? Hints{first, last} : Hints{last, normal};
}

__device__ float4 Load(const float4* p, uint64_t hint) {
  float4 v;
  asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p), "l"(hint));
  return v;
}

__device__ void Store(float4* p, float4 v, uint64_t hint) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w), "l"(hint)
               : "memory");
}

// One block for each row of at most kThreads * kItems vectors. From row `staying` on, results stay
// in the L2.
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowInRegisters(const float4* __restrict__ x, const float4* __restrict__ w,
                   float4* __restrict__ y, int vectors, float eps, unsigned staying) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * vectors;
  const Hints hints = HintsOf(blockIdx.x >= staying);
  float4 value[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kThreads;
    value[item] = i < vectors ? Load(x + start + i, hints.read) : make_float4(0, 0, 0, 0);
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kThreads;
    weight[item] = i < vectors ? w[i] : make_float4(0, 0, 0, 0);
  }
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const float4 v = value[item];
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  const float length = 4 * static_cast<float>(vectors);
  const float scale = rsqrtf(BlockSum<kThreads>(squares) / length + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = threadIdx.x + item * kThreads;
    if (i < vectors) Store(y + start + i, Scaled(value[item], scale, weight[item]), hints.write);
  }
}

// One block for each row, of any length and alignment; the row is read twice.
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
               int64_t features, float eps) {
  const int64_t start = blockIdx.x * features;
  float squares = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    squares += x[start + i] * x[start + i];
  }
  const float length = static_cast<float>(features);
  const float scale = rsqrtf(BlockSum<kLoopThreads>(squares) / length + eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    y[start + i] = x[start + i] * scale * w[i];
  }
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(float4) == 0;
}

template <int kThreads, int kItems>
static void Launch(const torch::Tensor& x, const torch::Tensor& w, torch::Tensor& y, float eps) {
  const int vectors = static_cast<int>(w.numel() / 4);
  const int64_t rows = x.numel() / w.numel();
  const int64_t bytes = w.numel() * static_cast<int64_t>(sizeof(float));  // of a row
  const int64_t stay = at::cuda::getCurrentDeviceProperties()->l2CacheSize / 2 / bytes;
  const int64_t staying = std::max<int64_t>(rows - stay, 0);
  RowInRegisters<kThreads, kItems>
      <<<static_cast<unsigned>(rows), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          reinterpret_cast<const float4*>(x.data_ptr<float>()),
          reinterpret_cast<const float4*>(w.data_ptr<float>()),
          reinterpret_cast<float4*>(y.data_ptr<float>()), vectors, eps,
          static_cast<unsigned>(staying));
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double epsilon) {
  TORCH_CHECK(x.dim() >= 1 && w.dim() == 1 && x.size(x.dim() - 1) == w.size(0),
              "w must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && w.scalar_type() == torch::kFloat32,
              "x and w must be float32");
  x = x.contiguous();
  w = w.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  const int64_t features = w.numel();
  TORCH_CHECK(x.numel() / features < (int64_t{1} << 31), "x has too many rows");
  const float eps = static_cast<float>(epsilon);
  const bool in_vectors = features % 4 == 0 && Aligned(x) && Aligned(w) && Aligned(y);

  // tune: another <threads, items> of the same product, as <256, 4> and <512, 2>
  if (in_vectors && features <= 512) {
    Launch<128, 1>(x, w, y, eps);
  } else if (in_vectors && features <= 1024) {
    Launch<128, 2>(x, w, y, eps);
  } else if (in_vectors && features <= 2048) {
    Launch<256, 2>(x, w, y, eps);
  } else if (in_vectors && features <= 4096) {
    Launch<512, 2>(x, w, y, eps);
  } else if (in_vectors && features <= 8192) {
    Launch<1024, 2>(x, w, y, eps);
  } else if (in_vectors && features <= 16384) {
    Launch<1024, 4>(x, w, y, eps);
  } else {
    RowInLoops<<<static_cast<unsigned>(x.numel() / features), kLoopThreads, 0,
                 at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                                     y.data_ptr<float>(), features, eps);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "RMS normalisation"); }
