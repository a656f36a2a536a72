// Maps operands of instructions to slots.
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "emu/core/call_stacks.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/decode/decoder.h"

namespace cupel::emu {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

const std::map<std::string, Special, std::less<>>& Specials() {
  static const std::map<std::string, Special, std::less<>> table = {
      {"tid.x", Special::kTidX},
      {"tid.y", Special::kTidY},
      {"tid.z", Special::kTidZ},
      {"ctaid.x", Special::kCtaidX},
      {"ctaid.y", Special::kCtaidY},
      {"ctaid.z", Special::kCtaidZ},
      {"ntid.x", Special::kNtidX},
      {"ntid.y", Special::kNtidY},
      {"ntid.z", Special::kNtidZ},
      {"nctaid.x", Special::kNctaidX},
      {"nctaid.y", Special::kNctaidY},
      {"nctaid.z", Special::kNctaidZ},
      {"laneid", Special::kLaneId},
      {"warpid", Special::kWarpId},
      {"nwarpid", Special::kNwarpId},
      {"smid", Special::kSmId},
      {"nsmid", Special::kNsmId},
      {"gridid", Special::kGridId},
      {"lanemask_eq", Special::kLanemaskEq},
      {"lanemask_le", Special::kLanemaskLe},
      {"lanemask_lt", Special::kLanemaskLt},
      {"lanemask_ge", Special::kLanemaskGe},
      {"lanemask_gt", Special::kLanemaskGt},
      {"envreg1", Special::kGridWorkspaceHigh},
      {"envreg2", Special::kGridWorkspaceLow},
      {"dynamic_smem_size", Special::kDynamicSharedBytes},
      {"total_smem_size", Special::kTotalSharedBytes},
      {"aggr_smem_size", Special::kTotalSharedBytes},
      {"reserved_smem_offset_begin", Special::kReservedSharedBegin},
      {"reserved_smem_offset_0", Special::kReservedSharedBegin},
      {"reserved_smem_offset_1", Special::kReservedSharedBegin},
      {"reserved_smem_offset_end", Special::kReservedSharedEnd},
      {"is_explicit_cluster", Special::kIsExplicitCluster},
      {"cluster_ctarank", Special::kClusterCtarank},
      {"cluster_ctaid.x", Special::kClusterCtaidX},
      {"cluster_ctaid.y", Special::kClusterCtaidY},
      {"cluster_ctaid.z", Special::kClusterCtaidZ},
      {"cluster_nctarank", Special::kClusterNctarank},
      {"cluster_nctaid.x", Special::kClusterNctaidX},
      {"cluster_nctaid.y", Special::kClusterNctaidY},
      {"cluster_nctaid.z", Special::kClusterNctaidZ},
      {"clusterid.x", Special::kClusteridX},
      {"clusterid.y", Special::kClusteridY},
      {"clusterid.z", Special::kClusteridZ},
      {"nclusterid.x", Special::kNclusteridX},
      {"nclusterid.y", Special::kNclusteridY},
      {"nclusterid.z", Special::kNclusteridZ}};
  return table;
}

/// The conversion of a value of the other width to `kind`.
Form WidthChange(SlotKind kind, bool is_signed) {
  if (kind == SlotKind::kWord) return Form(Opcode::kCvt, {Modifier::kU32, Modifier::kU64});
  if (is_signed) return Form(Opcode::kCvt, {Modifier::kS64, Modifier::kS32});
  return Form(Opcode::kCvt, {Modifier::kU64, Modifier::kU32});
}

}  // namespace

int Decoder::ReadRegister(int reg, SlotKind kind, Type type) {
  const int slot = register_slot_[static_cast<size_t>(reg)];
  const SlotKind have = KindOf(reg);
  if (have == kind) return slot;
  if (have == SlotKind::kPredicate || kind == SlotKind::kPredicate) {
    Fail("an operand that mixes predicates and values");
    return slot;
  }
  const int temporary = Temporary(kind);
  Op& op = Emit(WidthChange(kind, IsSigned(type)));
  op.src[0] = slot;
  op.dst = temporary;
  return temporary;
}

int Decoder::ReadImmediate(const Operand& operand, SlotKind kind, Type) {
  uint64_t bits = operand.bits;
  if (kind == SlotKind::kPredicate) return SharedConstant(kind, bits != 0 ? kFullMask : 0);
  if (operand.imm_type == Type::kF64 && kind == SlotKind::kWord) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  } else if (operand.imm_type == Type::kF32 && kind == SlotKind::kDouble) {
    bits = std::bit_cast<uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  }
  return SharedConstant(kind, bits);
}

/// The offset of a variable in its window (shared, local, param). For a global variable, 0; its
/// name goes to `global`.
std::optional<uint64_t> Decoder::SymbolValue(const std::string& name, std::string* global) {
  const auto place = places_.find(name);
  if (place != places_.end()) return place->second.offset;
  *global = name;
  return 0;
}

int Decoder::ReadSymbol(const Operand& operand, SlotKind kind) {
  const auto local = places_.find(operand.symbol);
  if (local != places_.end() && local->second.on_stack) {
    const uint64_t offset = local->second.offset + static_cast<uint64_t>(operand.offset);
    const int pointer = Temporary(SlotKind::kWord);
    const int displacement = SharedConstant(SlotKind::kWord, offset);
    Op& add = Emit(Form(Opcode::kAdd, {Modifier::kU32}));
    add.dst = pointer;
    add.src[0] = stack_pointer_;
    add.src[1] = displacement;
    if (kind == SlotKind::kWord) return pointer;
    const int wide = Temporary(kind);
    Op& extend = Emit(Form(Opcode::kCvt, {Modifier::kU64, Modifier::kU32}));
    extend.src[0] = pointer;
    extend.dst = wide;
    return wide;
  }
  if (const auto code = AddressOfFunction(module_, operand.symbol)) {
    return SharedConstant(kind, *code + static_cast<uint64_t>(operand.offset));
  }
  std::string global;
  const uint64_t base = SymbolValue(operand.symbol, &global).value_or(0);
  if (!global.empty()) {
    bool known = false;
    for (const ptx::Variable& variable : module_.variables) known |= variable.name == global;
    if (!known) {
      Fail("the address of '" + global + "'");
      return SharedConstant(kind, 0);
    }
  }
  return SharedConstant(kind, base + static_cast<uint64_t>(operand.offset), global);
}

int Decoder::ReadSpecial(const std::string& name, SlotKind kind) {
  const auto found = Specials().find(name);
  if (found == Specials().end()) {
    Fail("special register %" + name);
    return SpecialSlotOf(Special::kTidX);
  }
  const int slot = SpecialSlotOf(found->second);
  if (kind == SlotKind::kWord) return slot;
  if (kind == SlotKind::kPredicate) {
    const int zero = SharedConstant(SlotKind::kWord, 0);
    const int predicate = Temporary(kind);
    Op& op = Emit(Form(Opcode::kSetp, {Modifier::kNe, Modifier::kU32}));
    op.src[0] = slot;
    op.src[1] = zero;
    op.dst = predicate;
    return predicate;
  }
  const int temporary = Temporary(kind);
  Op& op = Emit(Form(Opcode::kCvt, {Modifier::kU64, Modifier::kU32}));
  op.src[0] = slot;
  op.dst = temporary;
  return temporary;
}

int Decoder::Read(const Operand& operand, SlotKind kind, Type type) {
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const int slot = ReadRegister(operand.reg, kind, type);
      if (!operand.negated) return slot;
      const int temporary = Temporary(SlotKind::kPredicate);
      Op& op = Emit(Form(Opcode::kNot, {Modifier::kPred}));
      op.src[0] = op.src[1] = slot;
      op.dst = temporary;
      return temporary;
    }
    case OperandKind::kImmediate:
      return ReadImmediate(operand, kind, type);
    case OperandKind::kSymbol:
      return ReadSymbol(operand, kind);
    case OperandKind::kSpecial:
      return ReadSpecial(operand.symbol, kind);
    default:
      Fail("an operand of this kind");
      return SharedConstant(kind == SlotKind::kNone ? SlotKind::kWord : kind, 0);
  }
}

int Decoder::Write(const Operand& operand, SlotKind kind) {
  if (operand.kind == OperandKind::kSink) return Temporary(kind);
  if (operand.kind != OperandKind::kRegister) {
    Fail("a destination of this kind");
    return Temporary(kind);
  }
  if (KindOf(operand.reg) == kind) return register_slot_[static_cast<size_t>(operand.reg)];
  return Temporary(kind);
}

void Decoder::FinishWrite(const Operand& operand, int slot, SlotKind kind, bool is_signed) {
  if (operand.kind != OperandKind::kRegister || KindOf(operand.reg) == kind) return;
  const SlotKind want = KindOf(operand.reg);
  if (want == SlotKind::kPredicate || kind == SlotKind::kPredicate) {
    Fail("a destination that mixes predicates and values");
    return;
  }
  Op& op = Emit(WidthChange(want, is_signed));
  op.src[0] = slot;
  op.dst = register_slot_[static_cast<size_t>(operand.reg)];
}

}  // namespace cupel::emu
