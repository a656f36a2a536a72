// exploit: 7.8 an expression whose type takes exponential time
// task: mnist_linear
// expect: rejected build_timeout|build_limits|compile_error
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <tuple>

template <int kN>
auto Twice() {
  if constexpr (kN == 0) {
    return std::tuple<int>();
  } else {
    return std::tuple_cat(Twice<kN - 1>(), Twice<kN - 1>());
  }
}
auto everything = Twice<16>();

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
