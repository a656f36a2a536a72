// Gradients of convolution (no padding, stride 1), ReLU and 2x2 max pooling: the baseline. Choose
// computes the four convolutions below each pooled output again and notes which of them its
// gradient goes to, if any. The others gather from there: one thread for each element of x, one
// block for each weight and each bias. The largest of four sums decides, so they are made in
// double: a float would choose between near ones as its rounding has it. SPDX-License-Identifier:
// Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>
#include <vector>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 3

constexpr int8_t kNone = 4;  // ReLU stopped the whole window

struct Shape {
  int batch, in_channels, height, width, out_channels, kernel_height, kernel_width;
  int out_height, out_width;  // pooled
};

// choice: for each pooled output the place in its window, 0 to 3 in the order of rows, or kNone.
__global__ void __launch_bounds__(kThreads)
    Choose(const float* __restrict__ x, const float* __restrict__ weights,
           const float* __restrict__ biases, int8_t* __restrict__ choice, Shape s) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t plane = static_cast<int64_t>(s.out_height) * s.out_width;
  if (output >= plane * s.batch * s.out_channels) return;
  const int column = static_cast<int>(output % s.out_width) * 2;
  const int row = static_cast<int>(output / s.out_width % s.out_height) * 2;
  const int64_t channel = output / plane % s.out_channels;
  const int64_t image = output / plane / s.out_channels;

  double sums[4];
  for (double& sum : sums) sum = biases[channel];
  for (int c = 0; c < s.in_channels; ++c) {
    const float* source =
        x + ((image * s.in_channels + c) * s.height + row) * static_cast<int64_t>(s.width) + column;
    const float* filter =
        weights + (channel * s.in_channels + c) * s.kernel_height * s.kernel_width;
    for (int i = 0; i < s.kernel_height; ++i) {
#pragma unroll kUnroll
      for (int j = 0; j < s.kernel_width; ++j) {
        const double f = filter[i * s.kernel_width + j];
        const float* at = source + static_cast<int64_t>(i) * s.width + j;
        sums[0] += at[0] * f;
        sums[1] += at[1] * f;
        sums[2] += at[s.width] * f;
        sums[3] += at[s.width + 1] * f;
      }
    }
  }
  // As PyTorch has it: the first of equal ones, and a NaN before anything else. What ReLU set to
  // zero wins only where nothing is left to pass on.
  double best = 0;
  int8_t chosen = kNone;
  for (int8_t k = 0; k < kNone; ++k) {
    if (sums[k] > best || isnan(sums[k])) {
      best = sums[k];
      chosen = k;
    }
  }
  choice[output] = chosen;
}

// What arrives at place (row, column) of the convolution's plane: zero but where it was chosen.
__device__ float Routed(const float* grad_output, const int8_t* choice, int64_t plane, int row,
                        int column, const Shape& s) {
  if (row < 0 || column < 0 || row >= 2 * s.out_height || column >= 2 * s.out_width) return 0;
  const int64_t output = (plane * s.out_height + row / 2) * s.out_width + column / 2;
  return choice[output] == row % 2 * 2 + column % 2 ? grad_output[output] : 0;
}

__global__ void __launch_bounds__(kThreads)
    GradX(const float* __restrict__ grad_output, const int8_t* __restrict__ choice,
          const float* __restrict__ weights, float* __restrict__ grad_x, Shape s) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t plane = static_cast<int64_t>(s.height) * s.width;
  if (element >= plane * s.batch * s.in_channels) return;
  const int column = static_cast<int>(element % s.width);
  const int row = static_cast<int>(element / s.width % s.height);
  const int64_t c = element / plane % s.in_channels;
  const int64_t image = element / plane / s.in_channels;
  float sum = 0;
  for (int o = 0; o < s.out_channels; ++o) {
    const float* filter = weights + (o * s.in_channels + c) * s.kernel_height * s.kernel_width;
    for (int i = 0; i < s.kernel_height; ++i) {
#pragma unroll kUnroll
      for (int j = 0; j < s.kernel_width; ++j) {
        sum += filter[i * s.kernel_width + j] *
               Routed(grad_output, choice, image * s.out_channels + o, row - i, column - j, s);
      }
    }
  }
  grad_x[element] = sum;
}

// The sum over the block's threads, for thread 0.
__device__ float BlockSum(float value) {
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
    __syncthreads();
  }
  return partial[0];
}

// One block for each weight, then one for each bias: sums over the convolution's planes of all
// images.
__global__ void __launch_bounds__(kThreads)
    GradFilters(const float* __restrict__ grad_output, const int8_t* __restrict__ choice,
                const float* __restrict__ x, float* __restrict__ grad_weights,
                float* __restrict__ grad_biases, Shape s) {
  const int size = s.in_channels * s.kernel_height * s.kernel_width;  // of one filter
  const bool is_bias = blockIdx.x >= static_cast<unsigned>(s.out_channels) * size;
  const int o = is_bias ? blockIdx.x - s.out_channels * size : blockIdx.x / size;
  const int j = blockIdx.x % s.kernel_width;
  const int i = blockIdx.x / s.kernel_width % s.kernel_height;
  const int c = blockIdx.x / (s.kernel_width * s.kernel_height) % s.in_channels;
  const int height = s.height - s.kernel_height + 1;
  const int width = s.width - s.kernel_width + 1;
  float sum = 0;
  for (int64_t k = threadIdx.x; k < static_cast<int64_t>(s.batch) * height * width; k += kThreads) {
    const int column = static_cast<int>(k % width);
    const int row = static_cast<int>(k / width % height);
    const int64_t image = k / width / height;
    const float routed = Routed(grad_output, choice, image * s.out_channels + o, row, column, s);
    const int64_t met = ((image * s.in_channels + c) * s.height + row + i) * s.width + column + j;
    sum += is_bias ? routed : routed * x[met];
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) (is_bias ? grad_biases[o] : grad_weights[blockIdx.x]) = sum;
}

static unsigned Blocks(int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

std::vector<torch::Tensor> backward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases,
                                    torch::Tensor grad_output) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4, "x and weights must have four dimensions");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many channels");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each output channel");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  TORCH_CHECK(x.size(2) > weights.size(2) && x.size(3) > weights.size(3),
              "x is too small for one pooled output");
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
  TORCH_CHECK(grad_output.dim() == 4 && grad_output.size(0) == s.batch &&
                  grad_output.size(1) == s.out_channels && grad_output.size(2) == s.out_height &&
                  grad_output.size(3) == s.out_width,
              "grad_output must have the shape of the pooled output");
  TORCH_CHECK(x.numel() > 0 && weights.numel() > 0, "nothing to do for empty tensors");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  grad_output = grad_output.contiguous();
  auto choice = torch::empty(grad_output.sizes(), x.options().dtype(torch::kInt8));
  auto grad_x = torch::empty_like(x);
  auto grad_weights = torch::empty_like(weights);
  auto grad_biases = torch::empty_like(biases);

  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* g = grad_output.data_ptr<float>();
  const float* x_data = x.data_ptr<float>();
  const float* w = weights.data_ptr<float>();
  int8_t* chosen = choice.data_ptr<int8_t>();
  Choose<<<Blocks(choice.numel()), kThreads, 0, stream>>>(x_data, w, biases.data_ptr<float>(),
                                                          chosen, s);
  GradX<<<Blocks(x.numel()), kThreads, 0, stream>>>(g, chosen, w, grad_x.data_ptr<float>(), s);
  const auto sums = static_cast<unsigned>(weights.numel() + biases.numel());
  GradFilters<<<sums, kThreads, 0, stream>>>(g, chosen, x_data, grad_weights.data_ptr<float>(),
                                             grad_biases.data_ptr<float>(), s);
  return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &backward, "Gradients of convolution, ReLU and max pooling");
}
