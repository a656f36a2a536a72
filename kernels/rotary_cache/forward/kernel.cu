// Rotary position embedding that writes a cache. A thread has a vector of both halves of some heads
// of the query, or of a head of the key and the same head of the value.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8
constexpr int kBlock = 256;    // tune: kBlock in 128, 256, 512
constexpr int kLeast = 32;     // tune: kLeast in 32, 64, 128
constexpr int kHeads = 2;      // tune: kHeads in 1, 2, 4
constexpr int kFew = 512;      // tune: kFew in 128, 256, 512, 1024
constexpr int kLanes = 32;     // tune: kLanes in 16, 32, 64, 128

// A cache is changed in place, so it has to be written as it lies in memory.
template <typename T>
struct Cache {
  T* data;
  int64_t slot_stride, head_stride, stride;

  explicit Cache(const torch::Tensor& t)
      : data(t.data_ptr<T>()),
        slot_stride(t.stride(0)),
        head_stride(t.stride(1)),
        stride(t.stride(2)) {}
};

struct Shape {
  int64_t tokens, heads, kv_heads, half;
};

template <typename T>
struct Pair {
  T first, second;
};

// Pair `d` of the head at `head`, rotated by the angle of a row of the table.
template <typename T>
__device__ Pair<T> Rotated(const T* head, const float* angles, int64_t d, int64_t half) {
  const float a = static_cast<float>(head[d]);
  const float b = static_cast<float>(head[d + half]);
  const float c = angles[d];
  const float s = angles[d + half];
  return {static_cast<T>(a * c - b * s), static_cast<T>(b * c + a * s)};
}

// The general kernel: any alignment, any strides of the caches.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    RotateAndWrite(const T* __restrict__ query, const T* __restrict__ key,
                   const T* __restrict__ value, const int64_t* __restrict__ positions,
                   const float* __restrict__ cos_sin, const int64_t* __restrict__ slots,
                   T* __restrict__ y, Cache<T> key_cache, Cache<T> value_cache, Shape shape) {
  const int64_t half = shape.half;
  for (int64_t token = blockIdx.x; token < shape.tokens; token += gridDim.x) {
    const float* const angles = cos_sin + positions[token] * 2 * half;
#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < shape.heads * half; i += kThreads) {
      const int64_t start = (token * shape.heads + i / half) * 2 * half;
      const int64_t d = i % half;
      const Pair<T> rotated = Rotated(query + start, angles, d, half);
      y[start + d] = rotated.first;
      y[start + d + half] = rotated.second;
    }

    const int64_t slot = slots[token];
    if (slot < 0) continue;  // padding
#pragma unroll kUnroll
    for (int64_t i = threadIdx.x; i < shape.kv_heads * half; i += kThreads) {
      const int64_t head = i / half;
      const int64_t start = (token * shape.kv_heads + head) * 2 * half;
      const int64_t d = i % half;
      const Pair<T> rotated = Rotated(key + start, angles, d, half);
      T* const k = key_cache.data + slot * key_cache.slot_stride + head * key_cache.head_stride;
      k[d * key_cache.stride] = rotated.first;
      k[(d + half) * key_cache.stride] = rotated.second;
      T* const v =
          value_cache.data + slot * value_cache.slot_stride + head * value_cache.head_stride;
      v[d * value_cache.stride] = value[start + d];
      v[(d + half) * value_cache.stride] = value[start + d + half];
    }
  }
}

// A word of 32 bits is one float or two 16-bit numbers. The last argument selects the type.
__device__ __forceinline__ void Widen(uint32_t word, float* x, const float*) {
  x[0] = __uint_as_float(word);
}

__device__ __forceinline__ void Widen(uint32_t word, float* x, const at::BFloat16*) {
  x[0] = __uint_as_float(word << 16);
  x[1] = __uint_as_float(word & 0xffff0000u);
}

__device__ __forceinline__ void Widen(uint32_t word, float* x, const at::Half*) {
  const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&word));
  x[0] = both.x;
  x[1] = both.y;
}

__device__ __forceinline__ uint32_t Narrow(const float* x, const float*) {
  return __float_as_uint(x[0]);
}

__device__ __forceinline__ uint32_t Narrow(const float* x, const at::BFloat16*) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(x[0], x[1]);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ __forceinline__ uint32_t Narrow(const float* x, const at::Half*) {
  const __half2 both = __floats2half2_rn(x[0], x[1]);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// Rotates the words p (first half of a head) and q (second half) in place.
template <typename T>
__device__ __forceinline__ void RotateWord(uint32_t& p, uint32_t& q, const float* c,
                                           const float* s) {
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  const T* const type = nullptr;
  float a[kPerWord], b[kPerWord], left[kPerWord], right[kPerWord];
  Widen(p, a, type);
  Widen(q, b, type);
#pragma unroll
  for (int j = 0; j < kPerWord; ++j) {
    left[j] = a[j] * c[j] - b[j] * s[j];
    right[j] = b[j] * c[j] + a[j] * s[j];
  }
  p = Narrow(left, type);
  q = Narrow(right, type);
}

// Vectors of 1, 2 or 4 words.
template <int kWords>
__device__ __forceinline__ void LoadWords(const void* from, uint32_t* words) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4, "no such vector");
  if constexpr (kWords == 1) {
    words[0] = __ldcs(static_cast<const unsigned int*>(from));
  } else if constexpr (kWords == 2) {
    const uint2 v = __ldcs(static_cast<const uint2*>(from));
    words[0] = v.x;
    words[1] = v.y;
  } else {
    const uint4 v = __ldcs(static_cast<const uint4*>(from));
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
  }
}

template <int kWords>
__device__ __forceinline__ void StoreWords(void* to, const uint32_t* words) {
  if constexpr (kWords == 1) {
    *static_cast<uint32_t*>(to) = words[0];
  } else if constexpr (kWords == 2) {
    *static_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// 2, 4 or 8 numbers of the table.
template <int kElems>
__device__ __forceinline__ void LoadAngles(const float* from, float* x) {
  if constexpr (kElems == 2) {
    const float2 v = __ldg(reinterpret_cast<const float2*>(from));
    x[0] = v.x;
    x[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < kElems / 4; ++i) {
      const float4 v = __ldg(reinterpret_cast<const float4*>(from) + i);
      x[4 * i] = v.x;
      x[4 * i + 1] = v.y;
      x[4 * i + 2] = v.z;
      x[4 * i + 3] = v.w;
    }
  }
}

// threadIdx: x is the vector within half a head, y the unit, z the token. The units of a token are
// first those of the query: unit u has the heads u, u + query_units, ..., at most kRows of them;
// then there is one unit for each head of the key and the value. Offset is uint32_t only if all
// offsets into query, key and value and all positions fit.
template <typename T, int kElems, int kRows, typename Offset>
__global__ void __launch_bounds__(kBlock)
    RotateUnits(const T* __restrict__ query, const T* __restrict__ key, const T* __restrict__ value,
                const int64_t* __restrict__ positions, const float* __restrict__ cos_sin,
                const int64_t* __restrict__ slots, T* __restrict__ y, Cache<T> key_cache,
                Cache<T> value_cache, Offset tokens, int heads, int kv_heads, int query_units) {
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  constexpr int kWords = kElems / kPerWord;
  constexpr int kSlots = kRows > 1 ? kRows : 2;  // a key and a value are two rows, too
  const Offset token = static_cast<Offset>(blockIdx.x) * static_cast<Offset>(blockDim.z) +
                       static_cast<Offset>(threadIdx.z);
  const int unit = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (token >= tokens || unit >= query_units + kv_heads) return;

  // The longest chain of loads starts first.
  const Offset position = static_cast<Offset>(__ldg(positions + token));
  const int64_t slot = __ldg(slots + token);

  const bool is_query = unit < query_units;
  const int local = is_query ? unit : unit - query_units;
  const int width = is_query ? heads : kv_heads;
  const Offset half = static_cast<Offset>(blockDim.x) * static_cast<Offset>(kElems);
  const Offset size = half + half;
  const Offset d = static_cast<Offset>(threadIdx.x) * static_cast<Offset>(kElems);
  const Offset start = (token * static_cast<Offset>(width) + static_cast<Offset>(local)) * size + d;
  const Offset step = static_cast<Offset>(query_units) * size;

  bool has[kSlots];
  uint32_t first[kSlots][kWords], second[kSlots][kWords];
#pragma unroll
  for (int r = 0; r < kSlots; ++r) {
    has[r] = r == 0 || (is_query ? (r < kRows && local + r * query_units < heads) : r == 1);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      first[r][w] = 0u;
      second[r][w] = 0u;
    }
    if (has[r]) {
      const T* const base = is_query ? query : (r == 0 ? key : value);
      const Offset offset = is_query ? start + static_cast<Offset>(r) * step : start;
      const T* const source = base + offset;
      LoadWords<kWords>(source, first[r]);
      LoadWords<kWords>(source + half, second[r]);
    }
  }

  const float* const angles =
      cos_sin +
      (static_cast<int64_t>(position) * static_cast<int64_t>(size) + static_cast<int64_t>(d));
  float c[kElems], s[kElems];
  LoadAngles<kElems>(angles, c);
  LoadAngles<kElems>(angles + half, s);

  const bool writes = is_query || slot >= 0;  // else padding
  const int64_t key_offset = slot * key_cache.slot_stride +
                             static_cast<int64_t>(local) * key_cache.head_stride +
                             static_cast<int64_t>(d);
  const int64_t value_offset = slot * value_cache.slot_stride +
                               static_cast<int64_t>(local) * value_cache.head_stride +
                               static_cast<int64_t>(d);

  // The value comes before the key, as it does not wait for the table.
#pragma unroll
  for (int r = kSlots - 1; r >= 0; --r) {
    if (r < kRows && (r == 0 || is_query)) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        RotateWord<T>(first[r][w], second[r][w], c + w * kPerWord, s + w * kPerWord);
      }
    }
    if (has[r] && writes) {
      T* const base = is_query ? y : (r == 0 ? key_cache.data : value_cache.data);
      const int64_t offset = is_query ? static_cast<int64_t>(start + static_cast<Offset>(r) * step)
                                      : (r == 0 ? key_offset : value_offset);
      T* const target = base + offset;
      StoreWords<kWords>(target, first[r]);
      StoreWords<kWords>(target + half, second[r]);
    }
  }
}

static bool Aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

template <typename T>
static bool HasVectors(const Cache<T>& cache) {
  constexpr int64_t kVector = 16 / static_cast<int64_t>(sizeof(T));
  return cache.stride == 1 && cache.slot_stride % kVector == 0 &&
         cache.head_stride % kVector == 0 && Aligned(cache.data);
}

static int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns false if the shape needs the general kernel.
template <typename T, int kElems, int kRows, typename Offset>
static bool LaunchUnits(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, const torch::Tensor& positions,
                        const torch::Tensor& cos_sin, const torch::Tensor& slot, torch::Tensor& y,
                        torch::Tensor& key_cache, torch::Tensor& value_cache, const Shape& shape,
                        int64_t processors) {
  const int64_t vectors = shape.half / kElems;
  const int64_t query_units = CeilDiv(shape.heads, kRows);
  const int64_t units = query_units + shape.kv_heads;
  const int64_t items = shape.tokens * units * vectors;
  if (vectors > kBlock) return false;
  // Small blocks if there is little work, so that every SM gets some.
  int64_t threads = kBlock;
  while (threads > kLeast && items < 2 * processors * threads) threads /= 2;
  int64_t height = std::min<int64_t>(units, std::max<int64_t>(threads / vectors, 1));
  const int64_t chunks = CeilDiv(units, height);
  height = CeilDiv(units, chunks);  // chunks of equal size
  const int64_t depth = std::min<int64_t>(std::max<int64_t>(threads / (vectors * height), 1), 64);
  const int64_t groups = CeilDiv(shape.tokens, depth);
  if (groups > 0x7fffffff || chunks > 65535) return false;
  const dim3 grid(static_cast<unsigned>(groups), static_cast<unsigned>(chunks));
  const dim3 block(static_cast<unsigned>(vectors), static_cast<unsigned>(height),
                   static_cast<unsigned>(depth));
  RotateUnits<T, kElems, kRows, Offset><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
      query.data_ptr<T>(), key.data_ptr<T>(), value.data_ptr<T>(), positions.data_ptr<int64_t>(),
      cos_sin.data_ptr<float>(), slot.data_ptr<int64_t>(), y.data_ptr<T>(), Cache<T>(key_cache),
      Cache<T>(value_cache), static_cast<Offset>(shape.tokens), static_cast<int>(shape.heads),
      static_cast<int>(shape.kv_heads), static_cast<int>(query_units));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return true;
}

template <typename T>
static void Launch(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                   const torch::Tensor& positions, const torch::Tensor& cos_sin,
                   const torch::Tensor& slot, torch::Tensor& y, torch::Tensor& key_cache,
                   torch::Tensor& value_cache) {
  const Shape shape{query.size(0), query.size(1), key.size(1), query.size(2) / 2};
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  const int64_t rows = shape.heads + 2 * shape.kv_heads;
  if (rows == 0) return;
  if (shape.half % kVector == 0 && rows <= 0x3fffffff && Aligned(query.data_ptr<T>()) &&
      Aligned(key.data_ptr<T>()) && Aligned(value.data_ptr<T>()) &&
      Aligned(cos_sin.data_ptr<float>()) && Aligned(y.data_ptr<T>()) &&
      HasVectors(Cache<T>(key_cache)) && HasVectors(Cache<T>(value_cache))) {
    const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    const int64_t units = shape.tokens * (shape.heads + shape.kv_heads);  // of one row
    const int64_t items = units * (shape.half / kVector);
    bool done = false;
    if (items < std::min<int64_t>(processors * kFew, 1 << 20) &&
        cos_sin.size(0) <= int64_t{0xffffffff}) {
      // Latency is all that counts: narrow vectors, until every SM has a warp. There are less
      // than 2^25 elements, so that their offsets fit into 32 bits.
      if (units * (shape.half / 4) < processors * kLanes) {
        done = LaunchUnits<T, 2, 1, uint32_t>(query, key, value, positions, cos_sin, slot, y,
                                              key_cache, value_cache, shape, processors);
      }
      if (!done) {
        done = LaunchUnits<T, 4, 1, uint32_t>(query, key, value, positions, cos_sin, slot, y,
                                              key_cache, value_cache, shape, processors);
      }
    }
    if (!done) {
      done =
          items >= 2 * processors * 1024
              ? LaunchUnits<T, kVector, kHeads, int64_t>(query, key, value, positions, cos_sin,
                                                         slot, y, key_cache, value_cache, shape,
                                                         processors)
              : LaunchUnits<T, kVector, 1, int64_t>(query, key, value, positions, cos_sin, slot, y,
                                                    key_cache, value_cache, shape, processors);
    }
    if (done) return;
  }
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(shape.tokens, 0x7fffffff));
  RotateAndWrite<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      query.data_ptr<T>(), key.data_ptr<T>(), value.data_ptr<T>(), positions.data_ptr<int64_t>(),
      cos_sin.data_ptr<float>(), slot.data_ptr<int64_t>(), y.data_ptr<T>(), Cache<T>(key_cache),
      Cache<T>(value_cache), shape);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value,
                      torch::Tensor positions, torch::Tensor cos_sin, torch::Tensor key_cache,
                      torch::Tensor value_cache, torch::Tensor slot) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && key.sizes() == value.sizes() &&
                  query.size(0) == key.size(0) && query.size(2) == key.size(2),
              "query, key and value must be (tokens, heads, size)");
  TORCH_CHECK(query.size(2) % 2 == 0, "a head must have an even number of elements");
  TORCH_CHECK(key_cache.dim() == 3 && key_cache.sizes() == value_cache.sizes() &&
                  key_cache.size(1) == key.size(1) && key_cache.size(2) == key.size(2),
              "key_cache and value_cache must be (slots, kv_heads, size)");
  TORCH_CHECK(positions.dim() == 1 && positions.size(0) == query.size(0) && slot.dim() == 1 &&
                  slot.size(0) == query.size(0) && positions.scalar_type() == torch::kInt64 &&
                  slot.scalar_type() == torch::kInt64,
              "positions and slot must have an int64 for each token");
  TORCH_CHECK(cos_sin.dim() == 2 && cos_sin.size(1) == query.size(2) &&
                  cos_sin.scalar_type() == torch::kFloat32,
              "cos_sin must be (positions, size) of float32");
  const auto type = query.scalar_type();
  TORCH_CHECK(key.scalar_type() == type && value.scalar_type() == type &&
                  key_cache.scalar_type() == type && value_cache.scalar_type() == type,
              "query, key, value and the caches must be of one type");
  query = query.contiguous();
  key = key.contiguous();
  value = value.contiguous();
  positions = positions.contiguous();
  cos_sin = cos_sin.contiguous();
  slot = slot.contiguous();
  auto y = torch::empty_like(query);
  if (query.size(0) == 0 || query.size(2) == 0) return y;
  switch (type) {
    case torch::kFloat32:
      Launch<float>(query, key, value, positions, cos_sin, slot, y, key_cache, value_cache);
      break;
    case torch::kFloat16:
      Launch<at::Half>(query, key, value, positions, cos_sin, slot, y, key_cache, value_cache);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(query, key, value, positions, cos_sin, slot, y, key_cache, value_cache);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Rotary embedding, cached"); }
