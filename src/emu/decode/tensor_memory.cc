// tcgen05: one micro-op for each instruction (emu/core/tensor_memory.h). Only what this file names
// is supported: pairs of blocks (.cta_group::2), and sparse and weight-stationary products are not.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/tensor_memory.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/decode/decoder.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

template <class T>
using Choices = std::initializer_list<std::pair<Modifier, T>>;

/// The first choice that the instruction has.
template <class T>
std::optional<T> Choose(const Instr& instr, Choices<T> choices) {
  for (const auto& [modifier, value] : choices) {
    if (instr.Has(modifier)) return value;
  }
  return std::nullopt;
}

constexpr Choices<TensorShape> kShapes = {{Modifier::k32x32b, TensorShape::k32x32b},
                                          {Modifier::k16x64b, TensorShape::k16x64b},
                                          {Modifier::k16x128b, TensorShape::k16x128b},
                                          {Modifier::k16x256b, TensorShape::k16x256b},
                                          {Modifier::k16x32bx2, TensorShape::k16x32bx2}};
constexpr Choices<uint32_t> kRepeats = {
    {Modifier::kX1, 1},   {Modifier::kX2, 2},   {Modifier::kX4, 4},   {Modifier::kX8, 8},
    {Modifier::kX16, 16}, {Modifier::kX32, 32}, {Modifier::kX64, 64}, {Modifier::kX128, 128}};
constexpr Choices<TensorKind> kKinds = {
    {Modifier::kKindF16, TensorKind::kF16},           {Modifier::kKindTf32, TensorKind::kTF32},
    {Modifier::kKindF8f6f4, TensorKind::kF8F6F4},     {Modifier::kKindI8, TensorKind::kI8},
    {Modifier::kKindMxf8f6f4, TensorKind::kMxF8F6F4}, {Modifier::kKindMxf4, TensorKind::kMxF4},
    {Modifier::kKindMxf4nvf4, TensorKind::kMxF4NvF4}};

/// True if the instruction has all of `needed`, and `optional` more words.
bool Consists(const Instr& instr, std::initializer_list<Modifier> needed, size_t optional = 0) {
  return std::all_of(needed.begin(), needed.end(), [&](Modifier m) { return instr.Has(m); }) &&
         instr.modifiers.size() == needed.size() + optional;
}

std::optional<TensorCopyShape> CopyShapeOf(const Instr& instr) {
  const size_t words = instr.modifiers.size() - 2;  // without .cp.cta_group::1
  if (const auto shape =
          Choose<TensorCopyShape>(instr, {{Modifier::k128x256b, TensorCopyShape::k128x256b},
                                          {Modifier::k4x256b, TensorCopyShape::k4x256b},
                                          {Modifier::k128x128b, TensorCopyShape::k128x128b}});
      shape && words == 1) {
    return shape;
  }
  if (words != 2) return std::nullopt;
  if (instr.Has(Modifier::k32x128b)) {
    return Choose<TensorCopyShape>(instr, {{Modifier::kWarpx4, TensorCopyShape::k32x128b}});
  }
  if (!instr.Has(Modifier::k64x128b)) return std::nullopt;
  return Choose<TensorCopyShape>(instr, {{Modifier::kWarpx20213, TensorCopyShape::k64x128b0213},
                                         {Modifier::kWarpx20123, TensorCopyShape::k64x128b0123}});
}

/// The factors of a line of A or B that a block-scaled product takes; nothing if it cannot.
std::optional<uint32_t> ScalesOf(const Instr& instr, TensorKind kind) {
  const bool is_short = kind == TensorKind::kMxF8F6F4;  // k is 32, else 64
  const uint32_t by_default = is_short ? 1 : kind == TensorKind::kMxF4 ? 2 : 0;
  const uint32_t scales = Choose<uint32_t>(instr, {{Modifier::kScaleVec1X, 1},
                                                   {Modifier::kScaleVec2X, 2},
                                                   {Modifier::kScaleVec4X, 4},
                                                   {Modifier::kBlock32, is_short ? 1 : 2},
                                                   {Modifier::kBlock16, 4}})
                              .value_or(by_default);
  const bool fits = scales == by_default || (by_default == 0 && (scales == 2 || scales == 4));
  return fits && scales != 0 ? std::optional(scales) : std::nullopt;
}

}  // namespace

bool Decoder::EmitTensorMemory(const Instr& instr) {
  SetMode(default_mode_);  // lanes may have to wait
  switch (instr.modifiers.empty() ? Modifier::kUnknown : instr.modifiers.front()) {
    case Modifier::kAlloc:
    case Modifier::kDealloc:
    case Modifier::kRelinquishAllocPermit:
      return EmitTensorAllocation(instr);
    case Modifier::kLd:
    case Modifier::kSt:
      return EmitTensorMove(instr);
    case Modifier::kWaitLd:
    case Modifier::kWaitSt:
      if (!Consists(instr, {instr.modifiers.front(), Modifier::kSync, Modifier::kAligned})) break;
      Emit(Micro::kTensorWait).aux = instr.Has(Modifier::kWaitSt) ? kTensorStores : 0;
      return true;
    case Modifier::kBeforeThreadSync:
    case Modifier::kAfterThreadSync:
      Emit(Micro::kTensorFence).aux =
          instr.Has(Modifier::kAfterThreadSync) ? kTensorAfterThreadSync : 0;
      return true;
    case Modifier::kCp:
      return EmitTensorCopy(instr);
    case Modifier::kCommit:
      return EmitTensorCommit(instr);
    case Modifier::kMma:
      return EmitTensorProduct(instr);
    default:
      break;
  }
  return Fail(instr.Mnemonic());
}

/// alloc [to], columns; dealloc address, columns; relinquish_alloc_permit
bool Decoder::EmitTensorAllocation(const Instr& instr) {
  const bool allocates = instr.Has(Modifier::kAlloc), frees = instr.Has(Modifier::kDealloc);
  const bool names_space =
      allocates && instr.modifiers.HasAny({Modifier::kSharedCta, Modifier::kShared});
  const size_t operands = allocates || frees ? 2 : 0;
  if (!Consists(
          instr,
          {instr.modifiers.front(), Modifier::kCtaGroup1, Modifier::kSync, Modifier::kAligned},
          size_t{operands != 0} + size_t{names_space}) ||
      instr.operands.size() != operands) {
    return Fail(instr.Mnemonic());
  }
  int address = -1, columns = -1;
  int32_t displacement = 0;
  uint32_t flags = 0;
  if (allocates && !BarrierAddress(instr, 0, &address, &displacement, &flags)) return false;
  if (frees) address = Read(instr.operands[0], SlotKind::kWord, Type::kB32);
  if (operands != 0) columns = Read(instr.operands[1], SlotKind::kWord, Type::kU32);
  Op& op = Emit(allocates ? Micro::kTensorAlloc
                : frees   ? Micro::kTensorDealloc
                          : Micro::kTensorRelinquish);
  op.src[0] = address;
  op.src[1] = columns;
  op.target = displacement;
  op.aux = flags;
  return !failed_;
}

/// ld.sync.aligned.shape.num[.pack::16b].b32 registers, [address][, split]; st: [address], …
bool Decoder::EmitTensorMove(const Instr& instr) {
  const bool store = instr.Has(Modifier::kSt);
  TensorAccess access;
  access.packs = instr.Has(store ? Modifier::kUnpack16b : Modifier::kPack16b);
  const auto shape = Choose(instr, kShapes);
  const auto repeats = Choose(instr, kRepeats);
  if (!shape || !repeats ||
      !Consists(instr,
                {instr.modifiers.front(), Modifier::kSync, Modifier::kAligned, Modifier::kB32},
                2 + size_t{access.packs})) {
    return Fail(instr.Mnemonic());
  }
  access.shape = *shape;
  access.registers = *repeats * (*shape == TensorShape::k16x256b   ? 4
                                 : *shape == TensorShape::k16x128b ? 2
                                                                   : 1);
  const bool has_split = *shape == TensorShape::k16x32bx2;
  const size_t of_registers = store ? (has_split ? 2 : 1) : 0, of_address = store ? 0 : 1;
  const size_t of_split = store ? 1 : 2;
  if (instr.operands.size() != 2 + size_t{has_split}) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  const Operand& registers = instr.operands[of_registers];
  const std::vector<Operand> elements =
      registers.kind == OperandKind::kVector ? registers.elements : std::vector<Operand>{registers};
  if (access.registers > 128 || elements.size() != access.registers ||
      (has_split && (instr.operands[of_split].kind != OperandKind::kImmediate ||
                     instr.operands[of_split].bits > kTensorColumns))) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  const int address = SumSlot(instr.operands[of_address], MemorySpace::kShared);
  std::vector<int> slots;
  slots.reserve(elements.size());
  for (const Operand& element : elements) {
    slots.push_back(store ? Read(element, SlotKind::kWord, Type::kB32)
                          : Write(element, SlotKind::kWord));
  }
  Op& op = Emit(store ? Micro::kTensorStore : Micro::kTensorLoad);
  op.src[0] = address;
  op.flops = access.Pack();
  op.aux = has_split ? static_cast<uint32_t>(instr.operands[of_split].bits) : 0;
  SetList(slots);
  for (size_t i = 0; !store && i < elements.size(); ++i) {
    FinishWrite(elements[i], slots[i], SlotKind::kWord, false);
  }
  return !failed_;
}

/// cp.cta_group::1.shape[.multicast] [address], descriptor
bool Decoder::EmitTensorCopy(const Instr& instr) {
  if (!instr.Has(Modifier::kCtaGroup1) || instr.operands.size() != 2) {
    return Fail(instr.Mnemonic());
  }
  const auto shape = CopyShapeOf(instr);
  if (!shape) return Fail(instr.Mnemonic());
  const int address = SumSlot(instr.operands[0], MemorySpace::kShared);
  const int descriptor = Read(instr.operands[1], SlotKind::kDouble, Type::kB64);
  Op& op = Emit(Micro::kTensorCopy);
  op.src[0] = address;
  op.src[1] = descriptor;
  op.aux = static_cast<uint32_t>(*shape);
  return !failed_;
}

/// commit.cta_group::1.mbarrier::arrive::one[.shared::cluster][.multicast::cluster].b64 [barrier]
/// [, mask]
bool Decoder::EmitTensorCommit(const Instr& instr) {
  uint32_t flags = 0;
  int base = -1;
  int32_t displacement = 0;
  const bool is_multicast = instr.Has(Modifier::kMulticastCluster);
  if (!Consists(
          instr,
          {Modifier::kCommit, Modifier::kCtaGroup1, Modifier::kMbarrierArriveOne, Modifier::kB64},
          size_t{instr.Has(Modifier::kSharedCluster)} + size_t{is_multicast}) ||
      instr.operands.size() != 1 + size_t{is_multicast} ||
      !BarrierAddress(instr, 0, &base, &displacement, &flags)) {
    return Fail(instr.Mnemonic());
  }
  const int mask = is_multicast ? Read(instr.operands[1], SlotKind::kWord, Type::kB16) : -1;
  Op& op = Emit(Micro::kTensorCommit);
  op.src[0] = base;
  op.src[1] = mask;
  op.target = displacement;
  op.aux = flags;
  return !failed_;
}

/// mma.cta_group::1.kind[.block_scale[.scale_vec::…]][.collector::a::…] [d], a or [a], b,
/// instruction[, {disabled}][, [scales of a], [scales of b]], accumulates[, shift]
bool Decoder::EmitTensorProduct(const Instr& instr) {
  const auto kind = Choose(instr, kKinds);
  const bool reuses =
      instr.modifiers.HasAny({Modifier::kCollectorAFill, Modifier::kCollectorAUse,
                              Modifier::kCollectorALastuse, Modifier::kCollectorADiscard});
  if (!kind) return Fail(instr.Mnemonic());
  TensorMultiply multiply;
  multiply.kind = *kind;
  const bool is_scaled = *kind >= TensorKind::kMxF8F6F4;
  if (is_scaled) {
    const auto scales = ScalesOf(instr, *kind);
    if (!scales) return Fail(instr.Mnemonic());
    multiply.scales = *scales;
  }
  const bool names_scales =
      instr.modifiers.HasAny({Modifier::kScaleVec1X, Modifier::kScaleVec2X, Modifier::kScaleVec4X,
                              Modifier::kBlock16, Modifier::kBlock32});
  if (is_scaled != instr.Has(Modifier::kBlockScale) || (names_scales && !is_scaled) ||
      !Consists(instr, {Modifier::kMma, Modifier::kCtaGroup1},
                1 + size_t{reuses} + size_t{is_scaled} + size_t{names_scales})) {
    return Fail(instr.Mnemonic());
  }
  const std::vector<Operand>& operands = instr.operands;
  const bool disables = operands.size() > 4 && operands[4].kind == OperandKind::kVector;
  const size_t of_predicate = is_scaled ? 6 : disables ? 5 : 4;
  const bool shifts = operands.size() == of_predicate + 2;
  if ((operands.size() != of_predicate + 1 && !shifts) || (is_scaled && (disables || shifts)) ||
      (disables && operands[4].elements.size() != 4) ||
      (shifts && (operands.back().kind != OperandKind::kImmediate || operands.back().bits > 15))) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  if (shifts) multiply.shift = static_cast<uint32_t>(operands.back().bits);
  std::vector<int> list(kTensorOperands, -1);
  list[kTensorD] = SumSlot(operands[0], MemorySpace::kShared);
  if (operands[1].kind == OperandKind::kAddress) {
    list[kTensorAMemory] = SumSlot(operands[1], MemorySpace::kShared);
  } else {
    list[kTensorA] = Read(operands[1], SlotKind::kDouble, Type::kB64);
  }
  list[kTensorB] = Read(operands[2], SlotKind::kDouble, Type::kB64);
  list[kTensorInstruction] = Read(operands[3], SlotKind::kWord, Type::kB32);
  list[kTensorAccumulates] = Read(operands[of_predicate], SlotKind::kPredicate, Type::kPred);
  for (size_t i = 0; disables && i < 4; ++i) {
    list[kTensorDisabled + i] = Read(operands[4].elements[i], SlotKind::kWord, Type::kB32);
  }
  if (is_scaled) {
    list[kTensorScaleA] = SumSlot(operands[4], MemorySpace::kShared);
    list[kTensorScaleB] = SumSlot(operands[5], MemorySpace::kShared);
  }
  Emit(Micro::kTensorProduct).aux = multiply.Pack();
  SetList(list);
  return !failed_;
}

}  // namespace cupel::emu
