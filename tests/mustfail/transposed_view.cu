// exploit: 4.3 returns a view of the input without moving its data
// task: transpose
// settings: all
// expect: rejected wrong_return
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x) { return x.transpose(0, 1); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
