// Out-of-line calls, printf, and failed assertions. See calls.h.
// SPDX-License-Identifier: Apache-2.0

#include "emu/core/call_stacks.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/decode/calls.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

/// The function of the current instruction: 0 for the kernel, i + 1 for called function i.
int Decoder::CurrentFrame() const {
  for (size_t i = 0; i < inlined_.functions.size(); ++i) {
    const CalledFunction& function = inlined_.functions[i];
    if (current_ >= function.begin && current_ < function.end) return static_cast<int>(i) + 1;
  }
  return 0;
}

/// Emits a copy between the caller's variable and the callee's frame.
bool Decoder::EmitArgument(const CallSite::Piece& piece, bool to_callee) {
  const auto place = places_.find(piece.variable);
  if (place == places_.end() || place->second.space != ptx::Space::kLocal) {
    return Fail("a call with these parameters");
  }
  if (piece.bytes > kCallStackBytes || piece.offset > kCallStackBytes) {
    return Fail("a call with more parameters than the stack holds");
  }
  const auto frame = static_cast<int64_t>(frame_bytes_[static_cast<size_t>(CurrentFrame())]);
  const auto mine = static_cast<int64_t>(place->second.offset);
  const int64_t theirs = frame + piece.offset;
  Op& op = Emit(Micro::kCopyLocal);
  op.src[0] = stack_pointer_;
  op.imm = to_callee ? mine : theirs;
  op.target = static_cast<int32_t>(to_callee ? theirs : mine);
  op.flops = piece.bytes;
  return !failed_;
}

/// The slots that hold the registers of the current function.
std::vector<int> Decoder::SlotsToSave() {
  const int frame = CurrentFrame();
  int first = inlined_.entry_register, end = static_cast<int>(function_.registers.size());
  if (frame > 0) {
    const CalledFunction& function = inlined_.functions[static_cast<size_t>(frame) - 1];
    first = function.first_register;
    end = function.end_register;
  }
  std::map<SlotKind, std::vector<int>> slots;
  std::vector<bool> seen(slots_.size(), false);
  for (const auto& [key, slot] : constants_) seen[static_cast<size_t>(slot)] = true;
  for (const auto& [key, slot] : specials_) seen[static_cast<size_t>(slot)] = true;
  for (const auto& [key, slot] : parameters_) seen[static_cast<size_t>(slot)] = true;
  for (int reg = first; reg < end; ++reg) {
    const int slot = register_slot_[static_cast<size_t>(reg)];
    if (slot < 0 || seen[static_cast<size_t>(slot)]) continue;
    seen[static_cast<size_t>(slot)] = true;
    slots[slots_[static_cast<size_t>(slot)].kind].push_back(slot);
  }
  std::vector<int> list;
  const SlotKind kinds[] = {SlotKind::kDouble, SlotKind::kWord, SlotKind::kPredicate};
  for (SlotKind kind : kinds) list.push_back(-1 - static_cast<int>(slots[kind].size()));
  for (SlotKind kind : kinds) list.insert(list.end(), slots[kind].begin(), slots[kind].end());
  return list;
}

/// call index[, address]
bool Decoder::EmitCall(const Instr& instr) {
  SetMode(default_mode_);
  const CallSite& site = inlined_.calls[instr.operands[0].bits];
  const int address = site.callee < 0 ? Read(instr.operands[1], SlotKind::kDouble, Type::kU64) : -1;
  for (const CallSite::Piece& piece : site.arguments) {
    if (!EmitArgument(piece, true)) return false;
  }
  const std::vector<int> saved = SlotsToSave();
  Op& op = Emit(Micro::kCall);
  op.src[0] = stack_pointer_;
  op.src[1] = address;
  op.aux = frame_bytes_[static_cast<size_t>(CurrentFrame())];
  if (site.callee >= 0) {
    op.target = inlined_.functions[static_cast<size_t>(site.callee)].begin;
    jumps_.push_back(static_cast<int>(code_->ops.size()) - 1);
  }
  SetList(saved);
  FinishBlock(code_->ops.back());
  Emit(Micro::kMerge);  // returning lanes join here
  for (const CallSite::Piece& piece : site.results) {
    if (!EmitArgument(piece, false)) return false;
  }
  return true;
}

bool Decoder::EmitReturn() {
  SetMode(default_mode_);
  Op& op = Emit(Micro::kReturn);
  op.src[0] = stack_pointer_;
  FinishBlock(op);
  return true;
}

static Micro RuntimeFunction(Opcode op) {
  switch (op) {
    case Opcode::kPrintf:
      return Micro::kPrintf;
    case Opcode::kMalloc:
      return Micro::kMalloc;
    case Opcode::kFree:
      return Micro::kFree;
    default:
      return Micro::kAssertFail;
  }
}

/// Functions of CUDA's runtime: the operands are the variables that hold the parameters. Launches
/// with a heap run on one thread, because allocation is not thread-safe.
bool Decoder::EmitReport(const Instr& instr) {
  std::vector<int> list;
  for (const Operand& operand : instr.operands) {
    const auto place = places_.find(operand.symbol);
    if (place == places_.end() || place->second.space != ptx::Space::kLocal) {
      return Fail("a call with these parameters");
    }
    list.push_back(-1 - static_cast<int>(place->second.offset));
  }
  const int pointer = CurrentFrame() > 0 ? stack_pointer_ : SharedConstant(SlotKind::kWord, 0);
  if (instr.op == Opcode::kMalloc || instr.op == Opcode::kFree) kernel_->has_global_atomics = true;
  Op& op = Emit(RuntimeFunction(instr.op));
  op.src[0] = pointer;
  SetList(list);
  return !failed_;
}

}  // namespace cupel::emu
