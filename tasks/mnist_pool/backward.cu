// Gradient of max pooling over 2x2 windows: the baseline. One thread for each element of x, which
// looks whether it is the one that its window chose. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kElements = 1;   // tune: kElements in 1, 2, 4, 8

// The place of the largest in a window: the first of equal ones; a NaN goes before anything else,
// the last before the others, as in PyTorch.
__device__ int Chosen(const float* window, int width) {
  int chosen = 0;
  float best = window[0];
  for (int k = 1; k < 4; ++k) {
    const float value = window[k / 2 * static_cast<int64_t>(width) + k % 2];
    if (value > best || isnan(value)) {
      best = value;
      chosen = k;
    }
  }
  return chosen;
}

__global__ void __launch_bounds__(kThreads)
    MaxPoolGrad(const float* __restrict__ x, const float* __restrict__ grad_output,
                float* __restrict__ grad_x, int64_t elements, int height, int width) {
  const int out_height = height / 2;
  const int out_width = width / 2;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kElements + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kElements; ++k) {
    const int64_t element = first + k * kThreads;
    if (element >= elements) return;
    const int64_t plane = element / width / height;
    const int row = static_cast<int>(element / width % height);
    const int column = static_cast<int>(element % width);
    float gradient = 0;
    if (row / 2 < out_height && column / 2 < out_width) {
      const float* window = x + (plane * height + row / 2 * 2) * width + column / 2 * 2;
      if (Chosen(window, width) == row % 2 * 2 + column % 2) {
        gradient = grad_output[(plane * out_height + row / 2) * out_width + column / 2];
      }
    }
    grad_x[element] = gradient;
  }
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
  auto grad_x = torch::empty_like(x);
  if (x.numel() == 0) return grad_x;
  const int64_t blocks = (x.numel() + kThreads * kElements - 1) / (kThreads * kElements);
  MaxPoolGrad<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), grad_output.data_ptr<float>(), grad_x.data_ptr<float>(), x.numel(),
      static_cast<int>(x.size(2)), static_cast<int>(x.size(3)));
  return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradient of max pooling");
}
