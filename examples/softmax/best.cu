// Softmax of rows. One block for each row, which its threads keep in registers.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <cfloat>
#include <cstdint>

constexpr int kThreads = 1024;  // of a block at most
constexpr int kHeld = 32;       // elements that a thread holds at most
constexpr unsigned kAll = 0xffffffffu;

template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

// Bits that are ordered as integers like the numbers; it is its own inverse.
__device__ __forceinline__ int Ordered(int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

__device__ __forceinline__ float WarpMax(float value) {
  return __int_as_float(Ordered(__reduce_max_sync(kAll, Ordered(__float_as_int(value)))));
}

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAll, value, distance);
  }
  return value;
}

// From each warp's maximum (finite) and its sum of exponentials relative to it: the block's, for
// all threads. To be called once.
__device__ __forceinline__ float2 MergeWarps(float largest, float sum) {
  __shared__ float2 partial[32];
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = make_float2(largest, sum);
  __syncthreads();
  const bool is_warp = lane < static_cast<int>(blockDim.x / 32);
  const float2 other = is_warp ? partial[lane] : make_float2(-FLT_MAX, 0.0f);
  const float top = WarpMax(other.x);
  return make_float2(top, WarpSum(other.y * __expf(other.x - top)));
}

template <typename T, int V, int kPacks>
__global__ void __launch_bounds__(kThreads)
    HeldSoftmax(const T* __restrict__ x, T* __restrict__ y, int columns) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  const Pack<T, V>* from = reinterpret_cast<const Pack<T, V>*>(x + start);
  Pack<T, V>* to = reinterpret_cast<Pack<T, V>*>(y + start);
  const int packs = columns / V;
  const int threads = blockDim.x;
  const int thread = threadIdx.x;

  float held[kPacks][V];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = thread + p * threads;
    if (i < packs) {
      const Pack<T, V> pack = from[i];
#pragma unroll
      for (int v = 0; v < V; ++v) held[p][v] = static_cast<float>(pack.v[v]);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) held[p][v] = -INFINITY;
    }
  }
  float largest = -FLT_MAX;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < V; ++v) largest = fmaxf(largest, held[p][v]);
  }
  largest = WarpMax(largest);
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      held[p][v] = __expf(held[p][v] - largest);
      sum += held[p][v];
    }
  }
  const float2 block = MergeWarps(largest, WarpSum(sum));

  const float factor = __expf(largest - block.x) / block.y;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int i = thread + p * threads;
    if (i < packs) {
      Pack<T, V> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.v[v] = static_cast<T>(held[p][v] * factor);
      to[i] = pack;
    }
  }
}

// Rows that are too long for registers: an online pass, and one that writes.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    LongSoftmax(const T* __restrict__ x, T* __restrict__ y, int columns) {
  constexpr int kBatch = 8;
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  x += start;
  y += start;
  const int64_t threads = blockDim.x;
  float largest = -FLT_MAX;
  float sum = 0;
  for (int64_t first = threadIdx.x; first < columns; first += kBatch * threads) {
    float value[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64_t i = first + b * threads;
      value[b] = i < columns ? static_cast<float>(x[i]) : -INFINITY;
    }
    float top = largest;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) top = fmaxf(top, value[b]);
    sum *= __expf(largest - top);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) sum += __expf(value[b] - top);
    largest = top;
  }
  const float warp_largest = WarpMax(largest);
  const float2 block = MergeWarps(warp_largest, WarpSum(sum * __expf(largest - warp_largest)));

  const float inverse = 1.0f / block.y;
  for (int64_t first = threadIdx.x; first < columns; first += kBatch * threads) {
    float value[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64_t i = first + b * threads;
      value[b] = i < columns ? static_cast<float>(x[i]) : -INFINITY;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64_t i = first + b * threads;
      if (i < columns) y[i] = static_cast<T>(__expf(value[b] - block.x) * inverse);
    }
  }
}

template <typename T, int V, int kPacks>
static void LaunchHeld(const T* x, T* y, int64_t rows, int64_t columns, cudaStream_t stream) {
  const int64_t packs = columns / V;
  const int64_t threads = ((packs + kPacks - 1) / kPacks + 31) / 32 * 32;
  HeldSoftmax<T, V, kPacks>
      <<<static_cast<unsigned>(rows), static_cast<unsigned>(threads), 0, stream>>>(
          x, y, static_cast<int>(columns));
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  const int64_t columns = x.size(x.dim() - 1);
  const int64_t rows = x.numel() / columns;
  TORCH_CHECK(rows < (int64_t{1} << 31) && columns < (int64_t{1} << 31), "x is too large");
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const T* from = x.data_ptr<T>();
  T* to = y.data_ptr<T>();
  constexpr int kWide = 16 / sizeof(T);
  const bool wide = columns % kWide == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0 &&
                    reinterpret_cast<uintptr_t>(to) % 16 == 0;
  if (columns > int64_t{kThreads} * kHeld) {
    LongSoftmax<T><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        from, to, static_cast<int>(columns));
  } else if (wide && columns <= int64_t{kThreads} * kWide) {
    LaunchHeld<T, kWide, 1>(from, to, rows, columns, stream);
  } else if (wide) {
    LaunchHeld<T, kWide, kHeld / kWide>(from, to, rows, columns, stream);
  } else if (columns <= int64_t{kThreads} * 4) {
    LaunchHeld<T, 1, 4>(from, to, rows, columns, stream);
  } else {
    LaunchHeld<T, 1, kHeld>(from, to, rows, columns, stream);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.dim() >= 1, "x must have rows");
  x = x.contiguous();
  auto y = torch::empty_like(x);
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, y);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, y);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Softmax of rows"); }
