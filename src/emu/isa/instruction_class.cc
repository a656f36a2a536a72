// SPDX-License-Identifier: Apache-2.0
#include "emu/isa/instruction_class.h"

#include <algorithm>

#include "emu/isa/instructions.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;
using records::InstructionClass;

InstructionClass ClassOfSpace(const Instr& instr) {
  for (const Modifier modifier : instr.modifiers) {
    switch (ptx::SpaceOf(modifier)) {
      case ptx::Space::kShared:
        return InstructionClass::kShared;
      case ptx::Space::kLocal:
        return InstructionClass::kLocal;
      case ptx::Space::kConst:
      case ptx::Space::kParam:
        return InstructionClass::kConstant;
      default:
        break;
    }
  }
  return InstructionClass::kGlobal;
}

InstructionClass ClassOfTypes(const Instr& instr) {
  for (const Type type : instr.Types()) {
    switch (type) {
      case Type::kF64:
        return InstructionClass::kFp64;
      case Type::kF32:
      case Type::kF32x2:
        return InstructionClass::kFp32;
      case Type::kF16:
      case Type::kF16x2:
      case Type::kBF16:
      case Type::kBF16x2:
        return InstructionClass::kFp16;
      default:
        break;
    }
  }
  return InstructionClass::kInteger;
}

}  // namespace

InstructionClass ClassOf(const Instr& instr) {
  const InstructionClass by_type = ClassOfTypes(instr);
  const bool is_double = by_type == InstructionClass::kFp64;
  switch (RowOf(instr.op).unit) {
    case Unit::kType:
      return by_type;
    case Unit::kMove:
      return is_double ? by_type : InstructionClass::kInteger;
    case Unit::kDivision:
      return by_type == InstructionClass::kFp32 ? InstructionClass::kSpecial : by_type;
    case Unit::kSpecial:
      return is_double ? by_type : InstructionClass::kSpecial;
    case Unit::kConversion:
      return InstructionClass::kConversion;
    case Unit::kSpace:
      return ClassOfSpace(instr);
    case Unit::kGlobal:
      return InstructionClass::kGlobal;
    case Unit::kShared:
      return InstructionClass::kShared;
    case Unit::kAtomic:
      return InstructionClass::kAtomic;
    case Unit::kTensor:
      return InstructionClass::kTensor;
    case Unit::kFragment:
      return instr.modifiers.HasAny({Modifier::kLoad, Modifier::kStore})
                 ? ClassOfSpace(instr)
                 : InstructionClass::kTensor;
    case Unit::kControl:
      return InstructionClass::kControl;
    case Unit::kBarrier:
      return InstructionClass::kBarrier;
    case Unit::kWarp:
      return InstructionClass::kWarp;
  }
  return by_type;
}

bool IsFree(const Instr& instr) {
  if (instr.op == Opcode::kCvta) return true;
  return instr.op == Opcode::kMov && instr.guard < 0 && instr.operands.size() == 2 &&
         (instr.operands[1].kind == ptx::OperandKind::kRegister ||
          instr.operands[1].kind == ptx::OperandKind::kVector ||
          instr.operands[0].kind == ptx::OperandKind::kVector);
}

bool IsRetried(const Instr& instr) {
  if (ClassOf(instr) != InstructionClass::kAtomic || !instr.Has(Modifier::kShared)) return false;
  const InstructionClass by_type = ClassOfTypes(instr);
  return by_type == InstructionClass::kFp32 || by_type == InstructionClass::kFp64 ||
         by_type == InstructionClass::kFp16;
}

uint32_t TensorOperations(const Instr& instr) {
  if (ClassOf(instr) != InstructionClass::kTensor) return 0;
  const auto part = [](uint16_t extent) { return uint64_t{std::min<uint16_t>(extent, 1024)}; };
  uint64_t operations = 2 * part(instr.shape.m) * part(instr.shape.n) * part(instr.shape.k);
  if (instr.op == ptx::Opcode::kWgmma) operations /= 4;  // by each of four warps
  if (instr.modifiers.HasAny({Modifier::kSp, Modifier::kSpOrderedMetadata})) operations /= 2;
  if (instr.Has(Modifier::kTF32)) operations *= 2;
  if (instr.Has(Modifier::kF64)) operations *= 16;
  if (instr.modifiers.HasAny({Modifier::kS8, Modifier::kU8, Modifier::kE4M3, Modifier::kE5M2})) {
    operations /= 2;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(operations, UINT32_MAX));
}

}  // namespace cupel::emu
