// Rotary position embedding, bound by memory: one launch for queries and keys. A thread takes the
// same 16 bytes of both halves of a token in a few heads, asks for all of them at once, and reads
// the token's cosines and sines once for all these heads. Heads of query and key are numbered
// through, so that a thread may have some of either. Few numbers are spread over many threads, of
// one head each; halves that are no multiple of 16 bytes go number by number.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 128;  // tune: kThreads in 128, 256, 512
constexpr int kManyHeads = 4;  // tune: kManyHeads in 2, 4, 8

// Heads of one tensor lie one after the other.
template <typename T>
struct Heads {
  const T *query, *key;
  T *new_query, *new_key;
  int64_t queries, all;  // how many

  __device__ int64_t Own(int64_t head) const { return head < queries ? head : head - queries; }
};

// 16 bytes as the words that they are loaded and stored as: numbers of 16 bits that are put into an
// array one by one leave one by one, too.
template <typename T>
struct Packed;

template <>
struct Packed<float> {
  static constexpr int kCount = 4;
  __device__ static void Open(uint4 w, float (&f)[kCount]) {
    f[0] = __uint_as_float(w.x);
    f[1] = __uint_as_float(w.y);
    f[2] = __uint_as_float(w.z);
    f[3] = __uint_as_float(w.w);
  }
  __device__ static uint4 Close(const float (&f)[kCount]) {
    return make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]),
                      __float_as_uint(f[3]));
  }
};

template <>
struct Packed<at::BFloat16> {
  static constexpr int kCount = 8;
  __device__ static void Open(uint4 w, float (&f)[kCount]) {
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      f[2 * i] = __uint_as_float(words[i] << 16);
      f[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
  __device__ static uint4 Close(const float (&f)[kCount]) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(f[2 * i], f[2 * i + 1]);
      words[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

template <>
struct Packed<at::Half> {
  static constexpr int kCount = 8;
  __device__ static void Open(uint4 w, float (&f)[kCount]) {
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
      f[2 * i] = pair.x;
      f[2 * i + 1] = pair.y;
    }
  }
  __device__ static uint4 Close(const float (&f)[kCount]) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2 pair = __floats2half2_rn(f[2 * i], f[2 * i + 1]);
      words[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

// Column x of the grid has a piece of the tokens, row y kHeads heads: no division but one by the
// vectors of a token.
template <typename T, int kHeads>
__global__ void __launch_bounds__(kThreads)
    RotateWords(Heads<T> heads, const T* __restrict__ cosine, const T* __restrict__ sine, int half,
                uint32_t half_vectors, uint32_t head_vectors) {
  constexpr int kCount = Packed<T>::kCount;
  const uint32_t place = blockIdx.x * kThreads + threadIdx.x;
  if (place >= head_vectors) return;
  const uint32_t token = place / half_vectors;
  const int64_t within =
      static_cast<int64_t>(token) * 2 * half + (place - token * half_vectors) * kCount;
  const int64_t head_elements = static_cast<int64_t>(head_vectors) * 2 * kCount;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kHeads;

  uint4 first[kHeads], second[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int64_t head = begin + h;
    if (head < heads.all) {
      const T* from = (head < heads.queries ? heads.query : heads.key) +
                      heads.Own(head) * head_elements + within;
      first[h] = __ldcs(reinterpret_cast<const uint4*>(from));
      second[h] = __ldcs(reinterpret_cast<const uint4*>(from + half));
    }
  }
  float c[kCount], s[kCount];
  const int64_t table = static_cast<int64_t>(place) * kCount;
  Packed<T>::Open(__ldg(reinterpret_cast<const uint4*>(cosine + table)), c);
  Packed<T>::Open(__ldg(reinterpret_cast<const uint4*>(sine + table)), s);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int64_t head = begin + h;
    if (head < heads.all) {
      float x[kCount], y[kCount], u[kCount], v[kCount];
      Packed<T>::Open(first[h], x);
      Packed<T>::Open(second[h], y);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        u[i] = x[i] * c[i] - y[i] * s[i];
        v[i] = y[i] * c[i] + x[i] * s[i];
      }
      T* to = (head < heads.queries ? heads.new_query : heads.new_key) +
              heads.Own(head) * head_elements + within;
      __stcs(reinterpret_cast<uint4*>(to), Packed<T>::Close(u));
      __stcs(reinterpret_cast<uint4*>(to + half), Packed<T>::Close(v));
    }
  }
}

// Halves that are no multiple of 16 bytes, number by number.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    RotateNumbers(Heads<T> heads, const T* __restrict__ cosine, const T* __restrict__ sine,
                  int half, int64_t head_pairs, int64_t threads) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= threads) return;
  const int64_t head = thread / head_pairs;
  const int64_t place = thread - head * head_pairs;
  const int64_t token = place / half;
  const int64_t within = token * 2 * half + (place - token * half);
  const int64_t at = heads.Own(head) * head_pairs * 2 + within;
  const T* from = (head < heads.queries ? heads.query : heads.key) + at;
  const auto x = static_cast<float>(from[0]);
  const auto y = static_cast<float>(from[half]);
  const auto cos = static_cast<float>(cosine[place]);
  const auto sin = static_cast<float>(sine[place]);
  T* to = (head < heads.queries ? heads.new_query : heads.new_key) + at;
  to[0] = static_cast<T>(x * cos - y * sin);
  to[half] = static_cast<T>(y * cos + x * sin);
}

template <typename T, int kHeads>
static void LaunchWords(const Heads<T>& heads, const T* cosine, const T* sine, int64_t tokens,
                        int half) {
  const int64_t half_vectors = half / Packed<T>::kCount;
  const int64_t head_vectors = tokens * half_vectors;
  const int64_t groups = (heads.all + kHeads - 1) / kHeads;
  TORCH_CHECK(head_vectors < int64_t{1} << 31, "heads are too large");
  TORCH_CHECK(groups < 65536, "too many heads");
  const dim3 grid(static_cast<unsigned>((head_vectors + kThreads - 1) / kThreads),
                  static_cast<unsigned>(groups));
  RotateWords<T, kHeads><<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      heads, cosine, sine, half, static_cast<uint32_t>(half_vectors),
      static_cast<uint32_t>(head_vectors));
}

template <typename T>
static void LaunchNumbers(const Heads<T>& heads, const T* cosine, const T* sine, int64_t tokens,
                          int half) {
  const int64_t head_pairs = tokens * half;
  const int64_t threads = heads.all * head_pairs;
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  TORCH_CHECK(blocks < int64_t{1} << 31, "too many heads");
  RotateNumbers<T>
      <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          heads, cosine, sine, half, head_pairs, threads);
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
  // Rows of the grid are few.
  if (!whole || heads.all >= 65536) {
    LaunchNumbers<T>(heads, c, s, tokens, half);
  } else if (heads.all * tokens * (half / kVector) <= wave) {
    LaunchWords<T, 1>(heads, c, s, tokens, half);
  } else {
    LaunchWords<T, kManyHeads>(heads, c, s, tokens, half);
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
