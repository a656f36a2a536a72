// Depthwise convolution: the baseline. A thread computes kItems outputs, a block's width apart.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kItems = 1;      // tune: kItems in 1, 2, 4

struct Shape {
  int channels, height, width, out_height, out_width, kernel_height, kernel_width, stride, padding;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Convolve(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ biases,
             T* __restrict__ y, Shape shape, int64_t elements) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
  for (int item = 0; item < kItems; ++item, i += kThreads) {
    if (i >= elements) return;
    const int left = static_cast<int>(i % shape.out_width) * shape.stride - shape.padding;
    const int64_t line = i / shape.out_width;
    const int top = static_cast<int>(line % shape.out_height) * shape.stride - shape.padding;
    const int64_t plane = line / shape.out_height;
    const int64_t channel = plane % shape.channels;
    const T* const image = x + plane * shape.height * shape.width;
    const T* const filter = weights + channel * shape.kernel_height * shape.kernel_width;
    float sum = static_cast<float>(biases[channel]);
    for (int p = 0; p < shape.kernel_height; ++p) {
      if (top + p < 0 || top + p >= shape.height) continue;
      for (int q = 0; q < shape.kernel_width; ++q) {
        if (left + q < 0 || left + q >= shape.width) continue;
        sum += static_cast<float>(filter[p * shape.kernel_width + q]) *
               static_cast<float>(image[static_cast<int64_t>(top + p) * shape.width + left + q]);
      }
    }
    y[i] = static_cast<T>(sum);
  }
}

template <typename T>
static void Launch(const torch::Tensor& x, const torch::Tensor& weights,
                   const torch::Tensor& biases, torch::Tensor& y, const Shape& shape) {
  const auto blocks = static_cast<unsigned>((y.numel() - 1) / (kThreads * kItems) + 1);
  Convolve<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<T>(), weights.data_ptr<T>(), biases.data_ptr<T>(), y.data_ptr<T>(), shape,
      y.numel());
}

static int OutSize(int size, int kernel, int stride, int padding) {
  const int room = size + 2 * padding - kernel;
  TORCH_CHECK(room >= 0, "the filter is larger than the padded image");
  return room / stride + 1;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride,
                      int64_t padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(weights.size(0) == x.size(1) && weights.size(1) == 1 && biases.numel() == x.size(1),
              "one filter and one bias for each channel");
  TORCH_CHECK(stride > 0 && padding >= 0, "stride must be positive and padding not negative");
  TORCH_CHECK(x.scalar_type() == weights.scalar_type() && x.scalar_type() == biases.scalar_type(),
              "x, weights and biases must be of one type");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  Shape shape{};
  shape.channels = static_cast<int>(x.size(1));
  shape.height = static_cast<int>(x.size(2));
  shape.width = static_cast<int>(x.size(3));
  shape.kernel_height = static_cast<int>(weights.size(2));
  shape.kernel_width = static_cast<int>(weights.size(3));
  shape.stride = static_cast<int>(stride);
  shape.padding = static_cast<int>(padding);
  shape.out_height = OutSize(shape.height, shape.kernel_height, shape.stride, shape.padding);
  shape.out_width = OutSize(shape.width, shape.kernel_width, shape.stride, shape.padding);
  auto y = torch::empty({x.size(0), x.size(1), shape.out_height, shape.out_width}, x.options());
  if (y.numel() == 0) return y;
  switch (x.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(x, weights, biases, y, shape);
      break;
    case torch::kFloat16:
      Launch<at::Half>(x, weights, biases, y, shape);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(x, weights, biases, y, shape);
      break;
    default:
      TORCH_CHECK(false, "x must be float32, float16 or bfloat16");
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Depthwise convolution"); }
