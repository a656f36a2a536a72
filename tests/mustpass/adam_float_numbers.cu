// task: adam
// settings: all
// note: the numbers of the task are rounded to float32 before the kernel subtracts them from one
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>

// The numbers are floats, as in the optimizers of training frameworks: 1 - beta2 is 0.00099998713.
struct Numbers {
  float rate, beta1, beta2, eps, decay, correction1, correction2;
};

template <class T>
__global__ void Adam(const float* parameters, const T* gradient, const float* mean,
                     const float* square, float* new_parameters, float* new_mean, float* new_square,
                     Numbers n, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float g = (float)gradient[i];
  const float m = n.beta1 * mean[i] + (1 - n.beta1) * g;
  const float s = n.beta2 * square[i] + (1 - n.beta2) * g * g;
  new_mean[i] = m;
  new_square[i] = s;
  const float update = m / n.correction1 / (sqrtf(s / n.correction2) + n.eps);
  new_parameters[i] = parameters[i] * (1 - n.rate * n.decay) - n.rate * update;
}

std::vector<torch::Tensor> forward(torch::Tensor parameters, torch::Tensor gradient,
                                   torch::Tensor mean, torch::Tensor square, int64_t step,
                                   double rate, double beta1, double beta2, double eps,
                                   double decay) {
  const float b1 = (float)beta1, b2 = (float)beta2;
  const Numbers n{(float)rate,
                  b1,
                  b2,
                  (float)eps,
                  (float)decay,
                  (float)(1 - std::pow((double)b1, (double)step)),
                  (float)(1 - std::pow((double)b2, (double)step))};
  parameters = parameters.contiguous(), gradient = gradient.contiguous();
  mean = mean.contiguous(), square = square.contiguous();
  auto p = torch::empty_like(parameters), m = torch::empty_like(mean);
  auto s = torch::empty_like(square);
  const long long count = parameters.numel();
  const unsigned blocks = (unsigned)((count + 255) / 256);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, gradient.scalar_type(), "adam", [&] {
    Adam<scalar_t><<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        parameters.data_ptr<float>(), gradient.data_ptr<scalar_t>(), mean.data_ptr<float>(),
        square.data_ptr<float>(), p.data_ptr<float>(), m.data_ptr<float>(), s.data_ptr<float>(), n,
        count);
  });
  return {p, m, s};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
