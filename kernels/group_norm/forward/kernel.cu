// Group normalisation, bound by memory: a block holds a whole group in shared memory, so that
// memory is read once. A thread asks for all of its 16-byte vectors by cp.async before it uses any;
// the mean and then the squares of the differences from it are summed over the block. Where
// channels are no multiple of 16 bytes, a small group is held in registers, number by number, each
// with its weight and bias, which need not wait for the sums. Other groups are read three times.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>
#include <type_traits>

constexpr int kFewThreads = 256;       // for small groups
constexpr int kManyThreads = 1024;     // tune: kManyThreads in 512, 1024
constexpr int kMostBytes = 216 << 10;  // of a group
constexpr int kAnyThreads = 512;

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t Quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// 16 bytes of x.
template <typename T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  uint32_t words[4];

  // Every number becomes f(number).
  template <typename Function>
  __device__ void Map(Function f) {
#pragma unroll
    for (uint32_t& word : words) {
      if constexpr (std::is_same_v<T, float>) {
        word = __float_as_uint(f(__uint_as_float(word)));
      } else if constexpr (std::is_same_v<T, at::Half>) {
        const float2 pair = __half22float2(reinterpret_cast<const __half2&>(word));
        const __half2 mapped = __floats2half2_rn(f(pair.x), f(pair.y));
        word = reinterpret_cast<const uint32_t&>(mapped);
      } else {
        const float low = __uint_as_float(word << 16);
        const float high = __uint_as_float(word & 0xffff0000);
        const __nv_bfloat162 mapped = __floats2bfloat162_rn(f(low), f(high));
        word = reinterpret_cast<const uint32_t&>(mapped);
      }
    }
  }

  template <typename Function>
  __device__ float Sum(Function f) const {
    float sum = 0;
    Vector copy = *this;
    copy.Map([&](float v) {
      sum += f(v);
      return v;
    });
    return sum;
  }
};

// The sum over a block, for all threads; `partial` is for this call alone.
template <int kThreads>
__device__ float Sum(float value, float* partial) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffff, value, lane);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0.0f;
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffff, value, lane);
  return value;
}

// Both sums at once. To be called once.
template <int kThreads>
__device__ float2 Sums(float2 value) {
  __shared__ float2 partial[kThreads / 32];
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    const float x = __shfl_xor_sync(0xffffffff, value.x, lane);
    const float y = __shfl_xor_sync(0xffffffff, value.y, lane);
    value = make_float2(value.x + x, value.y + y);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    value = make_float2(value.x + partial[warp].x, value.y + partial[warp].y);
  }
  return value;
}

// Channels of a group are at most a block's threads. A thread reads only vectors that it brought.
template <typename T, int kThreads>
__global__ void __launch_bounds__(kThreads)
    Normalize(const Vector<T>* __restrict__ x, const T* __restrict__ weights,
              const T* __restrict__ biases, Vector<T>* __restrict__ y, int groups,
              uint32_t channels, Divisor channel_vectors, float eps) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* const data = reinterpret_cast<Vector<T>*>(shared);
  __shared__ float partial[2][32];
  __shared__ float2 factors[kThreads];
  const uint32_t vectors = channels * channel_vectors.value;
  x += static_cast<int64_t>(blockIdx.x) * vectors;
  y += static_cast<int64_t>(blockIdx.x) * vectors;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < vectors; i += kThreads) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(data + i));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + i) : "memory");
  }
  float weight = 0, bias = 0;
  if (threadIdx.x < channels) {
    const uint32_t channel = blockIdx.x % groups * channels + threadIdx.x;
    weight = static_cast<float>(weights[channel]);
    bias = static_cast<float>(biases[channel]);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");

  const float count = static_cast<float>(vectors) * Vector<T>::kSize;
  float sum = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < vectors; i += kThreads) {
    sum += data[i].Sum([](float v) { return v; });
  }
  const float mean = Sum<kThreads>(sum, partial[0]) / count;
  float squares = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < vectors; i += kThreads) {
    squares += data[i].Sum([&](float v) { return (v - mean) * (v - mean); });
  }
  const float scale = rsqrtf(Sum<kThreads>(squares, partial[1]) / count + eps);
  if (threadIdx.x < channels) factors[threadIdx.x] = {weight * scale, bias};
  __syncthreads();
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < vectors; i += kThreads) {
    const float2 f = factors[channel_vectors.Quotient(i)];
    Vector<T> item = data[i];
    item.Map([&](float v) { return (v - mean) * f.x + f.y; });
    y[i] = item;
  }
}

// A small group of any alignment: at most kThreads * kItems numbers.
template <typename T, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    NormalizeSmall(const T* __restrict__ x, const T* __restrict__ weights,
                   const T* __restrict__ biases, T* __restrict__ y, Divisor groups,
                   uint32_t channels, uint32_t numbers, Divisor plane, float eps) {
  __shared__ float partial[2][32];
  const uint32_t group = blockIdx.x - groups.Quotient(blockIdx.x) * groups.value;
  const int64_t start = static_cast<int64_t>(blockIdx.x) * numbers;
  x += start;
  y += start + threadIdx.x;
  weights += group * channels;
  biases += group * channels;
  T value[kItems], weight[kItems], bias[kItems];
  const T middle = x[0];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const uint32_t i = threadIdx.x + item * kThreads;
    if (i < numbers) {
      const uint32_t channel = plane.Quotient(i);
      value[item] = x[i];
      weight[item] = weights[channel];
      bias[item] = biases[channel];
    }
  }
  // The sums of differences from the group's first number give the moments at once. Their variance
  // is right to as many units of float32's last place as there are numbers, which 16 bits need not
  // know of.
  constexpr bool kAtOnce = sizeof(T) == 2;
  const float pivot = kAtOnce ? static_cast<float>(middle) : 0;
  const float share = 1 / static_cast<float>(numbers);
  float v[kItems];
  float sum = 0, squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const bool inside = threadIdx.x + item * kThreads < numbers;
    v[item] = inside ? static_cast<float>(value[item]) - pivot : 0;
    sum += v[item];
    squares += v[item] * v[item];
  }
  float mean, variance;
  if constexpr (kAtOnce) {
    const float2 sums = Sums<kThreads>(make_float2(sum, squares));
    mean = sums.x * share;
    variance = sums.y * share - mean * mean;
    variance = variance < 0 ? 0 : variance;  // a NaN stays one
  } else {
    mean = Sum<kThreads>(sum, partial[0]) * share;
    squares = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const bool inside = threadIdx.x + item * kThreads < numbers;
      squares += inside ? (v[item] - mean) * (v[item] - mean) : 0;
    }
    variance = Sum<kThreads>(squares, partial[1]) * share;
  }
  const float scale = rsqrtf(variance + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < numbers) {
      y[item * kThreads] =
          static_cast<T>((v[item] - mean) * (static_cast<float>(weight[item]) * scale) +
                         static_cast<float>(bias[item]));
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kAnyThreads)
    NormalizeAny(const T* __restrict__ x, const T* __restrict__ weights,
                 const T* __restrict__ biases, T* __restrict__ y, int groups, int64_t channels,
                 int64_t plane, float eps) {
  __shared__ float partial[2][32];
  const int64_t numbers = channels * plane;
  const int64_t first_channel = blockIdx.x % groups * channels;
  x += blockIdx.x * numbers;
  y += blockIdx.x * numbers;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < numbers; i += kAnyThreads) sum += static_cast<float>(x[i]);
  const float mean = Sum<kAnyThreads>(sum, partial[0]) / static_cast<float>(numbers);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < numbers; i += kAnyThreads) {
    const float difference = static_cast<float>(x[i]) - mean;
    squares += difference * difference;
  }
  const float scale =
      rsqrtf(Sum<kAnyThreads>(squares, partial[1]) / static_cast<float>(numbers) + eps);
  for (int64_t i = threadIdx.x; i < numbers; i += kAnyThreads) {
    const int64_t channel = first_channel + i / plane;
    y[i] = static_cast<T>((static_cast<float>(x[i]) - mean) *
                              (static_cast<float>(weights[channel]) * scale) +
                          static_cast<float>(biases[channel]));
  }
}

// What all launches take.
template <typename T>
struct Call {
  static constexpr int kVector = Vector<T>::kSize;
  const T *x, *weights, *biases;
  T* y;
  unsigned blocks;
  int groups;
  int64_t channels, plane;  // channels of a group
  float eps;
  cudaStream_t stream;

  int64_t Vectors() const { return channels * (plane / kVector); }

  template <int kThreads>
  void Launch() const {
    using V = Vector<T>;
    const auto kernel = Normalize<T, kThreads>;
    const auto bytes = static_cast<int>(Vectors() * sizeof(V));
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, kThreads, bytes, stream>>>(
        reinterpret_cast<const V*>(x), weights, biases, reinterpret_cast<V*>(y), groups,
        static_cast<uint32_t>(channels), Divisor(static_cast<uint32_t>(plane / kVector)), eps);
  }

  template <int kThreads, int kItems>
  void LaunchSmall() const {
    NormalizeSmall<T, kThreads, kItems><<<blocks, kThreads, 0, stream>>>(
        x, weights, biases, y, Divisor(static_cast<uint32_t>(groups)),
        static_cast<uint32_t>(channels), static_cast<uint32_t>(channels * plane),
        Divisor(static_cast<uint32_t>(plane)), eps);
  }

  void Launch() const {
    const int64_t numbers = channels * plane;
    const bool whole = plane % kVector == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
    if (whole && channels <= kFewThreads && Vectors() <= kFewThreads * 2) {
      Launch<kFewThreads>();
    } else if (whole && channels <= kManyThreads && Vectors() * 16 <= kMostBytes) {
      Launch<kManyThreads>();
    } else if (numbers <= 256) {
      LaunchSmall<128, 2>();
    } else if (numbers <= 512) {
      LaunchSmall<128, 4>();
    } else if (numbers <= 1024) {
      LaunchSmall<256, 4>();
    } else if (numbers <= 2048) {
      LaunchSmall<512, 4>();
    } else {
      NormalizeAny<T>
          <<<blocks, kAnyThreads, 0, stream>>>(x, weights, biases, y, groups, channels, plane, eps);
    }
  }
};

template <typename T>
static void Dispatch(const torch::Tensor& x, const torch::Tensor& weights,
                     const torch::Tensor& biases, torch::Tensor& y, int64_t groups, double eps) {
  const int64_t all = x.size(0) * groups;
  TORCH_CHECK(all < int64_t{1} << 31, "too many groups");
  const Call<T> call{x.data_ptr<T>(),
                     weights.data_ptr<T>(),
                     biases.data_ptr<T>(),
                     y.data_ptr<T>(),
                     static_cast<unsigned>(all),
                     static_cast<int>(groups),
                     x.size(1) / groups,
                     x.numel() / x.size(0) / x.size(1),
                     static_cast<float>(eps),
                     at::cuda::getCurrentCUDAStream()};
  call.Launch();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t groups,
                      double eps) {
  TORCH_CHECK(x.dim() >= 2, "x must have channels");
  TORCH_CHECK(groups > 0 && x.size(1) % groups == 0, "channels must be a multiple of groups");
  TORCH_CHECK(weights.numel() == x.size(1) && biases.numel() == x.size(1),
              "a weight and a bias for each channel");
  TORCH_CHECK(weights.scalar_type() == x.scalar_type() && biases.scalar_type() == x.scalar_type(),
              "all tensors must be of one type");
  auto y = torch::empty(x.sizes(), x.options());
  if (y.numel() == 0) return y;
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Dispatch<float>(x, weights, biases, y, groups, eps);
      break;
    case torch::kFloat16:
      Dispatch<at::Half>(x, weights, biases, y, groups, eps);
      break;
    case torch::kBFloat16:
      Dispatch<at::BFloat16>(x, weights, biases, y, groups, eps);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Group normalisation"); }
