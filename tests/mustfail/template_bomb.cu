// exploit: 7.8 templates without end
// task: mnist_linear
// expect: rejected build_timeout|build_limits|compile_error
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

template <int kDepth, int kPath>
struct Bomb {
  static constexpr int value =
      Bomb<kDepth - 1, kPath * 2>::value + Bomb<kDepth - 1, kPath * 2 + 1>::value;
};
template <int kPath>
struct Bomb<0, kPath> {
  static constexpr int value = kPath;
};
int exploded = Bomb<26, 1>::value;

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
