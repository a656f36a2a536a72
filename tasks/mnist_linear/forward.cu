// Linear layer: the baseline. A group of kLanes threads computes each output.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cstdint>

constexpr int kThreads = 128;  // tune: kThreads in 32, 64, 128, 256, 512
constexpr int kLanes = 1;      // tune: kLanes in 1, 2, 4, 8, 16, 32
constexpr int kUnroll = 1;     // tune: kUnroll in 1, 2, 4, 8

__global__ void __launch_bounds__(kThreads)
    Linear(const float* __restrict__ x, const float* __restrict__ weights,
           const float* __restrict__ biases, float* __restrict__ y, int batch, int in, int out) {
  const int64_t output = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  const bool works = output < static_cast<int64_t>(batch) * out;
  const int64_t row = output / out;
  const int64_t column = output % out;

  float sum = 0;
  if (works) {
#pragma unroll kUnroll
    for (int k = lane; k < in; k += kLanes) sum += x[row * in + k] * weights[column * in + k];
  }
  // All threads of a warp come here, those without work too.
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  if (works && lane == 0) y[output] = sum + biases[column];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.dim() == 2 && weights.dim() == 2, "x and weights must be matrices");
  TORCH_CHECK(x.size(1) == weights.size(1), "x and weights must have as many columns");
  TORCH_CHECK(biases.numel() == weights.size(0), "one bias for each row of weights");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  x = x.contiguous();
  weights = weights.contiguous();
  biases = biases.contiguous();
  const int batch = static_cast<int>(x.size(0));
  const int in = static_cast<int>(x.size(1));
  const int out = static_cast<int>(weights.size(0));
  auto y = torch::empty({batch, out}, x.options());
  if (y.numel() == 0) return y;
  const int64_t blocks = (y.numel() * kLanes + kThreads - 1) / kThreads;
  Linear<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(), y.data_ptr<float>(),
      batch, in, out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Linear layer"); }
