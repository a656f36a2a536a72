// RMS normalisation of rows of 16-bit numbers, computed in float32. x is read once: the threads of
// a row hold it in registers, kItems vectors of eight numbers each, and all loads, those of the
// weights among them, are issued before the sum. How many threads share a row is a matter of the
// shape: half a warp where a row is that short, a block of 128 or more where it is long; where
// there are few rows, every vector has its own thread, because only latency counts. Rows that do
// not come in aligned vectors go the same way number by number; those that are too long take a
// kernel with loops.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kWarpThreads = 128;  // of a block whose warps take rows of their own; tune: 64, 128
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

// The sum over the threads that share a row, for all of them. To be called once.
template <int kLanes>
__device__ float RowSum(float value) {
#pragma unroll
  for (int lanes = min(kLanes, 32) / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(~0u, value, lanes);
  }
  if constexpr (kLanes == kWholeBlock) {
    __shared__ float partial[32];
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < blockDim.x / 32 ? partial[lane] : 0;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  }
  return value;
}

// The same for a block whose size is known. To be called once.
template <int kThreads>
__device__ float BlockSum(float value) {
  constexpr int kWarps = kThreads / 32;
  value = RowSum<32>(value);
  if constexpr (kWarps > 1) {
    __shared__ float partial[kWarps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) value += partial[warp];
  }
  return value;
}

// A row of at most kLanes * kItems vectors for every kLanes threads.
template <typename Pair, int kLanes, int kItems>
__global__ void __launch_bounds__(kLanes == kWholeBlock ? 1024 / kItems : kWarpThreads)
    RowInRegisters(const uint4* __restrict__ x, const uint4* __restrict__ weights,
                   uint4* __restrict__ y, int rows, int vectors, float eps) {
  const int lanes = kLanes == kWholeBlock ? static_cast<int>(blockDim.x) : kLanes;
  const int row = blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes;
  const int lane = threadIdx.x % lanes;
  const int64_t start = static_cast<int64_t>(row) * vectors;
  const int end = row < rows ? vectors : 0;
  Vector<Pair> value[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = lane + item * lanes;
    if (i < end) value[item].bits = x[start + i];
  }
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = lane + item * lanes;
    if (i < end) weight[item].bits = weights[i];
  }

  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 v = Wide(value[item].pairs[p]);
      squares += v.x * v.x + v.y * v.y;
    }
  }
  const float length = 8 * static_cast<float>(vectors);
  const float scale = rsqrtf(RowSum<kLanes>(squares) / length + eps);

#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = lane + item * lanes;
    if (i >= end) continue;
    Vector<Pair> result;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 v = Wide(value[item].pairs[p]);
      const float2 w = Wide(weight[item].pairs[p]);
      Narrow(make_float2(v.x * scale * w.x, v.y * scale * w.y), result.pairs[p]);
    }
    y[start + i] = result.bits;
  }
}

// One block for each row of at most kThreads * kItems numbers, of any alignment.
template <typename T, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    RowByNumbers(const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y,
                 int features, float eps) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * features + threadIdx.x;
  x += start;
  y += start;
  weights += threadIdx.x;
  T value[kItems], weight[kItems];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < features) {
      value[item] = x[item * kThreads];
      weight[item] = weights[item * kThreads];
    }
  }
  float squares = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const bool inside = threadIdx.x + item * kThreads < features;
    const float v = inside ? static_cast<float>(value[item]) : 0;
    squares += v * v;
  }
  const float mean = BlockSum<kThreads>(squares) / static_cast<float>(features);
  const float scale = rsqrtf(mean + eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    if (threadIdx.x + item * kThreads < features) {
      y[item * kThreads] = static_cast<T>(static_cast<float>(value[item]) * scale *
                                          static_cast<float>(weight[item]));
    }
  }
}

// One block for each row, of any length and alignment; the row is read twice.
template <typename T>
__global__ void __launch_bounds__(kLoopThreads)
    RowInLoops(const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y,
               int64_t features, float eps) {
  const int64_t start = blockIdx.x * features;
  float squares = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    const float value = static_cast<float>(x[start + i]);
    squares += value * value;
  }
  const float length = static_cast<float>(features);
  const float scale = rsqrtf(RowSum<kWholeBlock>(squares) / length + eps);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < features; i += kLoopThreads) {
    y[start + i] =
        static_cast<T>(static_cast<float>(x[start + i]) * scale * static_cast<float>(weights[i]));
  }
}

// Everything of one call.
struct Call {
  torch::Tensor x, weights, y;
  int64_t features;
  int rows;
  float eps;
};

template <typename Pair, int kLanes, int kItems>
static void InRegisters(const Call& call) {
  const int vectors = static_cast<int>(call.features / 8);
  const int threads =
      kLanes == kWholeBlock ? (vectors + 32 * kItems - 1) / (32 * kItems) * 32 : kWarpThreads;
  const int rows_of_block = kLanes == kWholeBlock ? 1 : threads / kLanes;
  const int blocks = (call.rows + rows_of_block - 1) / rows_of_block;
  RowInRegisters<Pair, kLanes, kItems><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
      static_cast<const uint4*>(call.x.data_ptr()),
      static_cast<const uint4*>(call.weights.data_ptr()), static_cast<uint4*>(call.y.data_ptr()),
      call.rows, vectors, call.eps);
}

template <typename T, int kThreads, int kItems>
static void ByNumbers(const Call& call) {
  RowByNumbers<T, kThreads, kItems><<<call.rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      call.x.data_ptr<T>(), call.weights.data_ptr<T>(), call.y.data_ptr<T>(),
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
  const bool in_vectors =
      call.features % 8 == 0 && Aligned(call.x) && Aligned(call.weights) && Aligned(call.y);
  if (in_vectors && vectors <= 16) {
    InRegisters<Pair, 16, 1>(call);
  } else if (in_vectors && vectors <= 32) {
    InRegisters<Pair, 32, 1>(call);
  } else if (in_vectors && vectors <= 1024 && vectors * call.rows <= threads) {
    InRegisters<Pair, kWholeBlock, 1>(call);
  } else if (in_vectors && vectors <= 96) {
    InRegisters<Pair, 32, 3>(call);
  } else if (in_vectors && vectors <= 256) {
    InRegisters<Pair, kWholeBlock, 2>(call);
  } else if (in_vectors && vectors <= 1024) {
    InRegisters<Pair, kWholeBlock, 4>(call);  // tune: the number of items in 2, 4
  } else if (call.features <= 128) {
    ByNumbers<T, 32, 4>(call);
  } else if (call.features <= 1024) {
    ByNumbers<T, 256, 4>(call);
  } else if (call.features <= 4096) {
    ByNumbers<T, 512, 8>(call);
  } else {
    RowInLoops<T><<<call.rows, kLoopThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        call.x.data_ptr<T>(), call.weights.data_ptr<T>(), call.y.data_ptr<T>(), call.features,
        call.eps);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, double eps) {
  TORCH_CHECK(x.dim() >= 1 && weights.dim() == 1 && x.size(x.dim() - 1) == weights.size(0),
              "weights must be as long as the last dimension of x");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type(), "x and weights must be of one type");
  Call call;
  call.x = x.contiguous();
  call.weights = weights.contiguous();
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

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "RMS normalisation"); }
