// A step of Adam with decoupled weight decay: the baseline. A thread updates kItems parameters, a
// block's width apart.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>
#include <tuple>

constexpr int kThreads = 256;  // tune: kThreads in 64, 128, 256, 512, 1024
constexpr int kItems = 1;      // tune: kItems in 1, 2, 4, 8

struct Numbers {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size;   // learning rate / (1 - beta1^step)
  float correction;  // 1 / (1 - beta2^step)
  float keep;        // 1 - learning rate * weight decay
  float eps;
};

struct State {
  const float* __restrict__ parameters;
  const float* __restrict__ mean;
  const float* __restrict__ square;
  float* __restrict__ new_parameters;
  float* __restrict__ new_mean;
  float* __restrict__ new_square;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    Step(const T* __restrict__ gradient, State state, Numbers numbers, int64_t elements) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kItems + threadIdx.x;
#pragma unroll
  for (int item = 0; item < kItems; ++item, i += kThreads) {
    if (i >= elements) return;
    const float g = static_cast<float>(gradient[i]);
    const float mean = numbers.beta1 * state.mean[i] + numbers.one_minus_beta1 * g;
    const float square = numbers.beta2 * state.square[i] + numbers.one_minus_beta2 * g * g;
    const float root = sqrtf(square * numbers.correction) + numbers.eps;
    state.new_mean[i] = mean;
    state.new_square[i] = square;
    state.new_parameters[i] = state.parameters[i] * numbers.keep - numbers.step_size * mean / root;
  }
}

template <typename T>
static void Launch(const torch::Tensor& gradient, const State& state, const Numbers& numbers) {
  const int64_t elements = gradient.numel();
  const auto blocks = static_cast<unsigned>((elements - 1) / (kThreads * kItems) + 1);
  Step<T><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(gradient.data_ptr<T>(), state,
                                                                     numbers, elements);
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(
    torch::Tensor parameters, torch::Tensor gradient, torch::Tensor mean, torch::Tensor square,
    int64_t step, double learning_rate, double beta1, double beta2, double eps,
    double weight_decay) {
  TORCH_CHECK(parameters.sizes() == gradient.sizes() && parameters.sizes() == mean.sizes() &&
                  parameters.sizes() == square.sizes(),
              "parameters, gradient, mean and square must have one shape");
  TORCH_CHECK(parameters.scalar_type() == torch::kFloat32 &&
                  mean.scalar_type() == torch::kFloat32 && square.scalar_type() == torch::kFloat32,
              "parameters, mean and square must be float32");
  parameters = parameters.contiguous();
  gradient = gradient.contiguous();
  mean = mean.contiguous();
  square = square.contiguous();
  auto new_parameters = torch::empty_like(parameters);
  auto new_mean = torch::empty_like(mean);
  auto new_square = torch::empty_like(square);
  if (parameters.numel() == 0) return {new_parameters, new_mean, new_square};
  const State state{parameters.data_ptr<float>(), mean.data_ptr<float>(),
                    square.data_ptr<float>(),     new_parameters.data_ptr<float>(),
                    new_mean.data_ptr<float>(),   new_square.data_ptr<float>()};
  Numbers numbers{};
  numbers.beta1 = static_cast<float>(beta1);
  numbers.one_minus_beta1 = static_cast<float>(1 - beta1);
  numbers.beta2 = static_cast<float>(beta2);
  numbers.one_minus_beta2 = static_cast<float>(1 - beta2);
  const double count = static_cast<double>(step);
  numbers.step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, count)));
  numbers.correction = static_cast<float>(1 / (1 - std::pow(beta2, count)));
  numbers.keep = static_cast<float>(1 - learning_rate * weight_decay);
  numbers.eps = static_cast<float>(eps);
  switch (gradient.scalar_type()) {
    case torch::kFloat32:
      Launch<float>(gradient, state, numbers);
      break;
    case torch::kFloat16:
      Launch<at::Half>(gradient, state, numbers);
      break;
    case torch::kBFloat16:
      Launch<at::BFloat16>(gradient, state, numbers);
      break;
    default:
      TORCH_CHECK(false, "gradient must be float32, float16 or bfloat16");
  }
  return {new_parameters, new_mean, new_square};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Step of Adam"); }
