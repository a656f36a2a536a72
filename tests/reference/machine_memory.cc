// Loads, stores and atomics of the reference interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "instruction.h"
#include "machine_state.h"

namespace cupel::reference {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

/// The place that an address operand points to. Resolves windows of the generic address space.
std::optional<Machine::Place> Machine::Address(Block& block, Thread& thread, const Instr& instr,
                                               const Operand& operand) {
  if (operand.kind == OperandKind::kAddress && operand.reg < 0 && !operand.symbol.empty()) {
    Place place = PlaceOf(block, thread, operand.symbol);
    place.offset += static_cast<uint64_t>(operand.offset);
    return place;
  }
  if (operand.kind != OperandKind::kAddress || operand.reg < 0) {
    Fail(&thread, "unknown form of an address");
    return std::nullopt;
  }
  const int bits = RegisterBits(*thread.frame().code->function, operand.reg);
  const uint64_t base = thread.frame().registers[static_cast<size_t>(operand.reg)];
  const uint64_t address = Truncate(base + static_cast<uint64_t>(operand.offset), bits);
  if (instr.modifiers.HasAny({Modifier::kShared, Modifier::kSharedCta, Modifier::kSharedCluster})) {
    return Place{Space::kShared, address};
  }
  if (instr.Has(Modifier::kLocal)) return Place{Space::kLocal, address};
  if (instr.Has(Modifier::kParam)) return Place{Space::kParam, address};
  if (instr.Has(Modifier::kGlobal) || instr.Has(Modifier::kConst))
    return Place{Space::kGlobal, address};
  if (address - kSharedBase < kWindow) return Place{Space::kShared, address - kSharedBase};
  if (address - kLocalBase < kWindow) return Place{Space::kLocal, address - kLocalBase};
  if (address - kParamBase < kWindow) return Place{Space::kParam, address - kParamBase};
  return Place{Space::kGlobal, address};
}

bool Machine::ExecuteAccess(Block& block, Thread& thread, const Step& step) {
  const Instr& instr = *step.instr;
  const bool store = instr.op == Opcode::kSt;
  const Type type = step.type;
  const Operand& value = instr.operands[store ? 1 : 0];
  const std::vector<Operand> elements =
      value.kind == OperandKind::kVector ? value.elements : std::vector<Operand>{value};
  const int bits = BitsOf(type);
  const auto size = static_cast<size_t>(bits / 8);
  const std::optional<Place> place = Address(block, thread, instr, instr.operands[store ? 0 : 1]);
  if (!place) return false;
  const uint64_t whole = size * elements.size();
  std::byte* bytes = Bytes(block, thread, *place, whole, whole);
  if (bytes == nullptr) return false;
  for (size_t i = 0; i < elements.size(); ++i, bytes += size) {
    if (store) {
      const uint64_t word = Read(block, thread, elements[i], bits, FormatOf(type));
      std::memcpy(bytes, &word, size);
    } else {
      uint64_t word = 0;
      std::memcpy(&word, bytes, size);
      Write(thread, elements[i], word, bits, IsSigned(type));
    }
  }
  if (!instr.Has(Modifier::kAsync)) return true;
  return CompleteBytes(block, thread, SharedAddress(block, thread, instr.operands[2]), whole);
}

std::optional<uint64_t> Updated(const Instr& instr, Type type, bool on_global, uint64_t old,
                                uint64_t b, uint64_t c) {
  const int bits = BitsOf(type);
  const Format* format = FormatOf(type);
  const int64_t left = SignExtend(old, bits), right = SignExtend(b, bits);
  const bool less = IsSigned(type) ? left < right : old < b;
  if (instr.Has(Modifier::kAdd) && format != nullptr) {
    // PTX: on global memory f32 addition flushes, on shared memory it does not.
    ptx::Modifiers words;
    if (type == Type::kF32 && on_global) words.Add(Modifier::kFtz);
    words.Add(ptx::ModifierOf(type));
    return FindOperation(Opcode::kAdd, words)->compute({old, b, 0, 0});
  }
  if (format != nullptr && instr.Has(Modifier::kMin)) return Smaller(old, b, *format);
  if (format != nullptr && instr.Has(Modifier::kMax)) return Larger(old, b, *format);
  if (format != nullptr) return std::nullopt;
  if (instr.Has(Modifier::kAdd)) return Truncate(old + b, bits);
  if (instr.Has(Modifier::kMin)) return less ? old : b;
  if (instr.Has(Modifier::kMax)) return less ? b : old;
  if (instr.Has(Modifier::kInc)) return old >= b ? 0 : old + 1;
  if (instr.Has(Modifier::kDec)) return old == 0 || old > b ? b : old - 1;
  if (instr.Has(Modifier::kAnd)) return old & b;
  if (instr.Has(Modifier::kOr)) return old | b;
  if (instr.Has(Modifier::kXor)) return old ^ b;
  if (instr.Has(Modifier::kExch)) return b;
  if (instr.Has(Modifier::kCas)) return old == b ? c : old;
  return std::nullopt;
}

bool Machine::ExecuteAtomic(Block& block, Thread& thread, const Step& step) {
  const Instr& instr = *step.instr;
  const size_t first = instr.op == Opcode::kAtom ? 1 : 0;
  const Type type = step.type;
  const int bits = BitsOf(type);
  const auto size = static_cast<size_t>(bits / 8);
  const std::optional<Place> place = Address(block, thread, instr, instr.operands[first]);
  if (!place) return false;
  std::byte* bytes = Bytes(block, thread, *place, size, size);
  if (bytes == nullptr) return false;
  uint64_t old = 0;
  std::memcpy(&old, bytes, size);
  const Format* format = FormatOf(type);
  const uint64_t b = Read(block, thread, instr.operands[first + 1], bits, format);
  const bool is_async = instr.Has(Modifier::kAsync);
  const uint64_t c = instr.operands.size() > first + 2 && !is_async
                         ? Read(block, thread, instr.operands[first + 2], bits, format)
                         : 0;
  const std::optional<uint64_t> next =
      Updated(instr, type, place->space == Space::kGlobal, old, b, c);
  if (!next) return Fail(&thread, "unknown atomic");
  std::memcpy(bytes, &*next, size);
  if (first == 1) Write(thread, instr.operands[0], old, bits, false);
  if (is_async) {
    return CompleteBytes(block, thread, SharedAddress(block, thread, instr.operands[2]), size);
  }
  return true;
}

/// mov, ld, st and atom of 128 bits.
bool Machine::ExecuteWide(Block& block, Thread& thread, const Instr& instr) {
  using Halves = std::array<uint64_t, 2>;
  Frame& frame = thread.frame();
  const auto read = [&](const Operand& operand) {
    if (operand.kind == OperandKind::kVector) {
      return Halves{Read(block, thread, operand.elements[0], 64),
                    Read(block, thread, operand.elements[1], 64)};
    }
    return Halves{frame.registers[static_cast<size_t>(operand.reg)], frame.high[operand.reg]};
  };
  const auto write = [&](const Operand& operand, const Halves& value) {
    if (operand.kind == OperandKind::kVector) {
      for (size_t i = 0; i < 2; ++i) Write(thread, operand.elements[i], value[i], 64, false);
    } else if (operand.kind == OperandKind::kRegister) {
      frame.registers[static_cast<size_t>(operand.reg)] = value[0];
      frame.high[operand.reg] = value[1];
    }
  };
  if (instr.op == Opcode::kMov) {
    write(instr.operands[0], read(instr.operands[1]));
    return true;
  }
  const std::optional<Place> place =
      Address(block, thread, instr, instr.operands[instr.op == Opcode::kSt ? 0 : 1]);
  if (!place) return false;
  std::byte* bytes = Bytes(block, thread, *place, sizeof(Halves), sizeof(Halves));
  if (bytes == nullptr) return false;
  Halves old;
  std::memcpy(old.data(), bytes, sizeof old);
  if (instr.op == Opcode::kLd) {
    write(instr.operands[0], old);
    return true;
  }
  const bool compares = instr.op == Opcode::kAtom && instr.Has(Modifier::kCas);
  if (!compares || old == read(instr.operands[2])) {
    const size_t stored = compares ? 3 : instr.op == Opcode::kAtom ? 2 : 1;
    std::memcpy(bytes, read(instr.operands[stored]).data(), sizeof(Halves));
  }
  if (instr.op == Opcode::kAtom) write(instr.operands[0], old);
  return true;
}

}  // namespace cupel::reference
