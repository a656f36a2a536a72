// Autograd switches and profiler marks. They have no effect: the shim has no gradients and no
// profiler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

namespace c10 {
struct GradMode {
  static bool is_enabled() { return false; }
  static void set_enabled(bool) {}
};
struct AutoGradMode {
  explicit AutoGradMode(bool) {}
  ~AutoGradMode() {}
};
struct NoGradGuard {
  NoGradGuard() {}
  ~NoGradGuard() {}
};
struct InferenceMode {
  explicit InferenceMode(bool = true) {}
  ~InferenceMode() {}
  static bool is_enabled() { return false; }
};
}  // namespace c10

namespace at {
using c10::AutoGradMode;
using c10::GradMode;
using c10::NoGradGuard;
struct AutoDispatchBelowADInplaceOrView {
  AutoDispatchBelowADInplaceOrView() {}
  ~AutoDispatchBelowADInplaceOrView() {}
};
struct AutoDispatchBelowAutograd {
  AutoDispatchBelowAutograd() {}
  ~AutoDispatchBelowAutograd() {}
};
using AutoNonVariableTypeMode = AutoDispatchBelowAutograd;
}  // namespace at

#define RECORD_FUNCTION(...) static_cast<void>(0)
#define RECORD_USER_SCOPE(...) static_cast<void>(0)
