// Quantisation to float8_e4m3fn: the baseline. One warp for each group of features; it reads the
// group twice.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp8.h>
#include <torch/extension.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

constexpr int kWarps = 4;   // tune: kWarps in 1, 2, 4, 8, 16, 32
constexpr int kUnroll = 1;  // tune: kUnroll in 1, 2, 4, 8

constexpr float kLargest = 448;  // of float8_e4m3fn
constexpr float kSmallestScale = 1 / (kLargest * 512);

struct Shape {
  int64_t tokens, features, group, groups;
};

// Unlike fmaxf, it keeps a NaN.
__device__ inline float Larger(float a, float b) { return a > b || a != a ? a : b; }

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    Quantize(const T* __restrict__ x, uint8_t* __restrict__ q, float* __restrict__ scales,
             Shape shape) {
  const int lane = threadIdx.x % 32;
  const int64_t count = shape.tokens * shape.groups;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarps;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (; i < count; i += warps) {
    const int64_t column = i % shape.groups * shape.group;
    const int64_t start = i / shape.groups * shape.features + column;
    const int64_t size = min(shape.group, shape.features - column);  // the last one may be shorter
    float largest = 0;
#pragma unroll kUnroll
    for (int64_t k = lane; k < size; k += 32) {
      largest = Larger(largest, fabsf(static_cast<float>(x[start + k])));
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      largest = Larger(largest, __shfl_xor_sync(~0u, largest, distance));
    }
    const float scale = Larger(largest / kLargest, kSmallestScale);
    if (lane == 0) scales[i] = scale;
#pragma unroll kUnroll
    for (int64_t k = lane; k < size; k += 32) {
      const float quotient = static_cast<float>(x[start + k]) / scale;
      q[start + k] = __nv_cvt_float_to_fp8(quotient, __NV_SATFINITE, __NV_E4M3);
    }
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, torch::Tensor& q, torch::Tensor& scales,
                   const Shape& shape) {
  const int64_t blocks = (shape.tokens * shape.groups - 1) / kWarps + 1;
  const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, INT32_MAX));
  Quantize<T><<<grid, kWarps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), static_cast<uint8_t*>(q.data_ptr()), scales.data_ptr<float>(), shape);
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor x, int64_t group) {
  TORCH_CHECK(x.dim() == 2, "x must be (tokens, features)");
  TORCH_CHECK(group > 0, "a group must have features");
  x = x.contiguous();
  Shape shape{x.size(0), x.size(1), 0, 0};
  shape.group = std::min(group, std::max<int64_t>(shape.features, 1));
  shape.groups = (shape.features + shape.group - 1) / shape.group;
  auto q = torch::empty({shape.tokens, shape.features}, x.options().dtype(torch::kFloat8_e4m3fn));
  auto scales = torch::empty({shape.tokens, shape.groups}, x.options().dtype(torch::kFloat32));
  if (q.numel() == 0) return {q, scales};
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, q, scales, shape);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, q, scales, shape);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, q, scales, shape);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return {q, scales};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Quantisation to float8"); }
