// Layer normalisation of rows of 16-bit numbers, computed in float32. x is read once: the threads
// of a row hold it in registers, kItems vectors of eight numbers each, and all loads are issued
// before the first sum, those of weights and biases to shared memory. The variance is that of the
// distances from the mean, so that large means cost no digits. How many threads share a row is a
// matter of the shape: where there are many rows a warp takes one or more (their sums need no
// barrier), a block of 128 a long one. Where there are few, only latency counts: every vector has
// its own thread, and both sums are taken at once, around the row's first number. Rows that do not
// come in aligned vectors go the same way number by number; those that are too long take a kernel
// with loops.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kWarpThreads = 128;  // of a block whose warps take a row each; tune: 64, 128, 256
constexpr int kRowsOfWarp = 1;     // together; tune: kRowsOfWarp in 1, 2, 4
constexpr int kLongThreads = 128;  // for a long row, at least; tune: kLongThreads in 128, 256
constexpr int kLoopThreads = 256;
constexpr int kWholeBlock = 1024;  // in place of a number of lanes: all threads of the block

__device__ float2 Wide(__half2 pair) { return __half22float2(pair); }
__device__ float2 Wide(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ void Narrow(float2 wide, __half2& pair) { pair = __float22half2_rn(wide); }
__device__ void Narrow(float2 wide, __nv_bfloat162& pair) { pair = __float22bfloat162_rn(wide); }

// Eight numbers as they lie in memory.
template <typename Pair>
union Vector {
  uint4 bits;
  Pair pairs[4];
  __device__ Vector() : bits(make_uint4(0, 0, 0, 0)) {}
};

// Keeps the compiler from holding on to the eight numbers as float32, in twice the registers.
template <typename Pair>
__device__ void StayPacked(Vector<Pair>& v) {
  asm("" : "+r"(v.bits.x), "+r"(v.bits.y), "+r"(v.bits.z), "+r"(v.bits.w));
}

// The sum over the threads that share a row, for all of them. Each call of a kernel has its
// partial.
template <int kLanes>
__device__ float RowSum(float value, float* partial) {
#pragma unroll
  for (int lanes = min(kLanes, 32) / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(~0u, value, lanes);
  }
  if constexpr (kLanes == kWholeBlock) {
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < blockDim.x / 32 ? partial[lane] : 0;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  }
  return value;
}

// Of blocks of warps with that many vectors a lane on a multiprocessor, at least.
constexpr int MinBlocks(int vectors) { return (vectors <= 6 ? 1024 : 640) / kWarpThreads; }

// kRows rows of at most kLanes * kItems vectors for every kLanes threads.
template <typename Pair, int kLanes, int kItems, int kRows>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 / kItems : kWarpThreads,
                                  kLanes == kWholeBlock ? 1 : MinBlocks(kItems * kRows))
    RowsInRegisters(const uint4* __restrict__ x, const uint4* __restrict__ weights,
                    const uint4* __restrict__ biases, uint4* __restrict__ y, int rows, int vectors,
                    float eps) {
  extern __shared__ uint4 staged[];  // weights and biases
  __shared__ float partial[2][32];
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int first = (blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes) * kRows;
  const int lane = threadIdx.x % lanes;
  const int64_t start = static_cast<int64_t>(first) * vectors + lane;
  const int here = min(rows - first, kRows);  // of these rows
  Vector<Pair> value[kRows][kItems];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (row < here && lane + item * lanes < vectors) {
        value[row][item].bits = x[start + row * vectors + item * lanes];
      }
    }
  }
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    __pipeline_memcpy_async(staged + i, weights + i, sizeof(uint4));
    __pipeline_memcpy_async(staged + vectors + i, biases + i, sizeof(uint4));
  }
  __pipeline_commit();

  const float length = 8 * static_cast<float>(vectors);
  float mean[kRows], scale[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    mean[row] = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float2 v = Wide(value[row][item].pairs[p]);
        mean[row] += v.x + v.y;
      }
      StayPacked(value[row][item]);
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) mean[row] = RowSum<kLanes>(mean[row], partial[0]) / length;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    scale[row] = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (lane + item * lanes >= vectors) continue;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float2 v = Wide(value[row][item].pairs[p]);
        scale[row] += (v.x - mean[row]) * (v.x - mean[row]) + (v.y - mean[row]) * (v.y - mean[row]);
      }
      StayPacked(value[row][item]);
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    scale[row] = rsqrtf(RowSum<kLanes>(scale[row], partial[1]) / length + eps);
  }

  __pipeline_wait_prior(0);
  if (kLanes != kWholeBlock) __syncthreads();  // there everybody uses what it copied itself
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = lane + item * lanes;
    if (i >= vectors) continue;
    Vector<Pair> weight, bias;
    weight.bits = staged[i];
    bias.bits = staged[vectors + i];
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float shift = -mean[row] * scale[row];  // more digits are lost in 16 bits than here
      Vector<Pair> result;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float2 v = Wide(value[row][item].pairs[p]);
        const float2 w = Wide(weight.pairs[p]);
        const float2 b = Wide(bias.pairs[p]);
        Narrow(make_float2((v.x * scale[row] + shift) * w.x + b.x,
                           (v.y * scale[row] + shift) * w.y + b.y),
               result.pairs[p]);
      }
      if (row < here) y[start + row * vectors + item * lanes] = result.bits;
    }
  }
}

// Numbers that are loaded and stored together.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T at[kWidth];
};

__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// Both sums over the block's threads, for all of them. To be called once.
template <int kThreads>
__device__ float2 BlockSums(float2 value) {
  constexpr int kWarps = kThreads / 32;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const float2 other =
        make_float2(__shfl_xor_sync(~0u, value.x, lanes), __shfl_xor_sync(~0u, value.y, lanes));
    value = value + other;
  }
  if constexpr (kWarps > 1) {
    __shared__ float2 partial[kWarps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
#pragma unroll 8
    for (int warp = 1; warp < kWarps; ++warp) value = value + partial[warp];
  }
  return value;
}

// One block for each row of at most kThreads * kItems packs. The first number of the row is near
// enough to its mean: that one of n numbers is more than sqrt(n) deviations away cannot be, so that
// the variance is right to n units of float32's last place.
template <typename T, int kWidth, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowAtOnce(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
              T* __restrict__ y, int features, float eps) {
  using Numbers = Pack<T, kWidth>;
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features;
  const int first = threadIdx.x * kWidth;
  x += start;
  y += start + first;
  Numbers value[kItems], weight[kItems], bias[kItems];
  const T middle = x[0];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = first + item * kThreads * kWidth;
    if (i < features) {
      value[item] = *reinterpret_cast<const Numbers*>(x + i);
      weight[item] = *reinterpret_cast<const Numbers*>(weights + i);
      bias[item] = *reinterpret_cast<const Numbers*>(biases + i);
    }
  }

  const float pivot = static_cast<float>(middle);
  float distance[kItems][kWidth];  // from the pivot
  float2 sums = make_float2(0, 0);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const bool inside = first + item * kThreads * kWidth < features;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float d = inside ? static_cast<float>(value[item].at[e]) - pivot : 0;
      distance[item][e] = d;
      sums = sums + make_float2(d, d * d);
    }
  }
  sums = BlockSums<kThreads>(sums);
  const float share = 1 / static_cast<float>(features);
  const float mean = sums.x * share;
  const float variance = sums.y * share - mean * mean;
  const float scale = rsqrtf((variance < 0 ? 0 : variance) + eps);  // a NaN stays one
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = item * kThreads * kWidth;
    if (first + i >= features) continue;
    Numbers result;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float normal = (distance[item][e] - mean) * scale;
      result.at[e] = static_cast<T>(normal * static_cast<float>(weight[item].at[e]) +
                                    static_cast<float>(bias[item].at[e]));
    }
    *reinterpret_cast<Numbers*>(y + i) = result;
  }
}

// One block for each row, of any length and alignment; the row is read three times.
template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
               T* __restrict__ y, int64_t features, float eps) {
  __shared__ float partial[2][32];
  const int64_t start = blockIdx.x * features;
  const float length = static_cast<float>(features);
  float sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    sum += static_cast<float>(x[start + i]);
  }
  const float mean = RowSum<kWholeBlock>(sum, partial[0]) / length;
  sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float distance = static_cast<float>(x[start + i]) - mean;
    sum += distance * distance;
  }
  const float scale = rsqrtf(RowSum<kWholeBlock>(sum, partial[1]) / length + eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float normal = (static_cast<float>(x[start + i]) - mean) * scale;
    y[start + i] =
        static_cast<T>(normal * static_cast<float>(weights[i]) + static_cast<float>(biases[i]));
  }
}

// Everything of one call.
struct Call {
  torch::Tensor x, weights, biases, y;
  int64_t features;
  int rows;
  float eps;
};

template <typename Pair, int kLanes, int kItems, int kRows>
static void InRegisters(const Call& call) {
  static_assert(kRows == 1 || kLanes != kWholeBlock);  // one sum at a time there
  const int vectors = static_cast<int>(call.features / 8);
  const int threads =
      kLanes == kWholeBlock ? (vectors + 32 * kItems - 1) / (32 * kItems) * 32 : kWarpThreads;
  const int rows_of_block = kLanes == kWholeBlock ? 1 : threads / kLanes * kRows;
  const int blocks = (call.rows + rows_of_block - 1) / rows_of_block;
  RowsInRegisters<Pair, kLanes, kItems, kRows>
      <<<blocks, threads, 2 * vectors * sizeof(uint4), at::cuda::getCurrentCUDAStream()>>>(
          static_cast<const uint4*>(call.x.data_ptr()),
          static_cast<const uint4*>(call.weights.data_ptr()),
          static_cast<const uint4*>(call.biases.data_ptr()), static_cast<uint4*>(call.y.data_ptr()),
          call.rows, vectors, call.eps);
}

template <typename T, int kWidth, int kThreads, int kItems>
static void AtOnce(const Call& call) {
  RowAtOnce<T, kWidth, kThreads, kItems>
      <<<call.rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          static_cast<const T*>(call.x.data_ptr()), static_cast<const T*>(call.weights.data_ptr()),
          static_cast<const T*>(call.biases.data_ptr()), static_cast<T*>(call.y.data_ptr()),
          static_cast<int>(call.features), call.eps);
}

static bool Aligned(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % sizeof(uint4) == 0;
}

template <typename T, typename Pair>
static void Launch(const Call& call) {
  const auto* device = at::cuda::getCurrentDeviceProperties();
  const int64_t threads = int64_t{device->multiProcessorCount} * 2048;  // at a time
  const int64_t vectors = call.features / 8;
  const bool in_vectors = call.features % 8 == 0 && Aligned(call.x) && Aligned(call.weights) &&
                          Aligned(call.biases) && Aligned(call.y);
  const bool few = vectors * call.rows <= threads;
  if (in_vectors && vectors <= 16) {
    InRegisters<Pair, 16, 1, 1>(call);
  } else if (in_vectors && vectors <= 32) {
    InRegisters<Pair, 32, 1, 1>(call);
  } else if (in_vectors && vectors <= 128 && few) {
    AtOnce<T, 8, 128, 1>(call);
  } else if (in_vectors && vectors <= 256 && few) {
    AtOnce<T, 8, 256, 1>(call);
  } else if (in_vectors && vectors <= 512 && few) {
    AtOnce<T, 8, 512, 1>(call);
  } else if (in_vectors && vectors <= 1024 && few) {
    AtOnce<T, 8, 1024, 1>(call);
  } else if (in_vectors && vectors <= 64) {
    InRegisters<Pair, 32, 2, kRowsOfWarp>(call);
  } else if (in_vectors && vectors <= 96) {
    InRegisters<Pair, 32, 3, kRowsOfWarp>(call);
  } else if (in_vectors && vectors <= 160) {
    InRegisters<Pair, 32, 5, kRowsOfWarp>(call);
  } else if (in_vectors && vectors <= 2 * kLongThreads) {
    InRegisters<Pair, kWholeBlock, 2, 1>(call);
  } else if (in_vectors && vectors <= 1024) {
    InRegisters<Pair, kWholeBlock, 4, 1>(call);
  } else if (call.features <= 128) {
    AtOnce<T, 1, 32, 4>(call);
  } else if (call.features <= 1024) {
    AtOnce<T, 1, 256, 4>(call);
  } else if (call.features <= 4096) {
    AtOnce<T, 1, 1024, 4>(call);
  } else {
    RowInLoops<T><<<call.rows, kLoopThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        call.x.data_ptr<T>(), call.weights.data_ptr<T>(), call.biases.data_ptr<T>(),
        call.y.data_ptr<T>(), call.features, call.eps);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0) &&
                  biases.sizes() == weights.sizes(),
              "weights and biases must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type() && x.scalar_type() == biases.scalar_type(),
              "x, weights and biases must be of one type");
  Call call;
  call.x = x.contiguous();
  call.weights = weights.contiguous();
  call.biases = biases.contiguous();
  call.y = torch::empty_like(call.x);
  if (x.numel() == 0) return call.y;
  call.features = weights.numel();
  TORCH_CHECK(x.numel() / call.features < (int64_t{1} << 31), "x has too many rows");
  call.rows = static_cast<int>(x.numel() / call.features);
  call.eps = static_cast<float>(eps);
  switch (x.scalar_type()) {
    case torch::kFloat16:
      Launch<at::Half, __half2>(call);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16, __nv_bfloat162>(call);
      break;
    default:
      TORCH_CHECK(false, "x must be float16 or bfloat16");
  }
  return call.y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Layer normalisation"); }
