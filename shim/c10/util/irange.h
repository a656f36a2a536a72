// c10::irange(n): 0 ... n-1 for range-based loops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

namespace c10 {
template <class I>
class integer_range {
 public:
  struct iterator {
    I value;
    I operator*() const { return value; }
    iterator& operator++() {
      ++value;
      return *this;
    }
    bool operator==(const iterator& o) const { return value == o.value; }
    bool operator!=(const iterator& o) const { return value != o.value; }
  };
  integer_range(I begin, I end) : begin_{begin}, end_{end < begin ? begin : end} {}
  iterator begin() const { return begin_; }
  iterator end() const { return end_; }

 private:
  iterator begin_, end_;
};
template <class I>
integer_range<I> irange(I end) {
  return {I(), end};
}
template <class A, class B>
integer_range<B> irange(A begin, B end) {
  return {static_cast<B>(begin), end};
}
}  // namespace c10
