// exploit: 6.1 a method of the tensor in place of a kernel
// task: mnist_linear
// expect: rejected no_kernel
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) { return x.matmul(w.t()); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
