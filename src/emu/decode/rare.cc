// Instructions that are split into others or have no effect on results: wide and vector accesses,
// min and max of three operands, cache policies, and clusters.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
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

/// `count` elements of a vector operand, starting at `first`.
Operand PartOf(const Operand& vector, size_t first, size_t count) {
  if (count == 1) return vector.elements[first];
  Operand part = vector;
  part.elements.assign(vector.elements.begin() + static_cast<std::ptrdiff_t>(first),
                       vector.elements.begin() + static_cast<std::ptrdiff_t>(first + count));
  return part;
}

bool SameRegister(const Operand& a, const Operand& b) {
  return a.kind == OperandKind::kRegister && b.kind == OperandKind::kRegister && a.reg == b.reg;
}

}  // namespace

/// Emits a check that all addresses are multiples of `bytes`. An access that is split into parts
/// needs it, because the parts require less alignment.
void Decoder::EmitAlignmentCheck(const Operand& address, uint32_t bytes, bool store) {
  int64_t displacement = 0;
  const int base = AddressSlot(address, MemorySpace::kGlobal, &displacement);
  Op& op = Emit(Micro::kAligned);
  op.src[0] = base;
  op.imm = displacement;
  op.flops = bytes;
  AccessShape shape;
  shape.store = store;
  op.aux = shape.Pack();
}

/// ld and st of eight elements, as two accesses of four elements.
bool Decoder::EmitWideAccess(const Instr& instr) {
  const bool store = instr.op == Opcode::kSt;
  const ptx::Types types = instr.Types();
  if (instr.operands.size() < 2 || types.empty() || !instr.Has(Modifier::kGlobal)) {
    return Fail(instr.Mnemonic());
  }
  const Operand& value = instr.operands[store ? 1 : 0];
  const auto bytes = static_cast<uint32_t>(ptx::SizeOf(types.back()));
  if (value.kind != OperandKind::kVector || value.elements.size() != 8 || bytes > 4) {
    return Fail(instr.Mnemonic());
  }
  EmitAlignmentCheck(instr.operands[store ? 0 : 1], 8 * bytes, store);
  Instr half = instr;
  half.modifiers.Replace(Modifier::kV8, Modifier::kV4);
  for (size_t part = 0; part < 2; ++part) {
    half.operands[store ? 1 : 0] = PartOf(value, 4 * part, 4);
    half.operands[store ? 0 : 1].offset =
        instr.operands[store ? 0 : 1].offset + static_cast<int64_t>(part * 4 * bytes);
    if (!EmitAccess(half)) return false;
  }
  return true;
}

/// atom and red of vectors: PTX promises atomicity of the elements only.
bool Decoder::EmitVectorAtomic(const Instr& instr) {
  const bool returns = instr.op == Opcode::kAtom;
  const size_t first = returns ? 1 : 0;
  const ptx::Types types = instr.Types();
  if (types.empty() || instr.operands.size() < first + 2) return Fail(instr.Mnemonic());
  const Operand& value = instr.operands[first + 1];
  const size_t count = value.elements.size();
  const auto bytes = static_cast<uint32_t>(ptx::SizeOf(types.back()));
  if (value.kind != OperandKind::kVector || (count != 2 && count != 4 && count != 8) ||
      !instr.Has(Modifier::kGlobal) || (returns && instr.operands[0].elements.size() != count)) {
    return Fail(instr.Mnemonic());
  }
  EmitAlignmentCheck(instr.operands[first], static_cast<uint32_t>(count) * bytes, true);
  Instr one = instr;
  for (const Modifier vector : {Modifier::kV2, Modifier::kV4, Modifier::kV8}) {
    one.modifiers.Erase(vector);
  }
  for (size_t i = 0; i < count; ++i) {
    if (returns) {
      for (size_t j = i + 1; j < count; ++j) {
        // An earlier part would overwrite a register that a later part reads.
        if (SameRegister(instr.operands[0].elements[i], value.elements[j])) {
          return Fail(instr.Mnemonic() + " with these operands");
        }
      }
      one.operands[0] = instr.operands[0].elements[i];
    }
    one.operands[first + 1] = value.elements[i];
    one.operands[first].offset = instr.operands[first].offset + static_cast<int64_t>(i * bytes);
    if (!EmitAtomic(one, i == 0 ? static_cast<uint32_t>(count) : 0)) return false;
  }
  return true;
}

/// min and max of two or three operands.
bool Decoder::EmitChoose(const Instr& instr) {
  const Form form = CanonicalForm(instr);
  if (instr.operands.size() != 4) return EmitTable(instr, form) || Fail(instr.Mnemonic());
  if (instr.Types() != ptx::Types{Type::kF32} || handlers_.Find(form) == nullptr) {
    return Fail(instr.Mnemonic());
  }
  std::array<int, 3> slots{};
  for (size_t i = 0; i < 3; ++i) {
    slots[i] = Read(instr.operands[i + 1], SlotKind::kWord, Type::kF32);
  }
  const int partial = Temporary(SlotKind::kWord);
  const int dst = Write(instr.operands[0], SlotKind::kWord);
  auto emit = [&](int to, int a, int b) {
    Op& op = Emit(form);
    op.dst = to;
    op.src[0] = a;
    op.src[1] = op.src[2] = op.src[3] = b;
  };
  emit(partial, slots[0], slots[1]);
  emit(dst, partial, slots[2]);
  FinishWrite(instr.operands[0], dst, SlotKind::kWord, false);
  return !failed_;
}

/// elect.sync d|p, mask: elects the lowest lane.
bool Decoder::EmitRegisters(const Instr& instr) {
  if (instr.operands.size() != 1 || instr.operands[0].kind != OperandKind::kImmediate) {
    return Fail(instr.Mnemonic());
  }
  SetMode(default_mode_);
  Emit(Micro::kSetRegisters).flops = static_cast<uint32_t>(instr.operands[0].bits);
  return true;
}

bool Decoder::EmitElect(const Instr& instr) {
  if (instr.operands.size() != 2 || instr.operands[0].kind != OperandKind::kPair) {
    return Fail(instr.Mnemonic());
  }
  SetMode(default_mode_);
  const Operand& to = instr.operands[0];
  const int mask = Read(instr.operands[1], SlotKind::kWord, Type::kB32);
  const int leader = Write(to.elements[0], SlotKind::kWord);
  const int predicate = Write(to.elements[1], SlotKind::kPredicate);
  Op& op = Emit(Micro::kElect);
  op.src[1] = mask;
  op.dst = leader;
  op.src[2] = predicate;
  FinishWrite(to.elements[0], leader, SlotKind::kWord, false);
  return !failed_;
}

/// Emits a copy of slot `from` to a register.
bool Decoder::EmitCopyTo(const Operand& to, int from, SlotKind kind) {
  const int dst = Write(to, kind);
  Op& op = Emit(Form(Opcode::kMov, {kind == SlotKind::kDouble ? Modifier::kB64 : Modifier::kB32}));
  op.dst = dst;
  for (int32_t& src : op.src) src = from;
  FinishWrite(to, dst, kind, false);
  return !failed_;
}

/// mapa and getctarank, of addresses in shared memory or generic ones. The emulator's own last
/// operand is the rank of the executing block.
bool Decoder::EmitCluster(const Instr& instr) {
  const bool maps = instr.op == Opcode::kMapa;
  const ptx::Types types = instr.Types();
  if (types.size() != 1 || instr.operands.size() != (maps ? 3 : 2)) return Fail(instr.Mnemonic());
  Instr own = instr;
  Operand& rank = own.operands.emplace_back();
  rank.kind = OperandKind::kSpecial;
  rank.symbol = "cluster_ctarank";
  return EmitTable(own, Form(instr.op, {ptx::ModifierOf(types[0])})) || Fail(instr.Mnemonic());
}

/// barrier.cluster.{arrive[.sem],wait[.acquire]}[.aligned]
bool Decoder::EmitClusterBarrier(const Instr& instr) {
  const bool arrives = instr.Has(Modifier::kArrive);
  if (!instr.operands.empty() || arrives == instr.Has(Modifier::kWait)) {
    return Fail(instr.Mnemonic());
  }
  SetMode(default_mode_);
  Emit(arrives ? Micro::kClusterArrive : Micro::kClusterWait).aux =
      (instr.Has(Modifier::kAligned) ? kBarrierAligned : 0) |
      (instr.Has(Modifier::kRelaxed) ? kBarrierRelaxed : 0);
  return true;
}

/// createpolicy: policies have no effect.
bool Decoder::EmitPolicy(const Instr& instr) {
  if (instr.operands.empty()) return Fail(instr.Mnemonic());
  return EmitCopyTo(instr.operands[0], SharedConstant(SlotKind::kDouble, 0), SlotKind::kDouble);
}

/// The cache policy of .L2::cache_hint is the last operand.
void Decoder::EmitWithoutHint(const Instr& instr) {
  Instr without = instr;
  without.modifiers.Erase(Modifier::kL2CacheHint);
  if (without.operands.empty()) {
    Fail(instr.Mnemonic());
    return;
  }
  without.operands.pop_back();
  EmitDefined(without);
}

}  // namespace cupel::emu
