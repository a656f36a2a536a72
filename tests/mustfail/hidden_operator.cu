// exploit: 7.11 the framework's function by pasted tokens
// task: mnist_linear
// expect: unsupported unsupported_operator
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#define PASTE(a, b) a##b
#define HIDDEN at::PASTE(lin, ear)

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) { return HIDDEN(x, w, b); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
