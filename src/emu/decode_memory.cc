// Loads, stores and atomics.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emu/decode.h"
#include "emu/spaces.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

const char* SpaceName(MemorySpace space) {
  switch (space) {
    case MemorySpace::kShared:
      return "shared";
    case MemorySpace::kLocal:
      return "local";
    case MemorySpace::kParam:
      return "param";
    default:
      return "global";  // generic addresses are mostly global; access.cc handles the others
  }
}

int VectorLength(const Instr& instr) {
  if (instr.Has("v2")) return 2;
  if (instr.Has("v4")) return 4;
  return instr.Has("v8") ? 8 : 1;
}

}  // namespace

int GranuleShift(const ptx::Function& function, MemorySpace space) {
  const bool shared = space == MemorySpace::kShared;
  int shift = 2;
  for (const Instr& instr : function.body) {
    const std::vector<Type> types = instr.Types();
    if (types.empty() ||
        (instr.op != "ld" && instr.op != "st" && instr.op != "atom" && instr.op != "red" &&
         instr.op != "ldu" && (instr.op != "wmma" || instr.Has("mma")))) {
      continue;
    }
    if (instr.Has("param") || instr.Has("local") || instr.Has("const")) continue;
    if (instr.Has(shared ? "global" : "shared")) continue;
    const int bytes = ptx::SizeOf(types.back());
    if (bytes == 1) return 0;
    if (bytes == 2) shift = 1;
  }
  return shift;
}

bool Decoder::SpaceOf(const Instr& instr, const Operand& address, MemorySpace* space) {
  *space = MemorySpace::kGeneric;
  for (const std::string& modifier : instr.modifiers) {
    if (modifier == "global" || modifier == "const") *space = MemorySpace::kGlobal;
    if (modifier == "shared" || modifier.starts_with("shared::")) *space = MemorySpace::kShared;
    if (modifier == "local") *space = MemorySpace::kLocal;
    if (modifier == "param" || modifier == "param::entry" || modifier == "param::func") {
      *space = MemorySpace::kParam;
    }
  }
  // Variables of a function body that pass parameters of calls are in local memory.
  if (*space == MemorySpace::kParam && !address.symbol.empty()) {
    const auto place = places_.find(address.symbol);
    if (place != places_.end() && place->second.space == Space::kLocal)
      *space = MemorySpace::kLocal;
  }
  return true;
}

/// Returns the slot of the addresses and sets the displacement to add to them.
int Decoder::AddressSlot(const Operand& operand, MemorySpace space, int64_t* displacement) {
  const bool wide = HasWideAddresses(space);
  const SlotKind kind = wide ? SlotKind::kDouble : SlotKind::kWord;
  *displacement = 0;
  if (operand.kind == OperandKind::kAddress && operand.reg >= 0) {
    *displacement = operand.offset;
    return ReadRegister(operand.reg, kind, wide ? Type::kU64 : Type::kU32);
  }
  if (operand.symbol.empty()) return SharedConstant(kind, static_cast<uint64_t>(operand.offset));
  Operand symbol = operand;
  symbol.kind = OperandKind::kSymbol;
  return ReadSymbol(symbol, kind);
}

bool Decoder::EmitAccess(const Instr& instr) {
  const bool store = instr.op == "st";
  const std::vector<Type> types = instr.Types();
  if (types.empty() || instr.operands.size() < 2 || types.back() == Type::kB128) {
    return Fail(instr.Mnemonic());
  }
  const Type type = types.back();
  const Operand& address = instr.operands[store ? 0 : 1];
  const Operand& value = instr.operands[store ? 1 : 0];
  MemorySpace space = MemorySpace::kGeneric;
  if (!SpaceOf(instr, address, &space)) return false;
  const bool waits = instr.Has("volatile") || instr.Has("acquire") || instr.Has("relaxed") ||
                     (instr.Has("cv") && !store);
  if (waits && space != MemorySpace::kShared && !store) kernel_->may_spin = true;
  const int elements = VectorLength(instr);
  if (elements == 8 || (elements > 1) != (value.kind == OperandKind::kVector)) {
    return Fail(instr.Mnemonic());
  }
  AccessShape shape;
  shape.element_bytes = static_cast<uint32_t>(ptx::SizeOf(type));
  shape.elements = static_cast<uint32_t>(elements);
  shape.is_signed = IsSigned(type);
  shape.store = store;
  shape.is_constant = instr.Has("const");
  shape.space = space;
  shape.is_volatile = instr.Has("volatile");
  shape.is_atomic = instr.Has("relaxed") || instr.Has("acquire") || instr.Has("release");
  shape.releases = instr.Has("release");
  shape.non_coherent = instr.Has("nc");
  if (shape.bytes() > 32 || shape.element_bytes == 0) return Fail(instr.Mnemonic());
  const SlotKind kind = shape.element_bytes == 8 ? SlotKind::kDouble : SlotKind::kWord;
  int64_t displacement = 0;
  const int base = AddressSlot(address, space, &displacement);
  std::array<int, 4> slots{-1, -1, -1, -1};
  for (int i = 0; i < elements; ++i) {
    const Operand& element = elements == 1 ? value : value.elements[static_cast<size_t>(i)];
    if (elements > 1 && value.elements.size() != static_cast<size_t>(elements)) {
      return Fail(instr.Mnemonic());
    }
    slots[static_cast<size_t>(i)] = store ? Read(element, kind, type) : Write(element, kind);
  }
  const bool extends = shape.is_signed && shape.element_bytes < 4 && !store;
  const std::string key = fmt::format("{}.{}.{}{}.v{}", store ? "st" : "ld", SpaceName(space),
                                      extends ? "s" : "u", shape.element_bytes * 8, elements);
  // Accesses without a fast handler execute lane by lane.
  const Entry* entry = handlers_.Find(key);
  Op& op = entry != nullptr ? EmitEntry(*entry) : Emit("@access");
  op.src[0] = base;
  op.dst = slots[0];
  for (size_t i = 1; i < 4; ++i) op.src[i] = slots[i];
  op.imm = displacement;
  op.aux = shape.Pack();
  op.count = code_->hints++;
  if (store && (space == MemorySpace::kGlobal || space == MemorySpace::kGeneric)) {
    code_->stores.resize(code_->ops.size());
    code_->stores.back() = true;
  }
  if (const SharedFusion fusion = fusions_[static_cast<size_t>(current_)]; fusion.bytes != 0) {
    code_->fusions.resize(op.count + 1);
    code_->fusions[op.count] = fusion;
  }
  if (!store) {
    for (int i = 0; i < elements; ++i) {
      const Operand& element = elements == 1 ? value : value.elements[static_cast<size_t>(i)];
      FinishWrite(element, slots[static_cast<size_t>(i)], kind, shape.is_signed);
    }
    if (waits && space != MemorySpace::kShared && instr.guard < 0) Emit("@yield");
  }
  return !failed_;
}

/// atom/red[.sem][.scope][.space].op[.level].type d, [a], b[, c]
bool Decoder::EmitAtomic(const Instr& instr) {
  const bool returns = instr.op == "atom";
  const size_t first = returns ? 1 : 0;
  const std::vector<Type> types = instr.Types();
  if (types.empty() || instr.operands.size() < first + 2 || instr.Has("v2") || instr.Has("v4") ||
      instr.Has("v8") || types.back() == Type::kB128) {
    return Fail(instr.Mnemonic());
  }
  std::string operation;
  for (const char* name : {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}) {
    if (instr.Has(name)) operation = name;
  }
  const Type type = types.back();
  const std::string key = fmt::format("atom.{}.{}", operation, ptx::Name(type));
  if (handlers_.Find(key) == nullptr) return Fail(instr.Mnemonic());
  MemorySpace space = MemorySpace::kGeneric;
  const Operand& address = instr.operands[first];
  if (!SpaceOf(instr, address, &space)) return false;
  const SlotKind kind = ptx::SizeOf(type) == 8 ? SlotKind::kDouble : SlotKind::kWord;
  int64_t displacement = 0;
  const int base = AddressSlot(address, space, &displacement);
  const int operand = Read(instr.operands[first + 1], kind, type);
  const bool three = instr.operands.size() > first + 2;
  if (three != (operation == "cas")) return Fail(instr.Mnemonic() + " with these operands");
  const int second = three ? Read(instr.operands[first + 2], kind, type) : -1;
  const int dst = returns ? Write(instr.operands[0], kind) : -1;
  Op& op = Emit(key);
  op.dst = dst;
  op.src[0] = base;
  op.src[1] = operand;
  op.src[2] = second;
  op.imm = displacement;
  op.count = code_->hints++;
  AccessShape shape;
  shape.element_bytes = static_cast<uint32_t>(ptx::SizeOf(type));
  shape.store = true;
  shape.space = space;
  shape.is_atomic = true;
  shape.releases = instr.Has("release") || instr.Has("acq_rel");
  op.aux = shape.Pack();
  (space == MemorySpace::kShared ? kernel_->has_shared_atomics : kernel_->has_global_atomics) =
      true;
  if (returns) FinishWrite(instr.operands[0], dst, kind, false);
  return !failed_;
}

}  // namespace cupel::emu
