// Gradients of causal attention: the baseline. One block for each query and one for each key. It
// takes the rows that this one meets (keys up to the query; queries from the key on, of all heads
// that share it) in chunks of kThreads. With w = exp(score - logsumexp) and d = scale * w *
// (grad_output . value - grad_output . output):
//   grad_query = sum of d * key,  grad_key = sum of d * query,  grad_value = sum of w *
//   grad_output.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>
#include <vector>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

struct Shape {
  int heads, kv_heads, tokens, size;
  float scale;
};

// corrections[t] = grad_output[t] . output[t], one thread for each query.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    Corrections(const T* __restrict__ grad_output, const T* __restrict__ output,
                float* __restrict__ corrections, int64_t queries, int size) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= queries) return;
  float sum = 0;
#pragma unroll kUnroll
  for (int64_t i = row * size; i < (row + 1) * size; ++i) {
    sum += static_cast<float>(grad_output[i]) * static_cast<float>(output[i]);
  }
  corrections[row] = sum;
}

// For a query: a is query, b is grad_output, those it meets are keys and values (other_a, other_b).
// For a key (kIsKey): a is key, b is value, those it meets are queries and grad_output.
template <typename T, bool kIsKey>
__global__ void __launch_bounds__(kThreads)
    Gradients(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ other_a,
              const T* __restrict__ other_b, const float* __restrict__ logsumexp,
              const float* __restrict__ corrections, T* __restrict__ grad_a, T* __restrict__ grad_b,
              Shape shape) {
  extern __shared__ float shared[];
  float* const sums_a = shared;                          // of grad_a
  float* const sums_b = shared + shape.size;             // of grad_b, if kIsKey
  __shared__ float weights[kThreads], slopes[kThreads];  // of the chunk's rows
  const int sharing = shape.heads / shape.kv_heads;
  const int64_t row = blockIdx.x, head = row / shape.tokens;
  const int position = static_cast<int>(row % shape.tokens);
  const T* const mine_a = a + row * shape.size;
  const T* const mine_b = b + row * shape.size;
  for (int d = threadIdx.x; d < shape.size; d += kThreads) sums_a[d] = sums_b[d] = 0;

  const int begin = kIsKey ? position : 0, end = kIsKey ? shape.tokens : position + 1;
  for (int h = 0; h < (kIsKey ? sharing : 1); ++h) {
    // Heads of a batch follow each other, so head numbers of all batches divide as those of one.
    const int64_t start = (kIsKey ? head * sharing + h : head / sharing) * shape.tokens;
    for (int first = begin; first < end; first += kThreads) {
      const int count = min(kThreads, end - first), i = threadIdx.x;
      if (i < count) {
        const int64_t met = start + first + i, query = kIsKey ? met : row;
        float score = 0, along = 0;
#pragma unroll kUnroll
        for (int d = 0; d < shape.size; ++d) {
          score +=
              static_cast<float>(mine_a[d]) * static_cast<float>(other_a[met * shape.size + d]);
          along +=
              static_cast<float>(mine_b[d]) * static_cast<float>(other_b[met * shape.size + d]);
        }
        weights[i] = expf(score * shape.scale - logsumexp[query]);
        slopes[i] = weights[i] * ((along - corrections[query]) * shape.scale);
      }
      __syncthreads();
      for (int d = threadIdx.x; d < shape.size; d += kThreads) {
        float sum_a = sums_a[d], sum_b = sums_b[d];
#pragma unroll kUnroll
        for (int k = 0; k < count; ++k) {
          const int64_t at = (start + first + k) * shape.size + d;
          sum_a += slopes[k] * static_cast<float>(other_a[at]);
          if (kIsKey) sum_b += weights[k] * static_cast<float>(other_b[at]);
        }
        sums_a[d] = sum_a;
        sums_b[d] = sum_b;
      }
      __syncthreads();
    }
  }
  for (int d = threadIdx.x; d < shape.size; d += kThreads) {
    grad_a[row * shape.size + d] = static_cast<T>(sums_a[d]);
    if (kIsKey) grad_b[row * shape.size + d] = static_cast<T>(sums_b[d]);
  }
}

template <typename T>
static void Launch(const std::vector<torch::Tensor>& x, const torch::Tensor& corrections,
                   const std::vector<torch::Tensor>& gradients, const Shape& shape) {
  const auto in = [&](int i) { return x[i].data_ptr<T>(); };
  const auto out = [&](int i) { return gradients[i].data_ptr<T>(); };
  const float* const logsumexp = x[5].data_ptr<float>();
  float* const corrected = corrections.data_ptr<float>();
  const int64_t queries = corrections.numel(), keys = x[2].numel() / shape.size;
  TORCH_CHECK(queries < int64_t{1} << 31, "too many queries");
  const auto bytes = 2 * sizeof(float) * static_cast<size_t>(shape.size);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Corrections<T>
      <<<static_cast<unsigned>((queries + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
          in(0), in(4), corrected, queries, shape.size);
  Gradients<T, false><<<static_cast<unsigned>(queries), kThreads, bytes, stream>>>(
      in(1), in(0), in(2), in(3), logsumexp, corrected, out(0), nullptr, shape);
  Gradients<T, true><<<static_cast<unsigned>(keys), kThreads, bytes, stream>>>(
      in(2), in(3), in(1), in(0), logsumexp, corrected, out(1), out(2), shape);
}

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor query,
                                    torch::Tensor key, torch::Tensor value, torch::Tensor output,
                                    torch::Tensor logsumexp) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes() &&
                  grad_output.sizes() == query.sizes() && output.sizes() == query.sizes(),
              "tensors must be (batch, heads, tokens, size)");
  TORCH_CHECK(
      query.size(0) == key.size(0) && query.size(2) == key.size(2) && query.size(3) == key.size(3),
      "query and key must have as many members, tokens and elements");
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
              "the heads of query must be a multiple of those of key");
  TORCH_CHECK(query.size(3) <= 4096, "a head must have at most 4096 elements");
  TORCH_CHECK(
      logsumexp.sizes() == query.sizes().slice(0, 3) && logsumexp.scalar_type() == torch::kFloat32,
      "logsumexp must be float32, (batch, heads, tokens)");
  std::vector<torch::Tensor> x;
  for (const auto& tensor : {grad_output, query, key, value, output, logsumexp}) {
    TORCH_CHECK(x.size() == 5 || tensor.scalar_type() == query.scalar_type(), "types must agree");
    x.push_back(tensor.contiguous());
  }
  const Shape shape{static_cast<int>(query.size(1)), static_cast<int>(key.size(1)),
                    static_cast<int>(query.size(2)), static_cast<int>(query.size(3)),
                    1 / std::sqrt(static_cast<float>(query.size(3)))};
  if (query.numel() == 0) {  // nothing depends on keys and values
    return {torch::empty_like(x[1]), torch::zeros_like(x[2]), torch::zeros_like(x[3])};
  }
  const std::vector<torch::Tensor> gradients{torch::empty_like(x[1]), torch::empty_like(x[2]),
                                             torch::empty_like(x[3])};
  const auto corrections = torch::empty_like(x[5]);
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, corrections, gradients, shape);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, corrections, gradients, shape);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, corrections, gradients, shape);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return gradients;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of causal attention");
}
