// Gradient of max pooling over 2x2 windows, bound by memory. Where rows are multiples of four
// floats, an item is four neighbouring columns of a pair of rows, two windows: 16 bytes of either
// row and 8 of the gradient are loaded, 16 of either row stored. Pairs of rows lie one after the
// other in all of x, so one division by the row's length places an item. The host gives each thread
// as many items as make the whole tensor about one wave of blocks, and a thread asks for all of
// them before it uses any. Any other shape and alignment takes one thread for each element of x.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 256;    // tune: kThreads in 128, 256, 512
constexpr int kResident = 2048;  // tune: kResident in 1024, 2048  (threads on an SM, in one wave)

// Division of n < 2^31 by a number that the host knows: one high product, one sum, one shift.
struct Divisor {
  uint32_t value, magic, shift;

  explicit Divisor(uint32_t d) : value(d), shift(0) {
    while ((uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t Quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// The place of the largest in a window: the first of equal ones; a NaN goes before anything else,
// the last before the others, as in PyTorch.
__device__ int Chosen(float a, float b, float c, float d) {
  int chosen = 0;
  float best = a;
  if (b > best || isnan(b)) best = b, chosen = 1;
  if (c > best || isnan(c)) best = c, chosen = 2;
  if (d > best || isnan(d)) chosen = 3;
  return chosen;
}

template <int kItems>
__global__ void __launch_bounds__(kThreads)
    GradItems(const float4* __restrict__ x, const float2* __restrict__ grad_output,
              float4* __restrict__ grad_x, uint32_t items, Divisor row_items) {
  const uint32_t first = blockIdx.x * (kThreads * kItems) + threadIdx.x;
  uint32_t at[kItems];
  float4 upper[kItems], lower[kItems];
  float2 gradient[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const uint32_t item = first + k * kThreads;
    if (item < items) {
      // Above this item lie as many lower rows as whole pairs come before it.
      at[k] = item + row_items.Quotient(item) * row_items.value;
      upper[k] = __ldg(x + at[k]);
      lower[k] = __ldg(x + at[k] + row_items.value);
      gradient[k] = __ldg(grad_output + item);
    }
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (first + k * kThreads < items) {
      const int left = Chosen(upper[k].x, upper[k].y, lower[k].x, lower[k].y);
      const int right = Chosen(upper[k].z, upper[k].w, lower[k].z, lower[k].w);
      const float2 g = gradient[k];
      grad_x[at[k]] = {left == 0 ? g.x : 0, left == 1 ? g.x : 0, right == 0 ? g.y : 0,
                       right == 1 ? g.y : 0};
      grad_x[at[k] + row_items.value] = {left == 2 ? g.x : 0, left == 3 ? g.x : 0,
                                         right == 2 ? g.y : 0, right == 3 ? g.y : 0};
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    GradAny(const float* __restrict__ x, const float* __restrict__ grad_output,
            float* __restrict__ grad_x, int64_t elements, int height, int width) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= elements) return;
  const int64_t plane = element / width / height;
  const int row = static_cast<int>(element / width % height);
  const int column = static_cast<int>(element % width);
  float gradient = 0;
  if (row / 2 < height / 2 && column / 2 < width / 2) {
    const float* window = x + (plane * height + row / 2 * 2) * width + column / 2 * 2;
    if (Chosen(window[0], window[1], window[width], window[width + 1]) ==
        row % 2 * 2 + column % 2) {
      gradient = grad_output[(plane * (height / 2) + row / 2) * (width / 2) + column / 2];
    }
  }
  grad_x[element] = gradient;
}

static unsigned Blocks(int64_t items, int per_thread) {
  const int64_t per_block = static_cast<int64_t>(kThreads) * per_thread;
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

torch::Tensor backward(std::vector<torch::Tensor> saved, torch::Tensor grad_output) {
  TORCH_CHECK(saved.size() == 1, "one tensor was saved: x");
  torch::Tensor x = saved[0];
  TORCH_CHECK(x.dim() == 4 && grad_output.dim() == 4, "x must have four dimensions");
  TORCH_CHECK(grad_output.size(0) == x.size(0) && grad_output.size(1) == x.size(1) &&
                  grad_output.size(2) == x.size(2) / 2 && grad_output.size(3) == x.size(3) / 2,
              "grad_output must have the shape of the pooled x");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  grad_output = grad_output.contiguous();
  auto grad_x = torch::empty(x.sizes(), x.options());
  if (x.numel() == 0) return grad_x;
  const int height = static_cast<int>(x.size(2));
  const int width = static_cast<int>(x.size(3));
  const float* source = x.data_ptr<float>();
  const float* g = grad_output.data_ptr<float>();
  float* target = grad_x.data_ptr<float>();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const bool whole_items = width % 4 == 0 && height % 2 == 0 && x.numel() < int64_t{1} << 33 &&
                           reinterpret_cast<uintptr_t>(source) % sizeof(float4) == 0 &&
                           reinterpret_cast<uintptr_t>(g) % sizeof(float2) == 0;
  if (!whole_items) {
    GradAny<<<Blocks(x.numel(), 1), kThreads, 0, stream>>>(source, g, target, x.numel(), height,
                                                           width);
    return grad_x;
  }
  const int64_t items = x.numel() / 8;
  const int64_t wave =
      static_cast<int64_t>(at::cuda::getCurrentDeviceProperties()->multiProcessorCount) * kResident;
  const int per_thread = items <= wave ? 1 : 2;
  const auto kernel = per_thread == 1 ? GradItems<1> : GradItems<2>;
  kernel<<<Blocks(items, per_thread), kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(source), reinterpret_cast<const float2*>(g),
      reinterpret_cast<float4*>(target), static_cast<uint32_t>(items), Divisor(width / 4));
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of max pooling");
}
