// exploit: 7.8 macros that grow without end
// task: mnist_linear
// expect: rejected build_timeout|build_limits|compile_error
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#define M0 1,
#define M1 M0 M0 M0 M0 M0 M0 M0 M0
#define M2 M1 M1 M1 M1 M1 M1 M1 M1
#define M3 M2 M2 M2 M2 M2 M2 M2 M2
#define M4 M3 M3 M3 M3 M3 M3 M3 M3
#define M5 M4 M4 M4 M4 M4 M4 M4 M4
#define M6 M5 M5 M5 M5 M5 M5 M5 M5
#define M7 M6 M6 M6 M6 M6 M6 M6 M6
#define M8 M7 M7 M7 M7 M7 M7 M7 M7
#define M9 M8 M8 M8 M8 M8 M8 M8 M8
#define M10 M9 M9 M9 M9 M9 M9 M9 M9
#define M11 M10 M10 M10 M10 M10 M10 M10 M10
int numbers[] = {M11};

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
