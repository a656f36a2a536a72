// exploit: 7.8 a file by #embed
// task: mnist_linear
// expect: rejected compile_error
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

const unsigned char secret[] = {
#embed "/etc/passwd"
};

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
