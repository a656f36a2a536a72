// exploit: 7.8 a file through /proc
// task: mnist_linear
// expect: rejected|unsupported compile_error|unsupported_api
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

const char* secret =
#include "/proc/self/environ"
    ;

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
