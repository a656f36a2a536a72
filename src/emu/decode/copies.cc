// Tested by copies_test.cc and by the random programs of tests/reference.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/copies.h"

#include <algorithm>

#include "emu/decode/decoder.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {

CopyRules::CopyRules(const ptx::Function& function)
    : function_(function),
      is_target_(function.body.size() + 1, false),
      lowest_target_(function.body.size() + 1, SIZE_MAX) {
  size_t lowest_of_tables = SIZE_MAX;
  for (const std::vector<int>& table : function.branch_table_targets) {
    for (int target : table) {
      is_target_[static_cast<size_t>(target)] = true;
      lowest_of_tables = std::min(lowest_of_tables, static_cast<size_t>(target));
    }
  }
  size_t lowest = SIZE_MAX;
  for (size_t i = function.body.size(); i-- > 0;) {
    const ptx::Instr& instr = function.body[i];
    if (instr.op == ptx::Opcode::kBrx) lowest = std::min(lowest, lowest_of_tables);
    for (const ptx::Operand& operand : instr.operands) {
      if (operand.kind != ptx::OperandKind::kLabel) continue;
      const auto target = static_cast<size_t>(operand.target);
      is_target_[target] = true;
      lowest = std::min(lowest, target);
    }
    lowest_target_[i] = lowest;
  }
}

bool CopyRules::AlwaysEqual(int to, size_t origin, size_t copy) const {
  if (!InLoop(origin)) return true;  // a thread executes it only once
  // In a loop, both change together if the code between them is straight-line and does not read the
  // old copy.
  for (size_t i = origin; i < copy; ++i) {
    const ptx::Instr& instr = function_.body[i];
    if (instr.op == ptx::Opcode::kBra || instr.op == ptx::Opcode::kBrx || is_target_[i + 1])
      return false;
    const std::vector<int> reads = UseOf(instr).reads;
    if (std::find(reads.begin(), reads.end(), to) != reads.end()) return false;
  }
  return origin <= copy;
}

}  // namespace cupel::emu
