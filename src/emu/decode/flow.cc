// Control flow and synchronisation.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Modifiers;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

bool Decoder::EmitBranch(const Instr& instr) {
  if (instr.operands.size() != 1) return Fail(instr.Mnemonic());
  SetMode(default_mode_);
  const int target = instr.operands[0].target;
  if (instr.guard < 0) {
    Op& op = Emit(Micro::kJump);
    op.target = target;
    FinishBlock(op);
  } else {
    Op& op = Emit(Micro::kBranch);
    op.src[0] = register_slot_[static_cast<size_t>(instr.guard)];
    op.aux = instr.guard_negated ? kFullMask : 0;
    op.target = target;
    FinishBlock(op);
  }
  jumps_.push_back(static_cast<int>(code_->ops.size()) - 1);
  return true;
}

bool Decoder::EmitExit() {
  SetMode(default_mode_);
  FinishBlock(Emit(Micro::kExit));
  return true;
}

/// brx.idx index, table
bool Decoder::EmitIndexedBranch(const Instr& instr) {
  const size_t table =
      static_cast<size_t>(instr.operands.size() == 2 ? instr.operands[1].target : -1);
  if (table >= function_.branch_table_targets.size()) return Fail(instr.Mnemonic());
  SetMode(default_mode_);
  const int index = Read(instr.operands[0], SlotKind::kWord, Type::kU32);
  Op& op = Emit(Micro::kIndexedBranch);
  op.src[0] = index;
  op.imm = static_cast<int64_t>(code_->branch_targets.size());
  const std::vector<int>& targets = function_.branch_table_targets[table];
  op.aux = static_cast<uint32_t>(targets.size());
  code_->branch_targets.insert(code_->branch_targets.end(), targets.begin(), targets.end());
  FinishBlock(op);
  return true;
}

/// membar and fence. Execution is sequentially consistent, so only the race checks use fences.
/// Fences between other proxies than the generic and the asynchronous one have no effect.
/// fence.mbarrier_init is of both kinds: after it, a relaxed barrier of the cluster is enough.
bool Decoder::EmitFence(const Instr& instr) {
  const bool is_of_proxies =
      instr.modifiers.HasAny({Modifier::kProxy, Modifier::kProxyAsync, Modifier::kProxyAlias,
                              Modifier::kProxyAsyncGeneric, Modifier::kProxyTensormapGeneric});
  if (!is_of_proxies) {
    Emit(Micro::kFence).aux = instr.Has(Modifier::kCta) ? 0 : 1;
  }
  if (instr.modifiers.HasAny({Modifier::kTensormapGeneric, Modifier::kProxyTensormapGeneric})) {
    return EmitMapFence(instr);
  }
  if (instr.modifiers.HasAny({Modifier::kAsync, Modifier::kAsyncGeneric, Modifier::kProxyAsync,
                              Modifier::kProxyAsyncGeneric, Modifier::kMbarrierInit})) {
    Emit(Micro::kProxyFence);
  }
  return true;
}

bool Decoder::EmitBarrier(const Instr& instr) {
  if (instr.Has(Modifier::kCluster)) return EmitClusterBarrier(instr);
  if (!instr.Has(Modifier::kWarp)) return EmitBlockBarrier(instr);
  if (instr.operands.size() != 1) return Fail(instr.Mnemonic());
  SetMode(default_mode_);
  const int members = Read(instr.operands[0], SlotKind::kWord, Type::kB32);
  Emit(Micro::kSyncWarp).src[3] = members;
  return true;
}

/// bar[rier][.cta].{sync,arrive,red}[.aligned] …
bool Decoder::EmitBlockBarrier(const Instr& instr) {
  SetMode(default_mode_);
  const bool reduces = instr.Has(Modifier::kRed);
  std::vector<Operand> operands = instr.operands;
  Operand destination;
  if (reduces) {
    if (operands.size() < 3) return Fail(instr.Mnemonic());
    destination = operands.front();
    operands.erase(operands.begin());
  }
  uint32_t aux = instr.Has(Modifier::kArrive) ? kBarrierArriveOnly : 0;
  if (instr.op == Opcode::kBar || instr.Has(Modifier::kAligned)) aux |= kBarrierAligned;
  int predicate = -1;
  bool negated = false;
  int dst = -1;
  if (reduces) {
    aux |= instr.Has(Modifier::kPopc) ? kBarrierPopc
                                      : (instr.Has(Modifier::kAnd) ? kBarrierAnd : kBarrierOr);
    negated = operands.back().negated;
    operands.back().negated = false;
    predicate = Read(operands.back(), SlotKind::kPredicate, Type::kPred);
    operands.pop_back();
    const SlotKind kind = instr.Has(Modifier::kPopc) ? SlotKind::kWord : SlotKind::kPredicate;
    if (destination.kind != OperandKind::kRegister || KindOf(destination.reg) != kind) {
      return Fail(instr.Mnemonic());
    }
    dst = Write(destination, kind);
  }
  if (operands.empty() || operands.size() > 2) return Fail(instr.Mnemonic());
  const int id = Read(operands[0], SlotKind::kWord, Type::kU32);
  const int threads = operands.size() == 2 ? Read(operands[1], SlotKind::kWord, Type::kU32) : -1;
  Op& op = Emit(Micro::kBarrier);
  op.dst = dst;
  op.src[0] = id;
  op.src[1] = threads;
  op.src[2] = predicate;
  op.imm = negated ? static_cast<int64_t>(kFullMask) : 0;
  op.aux = aux;
  return !failed_;
}

/// shfl.sync.mode.b32 d[|p], a, b, c, members
bool Decoder::EmitShuffle(const Instr& instr) {
  Modifiers mode;
  for (const Modifier modifier : instr.modifiers) {
    if (Modifiers{Modifier::kUp, Modifier::kDown, Modifier::kBfly, Modifier::kIdx}.Has(modifier)) {
      mode.Add(modifier);
    }
  }
  if (!instr.Has(Modifier::kSync) || instr.operands.size() != 5 || mode.size() != 1) {
    return Fail(instr.Mnemonic());
  }
  SetMode(default_mode_);
  const Operand& to = instr.operands[0];
  const bool pair = to.kind == OperandKind::kPair;
  const Operand& value = pair ? to.elements[0] : to;
  std::array<int, 4> slots{};
  for (size_t i = 0; i < 4; ++i) {
    slots[i] = Read(instr.operands[i + 1], SlotKind::kWord, Type::kB32);
  }
  const int dst = Write(value, SlotKind::kWord);
  const int predicate = pair ? Write(to.elements[1], SlotKind::kPredicate) : -1;
  Op& op = Emit(Form(Opcode::kShfl, mode));
  op.dst = dst;
  for (size_t i = 0; i < 4; ++i) op.src[i] = slots[i];
  op.imm = predicate;
  FinishWrite(value, dst, SlotKind::kWord, false);
  return !failed_;
}

/// vote, match, redux, activemask: passes operands in the order that the handlers expect.
bool Decoder::EmitWarpLevel(const Instr& instr) {
  const bool complete =
      instr.Has(Modifier::kSync) && instr.operands.size() > 1 && !instr.Types().empty();
  if (instr.op != Opcode::kActivemask && !complete) return Fail(instr.Mnemonic());
  SetMode(default_mode_);
  Form form(instr.op, instr.modifiers);
  form.modifiers.Erase(Modifier::kSync);
  if (instr.op == Opcode::kMatch && instr.operands[0].kind == OperandKind::kPair) {
    const Operand& to = instr.operands[0];
    Instr part = instr;  // mask and predicate have separate handlers
    part.operands[0] = to.elements[0];
    if (to.elements[0].kind != OperandKind::kSink && !EmitTable(part, form)) {
      return Fail(instr.Mnemonic());
    }
    part.operands[0] = to.elements[1];
    form.modifiers = {Modifier::kAll, Modifier::kPred, instr.modifiers.back()};
    return EmitTable(part, form) || Fail(instr.Mnemonic());
  }
  return EmitTable(instr, form) || Fail(instr.Mnemonic());
}

}  // namespace cupel::emu
