// SPDX-License-Identifier: Apache-2.0
#include "emu/isa/basic_blocks.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Opcode;

bool EndsBlock(const Instr& instr) {
  return instr.op == Opcode::kBra || instr.op == Opcode::kBrx || instr.op == Opcode::kRet ||
         instr.op == Opcode::kExit;
}

}  // namespace

std::vector<BasicBlock> BlocksOf(const ptx::Function& function) {
  const size_t count = function.body.size();
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (size_t i = 0; i < count; ++i) {
    if (EndsBlock(function.body[i])) leader[i + 1] = true;
    for (const ptx::Operand& operand : function.body[i].operands) {
      if (operand.kind == ptx::OperandKind::kLabel)
        leader[static_cast<size_t>(operand.target)] = true;
    }
  }
  for (const std::vector<int>& table : function.branch_table_targets) {
    for (int target : table) leader[static_cast<size_t>(target)] = true;
  }
  std::vector<BasicBlock> blocks;
  std::vector<size_t> block_at(count + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    if (leader[i]) blocks.push_back({i, i, {}});
    block_at[i] = blocks.size() - 1;
    blocks.back().end = i + 1;
  }
  block_at[count] = blocks.size();  // the end of the function is in no block
  for (size_t b = 0; b < blocks.size(); ++b) {
    BasicBlock& block = blocks[b];
    const Instr& last = function.body[block.end - 1];
    auto add = [&](size_t instr) {
      if (block_at[instr] < blocks.size()) block.successors.push_back(block_at[instr]);
    };
    if (!EndsBlock(last) || last.guard >= 0) add(block.end);
    if (last.op == Opcode::kBra) add(static_cast<size_t>(last.operands[0].target));
    if (last.op == Opcode::kBrx && last.operands.size() == 2 &&
        static_cast<size_t>(last.operands[1].target) < function.branch_table_targets.size()) {
      for (int target :
           function.branch_table_targets[static_cast<size_t>(last.operands[1].target)]) {
        add(static_cast<size_t>(target));
      }
    }
  }
  return blocks;
}

}  // namespace cupel::emu
