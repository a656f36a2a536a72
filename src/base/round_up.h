// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

namespace cupel {

/// The least multiple of `unit`, which is positive, that is no less than `value`, which is not
/// negative.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace cupel
