// Tensors that own their elements, for the judge's tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "task/case.h"

namespace cupel::judge {

/// A borrowed contiguous tensor over `values`.
template <typename T>
task::Tensor TensorOf(const std::vector<T>& values, std::vector<int64_t> shape, DType dtype) {
  task::Tensor tensor;
  tensor.dtype = dtype;
  tensor.strides.assign(shape.size(), 1);
  for (size_t a = shape.size(); a-- > 1;) tensor.strides[a - 1] = tensor.strides[a] * shape[a];
  tensor.shape = std::move(shape);
  tensor.storage = std::as_bytes(std::span(values));
  return tensor;
}

inline double Normal(Random& random) {
  const double u = 1 - random.Unit(), v = random.Unit();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

/// Over the finite float32 numbers among `values`.
inline double Rms(const std::vector<double>& values) {
  double sum = 0;
  int64_t count = 0;
  for (double v : values) {
    if (!(std::fabs(v) < 1e38)) continue;
    sum += v * v;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace cupel::judge
