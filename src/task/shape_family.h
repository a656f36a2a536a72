// Calls that differ in one size only. All their shapes, strides and numbers are then usually
// polynomials of it, of degree two at most (a square matrix), so a few calls tell the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "task/case.h"

namespace cupel::task {

class ShapeFamily {
 public:
  /// A size and the call there.
  using Point = std::pair<int64_t, const CallShape*>;

  /// From at least four calls at different sizes. Nullopt unless polynomials through the first
  /// three give all the others exactly.
  static std::optional<ShapeFamily> Fit(std::span<const Point> points);

  /// The call at another size. Nullopt if numbers do not fit or a storage would be too large.
  std::optional<CallShape> At(int64_t size) const;

 private:
  std::array<int64_t, 3> sizes_{};
  std::array<std::vector<int64_t>, 3> numbers_;  // of the calls at these sizes, flattened
  CallShape like_;                               // what does not vary
};

}  // namespace cupel::task
