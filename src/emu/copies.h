// Whether a copy of a register can be another name of the original. Both are written at one place
// of the text, but a loop may give the original its next value while the copy still holds the last
// one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

class CopyRules {
 public:
  /// The function must outlive the rules.
  explicit CopyRules(const ptx::Function& function);
  /// The copy into register `to` at instruction `copy`, of a value that instruction `origin` gives:
  /// true when no thread can see a difference between the two after the copy.
  bool AlwaysEqual(int to, size_t origin, size_t copy) const;

 private:
  bool InLoop(size_t instr) const { return lowest_target_[instr] <= instr; }

  const ptx::Function& function_;
  std::vector<bool> is_target_;        // of a branch, by instruction
  std::vector<size_t> lowest_target_;  // of branches at or behind the instruction
};

}  // namespace cupel::emu
