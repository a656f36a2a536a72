// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

namespace cupel {

/// Rounds `value` up to a multiple of `unit`. `unit` must be positive and `value` must not be
/// negative.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace cupel
