// exploit: 7.8 an object file of terabytes
// task: mnist_linear
// expect: rejected build_timeout|build_limits|compile_error
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

char filler[1ull << 36] = {1};

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
