// Softmax of rows: the baseline. One block for each row, three passes over it.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
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

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Softmax(const T* __restrict__ x, T* __restrict__ y, int columns) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  float largest = -INFINITY;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    largest = fmaxf(largest, static_cast<float>(x[start + i]));
  }
  largest = Reduce(largest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    sum += expf(static_cast<float>(x[start + i]) - largest);
  }
  sum = Reduce(sum, [](float a, float b) { return a + b; });

#pragma unroll kUnroll
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    y[start + i] = static_cast<T>(expf(static_cast<float>(x[start + i]) - largest) / sum);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& y) {
  const auto columns = x.size(x.dim() - 1);
  const auto rows = x.numel() / columns;
  Softmax<T><<<static_cast<unsigned>(rows), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), y.data_ptr<T>(), static_cast<int>(columns));
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
