// exploit: 7.8 options for the compiler inside the source
// task: mnist_linear
// expect: rejected|unsupported compile_error|unsupported_api|unwritten_output|wrong_result|not_finite|wrong_return
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#pragma GCC optimize("-fplugin=/tmp/evil.so")
#pragma GCC dependency "/etc/passwd"

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
