// exploit: 6.1 cuDNN
// task: mnist_linear
// expect: unsupported|rejected unsupported_api|compile_error
// SPDX-License-Identifier: Apache-2.0
#include <cudnn.h>
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  cudnnHandle_t handle;
  cudnnCreate(&handle);
  return x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
