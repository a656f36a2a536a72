// c10::MaybeOwned: a value that is borrowed or owned. Here it is always owned, since a copy of a
// tensor is another handle to it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

namespace c10 {
template <class T>
class MaybeOwned {
 public:
  static MaybeOwned borrowed(const T& value) { return MaybeOwned(value); }
  static MaybeOwned owned(T&& value) { return MaybeOwned(static_cast<T&&>(value)); }
  MaybeOwned() = default;
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  explicit MaybeOwned(T value) : value_(static_cast<T&&>(value)) {}
  T value_;
};
}  // namespace c10
