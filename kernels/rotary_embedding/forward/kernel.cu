// Rotary position embedding, bound by memory: one launch for queries and keys. A thread takes the
// same 16 bytes of both halves of a token in a few heads, asks for all of them at once, and reads
// the token's cosines and sines once for all these heads. Heads of query and key are numbered
// through, so that a thread may have some of either. Few numbers are spread over many threads, of
// one head each; halves that are no multiple of 16 bytes go number by number.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 256;  // tune: kThreads in 128, 256, 512
constexpr int kManyHeads = 2;  // tune: kManyHeads in 2, 4, 8

template <typename T, int kSize>
struct alignas(sizeof(T) * kSize) Vector {
  T v[kSize];
};

// Heads of one tensor lie one after the other.
template <typename T>
struct Heads {
  const T *query, *key;
  T *new_query, *new_key;
  int64_t queries, all;  // how many

  __device__ int64_t Own(int64_t head) const { return head < queries ? head : head - queries; }
};

template <typename T, int kVector, int kHeads>
__global__ void __launch_bounds__(kThreads)
    Rotate(Heads<T> heads, const T* __restrict__ cosine, const T* __restrict__ sine, int half,
           uint32_t half_vectors, int64_t head_vectors, int64_t threads) {
  using V = Vector<T, kVector>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= threads) return;
  const int64_t group = thread / head_vectors;
  const auto place = static_cast<uint32_t>(thread - group * head_vectors);
  const uint32_t token = place / half_vectors;
  const int64_t within = static_cast<int64_t>(token) * 2 * half + (place % half_vectors) * kVector;
  const int64_t head_elements = head_vectors * 2 * kVector;
  const int64_t table = static_cast<int64_t>(place) * kVector;

  V first[kHeads], second[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int64_t head = group * kHeads + h;
    if (head < heads.all) {
      const T* from = (head < heads.queries ? heads.query : heads.key) +
                      heads.Own(head) * head_elements + within;
      first[h] = *reinterpret_cast<const V*>(from);
      second[h] = *reinterpret_cast<const V*>(from + half);
    }
  }
  const V c = *reinterpret_cast<const V*>(cosine + table);
  const V s = *reinterpret_cast<const V*>(sine + table);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int64_t head = group * kHeads + h;
    if (head < heads.all) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const auto x = static_cast<float>(first[h].v[i]);
        const auto y = static_cast<float>(second[h].v[i]);
        const auto cos = static_cast<float>(c.v[i]);
        const auto sin = static_cast<float>(s.v[i]);
        first[h].v[i] = static_cast<T>(x * cos - y * sin);
        second[h].v[i] = static_cast<T>(y * cos + x * sin);
      }
      T* to = (head < heads.queries ? heads.new_query : heads.new_key) +
              heads.Own(head) * head_elements + within;
      *reinterpret_cast<V*>(to) = first[h];
      *reinterpret_cast<V*>(to + half) = second[h];
    }
  }
}

template <typename T, int kVector, int kHeads>
static void Launch(const Heads<T>& heads, const T* cosine, const T* sine, int64_t tokens,
                   int half) {
  const int64_t head_vectors = tokens * (half / kVector);
  TORCH_CHECK(head_vectors < int64_t{1} << 31, "heads are too large");
  const int64_t threads = (heads.all + kHeads - 1) / kHeads * head_vectors;
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  TORCH_CHECK(blocks < int64_t{1} << 31, "too many heads");
  Rotate<T, kVector, kHeads>
      <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          heads, cosine, sine, half, static_cast<uint32_t>(half / kVector), head_vectors, threads);
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
}

template <typename T>
static void Dispatch(const torch::Tensor& query, const torch::Tensor& key,
                     const torch::Tensor& cosine, const torch::Tensor& sine, torch::Tensor& y,
                     torch::Tensor& z) {
  constexpr int kVector = 16 / sizeof(T);
  const int64_t tokens = query.size(2);
  const int half = static_cast<int>(query.size(3) / 2);
  const int64_t queries = query.size(0) * query.size(1);
  const int64_t keys = key.size(0) * key.size(1);
  const Heads<T> heads{query.data_ptr<T>(), key.data_ptr<T>(), y.data_ptr<T>(),
                       z.data_ptr<T>(),     queries,           queries + keys};
  const T* c = cosine.data_ptr<T>();
  const T* s = sine.data_ptr<T>();
  const bool whole =
      half % kVector == 0 && Aligned(query) && Aligned(key) && Aligned(cosine) && Aligned(sine);
  // As many threads as run at once, if there are enough numbers.
  const int64_t wave = int64_t{2048} * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  if (!whole) {
    Launch<T, 1, 1>(heads, c, s, tokens, half);
  } else if (heads.all * tokens * (half / kVector) <= wave) {
    Launch<T, kVector, 1>(heads, c, s, tokens, half);
  } else {
    Launch<T, kVector, kManyHeads>(heads, c, s, tokens, half);
  }
}

std::vector<torch::Tensor> forward(torch::Tensor query, torch::Tensor key, torch::Tensor cosine,
                                   torch::Tensor sine) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && cosine.dim() == 2 && sine.dim() == 2,
              "query and key must be (batch, heads, tokens, size), tables (tokens, size / 2)");
  TORCH_CHECK(query.size(2) == key.size(2) && query.size(3) == key.size(3),
              "query and key must have as many tokens and elements");
  TORCH_CHECK(query.size(3) % 2 == 0, "a head must have two halves");
  TORCH_CHECK(cosine.size(0) == query.size(2) && cosine.size(1) * 2 == query.size(3) &&
                  cosine.sizes() == sine.sizes(),
              "tables must have a row for each token, a column for each pair");
  for (const torch::Tensor* t : {&key, &cosine, &sine}) {
    TORCH_CHECK(t->scalar_type() == query.scalar_type(), "all tensors must be of one type");
  }
  query = query.contiguous();
  key = key.contiguous();
  cosine = cosine.contiguous();
  sine = sine.contiguous();
  auto y = torch::empty(query.sizes(), query.options());
  auto z = torch::empty(key.sizes(), key.options());
  if (y.numel() + z.numel() == 0) return {y, z};
  switch (query.scalar_type()) {
    case torch::kFloat32:
      Dispatch<float>(query, key, cosine, sine, y, z);
      break;
    case torch::kFloat16:
      Dispatch<at::Half>(query, key, cosine, sine, y, z);
      break;
    case torch::kBFloat16:
      Dispatch<at::BFloat16>(query, key, cosine, sine, y, z);
      break;
    default:
      TORCH_CHECK(false, "query must be float32, float16 or bfloat16");
  }
  return {y, z};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Rotary embedding"); }
