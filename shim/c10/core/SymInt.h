// c10::SymInt: always a plain number in the shim.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/ArrayRef.h"

namespace c10 {

class SymInt {
 public:
  SymInt(int64_t value = 0) : value_(value) {}
  int64_t guard_int(const char*, int64_t) const { return value_; }
  int64_t expect_int() const { return value_; }
  bool is_symbolic() const { return false; }
  friend bool operator==(const SymInt& a, const SymInt& b) { return a.value_ == b.value_; }
  friend bool operator!=(const SymInt& a, const SymInt& b) { return a.value_ != b.value_; }

 private:
  int64_t value_;
};
inline void AppendText(cupel::shim::Text& text, const SymInt& value) { text << value.expect_int(); }
using SymIntArrayRef = ArrayRef<SymInt>;

}  // namespace c10
