// at::globalContext(): the settings that PyTorch has by default.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/ScalarType.h"

struct THCState;

namespace at {

struct Context {
  THCState* lazyInitCUDA() { return nullptr; }
  void lazyInitDevice(c10::ScalarType) {}
  bool hasCUDA() const { return true; }
  bool userEnabledCuDNN() const { return true; }
  bool deterministicCuDNN() const { return false; }
  bool benchmarkCuDNN() const { return false; }
  bool deterministicAlgorithms() const { return false; }
  bool allowTF32CuDNN() const { return true; }
  bool allowTF32CuBLAS() const { return false; }
  bool allowFP16ReductionCuBLAS() const { return true; }
  bool allowBF16ReductionCuBLAS() const { return true; }
  static void alertNotDeterministic(const char*) {}
};
inline Context& globalContext() {
  static Context context;
  return context;
}

}  // namespace at
