// exploit: 4.3 the input is returned
// task: gelu
// settings: all
// expect: rejected wrong_result|wrong_return
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x) { return x; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
