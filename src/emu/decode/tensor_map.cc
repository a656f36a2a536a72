// tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap.
// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_map.h"

#include <optional>
#include <utility>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/tensor_map_field.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

std::optional<MapField> FieldOf(const Instr& instr) {
  static constexpr std::pair<Modifier, MapField> kFields[] = {
      {Modifier::kGlobalAddress, MapField::kGlobalAddress},
      {Modifier::kRank, MapField::kRank},
      {Modifier::kBoxDim, MapField::kBoxDim},
      {Modifier::kGlobalDim, MapField::kGlobalDim},
      {Modifier::kGlobalStride, MapField::kGlobalStride},
      {Modifier::kElementStride, MapField::kElementStride},
      {Modifier::kElemtype, MapField::kElementType},
      {Modifier::kInterleaveLayout, MapField::kInterleave},
      {Modifier::kSwizzleMode, MapField::kSwizzleMode},
      {Modifier::kSwizzleAtomicity, MapField::kSwizzleAtomicity},
      {Modifier::kFillMode, MapField::kFillMode}};
  for (const auto& [modifier, field] : kFields) {
    if (instr.Has(modifier)) return field;
  }
  return std::nullopt;
}

bool HasOrdinal(MapField field) {
  return field == MapField::kBoxDim || field == MapField::kGlobalDim ||
         field == MapField::kGlobalStride || field == MapField::kElementStride;
}

/// True if the operand is the size of a tensor map, the only one that PTX allows.
bool IsMapSize(const Operand& operand) {
  return operand.kind == OperandKind::kImmediate && operand.bits == plan::kTensorMapBytes;
}

}  // namespace

/// tensormap.replace.tile.field[.space].b1024.type [map][, ordinal], value
bool Decoder::EmitMapReplace(const Instr& instr) {
  const std::optional<MapField> field = FieldOf(instr);
  const ptx::Types types = instr.Types();
  const bool has_ordinal = field && HasOrdinal(*field);
  if (!field || types.size() != 1 || !instr.Has(Modifier::kTile) ||
      instr.operands.size() != (has_ordinal ? 3u : 2u)) {
    return Fail(instr.Mnemonic());
  }
  uint64_t ordinal = 0;
  if (has_ordinal) {
    const Operand& operand = instr.operands[1];
    const int dimensions = plan::kMaxTensorMapRank - (*field == MapField::kGlobalStride ? 1 : 0);
    ordinal = operand.bits;
    if (operand.kind != OperandKind::kImmediate || ordinal >= static_cast<uint64_t>(dimensions)) {
      return Fail(instr.Mnemonic() + " with these operands");
    }
  }
  AccessShape shape;
  shape.store = true;
  if (!SpaceOf(instr, instr.operands[0], &shape.space)) return false;
  int64_t displacement = 0;
  const int map = AddressSlot(instr.operands[0], shape.space, &displacement);
  const int value = Read(instr.operands.back(), SlotKind::kDouble, Type::kU64);
  Op& op = Emit(Micro::kMapReplace);
  op.src[0] = map;
  op.src[1] = value;
  op.imm = displacement;
  op.aux = shape.Pack();
  op.count = code_->hints++;
  op.flops = static_cast<uint32_t>(*field) | static_cast<uint32_t>(ordinal) << 8;
  return !failed_;
}

/// tensormap.replace, or
/// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope .sync.aligned [to],
/// [from], 128
bool Decoder::EmitTensorMap(const Instr& instr) {
  if (instr.Has(Modifier::kReplace)) return EmitMapReplace(instr);
  if (!BeginMatrix(instr)) return false;  // the whole warp executes it together
  if (!instr.Has(Modifier::kCpFenceproxy) || instr.operands.size() != 3 ||
      !IsMapSize(instr.operands[2])) {
    return Fail(instr.Mnemonic());
  }
  const int to = SumSlot(instr.operands[0], MemorySpace::kGlobal);
  const int from = SumSlot(instr.operands[1], MemorySpace::kShared);
  Op& op = Emit(Micro::kMapCopy);
  op.src[0] = to;
  op.src[1] = from;
  op.aux = instr.Has(Modifier::kCta) ? 0 : 1;  // as of "@fence"
  op.count = code_->hints++;
  return !failed_;
}

/// fence.proxy.tensormap::generic.release.scope, or .acquire.scope [map], 128
bool Decoder::EmitMapFence(const Instr& instr) {
  const bool acquires = instr.Has(Modifier::kAcquire);
  if (acquires != (instr.operands.size() == 2) || (acquires && !IsMapSize(instr.operands[1]))) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  const int map = acquires ? SumSlot(instr.operands[0], MemorySpace::kGeneric) : -1;
  Emit(Micro::kMapFence).src[0] = map;
  return !failed_;
}

}  // namespace cupel::emu
