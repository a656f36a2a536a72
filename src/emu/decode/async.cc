// cp.async and its groups.
// SPDX-License-Identifier: Apache-2.0

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

bool IsPredicate(const ptx::Function& function, const Operand& operand) {
  return operand.kind == OperandKind::kRegister && operand.reg >= 0 &&
         function.registers[static_cast<size_t>(operand.reg)].type == Type::kPred;
}

}  // namespace

/// cp.async.{ca,cg}.shared.global [to], [from], bytes[, source bytes | ignore][, cache policy]
bool Decoder::EmitCopyAsync(const Instr& instr) {
  size_t operands = instr.operands.size();
  if (instr.Has(Modifier::kL2CacheHint)) --operands;
  const bool known = (instr.Has(Modifier::kShared) || instr.Has(Modifier::kSharedCta)) &&
                     instr.Has(Modifier::kGlobal) &&
                     (instr.Has(Modifier::kCa) || instr.Has(Modifier::kCg));
  if (!known || operands < 3 || operands > 4 || instr.operands[2].kind != OperandKind::kImmediate) {
    return Fail(instr.Mnemonic());
  }
  const uint64_t bytes = instr.operands[2].bits;
  if (bytes != 4 && bytes != 8 && bytes != 16) return Fail(instr.Mnemonic());
  int64_t to_displacement = 0, from_displacement = 0;
  const int to = AddressSlot(instr.operands[0], MemorySpace::kShared, &to_displacement);
  const int from = AddressSlot(instr.operands[1], MemorySpace::kGlobal, &from_displacement);
  int length = -1, ignore = -1;
  if (operands == 4) {
    const Operand& last = instr.operands[3];
    if (IsPredicate(function_, last)) {
      ignore = Read(last, SlotKind::kPredicate, Type::kPred);
    } else {
      length = Read(last, SlotKind::kWord, Type::kU32);
    }
  }
  if (to_displacement != static_cast<int32_t>(to_displacement)) return Fail(instr.Mnemonic());
  Op& op = Emit(Micro::kCpAsync);
  op.src[0] = to;
  op.src[1] = from;
  op.src[2] = length;
  op.src[3] = ignore;
  op.imm = from_displacement;
  op.target = static_cast<int32_t>(to_displacement);
  op.flops = static_cast<uint32_t>(bytes);
  AccessShape shape;  // of the read, for the counters
  shape.element_bytes = static_cast<uint32_t>(bytes) / 2;
  shape.elements = 2;
  shape.space = MemorySpace::kGlobal;
  op.aux = shape.Pack();
  op.count = code_->hints++;
  return !failed_;
}

bool Decoder::EmitAsync(const Instr& instr) {
  if (instr.Has(Modifier::kPrefetch)) return true;  // no effect on results
  if (!instr.Has(Modifier::kAsync)) return Fail(instr.Mnemonic());
  if (instr.Has(Modifier::kBulk)) return EmitBulk(instr);
  if (instr.Has(Modifier::kReduce)) return Fail(instr.Mnemonic());
  if (instr.Has(Modifier::kMbarrier)) return EmitArriveAfterCopies(instr);
  if (instr.Has(Modifier::kCommitGroup)) {
    Emit(Micro::kCpAsyncCommit);
  } else if (instr.Has(Modifier::kWaitGroup) && instr.operands.size() == 1) {
    const int pending = Read(instr.operands[0], SlotKind::kWord, Type::kU32);
    Emit(Micro::kCpAsyncWait).src[0] = pending;
  } else if (instr.Has(Modifier::kWaitAll)) {
    Emit(Micro::kCpAsyncWait);
  } else {
    return EmitCopyAsync(instr);
  }
  return !failed_;
}

}  // namespace cupel::emu
