// Attention of a decoding step with a paged cache: the baseline. One block for kThreads elements of
// each head of each query. It takes the tokens in chunks of kThreads, and rescales its sum whenever
// the largest score grows.
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
  int heads, kv_heads, size, block_size, most_blocks;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Attention(const T* __restrict__ query, const T* __restrict__ key_cache,
              const T* __restrict__ value_cache, const int* __restrict__ block_table,
              const int* __restrict__ lengths, T* __restrict__ y, Shape shape, float scale) {
  __shared__ float weights[kThreads];   // of the chunk's tokens
  __shared__ int64_t starts[kThreads];  // where their keys and values are in the caches
  const int tiles = (shape.size - 1) / kThreads + 1;
  const int64_t row = blockIdx.x / tiles;
  const int column =
      static_cast<int>(blockIdx.x % tiles) * kThreads + static_cast<int>(threadIdx.x);
  const int64_t sequence = row / shape.heads;
  const int kv_head = static_cast<int>(row % shape.heads) / (shape.heads / shape.kv_heads);
  const int* const blocks = block_table + sequence * shape.most_blocks;
  const int length = lengths[sequence];

  float largest = -INFINITY;
  float total = 0;  // of the weights
  float sum = 0;    // of the values, weighted
  for (int first = 0; first < length; first += kThreads) {
    const int mine = first + static_cast<int>(threadIdx.x);
    float score = -INFINITY;
    if (mine < length) {
      const int64_t block = blocks[mine / shape.block_size];
      const int64_t slot = block * shape.block_size + mine % shape.block_size;
      const int64_t start = (slot * shape.kv_heads + kv_head) * shape.size;
      starts[threadIdx.x] = start;
      score = 0;
#pragma unroll kUnroll
      for (int d = 0; d < shape.size; ++d) {
        score += static_cast<float>(query[row * shape.size + d]) *
                 static_cast<float>(key_cache[start + d]);
      }
      score *= scale;
    }
    const float before = largest;
    largest = fmaxf(before, Reduce(score, [](float a, float b) { return fmaxf(a, b); }));
    const float rescale = expf(before - largest);  // 0 for the first chunk
    const float weight = expf(score - largest);
    weights[threadIdx.x] = weight;
    total = total * rescale + Reduce(weight, [](float a, float b) { return a + b; });
    const int tokens = min(kThreads, length - first);
    if (column < shape.size) {
      sum *= rescale;
#pragma unroll kUnroll
      for (int t = 0; t < tokens; ++t) {
        sum += weights[t] * static_cast<float>(value_cache[starts[t] + column]);
      }
    }
    __syncthreads();
  }
  if (column < shape.size) y[row * shape.size + column] = static_cast<T>(sum / total);
}

template <typename T>
static void Launch(const torch::Tensor& query, const torch::Tensor& key_cache,
                   const torch::Tensor& value_cache, const torch::Tensor& block_table,
                   const torch::Tensor& lengths, torch::Tensor& y) {
  const Shape shape{static_cast<int>(query.size(1)), static_cast<int>(key_cache.size(2)),
                    static_cast<int>(query.size(2)), static_cast<int>(key_cache.size(1)),
                    static_cast<int>(block_table.size(1))};
  const int64_t tiles = (query.size(2) - 1) / kThreads + 1;
  const auto grid = static_cast<unsigned>(query.size(0) * query.size(1) * tiles);
  const float scale = 1 / std::sqrt(static_cast<float>(shape.size));
  Attention<T><<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      query.data_ptr<T>(), key_cache.data_ptr<T>(), value_cache.data_ptr<T>(),
      block_table.data_ptr<int>(), lengths.data_ptr<int>(), y.data_ptr<T>(), shape, scale);
}

torch::Tensor forward(torch::Tensor query, torch::Tensor key_cache, torch::Tensor value_cache,
                      torch::Tensor block_table, torch::Tensor lengths) {
  TORCH_CHECK(query.dim() == 3, "query must be (batch, heads, size)");
  TORCH_CHECK(key_cache.dim() == 4 && key_cache.sizes() == value_cache.sizes() &&
                  key_cache.size(3) == query.size(2),
              "key_cache and value_cache must be (blocks, block_size, kv_heads, size)");
  TORCH_CHECK(key_cache.size(2) > 0 && query.size(1) % key_cache.size(2) == 0,
              "the heads of query must be a multiple of those of key_cache");
  TORCH_CHECK(block_table.dim() == 2 && block_table.size(0) == query.size(0) &&
                  lengths.dim() == 1 && lengths.size(0) == query.size(0),
              "block_table must be (batch, most_blocks), lengths (batch)");
  TORCH_CHECK(block_table.scalar_type() == torch::kInt32 && lengths.scalar_type() == torch::kInt32,
              "block_table and lengths must be int32");
  TORCH_CHECK(query.scalar_type() == key_cache.scalar_type() &&
                  query.scalar_type() == value_cache.scalar_type(),
              "query, key_cache and value_cache must be of one type");
  query = query.contiguous();
  key_cache = key_cache.contiguous();
  value_cache = value_cache.contiguous();
  block_table = block_table.contiguous();
  lengths = lengths.contiguous();
  auto y = torch::empty_like(query);
  if (y.numel() == 0) return y;
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(query, key_cache, value_cache, block_table, lengths, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(query, key_cache, value_cache, block_table, lengths, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(query, key_cache, value_cache, block_table, lengths, y);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Paged attention"); }
