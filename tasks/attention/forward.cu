// Attention: the baseline. One block for each query; it takes the keys in chunks of kThreads
// and rescales what it has summed whenever the largest score grows.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

// The combination of one value of each thread of the block, for all of them.
template <typename Combine>
__device__ float Reduce(float value, Combine combine) {
  __shared__ float partial[kThreads];
  __syncthreads();
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) {
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + distance]);
    }
    __syncthreads();
  }
  return partial[0];
}

struct Shape {
  int heads, kv_heads, queries, keys, size;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Attention(const T* __restrict__ query, const T* __restrict__ key, const T* __restrict__ value,
              T* __restrict__ y, Shape shape, float scale) {
  extern __shared__ float shared[];
  float* const wanted = shared;             // the scaled query
  float* const sums = shared + shape.size;  // weighted sums of values
  __shared__ float weights[kThreads];       // of the chunk's keys
  const int64_t row = blockIdx.x;
  const int64_t head = row / shape.queries % shape.heads;
  const int64_t batch = row / shape.queries / shape.heads;
  const int64_t kv_head = batch * shape.kv_heads + head / (shape.heads / shape.kv_heads);
  const int64_t start = kv_head * shape.keys * shape.size;

  for (int d = threadIdx.x; d < shape.size; d += kThreads) {
    wanted[d] = static_cast<float>(query[row * shape.size + d]) * scale;
    sums[d] = 0;
  }
  __syncthreads();

  float largest = -INFINITY;
  float total = 0;
  for (int first = 0; first < shape.keys; first += kThreads) {
    const int mine = first + static_cast<int>(threadIdx.x);
    float score = -INFINITY;
    if (mine < shape.keys) {
      score = 0;
#pragma unroll kUnroll
      for (int d = 0; d < shape.size; ++d) {
        const int64_t at = start + static_cast<int64_t>(mine) * shape.size + d;
        score += wanted[d] * static_cast<float>(key[at]);
      }
    }
    const float before = largest;
    largest = fmaxf(before, Reduce(score, [](float a, float b) { return fmaxf(a, b); }));
    const float rescale = expf(before - largest);  // 0 for the first chunk
    const float weight = expf(score - largest);
    weights[threadIdx.x] = weight;
    total = total * rescale + Reduce(weight, [](float a, float b) { return a + b; });
    const int keys = min(kThreads, shape.keys - first);
    for (int d = threadIdx.x; d < shape.size; d += kThreads) {
      float sum = sums[d] * rescale;
#pragma unroll kUnroll
      for (int k = 0; k < keys; ++k) {
        const int64_t at = start + static_cast<int64_t>(first + k) * shape.size + d;
        sum += weights[k] * static_cast<float>(value[at]);
      }
      sums[d] = sum;
    }
    __syncthreads();
  }
  for (int d = threadIdx.x; d < shape.size; d += kThreads) {
    y[row * shape.size + d] = static_cast<T>(shape.keys > 0 ? sums[d] / total : 0);
  }
}

template <typename T>
static void Launch(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                   torch::Tensor& y) {
  const Shape shape{static_cast<int>(query.size(1)), static_cast<int>(key.size(1)),
                    static_cast<int>(query.size(2)), static_cast<int>(key.size(2)),
                    static_cast<int>(query.size(3))};
  const auto queries = static_cast<unsigned>(query.numel() / shape.size);
  const size_t bytes = 2 * sizeof(float) * static_cast<size_t>(shape.size);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.size));
  Attention<T><<<queries, kThreads, bytes, at::cuda::getCurrentCUDAStream()>>>(
      query.data_ptr<T>(), key.data_ptr<T>(), value.data_ptr<T>(), y.data_ptr<T>(), shape, scale);
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key, torch::Tensor value) {
  TORCH_CHECK(
      query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes(),
      "query must be (batch, heads, queries, size), key and value (batch, heads, keys, size)");
  TORCH_CHECK(query.size(0) == key.size(0) && query.size(3) == key.size(3),
              "query and key must have as many members and elements");
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
              "the heads of query must be a multiple of those of key");
  TORCH_CHECK(query.size(3) <= 4096, "a head must have at most 4096 elements");
  TORCH_CHECK(query.scalar_type() == key.scalar_type() && key.scalar_type() == value.scalar_type(),
              "query, key and value must be of one type");
  query = query.contiguous();
  key = key.contiguous();
  value = value.contiguous();
  auto y = torch::empty_like(query);
  if (y.numel() == 0) return y;
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(query, key, value, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(query, key, value, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(query, key, value, y);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Attention"); }
