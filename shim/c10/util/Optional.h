// c10::optional is std::optional, as in PyTorch since 2.1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

namespace c10 {
using std::in_place;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
template <class T, class U>
constexpr T value_or_else(const optional<T>& value, U&& otherwise) {
  return value.has_value() ? *value : otherwise();
}
}  // namespace c10
