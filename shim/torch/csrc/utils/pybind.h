// pybind11 with casters for tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pybind11/pybind11.h"
#include "torch/types.h"

namespace torch {
/// PyTorch's wrapper translates exceptions; here the caller does.
template <class F>
auto wrap_pybind_function(F&& f) {
  return std::forward<F>(f);
}
template <class F>
auto wrap_pybind_function_no_gil(F&& f) {
  return std::forward<F>(f);
}
}  // namespace torch
