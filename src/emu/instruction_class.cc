// SPDX-License-Identifier: Apache-2.0
#include "emu/instruction_class.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string_view>

namespace cupel::emu {
namespace {

using engine::InstructionClass;
using ptx::Instr;
using ptx::Type;

bool IsOneOf(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

InstructionClass ClassOfSpace(const Instr& instr) {
  for (const std::string& modifier : instr.modifiers) {
    if (modifier.starts_with("shared")) return InstructionClass::kShared;
    if (modifier == "local") return InstructionClass::kLocal;
    if (modifier == "const" || modifier.starts_with("param")) return InstructionClass::kConstant;
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
  const std::string& op = instr.op;
  const bool moves = instr.Has("load") || instr.Has("store");
  if (IsOneOf(op, {"mma", "wgmma"}) || (op == "wmma" && !moves)) return InstructionClass::kTensor;
  if (IsOneOf(op, {"ldmatrix", "stmatrix"})) return InstructionClass::kShared;
  if (op == "cp") return InstructionClass::kGlobal;
  if (IsOneOf(op, {"ld", "ldu", "st", "wmma", "prefetch", "prefetchu"})) return ClassOfSpace(instr);
  if (IsOneOf(op, {"atom", "red"})) return InstructionClass::kAtomic;
  if (IsOneOf(op, {"bra", "brx", "ret", "exit", "call", "trap", "brkpt", "@assertfail", "@printf",
                   "@call", "@return"})) {
    return InstructionClass::kControl;
  }
  if (IsOneOf(op, {"bar", "barrier", "membar", "fence", "mbarrier", "nanosleep"})) {
    return InstructionClass::kBarrier;
  }
  if (IsOneOf(op, {"shfl", "vote", "match", "redux", "activemask", "elect"})) {
    return InstructionClass::kWarp;
  }
  if (op == "cvt") return InstructionClass::kConversion;
  const InstructionClass by_type = ClassOfTypes(instr);
  if (by_type == InstructionClass::kFp64) return by_type;
  if (IsOneOf(op, {"rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos", "tanh"}) ||
      (op == "div" && by_type == InstructionClass::kFp32)) {
    return InstructionClass::kSpecial;
  }
  if (IsOneOf(op, {"mov", "selp", "and", "or", "xor", "not", "prmt"})) {
    return InstructionClass::kInteger;
  }
  return by_type;
}

bool IsFree(const Instr& instr) {
  if (instr.op == "cvta") return true;
  return instr.op == "mov" && instr.guard < 0 && instr.operands.size() == 2 &&
         (instr.operands[1].kind == ptx::OperandKind::kRegister ||
          instr.operands[1].kind == ptx::OperandKind::kVector ||
          instr.operands[0].kind == ptx::OperandKind::kVector);
}

bool IsRetried(const Instr& instr) {
  if (ClassOf(instr) != InstructionClass::kAtomic || !instr.Has("shared")) return false;
  const InstructionClass by_type = ClassOfTypes(instr);
  return by_type == InstructionClass::kFp32 || by_type == InstructionClass::kFp64 ||
         by_type == InstructionClass::kFp16;
}

uint32_t TensorOperations(const Instr& instr) {
  if (ClassOf(instr) != InstructionClass::kTensor) return 0;
  uint64_t operations = 0;
  for (const std::string& modifier : instr.modifiers) {
    unsigned m = 0, n = 0, k = 0;
    if (std::sscanf(modifier.c_str(), "m%un%uk%u", &m, &n, &k) != 3) continue;
    operations = uint64_t{2} * std::min(m, 1024u) * std::min(n, 1024u) * std::min(k, 1024u);
  }
  const auto has = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&](auto name) { return instr.Has(name); });
  };
  if (has({"tf32"})) operations *= 2;
  if (has({"f64"})) operations *= 16;
  if (has({"s8", "u8", "e4m3", "e5m2"})) operations /= 2;
  return static_cast<uint32_t>(std::min<uint64_t>(operations, UINT32_MAX));
}

}  // namespace cupel::emu
