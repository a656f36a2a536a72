// exploit: 7.8 a constant that takes forever to compute
// task: mnist_linear
// expect: rejected build_timeout|build_limits|compile_error
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr unsigned long long Collatz(unsigned long long n) {
  unsigned long long steps = 0;
  for (unsigned long long i = 1; i < n; ++i) {
    for (unsigned long long v = i; v != 1; v = v % 2 ? 3 * v + 1 : v / 2) ++steps;
  }
  return steps;
}
constexpr unsigned long long steps = Collatz(1ull << 40);

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return torch::empty({x.size(0), w.size(0)}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
