// Loads, stores and atomics.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Modifiers;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

/// The space in the name of a handler.
Modifier SpaceWord(MemorySpace space) {
  switch (space) {
    case MemorySpace::kShared:
    case MemorySpace::kSharedCluster:
      return Modifier::kShared;
    case MemorySpace::kLocal:
      return Modifier::kLocal;
    case MemorySpace::kParam:
      return Modifier::kParam;
    default:
      return Modifier::kGlobal;  // generic addresses are mostly global; access.cc handles the
                                 // others
  }
}

Modifier IntegerWord(uint32_t bytes, bool is_signed) {
  constexpr std::array kUnsigned{Modifier::kU8, Modifier::kU16, Modifier::kU32, Modifier::kU64};
  const auto log2 = static_cast<size_t>(std::countr_zero(bytes));
  if (!is_signed) return kUnsigned[log2];
  return log2 == 0 ? Modifier::kS8 : Modifier::kS16;
}

/// Words that change only what the hardware caches.
constexpr auto kCacheWords = {Modifier::kCa,
                              Modifier::kCg,
                              Modifier::kCs,
                              Modifier::kLu,
                              Modifier::kCv,
                              Modifier::kWb,
                              Modifier::kWt,
                              Modifier::kL1EvictNormal,
                              Modifier::kL1EvictUnchanged,
                              Modifier::kL1EvictFirst,
                              Modifier::kL1EvictLast,
                              Modifier::kL1NoAllocate,
                              Modifier::kL2EvictNormal,
                              Modifier::kL2EvictUnchanged,
                              Modifier::kL2EvictFirst,
                              Modifier::kL2EvictLast,
                              Modifier::kL264B,
                              Modifier::kL2128B,
                              Modifier::kL2256B};
constexpr auto kSpaceWords = {Modifier::kGlobal, Modifier::kShared,     Modifier::kSharedCta,
                              Modifier::kLocal,  Modifier::kConst,      Modifier::kSharedCluster,
                              Modifier::kParam,  Modifier::kParamEntry, Modifier::kParamFunc,
                              Modifier::kNc};
constexpr auto kOrderWords = {Modifier::kWeak,    Modifier::kVolatile, Modifier::kRelaxed,
                              Modifier::kAcquire, Modifier::kRelease,  Modifier::kAcqRel,
                              Modifier::kCta,     Modifier::kCluster,  Modifier::kGpu,
                              Modifier::kSys};
constexpr auto kVectorWords = {Modifier::kV2, Modifier::kV4, Modifier::kV8};
constexpr auto kAtomicWords = {Modifier::kAdd,  Modifier::kMin, Modifier::kMax,  Modifier::kInc,
                               Modifier::kDec,  Modifier::kAnd, Modifier::kOr,   Modifier::kXor,
                               Modifier::kExch, Modifier::kCas, Modifier::kNoftz};

/// Whether each word is a type or in one of the lists.
bool HasOnly(const Instr& instr, std::initializer_list<std::initializer_list<Modifier>> lists) {
  return std::all_of(instr.modifiers.begin(), instr.modifiers.end(), [&](Modifier modifier) {
    return ptx::TypeOf(modifier) != Type::kNone ||
           std::any_of(lists.begin(), lists.end(), [&](std::initializer_list<Modifier> list) {
             return std::find(list.begin(), list.end(), modifier) != list.end();
           });
  });
}

int VectorLength(const Instr& instr) {
  if (instr.Has(Modifier::kV2)) return 2;
  if (instr.Has(Modifier::kV4)) return 4;
  return instr.Has(Modifier::kV8) ? 8 : 1;
}

}  // namespace

/// Whether an instruction reads or writes elements of its type.
static bool AccessesElements(const Instr& instr) {
  switch (RowOf(instr.op).memory) {
    case MemoryUse::kLoad:
    case MemoryUse::kStore:
    case MemoryUse::kAtomic:
      return true;
    case MemoryUse::kFragment:
      return !instr.Has(Modifier::kMma);
    default:
      return false;
  }
}

int GranuleShift(const ptx::Function& function, MemorySpace space) {
  const bool shared = space == MemorySpace::kShared;
  int shift = 2;
  for (const Instr& instr : function.body) {
    const ptx::Types types = instr.Types();
    if (types.empty() || !AccessesElements(instr)) continue;
    if (instr.Has(Modifier::kParam) || instr.Has(Modifier::kLocal) || instr.Has(Modifier::kConst))
      continue;
    if (instr.Has(shared ? Modifier::kGlobal : Modifier::kShared)) continue;
    const int bytes = ptx::SizeOf(types.back());
    if (bytes == 1) return 0;
    if (bytes == 2) shift = 1;
  }
  return shift;
}

bool Decoder::SpaceOf(const Instr& instr, const Operand& address, MemorySpace* space) {
  *space = MemorySpace::kGeneric;
  for (const Modifier modifier : instr.modifiers) {
    switch (ptx::SpaceOf(modifier)) {
      case Space::kGlobal:
      case Space::kConst:
        *space = MemorySpace::kGlobal;
        break;
      case Space::kShared:
        *space = modifier == Modifier::kSharedCluster ? MemorySpace::kSharedCluster
                                                      : MemorySpace::kShared;
        break;
      case Space::kLocal:
        *space = MemorySpace::kLocal;
        break;
      case Space::kParam:
        *space = MemorySpace::kParam;
        break;
      default:
        break;
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
  if (instr.Has(Modifier::kAsync)) return EmitStoreAsync(instr);
  if (!HasOnly(instr, {kCacheWords, kSpaceWords, kOrderWords, kVectorWords})) {
    return Fail(instr.Mnemonic());
  }
  if (instr.Has(Modifier::kV8)) return EmitWideAccess(instr);
  const bool store = instr.op == Opcode::kSt;
  const ptx::Types types = instr.Types();
  if (types.empty() || instr.operands.size() < 2 || types.back() == Type::kB128) {
    return Fail(instr.Mnemonic());
  }
  const Type type = types.back();
  const Operand& address = instr.operands[store ? 0 : 1];
  const Operand& value = instr.operands[store ? 1 : 0];
  if (value.kind == OperandKind::kVector && value.elements.size() == 1) {  // as Triton writes them
    Instr scalar = instr;
    scalar.operands[store ? 1 : 0] = Operand(value.elements[0]);
    return EmitAccess(scalar);
  }
  MemorySpace space = MemorySpace::kGeneric;
  if (!SpaceOf(instr, address, &space)) return false;
  const bool waits = instr.Has(Modifier::kVolatile) || instr.Has(Modifier::kAcquire) ||
                     instr.Has(Modifier::kRelaxed) || (instr.Has(Modifier::kCv) && !store);
  if (waits && !IsShared(space) && !store) kernel_->may_spin = true;
  const int elements = VectorLength(instr);
  if (elements == 8 || (elements > 1) != (value.kind == OperandKind::kVector)) {
    return Fail(instr.Mnemonic());
  }
  AccessShape shape;
  shape.element_bytes = static_cast<uint32_t>(ptx::SizeOf(type));
  shape.elements = static_cast<uint32_t>(elements);
  shape.is_signed = IsSigned(type);
  shape.store = store;
  shape.is_constant = instr.Has(Modifier::kConst);
  shape.space = space;
  shape.is_volatile = instr.Has(Modifier::kVolatile);
  shape.is_atomic = instr.Has(Modifier::kRelaxed) || instr.Has(Modifier::kAcquire) ||
                    instr.Has(Modifier::kRelease);
  shape.releases = instr.Has(Modifier::kRelease);
  shape.acquires = instr.Has(Modifier::kAcquire);
  shape.is_of_block = instr.Has(Modifier::kCta);
  shape.non_coherent = instr.Has(Modifier::kNc);
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
  Form form(store ? Opcode::kSt : Opcode::kLd,
            {SpaceWord(space), IntegerWord(shape.element_bytes, extends)});
  if (elements > 1) form.modifiers.Add(elements == 2 ? Modifier::kV2 : Modifier::kV4);
  // Accesses without a fast handler execute lane by lane.
  const Entry* entry = handlers_.Find(form);
  Op& op = entry != nullptr ? EmitEntry(*entry) : Emit(Micro::kAccess);
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
    if (waits && !IsShared(space) && instr.guard < 0) Emit(Micro::kYield);
  }
  return !failed_;
}

/// atom.{exch,cas}.b128 d, [a], b[, c]: 128-bit registers are vectors of two (wide_registers.h).
bool Decoder::EmitWideAtomic(const Instr& instr) {
  const bool compares = instr.Has(Modifier::kCas);
  if (instr.op != Opcode::kAtom || compares == instr.Has(Modifier::kExch) ||
      instr.operands.size() != (compares ? 4u : 3u)) {
    return Fail(instr.Mnemonic());
  }
  AccessShape shape;
  shape.element_bytes = 8;
  shape.elements = 2;
  shape.store = true;
  if (!SpaceOf(instr, instr.operands[1], &shape.space)) return false;
  shape.is_atomic = true;
  shape.releases = instr.Has(Modifier::kRelease) || instr.Has(Modifier::kAcqRel);
  shape.acquires = instr.Has(Modifier::kAcquire) || instr.Has(Modifier::kAcqRel);
  shape.is_of_block = instr.Has(Modifier::kCta);
  int64_t displacement = 0;
  const int base = AddressSlot(instr.operands[1], shape.space, &displacement);
  const bool discards = instr.operands[0].kind == OperandKind::kSink;
  std::vector<int> list;  // of what is compared (or -1), stored and returned (or -1)
  const auto add = [&](size_t operand, bool exists) {
    const std::vector<Operand>& parts = instr.operands[operand].elements;
    if (exists && parts.size() != 2) return Fail(instr.Mnemonic() + " with these operands");
    for (size_t i = 0; i < 2; ++i) {
      list.push_back(!exists        ? -1
                     : operand == 0 ? Write(parts[i], SlotKind::kDouble)
                                    : Read(parts[i], SlotKind::kDouble, Type::kB64));
    }
    return true;
  };
  if (!add(2, compares) || !add(compares ? 3 : 2, true) || !add(0, !discards)) return false;
  if (displacement != static_cast<int32_t>(displacement)) return Fail(instr.Mnemonic());
  Op& op = Emit(Micro::kWideAtomic);
  op.src[0] = base;
  op.target = static_cast<int32_t>(displacement);
  op.aux = shape.Pack();
  op.count = code_->hints++;
  SetList(list);
  (IsShared(shape.space) ? kernel_->has_shared_atomics : kernel_->has_global_atomics) = true;
  return !failed_;
}

/// atom/red[.sem][.scope][.space].op[.level].type d, [a], b[, c]
bool Decoder::EmitAtomic(const Instr& instr, uint32_t elements) {
  if (instr.Has(Modifier::kAsync)) return EmitStoreAsync(instr);
  if (!HasOnly(instr, {kCacheWords, kSpaceWords, kOrderWords, kVectorWords, kAtomicWords})) {
    return Fail(instr.Mnemonic());
  }
  if (instr.modifiers.HasAny(kVectorWords)) return EmitVectorAtomic(instr);
  const bool returns = instr.op == Opcode::kAtom;
  const size_t first = returns ? 1 : 0;
  const ptx::Types types = instr.Types();
  if (types.empty() || instr.operands.size() < first + 2) return Fail(instr.Mnemonic());
  if (types.back() == Type::kB128) return EmitWideAtomic(instr);
  Form form(Opcode::kAtom, {});
  for (const Modifier modifier : instr.modifiers) {
    const bool operates =
        std::find(kAtomicWords.begin(), kAtomicWords.end(), modifier) != kAtomicWords.end();
    if (operates && modifier != Modifier::kNoftz) form.modifiers.Add(modifier);
  }
  const Type type = types.back();
  form.modifiers.Add(ptx::ModifierOf(type));
  if (handlers_.Find(form) == nullptr) return Fail(instr.Mnemonic());
  MemorySpace space = MemorySpace::kGeneric;
  const Operand& address = instr.operands[first];
  if (!SpaceOf(instr, address, &space)) return false;
  const SlotKind kind = ptx::SizeOf(type) == 8 ? SlotKind::kDouble : SlotKind::kWord;
  int64_t displacement = 0;
  const int base = AddressSlot(address, space, &displacement);
  const int operand = Read(instr.operands[first + 1], kind, type);
  const bool three = instr.operands.size() > first + 2;
  if (three != form.Has(Modifier::kCas)) return Fail(instr.Mnemonic() + " with these operands");
  const int second = three ? Read(instr.operands[first + 2], kind, type) : -1;
  const int dst = returns ? Write(instr.operands[0], kind) : -1;
  Op& op = Emit(form);
  op.dst = dst;
  op.src[0] = base;
  op.src[1] = operand;
  op.src[2] = second;
  op.imm = displacement;
  op.count = code_->hints++;
  AccessShape shape;
  shape.element_bytes = static_cast<uint32_t>(ptx::SizeOf(type));
  shape.elements = elements;
  shape.store = true;
  shape.space = space;
  shape.is_atomic = true;
  shape.releases = instr.Has(Modifier::kRelease) || instr.Has(Modifier::kAcqRel);
  shape.acquires = instr.Has(Modifier::kAcquire) || instr.Has(Modifier::kAcqRel);
  shape.is_of_block = instr.Has(Modifier::kCta);
  op.aux = shape.Pack();
  (IsShared(space) ? kernel_->has_shared_atomics : kernel_->has_global_atomics) = true;
  kernel_->takes_numbers |= returns && !IsShared(space);
  if (returns) FinishWrite(instr.operands[0], dst, kind, false);
  return !failed_;
}

}  // namespace cupel::emu
