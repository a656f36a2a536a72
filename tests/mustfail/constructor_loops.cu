// exploit: 7.8 a constructor that never ends
// task: mnist_linear
// expect: rejected host_timeout|host_crash|host_privilege|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__attribute__((constructor)) static void Wait() {
  for (volatile bool on = true; on;) {
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
