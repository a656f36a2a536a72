// Convolution (no padding, stride 1), ReLU and 2x2 max pooling: the baseline. One thread for each
// pooled output; each computes the four convolutions below it. SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 3

struct Shape {
  int batch, in_channels, height, width, out_channels, kernel_height, kernel_width;
  int out_height, out_width;  // pooled
};

__global__ void __launch_bounds__(kThreads)
    ConvReluPool(const float* __restrict__ x, const float* __restrict__ weights,
                 const float* __restrict__ biases, float* __restrict__ y, Shape s) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t plane = static_cast<int64_t>(s.out_height) * s.out_width;
  if (output >= plane * s.batch * s.out_channels) return;
  const int column = static_cast<int>(output % s.out_width) * 2;
  const int row = static_cast<int>(output / s.out_width % s.out_height) * 2;
  const int64_t channel = output / plane % s.out_channels;
  const int64_t image = output / plane / s.out_channels;

  float sums[2][2] = {};
  for (int c = 0; c < s.in_channels; ++c) {
    const float* source =
        x + ((image * s.in_channels + c) * s.height + row) * static_cast<int64_t>(s.width) + column;
    const float* filter =
        weights + (channel * s.in_channels + c) * s.kernel_height * s.kernel_width;
    for (int i = 0; i < s.kernel_height; ++i) {
#pragma unroll kUnroll
      for (int j = 0; j < s.kernel_width; ++j) {
        const float f = filter[i * s.kernel_width + j];
        const float* at = source + static_cast<int64_t>(i) * s.width + j;
        sums[0][0] += at[0] * f;
        sums[0][1] += at[1] * f;
        sums[1][0] += at[s.width] * f;
        sums[1][1] += at[s.width + 1] * f;
      }
    }
  }
  const float best = fmaxf(fmaxf(sums[0][0], sums[0][1]), fmaxf(sums[1][0], sums[1][1]));
  y[output] = fmaxf(best + biases[channel], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each output channel");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.size(2) > weights.size(2) && x.size(3) > weights.size(3),
              "x is too small for one pooled output");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  Shape s;
  s.batch = static_cast<int>(x.size(0));
  s.in_channels = static_cast<int>(x.size(1));
  s.height = static_cast<int>(x.size(2));
  s.width = static_cast<int>(x.size(3));
  s.out_channels = static_cast<int>(weights.size(0));
  s.kernel_height = static_cast<int>(weights.size(2));
  s.kernel_width = static_cast<int>(weights.size(3));
  s.out_height = (s.height - s.kernel_height + 1) / 2;
  s.out_width = (s.width - s.kernel_width + 1) / 2;
  auto y = torch::empty({s.batch, s.out_channels, s.out_height, s.out_width}, x.options());
  if (y.numel() == 0) return y;
  const int64_t blocks = (y.numel() + kThreads - 1) / kThreads;
  ConvReluPool<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(), y.data_ptr<float>(),
      s);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "Convolution, ReLU and max pooling");
}
