// Bulk copies (cp.async.bulk), their tensor forms and reductions.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/bulk.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
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

std::optional<Reduction> ReductionOf(const Instr& instr) {
  static constexpr std::pair<Modifier, Reduction> kReductions[] = {
      {Modifier::kAdd, Reduction::kAdd}, {Modifier::kMin, Reduction::kMin},
      {Modifier::kMax, Reduction::kMax}, {Modifier::kInc, Reduction::kInc},
      {Modifier::kDec, Reduction::kDec}, {Modifier::kAnd, Reduction::kAnd},
      {Modifier::kOr, Reduction::kOr},   {Modifier::kXor, Reduction::kXor}};
  for (const auto& [modifier, reduction] : kReductions) {
    if (instr.Has(modifier)) return reduction;
  }
  return std::nullopt;
}

std::optional<ReductionType> ReductionTypeOf(Type type) {
  switch (type) {
    case Type::kB32:
    case Type::kU32:
      return ReductionType::kU32;
    case Type::kS32:
      return ReductionType::kS32;
    case Type::kB64:
    case Type::kU64:
      return ReductionType::kU64;
    case Type::kS64:
      return ReductionType::kS64;
    case Type::kF16:
      return ReductionType::kF16;
    case Type::kBF16:
      return ReductionType::kBF16;
    case Type::kF32:
      return ReductionType::kF32;
    case Type::kF64:
      return ReductionType::kF64;
    default:
      return std::nullopt;
  }
}

/// The spaces that the mnemonic names, in order: true for shared memory.
std::vector<bool> SpacesOf(const Instr& instr) {
  std::vector<bool> spaces;
  for (const Modifier modifier : instr.modifiers) {
    const ptx::Space space = ptx::SpaceOf(modifier);
    if (space == ptx::Space::kShared || space == ptx::Space::kGlobal) {
      spaces.push_back(space == ptx::Space::kShared);
    }
  }
  return spaces;
}

/// The number of dimensions of .1d to .5d; 0 for other instructions.
uint32_t RankOf(const Instr& instr) {
  static constexpr Modifier kRanks[] = {Modifier::k1d, Modifier::k2d, Modifier::k3d, Modifier::k4d,
                                        Modifier::k5d};
  for (uint32_t i = 0; i < 5; ++i) {
    if (instr.Has(kRanks[i])) return i + 1;
  }
  return 0;
}

/// The shape, if the emulator knows all that the instruction says.
std::optional<BulkShape> ShapeOf(const Instr& instr) {
  const std::vector<bool> spaces = SpacesOf(instr);
  if (spaces.size() != 2 || (!spaces[0] && !spaces[1])) return std::nullopt;
  if (instr.modifiers.HasAny({Modifier::kCpMask, Modifier::kIm2colW, Modifier::kIm2colW128,
                              Modifier::kTileGather4, Modifier::kTileScatter4,
                              Modifier::kCtaGroup2})) {
    return std::nullopt;
  }
  BulkShape shape;
  shape.to_shared = spaces[0];
  shape.from_shared = spaces[1];
  shape.is_tensor = instr.Has(Modifier::kTensor);
  if (shape.is_tensor) {
    shape.rank = RankOf(instr);
    if (shape.rank == 0) return std::nullopt;
    if (instr.Has(Modifier::kIm2col)) shape.mode = TensorMode::kIm2col;
    if (instr.Has(Modifier::kIm2colNoOffs)) shape.mode = TensorMode::kIm2colNoOffsets;
  }
  const bool reports = instr.Has(Modifier::kMbarrierCompleteTxBytes);
  if (reports != shape.to_shared || reports == instr.Has(Modifier::kBulkGroup)) return std::nullopt;
  if (!instr.Has(Modifier::kReduce)) return shape;
  const auto reduction = ReductionOf(instr);
  if (!reduction) return std::nullopt;
  shape.reduction = *reduction;
  const ptx::Types types = instr.Types();
  if (!shape.is_tensor) {
    const auto type = types.empty() ? std::nullopt : ReductionTypeOf(types.back());
    if (!type) return std::nullopt;
    shape.type = *type;
  }
  return shape;
}

}  // namespace

/// A slot with the operand's address, displacement included.
int Decoder::SumSlot(const Operand& address, MemorySpace space) {
  int64_t displacement = 0;
  const int base = AddressSlot(address, space, &displacement);
  if (displacement == 0) return base;
  const bool wide = space == MemorySpace::kGlobal || space == MemorySpace::kGeneric;
  const SlotKind kind = wide ? SlotKind::kDouble : SlotKind::kWord;
  const int sum = Temporary(kind);
  const int constant = SharedConstant(kind, static_cast<uint64_t>(displacement));
  Op& add = Emit(Form(Opcode::kAdd, {wide ? Modifier::kU64 : Modifier::kU32}));
  add.dst = sum;
  add.src[0] = base;
  for (size_t i = 1; i < 4; ++i) add.src[i] = constant;
  return sum;
}

/// cp[.reduce].async.bulk.to.from… [to], [from], bytes[, [barrier]][, mask][, cache policy], and
/// with .tensor: [to], [map, {coordinates}], [barrier][, {offsets}][, mask][, cache policy], or
/// [map, {coordinates}], [from][, cache policy].
bool Decoder::EmitBulkCopy(const Instr& instr) {
  const std::optional<BulkShape> shape = ShapeOf(instr);
  if (!shape) return Fail(instr.Mnemonic());
  std::vector<const Operand*> operands;
  operands.reserve(instr.operands.size());
  for (const Operand& operand : instr.operands) operands.push_back(&operand);
  if (instr.Has(Modifier::kL2CacheHint) && !operands.empty()) operands.pop_back();
  const bool has_offsets = shape->mode == TensorMode::kIm2col;
  const bool is_multicast = instr.Has(Modifier::kMulticastCluster);
  const size_t wanted = 2u + (shape->is_tensor ? 0u : 1u) + (shape->to_shared ? 1u : 0u) +
                        (has_offsets ? 1u : 0u) + (is_multicast ? 1u : 0u);
  if (operands.size() != wanted) return Fail(instr.Mnemonic() + " with these operands");
  std::array<int, kBulkOperands> slots;
  slots.fill(-1);
  for (const size_t i : {kBulkTo, kBulkFrom}) {
    const bool is_shared = i == kBulkTo ? shape->to_shared : shape->from_shared;
    const bool is_map = shape->is_tensor && !is_shared;
    slots[i] = SumSlot(*operands[i], is_shared ? MemorySpace::kSharedCluster
                                     : is_map  ? MemorySpace::kGeneric
                                               : MemorySpace::kGlobal);
    if (!is_map) continue;
    const std::vector<Operand>& inside = operands[i]->elements;
    const bool is_known = inside.size() == 1 && inside[0].kind == OperandKind::kVector &&
                          inside[0].elements.size() == shape->rank;
    if (!is_known) return Fail(instr.Mnemonic() + " with these operands");
    for (size_t d = 0; d < shape->rank; ++d) {
      slots[kBulkCoordinates + d] = Read(inside[0].elements[d], SlotKind::kWord, Type::kS32);
    }
  }
  size_t next = 2;
  if (!shape->is_tensor) slots[kBulkBytes] = Read(*operands[next++], SlotKind::kWord, Type::kU32);
  if (shape->to_shared)
    slots[kBulkBarrier] = SumSlot(*operands[next++], MemorySpace::kSharedCluster);
  if (has_offsets) {
    const std::vector<Operand>& offsets = operands[next++]->elements;
    if (offsets.size() + 2 != shape->rank) return Fail(instr.Mnemonic() + " with these operands");
    for (size_t i = 0; i < offsets.size(); ++i) {
      slots[kBulkOffsets + i] = Read(offsets[i], SlotKind::kWord, Type::kU16);
    }
  }
  if (is_multicast) slots[kBulkMask] = Read(*operands[next++], SlotKind::kWord, Type::kU16);
  if (shape->reduction != Reduction::kNone && !shape->to_shared) kernel_->has_global_atomics = true;
  Op& op = Emit(Micro::kBulk);
  op.flops = shape->Pack();
  AccessShape access;  // of global memory, for the counters
  access.element_bytes = 8;
  access.elements = 2;
  access.store = !shape->to_shared;
  op.aux = access.Pack();
  op.count = code_->hints++;
  SetList({slots.begin(), slots.end()});
  return !failed_;
}

/// st.async….mbarrier::complete_tx::bytes[.vec].type [to], value, [barrier], and red.async….op.type
bool Decoder::EmitStoreAsync(const Instr& instr) {
  const ptx::Types types = instr.Types();
  const bool is_known = types.size() == 1 && instr.operands.size() == 3 &&
                        instr.Has(Modifier::kSharedCluster) &&
                        instr.Has(Modifier::kMbarrierCompleteTxBytes);
  const auto bytes = types.empty() ? 0 : static_cast<uint32_t>(ptx::SizeOf(types[0]));
  if (!is_known || (bytes != 4 && bytes != 8)) return Fail(instr.Mnemonic());
  BulkShape shape;
  shape.to_shared = true;
  if (instr.op == Opcode::kRed) {
    const auto reduction = ReductionOf(instr);
    const auto type = ReductionTypeOf(types[0]);
    if (!reduction || !type) return Fail(instr.Mnemonic());
    shape.reduction = *reduction;
    shape.type = *type;
  }
  const Operand& value = instr.operands[1];
  const bool is_vector = value.kind == OperandKind::kVector;
  const SlotKind kind = bytes == 8 ? SlotKind::kDouble : SlotKind::kWord;
  const int to = SumSlot(instr.operands[0], MemorySpace::kSharedCluster);
  const int barrier = SumSlot(instr.operands[2], MemorySpace::kSharedCluster);
  const size_t count = is_vector ? value.elements.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const int slot = Read(is_vector ? value.elements[i] : value, kind, types[0]);
    Op& op = Emit(Micro::kStAsync);
    op.src[0] = to;
    op.src[1] = slot;
    op.src[2] = barrier;
    op.target = static_cast<int32_t>(i * bytes);
    op.flops = shape.Pack();
    op.aux = bytes;
  }
  return !failed_;
}

bool Decoder::EmitBulk(const Instr& instr) {
  if (instr.Has(Modifier::kCommitGroup)) {
    Emit(Micro::kBulkCommit);
    return !failed_;
  }
  if (instr.Has(Modifier::kWaitGroup) && instr.operands.size() == 1) {
    const int pending = Read(instr.operands[0], SlotKind::kWord, Type::kU32);
    Emit(Micro::kBulkWait).src[0] = pending;
    return !failed_;
  }
  return EmitBulkCopy(instr);
}

}  // namespace cupel::emu
