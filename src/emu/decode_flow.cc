// Control flow, synchronisation, and instructions that have no effect in the emulator.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emu/barrier.h"
#include "emu/decode.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

bool Decoder::EmitBranch(const Instr& instr) {
  if (instr.operands.size() != 1) return Fail(instr.Mnemonic());
  SetMode(default_mode_);
  const int target = instr.operands[0].target;
  if (instr.guard < 0) {
    Op& op = Emit("@jump");
    op.target = target;
    FinishBlock(op);
  } else {
    Op& op = Emit("@branch");
    op.src[0] = register_slot_[static_cast<size_t>(instr.guard)];
    op.aux = instr.guard_negated ? kFullMask : 0;
    op.target = target;
    FinishBlock(op);
  }
  jumps_.push_back(static_cast<int>(code_->ops.size()) - 1);
  return true;
}

/// bar[rier][.cta].{sync,arrive,red}[.aligned] …
bool Decoder::EmitBarrier(const Instr& instr) {
  SetMode(default_mode_);
  const bool reduces = instr.Has("red");
  std::vector<Operand> operands = instr.operands;
  Operand destination;
  if (reduces) {
    if (operands.size() < 3) return Fail(instr.Mnemonic());
    destination = operands.front();
    operands.erase(operands.begin());
  }
  uint32_t aux = instr.Has("arrive") ? kBarrierArriveOnly : 0;
  if (instr.op == "bar" || instr.Has("aligned")) aux |= kBarrierAligned;
  int predicate = -1;
  bool negated = false;
  int dst = -1;
  if (reduces) {
    aux |= instr.Has("popc") ? kBarrierPopc : (instr.Has("and") ? kBarrierAnd : kBarrierOr);
    negated = operands.back().negated;
    operands.back().negated = false;
    predicate = Read(operands.back(), SlotKind::kPredicate, Type::kPred);
    operands.pop_back();
    const SlotKind kind = instr.Has("popc") ? SlotKind::kWord : SlotKind::kPredicate;
    if (destination.kind != OperandKind::kRegister || KindOf(destination.reg) != kind) {
      return Fail(instr.Mnemonic());
    }
    dst = Write(destination, kind);
  }
  if (operands.empty() || operands.size() > 2) return Fail(instr.Mnemonic());
  const int id = Read(operands[0], SlotKind::kWord, Type::kU32);
  const int threads = operands.size() == 2 ? Read(operands[1], SlotKind::kWord, Type::kU32) : -1;
  Op& op = Emit("@barrier");
  op.dst = dst;
  op.src[0] = id;
  op.src[1] = threads;
  op.src[2] = predicate;
  op.imm = negated ? static_cast<int64_t>(kFullMask) : 0;
  op.aux = aux;
  return !failed_;
}

/// shfl, vote, match, redux, activemask: passes operands in the order that the handlers expect.
bool Decoder::EmitWarpLevel(const Instr& instr) {
  const bool complete = instr.Has("sync") && instr.operands.size() > 1 && !instr.Types().empty();
  if (instr.op != "activemask" && !complete) return Fail(instr.Mnemonic());
  SetMode(default_mode_);
  if (instr.op == "shfl") {
    if (instr.operands.size() != 5) return Fail(instr.Mnemonic());
    const Operand& to = instr.operands[0];
    const bool pair = to.kind == OperandKind::kPair;
    const Operand& value = pair ? to.elements[0] : to;
    std::array<int, 4> slots{};
    for (size_t i = 0; i < 4; ++i)
      slots[i] = Read(instr.operands[i + 1], SlotKind::kWord, Type::kB32);
    const int dst = Write(value, SlotKind::kWord);
    const int predicate = pair ? Write(to.elements[1], SlotKind::kPredicate) : -1;
    std::string mode;
    for (const char* name : {"up", "down", "bfly", "idx"}) {
      if (instr.Has(name)) mode = name;
    }
    Op& op = Emit("shfl." + mode);
    op.dst = dst;
    for (size_t i = 0; i < 4; ++i) op.src[i] = slots[i];
    op.imm = predicate;
    FinishWrite(value, dst, SlotKind::kWord, false);
    return !failed_;
  }
  if (instr.op == "match" && instr.operands[0].kind == OperandKind::kPair) {
    const Operand& to = instr.operands[0];
    Instr first = instr;  // mask and predicate have separate handlers
    first.operands[0] = to.elements[0];
    if (to.elements[0].kind != OperandKind::kSink &&
        !EmitTable(first, "match.all." + std::string(ptx::Name(instr.Types().back())))) {
      return Fail(instr.Mnemonic());
    }
    first.operands[0] = to.elements[1];
    return EmitTable(first, "match.all.pred." + std::string(ptx::Name(instr.Types().back()))) ||
           Fail(instr.Mnemonic());
  }
  std::string key = instr.op;
  for (const std::string& modifier : instr.modifiers) {
    if (modifier != "sync") key += "." + modifier;
  }
  return EmitTable(instr, key) || Fail(instr.Mnemonic());
}

/// Returns true if the instruction is one of these, even if decoding it failed.
bool Decoder::EmitFlow(const Instr& instr) {
  const std::string& op = instr.op;
  if (op == "ret" || op == "exit") {
    SetMode(default_mode_);
    FinishBlock(Emit("@exit"));
    return true;
  }
  if (op == "trap" || op == "brkpt") {
    Emit("@trap");
    return true;
  }
  if (op == "membar" || op == "fence" || op == "nanosleep" || op == "prefetch" ||
      op == "prefetchu" || op == "pmevent" || op == "applypriority" || op == "discard") {
    if (instr.Has("proxy") || instr.Mnemonic().find("proxy") != std::string::npos ||
        instr.Has("mbarrier_init") || op == "discard") {
      Fail(instr.Mnemonic());
    }
    // Execution is sequentially consistent. Only the race checks use fences.
    if (op == "membar" || op == "fence") {
      Emit("@fence").aux = instr.Has("cta") ? 0 : 1;
    }
    return true;
  }
  if (op == "bar" || op == "barrier") {
    if (instr.Has("cluster")) {
      Fail(instr.Mnemonic());
    } else if (instr.Has("warp")) {
      if (instr.operands.size() != 1) {
        Fail(instr.Mnemonic());
        return true;
      }
      SetMode(default_mode_);
      const int members = Read(instr.operands[0], SlotKind::kWord, Type::kB32);
      Emit("@syncwarp").src[3] = members;
    } else {
      EmitBarrier(instr);
    }
    return true;
  }
  if (op == "brx") {
    const size_t table =
        static_cast<size_t>(instr.operands.size() == 2 ? instr.operands[1].target : -1);
    if (table >= function_.branch_table_targets.size()) {
      Fail(instr.Mnemonic());
      return true;
    }
    SetMode(default_mode_);
    const int index = Read(instr.operands[0], SlotKind::kWord, Type::kU32);
    Op& brx = Emit("@brx");
    brx.src[0] = index;
    brx.imm = static_cast<int64_t>(code_->branch_targets.size());
    const std::vector<int>& targets = function_.branch_table_targets[table];
    brx.aux = static_cast<uint32_t>(targets.size());
    code_->branch_targets.insert(code_->branch_targets.end(), targets.begin(), targets.end());
    FinishBlock(brx);
    return true;
  }
  if (op == "@return") {
    EmitReturn();
    return true;
  }
  return false;
}

}  // namespace cupel::emu
