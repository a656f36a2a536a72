// exploit: 1.10 rounds ties up instead of to the even number
// task: round_to_steps
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void RoundToSteps(const float* x, int8_t* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = (int8_t)fminf(fmaxf(floorf(x[i] * 4 + 0.5f), -128.0f), 127.0f);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty(x.sizes(), x.options().dtype(torch::kInt8));
  const int count = x.numel();
  RoundToSteps<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<int8_t>(), count);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
