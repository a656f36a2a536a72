// mbarriers, and arrivals after cp.async.
// SPDX-License-Identifier: Apache-2.0

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/spaces.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

uint32_t OrderFlags(const Instr& instr) {
  return (instr.Has(Modifier::kRelaxed) ? kMbarrierRelaxed : 0) |
         (instr.Has(Modifier::kCta) ? kMbarrierBlockScope : 0);
}

}  // namespace

/// Gets the slot and the displacement of a barrier's address. Adds kMbarrierGeneric to `flags` if
/// the address is generic.
bool Decoder::BarrierAddress(const Instr& instr, size_t operand, int* slot, int32_t* displacement,
                             uint32_t* flags) {
  if (operand >= instr.operands.size()) return Fail(instr.Mnemonic());
  MemorySpace space = MemorySpace::kGeneric;
  if (!SpaceOf(instr, instr.operands[operand], &space)) return false;
  if (!IsShared(space) && space != MemorySpace::kGeneric) {
    return Fail(instr.Mnemonic());
  }
  int64_t offset = 0;
  *slot = AddressSlot(instr.operands[operand], space, &offset);
  *displacement = static_cast<int32_t>(offset);
  if (space == MemorySpace::kGeneric) *flags |= kMbarrierGeneric;
  return offset == *displacement || Fail(instr.Mnemonic());
}

/// arrive, arrive_drop, with expect_tx: [state,] [barrier][, count or bytes]
bool Decoder::EmitMemoryBarrierArrive(const Instr& instr) {
  const bool returns = instr.operands[0].kind != OperandKind::kAddress;
  const size_t at = returns ? 1 : 0;
  uint32_t flags = instr.Has(Modifier::kArriveDrop) ? kMbarrierDrop : 0;
  flags |= OrderFlags(instr);
  int base = -1;
  int32_t displacement = 0;
  if (!BarrierAddress(instr, at, &base, &displacement, &flags)) return false;
  const bool expects = instr.Has(Modifier::kExpectTx);
  if (instr.operands.size() > at + 2 || (expects && instr.operands.size() != at + 2)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  const int number = instr.operands.size() > at + 1
                         ? Read(instr.operands[at + 1], SlotKind::kWord, Type::kU32)
                         : -1;
  const bool wanted = returns && instr.operands[0].kind != OperandKind::kSink;
  const int dst = wanted ? Write(instr.operands[0], SlotKind::kDouble) : -1;
  Op& op = Emit(Micro::kMbarrierArrive);
  op.dst = dst;
  op.src[0] = base;
  op.src[1] = expects ? -1 : number;
  op.src[2] = expects ? number : -1;
  op.target = displacement;
  op.aux = flags;
  if (wanted) FinishWrite(instr.operands[0], dst, SlotKind::kDouble, false);
  return !failed_;
}

/// {test,try}_wait[.parity] p, [barrier], state or parity[, time]
bool Decoder::EmitMemoryBarrierWait(const Instr& instr) {
  if (instr.operands.size() < 3) return Fail(instr.Mnemonic());
  uint32_t flags = instr.Has(Modifier::kParity) ? kMbarrierParity : 0;
  flags |= OrderFlags(instr);
  int base = -1;
  int32_t displacement = 0;
  if (!BarrierAddress(instr, 1, &base, &displacement, &flags)) return false;
  const bool parity = (flags & kMbarrierParity) != 0;
  const int phase = Read(instr.operands[2], parity ? SlotKind::kWord : SlotKind::kDouble,
                         parity ? Type::kU32 : Type::kB64);
  const int dst = Write(instr.operands[0], SlotKind::kPredicate);
  Op& op = Emit(Micro::kMbarrierWait);
  op.dst = dst;
  op.src[0] = base;
  op.src[1] = phase;
  op.target = displacement;
  op.aux = flags;
  return !failed_;
}

bool Decoder::EmitMemoryBarrier(const Instr& instr) {
  SetMode(default_mode_);  // a wait may end the warp's turn
  if (instr.operands.empty()) return Fail(instr.Mnemonic());
  if (instr.Has(Modifier::kTestWait) || instr.Has(Modifier::kTryWait))
    return EmitMemoryBarrierWait(instr);
  if (instr.Has(Modifier::kArrive) || instr.Has(Modifier::kArriveDrop))
    return EmitMemoryBarrierArrive(instr);
  if (instr.Has(Modifier::kPendingCount) && instr.operands.size() == 2) {
    const int state = Read(instr.operands[1], SlotKind::kDouble, Type::kB64);
    const int dst = Write(instr.operands[0], SlotKind::kWord);
    Op& op = Emit(Micro::kMbarrierPending);
    op.dst = dst;
    op.src[0] = state;
    FinishWrite(instr.operands[0], dst, SlotKind::kWord, false);
    return !failed_;
  }
  uint32_t flags = instr.Has(Modifier::kCompleteTx) ? kMbarrierComplete : 0;
  int base = -1;
  int32_t displacement = 0;
  if (!BarrierAddress(instr, 0, &base, &displacement, &flags)) return false;
  Micro micro = Micro::kNone;
  if (instr.Has(Modifier::kInit)) micro = Micro::kMbarrierInit;
  if (instr.Has(Modifier::kExpectTx) || instr.Has(Modifier::kCompleteTx))
    micro = Micro::kMbarrierExpect;
  const bool invalidates = instr.Has(Modifier::kInval);
  if ((micro == Micro::kNone) != invalidates || instr.operands.size() != (invalidates ? 1u : 2u)) {
    return Fail(instr.Mnemonic());
  }
  const int number = invalidates ? -1 : Read(instr.operands[1], SlotKind::kWord, Type::kU32);
  Op& op = Emit(invalidates ? Micro::kMbarrierInval : micro);
  op.src[0] = base;
  op.src[1] = number;
  op.target = displacement;
  op.aux = flags;
  return !failed_;
}

/// cp.async.mbarrier.arrive[.noinc] [barrier]
bool Decoder::EmitArriveAfterCopies(const Instr& instr) {
  uint32_t flags = instr.Has(Modifier::kNoinc) ? kMbarrierNoIncrement : 0;
  int base = -1;
  int32_t displacement = 0;
  if (!instr.Has(Modifier::kArrive) || instr.operands.size() != 1 ||
      !BarrierAddress(instr, 0, &base, &displacement, &flags)) {
    return Fail(instr.Mnemonic());
  }
  Op& op = Emit(Micro::kCpAsyncArrive);
  op.src[0] = base;
  op.target = displacement;
  op.aux = flags;
  return !failed_;
}

}  // namespace cupel::emu
