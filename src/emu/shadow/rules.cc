// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/rules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

struct Arithmetic {
  Exact operation;
  uint8_t sources;
};
std::optional<Arithmetic> ArithmeticOf(ShadowRule rule) {
  switch (rule) {
    case ShadowRule::kAdd:
      return Arithmetic{Exact::kAdd, 2};
    case ShadowRule::kSub:
      return Arithmetic{Exact::kSub, 2};
    case ShadowRule::kMul:
      return Arithmetic{Exact::kMul, 2};
    case ShadowRule::kFma:
      return Arithmetic{Exact::kFma, 3};
    case ShadowRule::kDiv:
      return Arithmetic{Exact::kDiv, 2};
    case ShadowRule::kSqrt:
      return Arithmetic{Exact::kSqrt, 1};
    case ShadowRule::kRcp:
      return Arithmetic{Exact::kRcp, 1};
    case ShadowRule::kRsqrt:
      return Arithmetic{Exact::kRsqrt, 1};
    case ShadowRule::kEx2:
      return Arithmetic{Exact::kEx2, 1};
    case ShadowRule::kLg2:
      return Arithmetic{Exact::kLg2, 1};
    case ShadowRule::kSin:
      return Arithmetic{Exact::kSin, 1};
    case ShadowRule::kCos:
      return Arithmetic{Exact::kCos, 1};
    case ShadowRule::kTanh:
      return Arithmetic{Exact::kTanh, 1};
    case ShadowRule::kMin:
      return Arithmetic{Exact::kMin, 2};
    case ShadowRule::kMax:
      return Arithmetic{Exact::kMax, 2};
    case ShadowRule::kNeg:
      return Arithmetic{Exact::kNeg, 1};
    case ShadowRule::kAbs:
      return Arithmetic{Exact::kAbs, 1};
    case ShadowRule::kCopysign:
      return Arithmetic{Exact::kCopysign, 2};
    default:
      return std::nullopt;
  }
}

/// True for operands of one type without a preceding operation.
bool IsPlain(const Form& form) {
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  const auto known =
      std::count_if(types.begin(), types.end(), [](Type type) { return ShadowTypeOf(type).known; });
  return known == 1 && !form.modifiers.HasAny({Modifier::kXorsign, Modifier::kAbs});
}

/// The type of the sum in "fma.rn.f32.f16": products or numbers of a shorter format plus a float.
ShadowType MixedSum(const Form& form) {
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  const bool sums =
      form.opcode == Opcode::kAdd || form.opcode == Opcode::kSub || form.opcode == Opcode::kFma;
  if (!sums || types.size() != 2 || types[0] != Type::kF32) return {};
  const bool is_short = types[1] == Type::kF16 || types[1] == Type::kBF16;
  return is_short ? ShadowTypeOf(Type::kF32) : ShadowType{};
}

/// Conversions between pairs of 8-bit floats and float32 or a pair of halves.
bool ClassifySmall(const Form& form, Side& side) {
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  if (types.size() < 2) return false;
  const Type to = types[types.size() - 2], from = types.back();
  const auto is_small = [](Type type) { return type == Type::kE4M3x2 || type == Type::kE5M2x2; };
  const bool narrows = is_small(to) && (from == Type::kF32 || from == Type::kF16x2);
  if (!narrows && !(is_small(from) && to == Type::kF16x2)) return false;
  side.detail = narrows ? 'n' : 'w';
  side.bytes = (narrows ? to : from) == Type::kE4M3x2 ? 4 : 5;
  side.from = from == Type::kF16x2 ? Format::kF16 : Format::kF32;
  side.relu = form.Has(Modifier::kRelu);
  side.step = &SmallFloatStep;
  return true;
}

bool ClassifyConversion(const Form& form, Side& side) {
  if (ClassifySmall(form, side)) return true;
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  if (types.size() < 2) return false;
  const ShadowType to = ShadowTypeOf(types[types.size() - 2]), from = ShadowTypeOf(types.back());
  if (to.format == Format::kInteger || !from.known) return false;
  if (from.packed != to.packed && side.sources != 2) return false;
  side.operation = Exact::kMove;
  side.from = side.last = from.format;
  side.bytes = from.bytes;
  side.is_signed = from.is_signed;
  side.magic |=
      form.modifiers.HasAny({Modifier::kRni, Modifier::kRmi, Modifier::kRpi, Modifier::kRzi});
  side.format = to.format;
  side.packed = to.packed;
  side.saturates = form.Has(Modifier::kSat);
  side.relu = form.Has(Modifier::kRelu);
  side.step = &FloatStep;
  return true;
}

}  // namespace

ShadowType ShadowTypeOf(Type type) {
  switch (type) {
    case Type::kF32:
    case Type::kTF32:
      return {Format::kF32, false, 4, false, true};
    case Type::kF64:
      return {Format::kF64, false, 8, false, true};
    case Type::kF16:
      return {Format::kF16, false, 2, false, true};
    case Type::kBF16:
      return {Format::kBF16, false, 2, false, true};
    case Type::kF16x2:
      return {Format::kF16, true, 4, false, true};
    case Type::kBF16x2:
      return {Format::kBF16, true, 4, false, true};
    case Type::kF32x2:
      return {Format::kF32, true, 8, false, true};
    case Type::kU8:
    case Type::kU16:
    case Type::kB16:
    case Type::kU32:
    case Type::kB32:
    case Type::kU64:
    case Type::kB64:
      return {Format::kInteger, false, static_cast<uint8_t>(ptx::SizeOf(type)), false, true};
    case Type::kS8:
    case Type::kS16:
    case Type::kS32:
    case Type::kS64:
      return {Format::kInteger, false, static_cast<uint8_t>(ptx::SizeOf(type)), true, true};
    default:
      return {};
  }
}

ShadowType LastTypeOf(const Form& form) {
  const ptx::Types types = ptx::TypesOf(form.modifiers);
  return types.empty() ? ShadowType{} : ShadowTypeOf(types.back());
}

std::map<int32_t, Format> MagicConstants(const Code& code) {
  std::map<int32_t, Format> magic;
  for (const ConstantSlot& slot : code.constants) {
    if (!slot.symbol.empty()) continue;
    if (slot.kind == SlotKind::kWord) {
      const float value = std::fabs(std::bit_cast<float>(static_cast<uint32_t>(slot.bits)));
      if (value >= 0x1p22f && value < 0x1p26f) magic[slot.offset] = Format::kF32;
    } else if (slot.kind == SlotKind::kDouble) {
      const double value = std::fabs(std::bit_cast<double>(slot.bits));
      if (value >= 0x1p51 && value < 0x1p55) magic[slot.offset] = Format::kF64;
    }
  }
  return magic;
}

bool ClassifyFloat(const Form& form, const std::function<bool(const Side&)>& is_magic, Side& side) {
  if (form.shadow() == ShadowRule::kConvert) return ClassifyConversion(form, side);
  const ShadowType type = LastTypeOf(form);
  const std::optional<Arithmetic> arithmetic = ArithmeticOf(form.shadow());
  const ShadowType sum = MixedSum(form);
  if (type.format == Format::kInteger || !arithmetic || arithmetic->sources != side.sources ||
      (!IsPlain(form) && !sum.known)) {
    return false;
  }
  side.operation = arithmetic->operation;
  side.from = type.format;
  side.last = sum.known ? sum.format : type.format;
  side.magic = is_magic(side);
  side.format = side.last;
  side.packed = !sum.known && type.packed;
  side.saturates = form.Has(Modifier::kSat);
  side.relu = !sum.known && form.Has(Modifier::kRelu);
  side.step = &FloatStep;
  return true;
}

}  // namespace cupel::emu
