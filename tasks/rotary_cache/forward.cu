// Rotary position embedding that writes a cache: the baseline. One block for each token; it rotates
// the heads of the query, then writes the rotated key and the value to the token's slot.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

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

template <typename T>
static void Launch(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                   const torch::Tensor& positions, const torch::Tensor& cos_sin,
                   const torch::Tensor& slot, torch::Tensor& y, torch::Tensor& key_cache,
                   torch::Tensor& value_cache) {
  const Shape shape{query.size(0), query.size(1), key.size(1), query.size(2) / 2};
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(shape.tokens, 0x7fffffff));
  RotateAndWrite<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      query.data_ptr<T>(), key.data_ptr<T>(), value.data_ptr<T>(), positions.data_ptr<int64_t>(),
      cos_sin.data_ptr<float>(), slot.data_ptr<int64_t>(), y.data_ptr<T>(), Cache<T>(key_cache),
      Cache<T>(value_cache), shape);
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
