// What the analysis of a kernel's values (check/value_flow.h) needs of the decoder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// A kernel's instructions as they were decoded: calls are inlined, wide registers are split.
/// Op::source is an index into `function.body`.
struct KernelText {
  ptx::Function function;
  std::vector<bool> aliased;  // by instruction: no micro-op executes it
  /// By register: its value. Registers that always have the same value share a number.
  std::vector<int> values;
  bool has_calls = false;  // of functions out of line
};

}  // namespace cupel::emu
