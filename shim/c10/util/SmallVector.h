// c10::SmallVector over std::vector.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/ArrayRef.h"

namespace c10 {
template <class T, unsigned N = 8>
class SmallVector : public std::vector<T> {
  using std::vector<T>::vector;
};
}  // namespace c10
