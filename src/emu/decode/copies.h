// Decides whether a copy of a register can be an alias of the original. Each is written by one
// instruction only, but in a loop the original may get its next value while the copy still has the
// previous one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

class CopyRules {
 public:
  /// The function must outlive the rules.
  explicit CopyRules(const ptx::Function& function);
  /// Instruction `copy` copies a value that instruction `origin` produces into register `to`.
  /// Returns true if no thread can see a difference between the two registers after the copy.
  bool AlwaysEqual(int to, size_t origin, size_t copy) const;

 private:
  bool InLoop(size_t instr) const { return lowest_target_[instr] <= instr; }

  const ptx::Function& function_;
  std::vector<bool> is_target_;        // by instruction: it is a branch target
  std::vector<size_t> lowest_target_;  // by instruction: of branches at or after it
};

}  // namespace cupel::emu
