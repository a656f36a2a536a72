// Inclusive prefix sums: the baseline. One block for each row, which it takes in chunks; each
// thread sums kItems neighbouring elements, and the threads' totals are scanned in shared memory.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kItems = 4;      // tune: kItems in 1, 2, 4, 8

template <typename T>
__global__ void __launch_bounds__(kThreads)
    PrefixSum(const T* __restrict__ x, T* __restrict__ y, int64_t columns) {
  __shared__ T totals[kThreads];
  const int thread = threadIdx.x;
  const int64_t start = blockIdx.x * columns;
  T carry = 0;  // the sum of all chunks before
  for (int64_t first = 0; first < columns; first += kThreads * kItems) {
    const int64_t mine = first + thread * kItems;
    T sums[kItems];
    T sum = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (mine + item < columns) sum += x[start + mine + item];
      sums[item] = sum;
    }
    totals[thread] = sum;
    __syncthreads();
    for (int distance = 1; distance < kThreads; distance *= 2) {
      const T other = thread >= distance ? totals[thread - distance] : T(0);
      __syncthreads();
      totals[thread] += other;
      __syncthreads();
    }
    const T before = carry + (thread > 0 ? totals[thread - 1] : T(0));
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (mine + item < columns) y[start + mine + item] = before + sums[item];
    }
    carry += totals[kThreads - 1];
    __syncthreads();
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  const auto columns = x.size(x.dim() - 1);
  const auto rows = static_cast<unsigned>(x.numel() / columns);
  PrefixSum<T><<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<T>(),
                                                                        y.data_ptr<T>(), columns);
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
    case torch::kInt32:
      Launch<int32_t>(x, y);
      break;
    default:
      TORCH_CHECK(false, "x must be float32 or int32");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Prefix sums of rows"); }
