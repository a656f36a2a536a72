// exploit: 7.4 a constructor exits the process with success
// task: mnist_linear
// expect: rejected host_crash|host_privilege|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <cstdlib>

__attribute__((constructor)) static void Leave() { std::exit(0); }

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
