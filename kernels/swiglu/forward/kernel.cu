// SwiGLU activation, y = silu(gate) * value: bound by memory, so that all there is to do is to
// keep enough bytes in flight and to waste none. A thread takes kItems vectors of 16 bytes of
// gates and the values that belong to them, a block's width apart, and issues all loads before the
// first use. What the L2 drops first is y (loads have the hint evict_last, stores evict_first),
// which has to be written anyway. For the last vectors it is the other way round: as much of y as
// half of the L2 holds stays there, for whoever reads it next. Blocks number vectors of y
// throughout, whatever the length of a row; a 32-bit division, which memory hides, finds the row.
// Rows that do not come in aligned vectors go by single elements.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 512;     // tune: kThreads in 128, 256, 512
constexpr int kItems = 1;         // tune: kItems in 1, 2, 4
constexpr int kFewThreads = 256;  // where all of y fits on the GPU at once

// The reciprocal of infinity is 0, so that nothing needs the care that a division takes.
__device__ float SwiGlu(float gate, float value) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1 + __expf(-gate)));
  return gate * reciprocal * value;
}

__device__ float2 SwiGlu(float2 gate, float2 value) {
  return make_float2(SwiGlu(gate.x, value.x), SwiGlu(gate.y, value.y));
}

// One 32-bit word of gates and values: a float or a pair of 16-bit numbers.
template <typename Word>
__device__ unsigned OfWord(unsigned gate, unsigned value);
template <>
__device__ unsigned OfWord<float>(unsigned gate, unsigned value) {
  return __float_as_uint(SwiGlu(__uint_as_float(gate), __uint_as_float(value)));
}
template <>
__device__ unsigned OfWord<__half2>(unsigned gate, unsigned value) {
  const __half2 y = __float22half2_rn(SwiGlu(__half22float2(reinterpret_cast<__half2&>(gate)),
                                             __half22float2(reinterpret_cast<__half2&>(value))));
  return reinterpret_cast<const unsigned&>(y);
}
template <>
__device__ unsigned OfWord<__nv_bfloat162>(unsigned gate, unsigned value) {
  const __nv_bfloat162 y =
      __float22bfloat162_rn(SwiGlu(__bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(gate)),
                                   __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(value))));
  return reinterpret_cast<const unsigned&>(y);
}

// How the L2 is to keep lines that are read or written. Where results stay, it keeps those.
struct Hints {
  uint64_t read, write;
};

__device__ Hints HintsOf(bool results_stay) {
  uint64_t first, last;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(first));
  asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(last));
  return results_stay ? Hints{first, last} : Hints{last, first};
}

__device__ uint4 Load(const uint4* p, uint64_t hint) {
  uint4 v;
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p), "l"(hint));
  return v;
}

__device__ void Store(uint4* p, uint4 v, uint64_t hint) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w), "l"(hint)
               : "memory");
}

// `vectors` of y in all, `of_row` of them in each row; from `staying` on, they stay in the L2.
template <typename Word, int kWidth, int kEach>
__global__ void __launch_bounds__(kWidth)
    InVectors(const uint4* __restrict__ x, uint4* __restrict__ y, unsigned vectors, unsigned of_row,
              unsigned staying) {
  const unsigned first = blockIdx.x * (kWidth * kEach) + threadIdx.x;
  const Hints hints = HintsOf(first >= staying);
  uint4 gate[kEach], value[kEach];
#pragma unroll
  for (int item = 0; item < kEach; ++item) {
    const unsigned i = first + item * kWidth;
    if (i >= vectors) continue;
    // Each row of x before this one holds of_row vectors more than that of y.
    const uint4* at = x + i + static_cast<int64_t>(i / of_row) * of_row;
    gate[item] = Load(at, hints.read);
    value[item] = Load(at + of_row, hints.read);
  }
#pragma unroll
  for (int item = 0; item < kEach; ++item) {
    const unsigned i = first + item * kWidth;
    if (i >= vectors) continue;
    uint4 result;
    result.x = OfWord<Word>(gate[item].x, value[item].x);
    result.y = OfWord<Word>(gate[item].y, value[item].y);
    result.z = OfWord<Word>(gate[item].z, value[item].z);
    result.w = OfWord<Word>(gate[item].w, value[item].w);
    Store(y + i, result, hints.write);
  }
}

// The same where blockIdx.y is the row: no division, no 64-bit product, and few instructions to be
// fetched, which is what a small problem waits for. V: 4, 8 or 16 bytes.
template <typename Word, typename V, int kWidth>
__global__ void __launch_bounds__(kWidth)
    InRows(const V* __restrict__ x, V* __restrict__ y, unsigned of_row) {
  const unsigned i = blockIdx.x * kWidth + threadIdx.x;
  if (i >= of_row) return;
  const V* at = x + 2 * static_cast<size_t>(blockIdx.y) * of_row + i;
  const V gate = at[0], value = at[of_row];
  V result;
#pragma unroll
  for (int word = 0; word < static_cast<int>(sizeof(V) / sizeof(unsigned)); ++word) {
    reinterpret_cast<unsigned*>(&result)[word] =
        OfWord<Word>(reinterpret_cast<const unsigned*>(&gate)[word],
                     reinterpret_cast<const unsigned*>(&value)[word]);
  }
  y[static_cast<size_t>(blockIdx.y) * of_row + i] = result;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    InElements(const T* __restrict__ x, T* __restrict__ y, int64_t elements, int64_t of_row) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const T* at = x + i + i / of_row * of_row;
  y[i] = static_cast<T>(SwiGlu(static_cast<float>(at[0]), static_cast<float>(at[of_row])));
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(uint4) == 0;
}

template <typename T, typename Word>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  constexpr int64_t kOfVector = sizeof(uint4) / sizeof(T);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int64_t elements = y.numel(), hidden = y.size(1), vectors = elements / kOfVector;
  if (hidden % kOfVector != 0 || !Aligned(x) || !Aligned(y) || vectors >= (int64_t{1} << 31)) {
    const int64_t blocks = (elements + kThreads - 1) / kThreads;
    TORCH_CHECK(blocks < (int64_t{1} << 31), "x is too large");
    InElements<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        x.data_ptr<T>(), y.data_ptr<T>(), elements, hidden);
    return;
  }
  const auto* from = static_cast<const uint4*>(x.data_ptr());
  auto* to = static_cast<uint4*>(y.data_ptr());
  const auto count = static_cast<unsigned>(vectors);
  const auto of_row = static_cast<unsigned>(hidden / kOfVector);
  const auto processors =
      static_cast<unsigned>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount);
  const int64_t rows = y.size(0);
  if (count <= processors * kThreads * kItems && rows <= 65535) {
    const unsigned parts = of_row * static_cast<unsigned>(sizeof(uint4) / sizeof(uint2));
    const dim3 grid((parts + kFewThreads - 1) / kFewThreads, static_cast<unsigned>(rows));
    InRows<Word, uint2, kFewThreads><<<grid, kFewThreads, 0, stream>>>(
        static_cast<const uint2*>(x.data_ptr()), static_cast<uint2*>(y.data_ptr()), parts);
  } else {
    constexpr unsigned kOfBlock = kThreads * kItems;
    const auto stay = static_cast<unsigned>(at::cuda::getCurrentDeviceProperties()->l2CacheSize /
                                            2 / sizeof(uint4));
    InVectors<Word, kThreads, kItems><<<(count + kOfBlock - 1) / kOfBlock, kThreads, 0, stream>>>(
        from, to, count, of_row, count - std::min(count, stay));
  }
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2 && x.size(1) % 2 == 0, "x must be a matrix of gates and values");
  x = x.contiguous();
  auto y = torch::empty({x.size(0), x.size(1) / 2}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float, float>(x, y);
      break;
    case torch::kFloat16:
      Launch<at::Half, __half2>(x, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16, __nv_bfloat162>(x, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "SwiGLU activation"); }
