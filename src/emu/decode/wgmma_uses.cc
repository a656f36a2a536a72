// Tested by wgmma_uses_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/wgmma_uses.h"

#include <algorithm>

#include "emu/isa/basic_blocks.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::OperandKind;

bool IsCopy(const Instr& instr) {
  return instr.op == Opcode::kMov && instr.operands.size() == 2 &&
         instr.operands[0].kind == OperandKind::kRegister &&
         instr.operands[1].kind == OperandKind::kRegister;
}

bool IsFloatSum(const Instr& instr) {
  const bool adds = instr.op == Opcode::kAdd || instr.op == Opcode::kFma;
  return adds && (instr.Has(Modifier::kF32) || instr.Has(Modifier::kF16x2) ||
                  instr.Has(Modifier::kF16) || instr.Has(Modifier::kF32x2));
}

void Track(const ptx::Operand& operand, std::vector<bool>* tracked) {
  for (const ptx::Operand& element : operand.elements) {
    if (element.kind == OperandKind::kRegister && element.reg >= 0) {
      (*tracked)[static_cast<size_t>(element.reg)] = true;
    }
  }
}

/// The registers of products, and all that are copied to or from them.
std::vector<bool> TrackedRegisters(const ptx::Function& function) {
  std::vector<bool> tracked(function.registers.size());
  std::vector<std::vector<int>> copies(function.registers.size());
  for (const Instr& instr : function.body) {
    if (instr.op == Opcode::kWgmma && instr.operands.size() >= 2) {
      Track(instr.operands[0], &tracked);
      Track(instr.operands[1], &tracked);
    } else if (IsCopy(instr)) {
      const int to = instr.operands[0].reg, from = instr.operands[1].reg;
      copies[static_cast<size_t>(to)].push_back(from);
      copies[static_cast<size_t>(from)].push_back(to);
    }
  }
  std::vector<int> rest;
  for (size_t reg = 0; reg < tracked.size(); ++reg) {
    if (tracked[reg]) rest.push_back(static_cast<int>(reg));
  }
  while (!rest.empty()) {
    const auto reg = static_cast<size_t>(rest.back());
    rest.pop_back();
    for (const int other : copies[reg]) {
      if (tracked[static_cast<size_t>(other)]) continue;
      tracked[static_cast<size_t>(other)] = true;
      rest.push_back(other);
    }
  }
  return tracked;
}

/// Whether a product may be in progress after the instruction.
bool InProgressAfter(const Instr& instr, bool before) {
  if (instr.op != Opcode::kWgmma) return before;
  if (instr.Has(Modifier::kMmaAsync)) return true;
  const bool waits_for_all = instr.Has(Modifier::kWaitGroup) && instr.operands.size() == 1 &&
                             instr.operands[0].kind == OperandKind::kImmediate &&
                             instr.operands[0].bits == 0;
  return before && !waits_for_all;
}

/// By block: whether a product may be in progress at its begin.
std::vector<bool> InProgressAt(const ptx::Function& function,
                               const std::vector<BasicBlock>& blocks) {
  std::vector<bool> at(blocks.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 0; b < blocks.size(); ++b) {
      bool in_progress = at[b];
      for (size_t i = blocks[b].begin; i < blocks[b].end; ++i) {
        in_progress = InProgressAfter(function.body[i], in_progress);
      }
      for (const size_t next : blocks[b].successors) {
        if (!in_progress || at[next]) continue;
        at[next] = true;
        changed = true;
      }
    }
  }
  return at;
}

/// Collects the uses between two wgmma instructions.
class Region {
 public:
  explicit Region(std::map<size_t, std::vector<WgmmaUse>>* uses) : uses_(uses) {}

  void Add(size_t at, const Instr& instr, const std::vector<bool>& tracked, bool in_progress) {
    if (instr.guard >= 0) return;  // it may not be executed
    auto is_tracked = [&](int reg) { return tracked[static_cast<size_t>(reg)]; };
    if (IsCopy(instr)) {
      if (is_tracked(instr.operands[0].reg)) {
        Add(at, {RegisterTouch::kCopy, instr.operands[0].reg, instr.operands[1].reg});
      }
      return;
    }
    const RegisterUse use = UseOf(instr);
    const RegisterTouch read = IsFloatSum(instr) ? RegisterTouch::kSum : RegisterTouch::kRead;
    for (const int reg : use.reads) {
      if (in_progress && is_tracked(reg)) Add(at, {read, reg, reg});
    }
    const RegisterTouch write = instr.op == Opcode::kMov && use.reads.empty()
                                    ? RegisterTouch::kConstant
                                    : RegisterTouch::kWrite;
    for (const int reg : use.writes) {
      if (is_tracked(reg)) Add(at, {write, reg, reg});
    }
  }

  void End() {
    if (!found_.empty()) (*uses_)[at_] = std::move(found_);
    found_.clear();
    is_placed_ = false;
  }

 private:
  void Add(size_t at, WgmmaUse use) {
    const bool reads = use.touch == RegisterTouch::kRead || use.touch == RegisterTouch::kSum;
    const bool is_known = std::any_of(found_.begin(), found_.end(), [&](const WgmmaUse& known) {
      return reads && known.touch == use.touch && known.reg == use.reg;
    });
    if (is_known) return;
    if (!is_placed_) at_ = at;
    is_placed_ = is_placed_ || reads || use.touch == RegisterTouch::kWrite;
    found_.push_back(use);
  }

  std::map<size_t, std::vector<WgmmaUse>>* uses_;
  std::vector<WgmmaUse> found_;
  size_t at_ = 0;
  bool is_placed_ = false;
};

}  // namespace

std::map<size_t, std::vector<WgmmaUse>> WgmmaUsesOf(const ptx::Function& function) {
  std::map<size_t, std::vector<WgmmaUse>> uses;
  const bool has_products =
      std::any_of(function.body.begin(), function.body.end(),
                  [](const Instr& instr) { return instr.op == Opcode::kWgmma; });
  if (!has_products) return uses;
  const std::vector<bool> tracked = TrackedRegisters(function);
  const std::vector<BasicBlock> blocks = BlocksOf(function);
  const std::vector<bool> at = InProgressAt(function, blocks);
  Region region(&uses);
  for (size_t b = 0; b < blocks.size(); ++b) {
    bool in_progress = at[b];
    for (size_t i = blocks[b].begin; i < blocks[b].end; ++i) {
      const Instr& instr = function.body[i];
      if (instr.op == Opcode::kWgmma) {
        region.End();
        in_progress = InProgressAfter(instr, in_progress);
      } else {
        region.Add(i, instr, tracked, in_progress);
      }
    }
    region.End();
  }
  return uses;
}

}  // namespace cupel::emu
