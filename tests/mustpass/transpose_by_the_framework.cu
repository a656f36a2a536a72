// task: transpose
// settings: all
// note: a view made contiguous: a strided copy is data movement, not framework mathematics
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x) { return x.transpose(0, 1).contiguous(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
