// GELU, exact or by the hyperbolic tangent: bound by memory if the arithmetic is short enough. A
// thread takes kItems vectors of 16 bytes, a block's width apart, and issues all loads before the
// first use; where all vectors fit on the GPU at once, one vector. They are read with the hint
// evict_last, so that the L2 first drops lines of y, which have to be written anyway. Tensors that
// are not aligned, and the numbers after the last whole vector, go by single elements.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>
#include <string>

constexpr int kThreads = 128;     // tune: kThreads in 128, 256, 512
constexpr int kItems = 1;         // tune: kItems in 1, 2, 4
constexpr int kFewThreads = 128;  // where there are few vectors

template <bool kTanh>
__device__ float Gelu(float x) {
  if constexpr (kTanh) {
    // x * (1 + tanh(u)) / 2 is x / (1 + exp(-2 u)); tanhf is too inexact under --use_fast_math.
    const float u = 0.797884560802865356f * (x + 0.044715f * x * x * x);
    return x / (1 + __expf(-2 * u));
  } else {
    // x * (1 + erf(x / sqrt(2))) / 2 by Abramowitz and Stegun's 7.1.26, whose error is 1.5e-7: half
    // the instructions of erff, with which 16-bit numbers would not come as fast as memory does.
    float t;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(1 + 0.231641888f * fabsf(x)));
    const float sum =
        t * (0.127414796f +
             t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f))));
    const float tail = sum * __expf(-0.5f * x * x);
    return x * (x > 0 ? 1 - tail : tail);
  }
}

template <bool kTanh>
__device__ float2 Gelu(float2 x) {
  return make_float2(Gelu<kTanh>(x.x), Gelu<kTanh>(x.y));
}

// One 32-bit word: a float or a pair of 16-bit numbers.
template <typename Word, bool kTanh>
__device__ unsigned OfWord(unsigned x) {
  if constexpr (std::is_same_v<Word, float>) {
    return __float_as_uint(Gelu<kTanh>(__uint_as_float(x)));
  } else if constexpr (std::is_same_v<Word, __half2>) {
    const __half2 y = __float22half2_rn(Gelu<kTanh>(__half22float2(reinterpret_cast<__half2&>(x))));
    return reinterpret_cast<const unsigned&>(y);
  } else {
    const __nv_bfloat162 y = __float22bfloat162_rn(
        Gelu<kTanh>(__bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(x))));
    return reinterpret_cast<const unsigned&>(y);
  }
}

__device__ uint64_t EvictLast() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  return policy;
}

__device__ uint4 Load(const uint4* p, uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p), "l"(policy));
  return v;
}

template <typename Word, bool kTanh, int kWidth, int kEach>
__global__ void __launch_bounds__(kWidth)
    InVectors(const uint4* __restrict__ x, uint4* __restrict__ y, int64_t vectors) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kWidth * kEach) + threadIdx.x;
  const uint64_t policy = EvictLast();
  uint4 value[kEach];
#pragma unroll
  for (int item = 0; item < kEach; ++item) {
    if (first + item * kWidth < vectors) value[item] = Load(x + first + item * kWidth, policy);
  }
#pragma unroll
  for (int item = 0; item < kEach; ++item) {
    if (first + item * kWidth >= vectors) continue;
    uint4 result;
    result.x = OfWord<Word, kTanh>(value[item].x);
    result.y = OfWord<Word, kTanh>(value[item].y);
    result.z = OfWord<Word, kTanh>(value[item].z);
    result.w = OfWord<Word, kTanh>(value[item].w);
    y[first + item * kWidth] = result;
  }
}

template <typename T, bool kTanh>
__global__ void __launch_bounds__(kThreads)
    InElements(const T* __restrict__ x, T* __restrict__ y, int64_t elements) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) y[i] = static_cast<T>(Gelu<kTanh>(static_cast<float>(x[i])));
}

static unsigned Blocks(int64_t count, int of_block) {
  const int64_t blocks = (count + of_block - 1) / of_block;
  TORCH_CHECK(blocks < (int64_t{1} << 31), "x is too large");
  return static_cast<unsigned>(blocks);
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(uint4) == 0;
}

template <typename T, typename Word, bool kTanh>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  constexpr int64_t kOfVector = sizeof(uint4) / sizeof(T);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int64_t few = int64_t{at::cuda::getCurrentDeviceProperties()->multiProcessorCount} * 2048;
  // A second launch, for a few numbers that are left over, costs more than vectors save.
  const bool alone = x.numel() % kOfVector != 0 && x.numel() <= few;
  const int64_t vectors = Aligned(x) && Aligned(y) && !alone ? x.numel() / kOfVector : 0;
  const auto* from = static_cast<const uint4*>(x.data_ptr());
  auto* to = static_cast<uint4*>(y.data_ptr());
  if (vectors > few) {
    InVectors<Word, kTanh, kThreads, kItems>
        <<<Blocks(vectors, kThreads * kItems), kThreads, 0, stream>>>(from, to, vectors);
  } else if (vectors > 0) {
    InVectors<Word, kTanh, kFewThreads, 1>
        <<<Blocks(vectors, kFewThreads), kFewThreads, 0, stream>>>(from, to, vectors);
  }
  const int64_t done = vectors * kOfVector;
  if (done < x.numel()) {
    InElements<T, kTanh><<<Blocks(x.numel() - done, kThreads), kThreads, 0, stream>>>(
        x.data_ptr<T>() + done, y.data_ptr<T>() + done, x.numel() - done);
  }
}

template <typename T, typename Word>
static void Launch(const torch::Tensor& x, torch::Tensor& y, bool tanh) {
  if (tanh) {
    Launch<T, Word, true>(x, y);
  } else {
    Launch<T, Word, false>(x, y);
  }
}

torch::Tensor forward(torch::Tensor x, std::string approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate must be none or tanh");
  const bool tanh = approximate == "tanh";
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float, float>(x, y, tanh);
      break;
    case torch::kFloat16:
      Launch<at::Half, __half2>(x, y, tanh);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16, __nv_bfloat162>(x, y, tanh);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "GELU"); }
