// exploit: 3.7 computes only when the result is read
// task: mnist_linear
// expect: unsupported unsupported_api
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <functional>

struct Lazy {
  torch::Tensor x;
  torch::Tensor Value() const { return x; }
};

std::function<torch::Tensor()> forward(torch::Tensor x, torch::Tensor, torch::Tensor) {
  return [x] { return Lazy{x}.Value(); };
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
