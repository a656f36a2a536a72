// Products and sums of integer lists, in int64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

namespace c10 {
template <class Iterator>
int64_t multiply_integers(Iterator begin, Iterator end) {
  int64_t product = 1;
  for (; begin != end; ++begin) product *= static_cast<int64_t>(*begin);
  return product;
}
template <class C>
int64_t multiply_integers(const C& c) {
  return multiply_integers(c.begin(), c.end());
}
template <class C>
int64_t sum_integers(const C& c) {
  int64_t sum = 0;
  for (auto v : c) sum += static_cast<int64_t>(v);
  return sum;
}
}  // namespace c10
