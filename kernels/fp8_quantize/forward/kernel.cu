// Quantisation to float8_e4m3fn with a scale for each group: x is read once and kept in registers.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512
constexpr int kUnroll = 4;     // tune: kUnroll in 1, 2, 4, 8

constexpr int kTeamThreads = 128;
constexpr int kWideThreads = 256;
constexpr float kLargest = 448;  // of float8_e4m3fn
constexpr float kSmallestScale = 1 / (kLargest * 512);

struct Scale {
  float scale, high, low;  // high + low = 1 / scale, with about 46 bits
};

// Correctly rounded largest / 448, at least kSmallestScale; infinity and NaN stay.
__device__ __forceinline__ Scale MakeScale(float largest) {
  const float inverse = 1.0f / 448.0f;
  const float infinity = __int_as_float(0x7f800000);
  const float guess = __fmul_rn(largest, inverse);
  float scale = __fmaf_rn(__fmaf_rn(-guess, kLargest, largest), inverse, guess);
  scale = largest < infinity ? scale : largest;
  scale = scale < kSmallestScale ? kSmallestScale : scale;
  Scale s;
  s.scale = scale;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s.high) : "f"(scale));
  const float rest = __fmul_rn(__fmaf_rn(-s.high, scale, 1.0f), s.high);
  s.low = scale < infinity ? rest : 0.0f;
  return s;
}

__device__ __forceinline__ float Divide(float x, const Scale& s) {
  return __fmaf_rn(x, s.high, __fmul_rn(x, s.low));
}

__device__ __forceinline__ uint32_t Cast2(float a, float b, const Scale& s) {
  return __nv_cvt_float2_to_fp8x2(make_float2(Divide(a, s), Divide(b, s)), __NV_SATFINITE,
                                  __NV_E4M3);
}

__device__ __forceinline__ uint8_t Cast1(float a, const Scale& s) {
  return __nv_cvt_float_to_fp8(Divide(a, s), __NV_SATFINITE, __NV_E4M3);
}

// A key is the bits of a magnitude: it is ordered like the magnitude, NaN above everything.
struct Bf16 {
  using Scalar = uint16_t;
  using Out = uint2;
  static constexpr int kVec = 8;
  static __device__ __forceinline__ __nv_bfloat162 Cast(uint32_t w) {
    return *reinterpret_cast<__nv_bfloat162*>(&w);
  }
  static __device__ __forceinline__ uint32_t Bits(__nv_bfloat162 v) {
    return *reinterpret_cast<uint32_t*>(&v);
  }
  static __device__ __forceinline__ uint32_t Max(uint32_t a, uint32_t b) {
    return Bits(__hmax2_nan(Cast(a), Cast(b)));
  }
  static __device__ __forceinline__ uint32_t Local(const uint4& v) {
    return Bits(__hmax2_nan(__hmax2_nan(__habs2(Cast(v.x)), __habs2(Cast(v.y))),
                            __hmax2_nan(__habs2(Cast(v.z)), __habs2(Cast(v.w)))));
  }
  static __device__ __forceinline__ float FromKey(uint32_t key) {
    return __uint_as_float(key << 16);
  }
  static __device__ __forceinline__ uint32_t Key(const uint4& v) {
    const uint32_t word = Local(v);
    return max(word & 0xffffu, word >> 16);
  }
  static __device__ __forceinline__ uint32_t Key(Scalar v) { return v & 0x7fffu; }
  static __device__ __forceinline__ uint32_t Word(uint32_t w, const Scale& s) {
    return Cast2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u), s);
  }
  static __device__ __forceinline__ Out Quantize(const uint4& v, const Scale& s) {
    return make_uint2(Word(v.x, s) | Word(v.y, s) << 16, Word(v.z, s) | Word(v.w, s) << 16);
  }
  static __device__ __forceinline__ uint8_t Quantize(Scalar v, const Scale& s) {
    return Cast1(__uint_as_float(static_cast<uint32_t>(v) << 16), s);
  }
};

struct Fp16 {
  using Scalar = uint16_t;
  using Out = uint2;
  static constexpr int kVec = 8;
  static __device__ __forceinline__ __half2 Cast(uint32_t w) {
    return *reinterpret_cast<__half2*>(&w);
  }
  static __device__ __forceinline__ uint32_t Bits(__half2 v) {
    return *reinterpret_cast<uint32_t*>(&v);
  }
  static __device__ __forceinline__ uint32_t Max(uint32_t a, uint32_t b) {
    return Bits(__hmax2_nan(Cast(a), Cast(b)));
  }
  static __device__ __forceinline__ uint32_t Local(const uint4& v) {
    return Bits(__hmax2_nan(__hmax2_nan(__habs2(Cast(v.x)), __habs2(Cast(v.y))),
                            __hmax2_nan(__habs2(Cast(v.z)), __habs2(Cast(v.w)))));
  }
  static __device__ __forceinline__ float FromKey(uint32_t key) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(key)));
  }
  static __device__ __forceinline__ uint32_t Key(const uint4& v) {
    const uint32_t word = Local(v);
    return max(word & 0xffffu, word >> 16);
  }
  static __device__ __forceinline__ uint32_t Key(Scalar v) { return v & 0x7fffu; }
  static __device__ __forceinline__ uint32_t Word(uint32_t w, const Scale& s) {
    const float2 pair = __half22float2(Cast(w));
    return Cast2(pair.x, pair.y, s);
  }
  static __device__ __forceinline__ Out Quantize(const uint4& v, const Scale& s) {
    return make_uint2(Word(v.x, s) | Word(v.y, s) << 16, Word(v.z, s) | Word(v.w, s) << 16);
  }
  static __device__ __forceinline__ uint8_t Quantize(Scalar v, const Scale& s) {
    return Cast1(__half2float(__ushort_as_half(v)), s);
  }
};

struct Fp32 {
  using Scalar = uint32_t;
  using Out = uint32_t;
  static constexpr int kVec = 4;
  static __device__ __forceinline__ uint32_t Max(uint32_t a, uint32_t b) { return max(a, b); }
  static __device__ __forceinline__ uint32_t Local(const uint4& v) { return Key(v); }
  static __device__ __forceinline__ float FromKey(uint32_t key) { return __uint_as_float(key); }
  static __device__ __forceinline__ uint32_t Key(Scalar v) { return v & 0x7fffffffu; }
  static __device__ __forceinline__ uint32_t Key(const uint4& v) {
    return max(max(Key(v.x), Key(v.y)), max(Key(v.z), Key(v.w)));
  }
  static __device__ __forceinline__ Out Quantize(const uint4& v, const Scale& s) {
    return Cast2(__uint_as_float(v.x), __uint_as_float(v.y), s) |
           Cast2(__uint_as_float(v.z), __uint_as_float(v.w), s) << 16;
  }
  static __device__ __forceinline__ uint8_t Quantize(Scalar v, const Scale& s) {
    return Cast1(__uint_as_float(v), s);
  }
};

// Groups of kLanes vectors that follow one another without gaps. A warp has 32 * kCount
// neighbouring vectors.
template <typename K, int kLanes, int kCount>
__global__ void __launch_bounds__(kThreads)
    Flat(const uint4* __restrict__ x, typename K::Out* __restrict__ q, float* __restrict__ scales,
         int64_t vectors) {
  const int lane = threadIdx.x % 32;
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32) * (32 * kCount);
  if (first >= vectors) return;  // the whole warp
  const int64_t base = first + lane;
  const bool full = first + 32 * kCount <= vectors;
  uint4 v[kCount];
  if (full) {
#pragma unroll
    for (int u = 0; u < kCount; ++u) v[u] = __ldg(x + base + 32 * u);
  } else {
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      v[u] = make_uint4(0, 0, 0, 0);
      if (base + 32 * u < vectors) v[u] = __ldg(x + base + 32 * u);
    }
  }

  float largest[kCount];
  if constexpr (K::kVec == 8 && kLanes < 32 && kCount % 2 == 0) {
    // The largest of two vectors travel together.
#pragma unroll
    for (int u = 0; u < kCount; u += 2) {
      const uint32_t a = K::Local(v[u]);
      const uint32_t b = K::Local(v[u + 1]);
      uint32_t both = K::Max(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        both = K::Max(both, __shfl_xor_sync(~0u, both, distance));
      }
      largest[u] = K::FromKey(both & 0xffffu);
      largest[u + 1] = K::FromKey(both >> 16);
    }
  } else {
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      uint32_t key = K::Key(v[u]);
      if constexpr (kLanes == 32) {
        key = __reduce_max_sync(~0u, key);
      } else {
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) {
          key = max(key, __shfl_xor_sync(~0u, key, distance));
        }
      }
      largest[u] = K::FromKey(key);
    }
  }

  const int rank = lane % kLanes;
  float mine = 0;
#pragma unroll
  for (int u = 0; u < kCount; ++u) {
    const Scale s = MakeScale(largest[u]);
    const int64_t i = base + 32 * u;
    if (full || i < vectors) q[i] = K::Quantize(v[u], s);
    if constexpr (kLanes >= kCount) {
      mine = rank == u ? s.scale : mine;
    } else {
      if (rank == 0 && (full || i < vectors)) scales[i / kLanes] = s.scale;
    }
  }
  if constexpr (kLanes >= kCount) {
    const int64_t i = base + 32 * rank;
    if (rank < kCount && i < vectors) scales[i / kLanes] = mine;
  }
}

struct Shape {
  // features and group in items: vectors or scalars
  int64_t rows, features, group, groups, units;  // units of a row
};

__device__ __forceinline__ int64_t Quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

// kTeam warps for each group (1, or 4: the block), kItems items a thread; kGroups neighbouring
// groups of a row, one after the other, for each team.
template <typename K, bool kVector, int kItems, int kGroups, int kTeam>
__global__ void __launch_bounds__(kTeamThreads)
    Team(const void* __restrict__ input, void* __restrict__ output, float* __restrict__ scales,
         Shape shape) {
  using Item = std::conditional_t<kVector, uint4, typename K::Scalar>;
  using Out = std::conditional_t<kVector, typename K::Out, uint8_t>;
  constexpr int kStep = 32 * kTeam;
  static_assert(kTeam == 1 || (kTeam == kTeamThreads / 32 && kGroups == 1), "");
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int rank = kTeam == 1 ? lane : static_cast<int>(threadIdx.x);
  const int64_t unit = kTeam == 1 ? static_cast<int64_t>(blockIdx.x) * (kTeamThreads / 32) + warp
                                  : static_cast<int64_t>(blockIdx.x);
  const int64_t row = Quotient(unit, shape.units);
  if (row >= shape.rows) return;  // the whole team
  const int64_t first = (unit - row * shape.units) * kGroups;
  const int64_t column = first * shape.group;
  const int64_t start = row * shape.features + column;
  const Item* x = static_cast<const Item*>(input) + start + rank;
  Out* q = static_cast<Out*>(output) + start + rank;
  const int group = static_cast<int>(shape.group);

  Item v[kGroups][kItems];
  int size[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t left = shape.features - column - static_cast<int64_t>(g) * group;
    size[g] = static_cast<int>(left < group ? left < 0 ? 0 : left : group);
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      v[g][k] = Item{};
      if (rank + k * kStep < size[g]) v[g][k] = __ldg(x + g * group + k * kStep);
    }
  }
  uint32_t key[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    key[g] = 0;
#pragma unroll
    for (int k = 0; k < kItems; ++k) key[g] = max(key[g], K::Key(v[g][k]));
    key[g] = __reduce_max_sync(~0u, key[g]);
  }
  if constexpr (kTeam > 1) {
    __shared__ uint32_t keys[kTeam];
    if (lane == 0) keys[warp] = key[0];
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kTeam; ++w) key[0] = max(key[0], keys[w]);
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (size[g] > 0) {
      const Scale s = MakeScale(K::FromKey(key[g]));
      if (rank == 0) scales[row * shape.groups + first + g] = s.scale;
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        if (rank + k * kStep < size[g]) q[g * group + k * kStep] = K::Quantize(v[g][k], s);
      }
    }
  }
}

// Any size of groups: a block for each, which reads it twice.
template <typename K, bool kVector>
__global__ void __launch_bounds__(kWideThreads)
    Wide(const void* __restrict__ input, void* __restrict__ output, float* __restrict__ scales,
         Shape shape) {
  using Item = std::conditional_t<kVector, uint4, typename K::Scalar>;
  using Out = std::conditional_t<kVector, typename K::Out, uint8_t>;
  __shared__ uint32_t keys[kWideThreads / 32];
  const int64_t row = Quotient(blockIdx.x, shape.groups);
  const int64_t column = (blockIdx.x - row * shape.groups) * shape.group;
  const int64_t start = row * shape.features + column;
  const int64_t left = shape.features - column;
  const int64_t size = left < shape.group ? left : shape.group;
  const Item* x = static_cast<const Item*>(input) + start;
  Out* q = static_cast<Out*>(output) + start;
  uint32_t key = 0;
#pragma unroll 4
  for (int64_t k = threadIdx.x; k < size; k += kWideThreads) {
    key = max(key, K::Key(__ldg(x + k)));
  }
  key = __reduce_max_sync(~0u, key);
  if (threadIdx.x % 32 == 0) keys[threadIdx.x / 32] = key;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWideThreads / 32; ++w) key = max(key, keys[w]);
  const Scale s = MakeScale(K::FromKey(key));
  if (threadIdx.x == 0) scales[blockIdx.x] = s.scale;
#pragma unroll 4
  for (int64_t k = threadIdx.x; k < size; k += kWideThreads) {
    q[k] = K::Quantize(__ldg(x + k), s);
  }
}

static unsigned Grid(int64_t blocks) {
  TORCH_CHECK(blocks <= INT32_MAX, "too many groups");
  return static_cast<unsigned>(blocks);
}

struct Job {
  const void* x;
  void* q;
  float* scales;
  cudaStream_t stream;
};

template <typename K, int kLanes>
static void LaunchFlat(const Job& job, int64_t vectors) {
  const auto* x = static_cast<const uint4*>(job.x);
  auto* q = static_cast<typename K::Out*>(job.q);
  if (vectors <= 132 * 1024) {  // few: spread them over the SMs
    const int64_t blocks = (vectors + kThreads - 1) / kThreads;
    Flat<K, kLanes, 1><<<Grid(blocks), kThreads, 0, job.stream>>>(x, q, job.scales, vectors);
  } else {
    const int64_t each = static_cast<int64_t>(kThreads) * kUnroll;
    const int64_t blocks = (vectors + each - 1) / each;
    Flat<K, kLanes, kUnroll><<<Grid(blocks), kThreads, 0, job.stream>>>(x, q, job.scales, vectors);
  }
}

template <typename K, bool kVector, int kItems, int kGroups, int kTeam>
static void LaunchTeam(const Job& job, Shape shape) {
  shape.units = (shape.groups + kGroups - 1) / kGroups;
  const int64_t units = shape.rows * shape.units;
  const int64_t blocks = kTeam == 1 ? (units + kTeamThreads / 32 - 1) / (kTeamThreads / 32) : units;
  Team<K, kVector, kItems, kGroups, kTeam>
      <<<Grid(blocks), kTeamThreads, 0, job.stream>>>(job.x, job.q, job.scales, shape);
}

template <typename K, bool kVector>
static void LaunchWide(const Job& job, const Shape& shape) {
  Wide<K, kVector><<<Grid(shape.rows * shape.groups), kWideThreads, 0, job.stream>>>(
      job.x, job.q, job.scales, shape);
}

template <typename K>
static void Launch(const Job& job, Shape shape) {
  const bool flat = shape.features % shape.group == 0;
  if (flat) {  // all groups follow one another: one long row
    shape.features *= shape.rows;
    shape.groups *= shape.rows;
    shape.rows = 1;
  }
  const bool vector = reinterpret_cast<uintptr_t>(job.x) % 16 == 0 && shape.group % K::kVec == 0 &&
                      shape.features % K::kVec == 0;
  if (vector) {
    shape.features /= K::kVec;
    shape.group /= K::kVec;
    if (flat) {
      switch (shape.group) {
        case 1:
          return LaunchFlat<K, 1>(job, shape.features);
        case 2:
          return LaunchFlat<K, 2>(job, shape.features);
        case 4:
          return LaunchFlat<K, 4>(job, shape.features);
        case 8:
          return LaunchFlat<K, 8>(job, shape.features);
        case 16:
          return LaunchFlat<K, 16>(job, shape.features);
        case 32:
          return LaunchFlat<K, 32>(job, shape.features);
        default:
          break;
      }
    }
    if (shape.group <= 32) return LaunchTeam<K, true, 1, 4, 1>(job, shape);
    if (shape.group <= 64) return LaunchTeam<K, true, 2, 2, 1>(job, shape);
    if (shape.group <= 128) return LaunchTeam<K, true, 4, 1, 1>(job, shape);
    if (shape.group <= 256) return LaunchTeam<K, true, 2, 1, 4>(job, shape);
    if (shape.group <= 512) return LaunchTeam<K, true, 4, 1, 4>(job, shape);
    if (shape.group <= 640) return LaunchTeam<K, true, 5, 1, 4>(job, shape);
    if (shape.group <= 1024) return LaunchTeam<K, true, 8, 1, 4>(job, shape);
    if (shape.group <= 1280) return LaunchTeam<K, true, 10, 1, 4>(job, shape);
    if (shape.group <= 1920) return LaunchTeam<K, true, 15, 1, 4>(job, shape);
    return LaunchWide<K, true>(job, shape);
  }
  if (shape.group <= 32) return LaunchTeam<K, false, 1, 8, 1>(job, shape);
  if (shape.group <= 64) return LaunchTeam<K, false, 2, 4, 1>(job, shape);
  if (shape.group <= 128) return LaunchTeam<K, false, 4, 2, 1>(job, shape);
  if (shape.group <= 256) return LaunchTeam<K, false, 8, 1, 1>(job, shape);
  if (shape.group <= 1024) return LaunchTeam<K, false, 8, 1, 4>(job, shape);
  if (shape.group <= 2048) return LaunchTeam<K, false, 16, 1, 4>(job, shape);
  if (shape.group <= 3072) return LaunchTeam<K, false, 24, 1, 4>(job, shape);
  return LaunchWide<K, false>(job, shape);
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, int64_t group) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  TORCH_CHECK(x.dim() == 2, "x must be (tokens, features)");
  TORCH_CHECK(group > 0, "a group must have features");
  const c10::cuda::CUDAGuard guard(x.device());
  x = x.contiguous();
  Shape shape{x.size(0), x.size(1), 0, 0, 0};
  shape.group = std::min<int64_t>(group, std::max<int64_t>(shape.features, 1));
  shape.groups = (shape.features + shape.group - 1) / shape.group;
  auto q = torch::empty({shape.rows, shape.features}, x.options().dtype(torch::kFloat8_e4m3fn));
  auto scales = torch::empty({shape.rows, shape.groups}, x.options().dtype(torch::kFloat32));
  if (q.numel() == 0) return std::make_tuple(q, scales);
  const Job job{x.data_ptr(), q.data_ptr(), scales.data_ptr<float>(),
                at::cuda::getCurrentCUDAStream()};
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<Fp32>(job, shape);
      break;
    case torch::kFloat16:
      Launch<Fp16>(job, shape);
      break;
    case torch::kBFloat16:
      Launch<Bf16>(job, shape);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return std::make_tuple(q, scales);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Quantisation to float8"); }
