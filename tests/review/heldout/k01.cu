// Row-wise inclusive scan: serial in registers, shuffles in a warp, shared memory across warps.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kThreads = 256;
constexpr int kItems = 4;
constexpr int kWarps = kThreads / 32;

template <typename T>
__device__ __forceinline__ T warp_inclusive(T v, int lane) {
#pragma unroll
  for (int off = 1; off < 32; off <<= 1) {
    const T o = __shfl_up_sync(0xffffffffu, v, off);
    if (lane >= off) v += o;
  }
  return v;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
scan_rows(const T* __restrict__ x, T* __restrict__ y, int columns) {
  __shared__ T totals[kWarps];
  const T* in = x + static_cast<int64_t>(blockIdx.x) * columns;
  T* out = y + static_cast<int64_t>(blockIdx.x) * columns;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  T carry = 0;

  for (int start = 0; start < columns; start += kThreads * kItems) {
    const int first = start + threadIdx.x * kItems;
    T v[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      v[k] = first + k < columns ? in[first + k] : T(0);
      if (k > 0) v[k] += v[k - 1];
    }
    const T scanned = warp_inclusive(v[kItems - 1], lane);
    T before = __shfl_up_sync(0xffffffffu, scanned, 1);
    if (lane == 0) before = 0;
    if (lane == 31) totals[warp] = scanned;
    __syncthreads();
    if (warp == 0) {
      T t = lane < kWarps ? totals[lane] : T(0);
      t = warp_inclusive(t, lane);
      if (lane < kWarps) totals[lane] = t;
    }
    __syncthreads();
    before += carry + (warp > 0 ? totals[warp - 1] : T(0));
    carry += totals[kWarps - 1];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      if (first + k < columns) out[first + k] = before + v[k];
    }
    __syncthreads();
  }
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const int64_t rows = x.size(0);
  const int columns = static_cast<int>(x.size(1));
  if (x.numel() == 0) return y;
  auto stream = at::cuda::getCurrentCUDAStream();
  if (x.scalar_type() == torch::kInt32) {
    scan_rows<int><<<rows, kThreads, 0, stream>>>(x.data_ptr<int>(), y.data_ptr<int>(), columns);
  } else {
    TORCH_CHECK(x.scalar_type() == torch::kFloat32, "unsupported dtype");
    scan_rows<float>
        <<<rows, kThreads, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), columns);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "inclusive prefix sums"); }
