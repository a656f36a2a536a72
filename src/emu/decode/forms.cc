// Instructions that compute. Each becomes one entry of the handler table, or a sequence of entries.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/decode/decoder.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Modifiers;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

SlotKind SlotOf(Type type) {
  if (type == Type::kPred) return SlotKind::kPredicate;
  return ptx::SizeOf(type) == 8 ? SlotKind::kDouble : SlotKind::kWord;
}
/// b32 as u32: both compare and shift in the same way.
Type AsUnsigned(Type type) {
  switch (type) {
    case Type::kB8:
      return Type::kU8;
    case Type::kB16:
      return Type::kU16;
    case Type::kB32:
      return Type::kU32;
    case Type::kB64:
      return Type::kU64;
    default:
      return type;
  }
}
/// s32 as u32, too: both shift left in the same way.
Type WithoutSign(Type type) {
  switch (type) {
    case Type::kS16:
      return Type::kU16;
    case Type::kS32:
      return Type::kU32;
    case Type::kS64:
      return Type::kU64;
    default:
      return AsUnsigned(type);
  }
}
Modifier BitsOf(SlotKind kind) {
  return kind == SlotKind::kDouble ? Modifier::kB64 : Modifier::kB32;
}

}  // namespace

/// The form of an instruction's handler. Equivalent spellings have the same form.
Form CanonicalForm(const Instr& instr) {
  const ptx::Types types = instr.Types();
  const bool is_float = !types.empty() && IsFloat(types.back());
  const bool is_sum =
      instr.op == Opcode::kAdd || instr.op == Opcode::kSub || instr.op == Opcode::kMul;
  const bool is_shift = instr.op == Opcode::kShl || instr.op == Opcode::kShr;
  const bool to_integer = instr.op == Opcode::kCvt && types.size() == 2 && !IsFloat(types[0]) &&
                          IsFloat(types[1]) && types[0] != Type::kTF32 &&
                          ptx::SizeOf(types[0]) > 0 && types[0] != Type::kE4M3x2 &&
                          types[0] != Type::kE5M2x2;
  // Between f16 and bf16, ptxas takes .rn for granted.
  const bool between_halves = instr.op == Opcode::kCvt && instr.modifiers.size() == 2 &&
                              (types == ptx::Types{Type::kBF16, Type::kF16} ||
                               types == ptx::Types{Type::kF16, Type::kBF16});
  Form form(instr.op, {});
  if (between_halves) form.modifiers.Add(Modifier::kRn);
  for (const Modifier modifier : instr.modifiers) {
    if (is_sum && is_float && modifier == Modifier::kRn) continue;
    if (to_integer && modifier == Modifier::kSat) continue;
    const Type type = ptx::TypeOf(modifier);
    if (is_shift && type != Type::kNone) {
      form.modifiers.Add(
          ptx::ModifierOf(instr.op == Opcode::kShl ? WithoutSign(type) : AsUnsigned(type)));
    } else {
      form.modifiers.Add(modifier);
    }
  }
  return form;
}

/// Emits the handler of `form` with the operands that its entry lists, destination first. Returns
/// false if there is no such handler or the operands do not fit.
bool Decoder::EmitTable(const Instr& instr, const Form& form) {
  const Entry* entry = handlers_.Find(form);
  if (entry == nullptr || entry->dst == SlotKind::kNone || instr.operands.empty()) return false;
  const ptx::Types types = instr.Types();
  const Type type = types.empty() ? Type::kNone : types.back();
  size_t sources = 0;
  while (sources < 4 && entry->src[sources] != SlotKind::kNone) ++sources;
  if (instr.operands.size() != sources + 1) return Fail(instr.Mnemonic() + " with these operands");
  std::array<int, 4> slots{};
  for (size_t i = 0; i < sources; ++i) {
    slots[i] = Read(instr.operands[i + 1], entry->src[i], type);
  }
  const Operand& to = instr.operands[0];
  const int dst = Write(to, entry->dst);
  Op& op = EmitEntry(*entry);
  op.dst = dst;
  for (size_t i = 0; i < 4; ++i) op.src[i] = i < sources ? slots[i] : slots[0];
  FinishWrite(to, dst, entry->dst, IsSigned(types.empty() ? Type::kNone : types[0]));
  return true;
}

/// mov between a register and a vector of its parts.
bool Decoder::EmitPacked(const Operand& dst, const Operand& src, Type type) {
  const bool packs = src.kind == OperandKind::kVector;
  const Operand& vector = packs ? src : dst;
  const size_t parts = vector.elements.size();
  const int bits = ptx::SizeOf(type) * 8;
  if (parts == 0 || (bits != 32 && bits != 64 && (bits != 16 || parts != 2)) ||
      (parts != 2 && parts != 4))
    return false;
  const auto bits_word = [](int width) {
    return width == 64   ? Modifier::kB64
           : width == 32 ? Modifier::kB32
           : width == 16 ? Modifier::kB16
                         : Modifier::kB8;
  };
  const Modifiers widths{bits_word(bits), bits_word(bits / static_cast<int>(parts))};
  const SlotKind whole = SlotOf(type);
  if (packs) {
    std::array<int, 4> slots{-1, -1, -1, -1};
    for (size_t i = 0; i < parts; ++i)
      slots[i] = Read(vector.elements[i], SlotKind::kWord, Type::kB32);
    const int to = Write(dst, whole);
    Op& op = Emit(Form(Micro::kPack, widths));
    op.dst = to;
    for (size_t i = 0; i < 4; ++i) op.src[i] = slots[i];
    FinishWrite(dst, to, whole, false);
    return !failed_;
  }
  const int from = Read(src, whole, type);
  constexpr std::array kParts{Micro::kPart0, Micro::kPart1, Micro::kPart2, Micro::kPart3};
  for (size_t i = 0; i < parts; ++i) {
    if (vector.elements[i].kind == OperandKind::kSink) continue;
    const int to = Write(vector.elements[i], SlotKind::kWord);
    Op& op = Emit(Form(kParts[i], widths));
    op.src[0] = from;
    op.dst = to;
    FinishWrite(vector.elements[i], to, SlotKind::kWord, false);
  }
  return !failed_;
}

/// mov.b128: 128-bit registers and their halves are vectors of two (wide_registers.h).
bool Decoder::EmitWideMov(const Instr& instr) {
  const std::vector<Operand>& to = instr.operands[0].elements;
  const std::vector<Operand>& from = instr.operands[1].elements;
  if (to.size() != 2 || from.size() != 2) return Fail(instr.Mnemonic() + " with these operands");
  for (size_t i = 0; i < 2 && !failed_; ++i) {
    if (to[i].kind == OperandKind::kSink) continue;
    EmitCopyTo(to[i], Read(from[i], SlotKind::kDouble, Type::kB64), SlotKind::kDouble);
  }
  return !failed_;
}

bool Decoder::EmitMov(const Instr& instr) {
  if (instr.operands.size() != 2 || instr.Types().size() != 1) return Fail(instr.Mnemonic());
  const Operand& from = instr.operands[1];
  const Type type = instr.Types()[0];
  if (type == Type::kB128) return EmitWideMov(instr);
  if (from.kind == OperandKind::kVector || instr.operands[0].kind == OperandKind::kVector) {
    return EmitPacked(instr.operands[0], from, type) || Fail(instr.Mnemonic() + " of a vector");
  }
  if (from.kind == OperandKind::kSpecial &&
      (from.symbol.starts_with("clock") || from.symbol.starts_with("globaltimer"))) {
    const SlotKind kind = SlotOf(type);
    const int to = Write(instr.operands[0], kind);
    Modifiers words{BitsOf(kind)};
    if (from.symbol.ends_with("_hi")) words = {Modifier::kHi, BitsOf(kind)};
    const Micro which = from.symbol.starts_with("clock") ? Micro::kClock : Micro::kTimer;
    Emit(Form(which, words)).dst = to;
    return true;
  }
  return EmitTable(instr, Form(Opcode::kMov, {ptx::ModifierOf(type)})) || Fail(instr.Mnemonic());
}

/// Global addresses are generic addresses; the other spaces have windows.
bool Decoder::EmitCvta(const Instr& instr) {
  if (instr.operands.size() != 2) return Fail(instr.Mnemonic());
  const bool to = instr.Has(Modifier::kTo);
  uint64_t window = 0;
  if (instr.modifiers.HasAny({Modifier::kShared, Modifier::kSharedCta, Modifier::kSharedCluster})) {
    window = kSharedWindow;
  }
  if (instr.Has(Modifier::kLocal)) window = kLocalWindow;
  if (instr.Has(Modifier::kParam)) window = kParamWindow;
  if (window == 0 && !instr.Has(Modifier::kGlobal) && !instr.Has(Modifier::kConst))
    return Fail(instr.Mnemonic());
  // A .param variable of a function body is in local memory.
  const Operand& from = instr.operands[1];
  if (from.kind == OperandKind::kSymbol) {
    const auto place = places_.find(from.symbol);
    if (place != places_.end() && place->second.space == ptx::Space::kLocal) window = kLocalWindow;
  }
  const int source = Read(from, SlotKind::kDouble, Type::kU64);
  const int dst = Write(instr.operands[0], SlotKind::kDouble);
  const int base = SharedConstant(SlotKind::kDouble, window);
  Op& op = Emit(Form(to ? Opcode::kSub : Opcode::kAdd, {Modifier::kU64}));
  op.dst = dst;
  op.src[0] = source;
  op.src[1] = base;
  FinishWrite(instr.operands[0], dst, SlotKind::kDouble, false);
  return true;
}

/// Emits the comparison of the second and third operand, or of a half of them, and returns the slot
/// of its predicate.
int Decoder::EmitCompare(const Instr& instr, Micro part, Type type) {
  const SlotKind kind = SlotOf(type);
  Form form(Opcode::kSetp, {instr.modifiers.front()});
  form.micro = part;
  if (instr.Has(Modifier::kFtz)) form.modifiers.Add(Modifier::kFtz);
  form.modifiers.Add(ptx::ModifierOf(AsUnsigned(type)));
  const int left = Read(instr.operands[1], kind, type);
  const int right = Read(instr.operands[2], kind, type);
  const int result = Temporary(SlotKind::kPredicate);
  if (handlers_.Find(form) == nullptr) {
    Fail(instr.Mnemonic());
    return result;
  }
  Op& op = Emit(form);
  op.src[0] = left;
  op.src[1] = right;
  op.dst = result;
  return result;
}

/// The operation of setp and set that combines a comparison with a predicate; kUnknown if none.
static Opcode CombinationOf(const Instr& instr) {
  if (instr.Has(Modifier::kAnd)) return Opcode::kAnd;
  if (instr.Has(Modifier::kOr)) return Opcode::kOr;
  return instr.Has(Modifier::kXor) ? Opcode::kXor : Opcode::kUnknown;
}

/// setp.cmp[.bool][.ftz].type p[|q], a, b[, c]
bool Decoder::EmitSetp(const Instr& instr) {
  const size_t operands = instr.operands.size();
  const ptx::Types types = instr.Types();
  if (operands < 3 || operands > 4 || types.empty()) return Fail(instr.Mnemonic());
  const Type type = types.back();
  const Operand& to = instr.operands[0];
  const bool pair = to.kind == OperandKind::kPair;
  const Opcode combine = CombinationOf(instr);
  if ((combine == Opcode::kUnknown) != (operands == 3)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  const bool packed = type == Type::kF16x2 || type == Type::kBF16x2;
  std::array<int, 2> results{-1, -1};
  results[0] = EmitCompare(instr, packed ? Micro::kLow : Micro::kNone, type);
  if (packed) {
    results[1] = EmitCompare(instr, Micro::kHigh, type);
  } else if (pair) {
    results[1] = Temporary(SlotKind::kPredicate);
    Op& op = Emit(Form(Opcode::kNot, {Modifier::kPred}));
    op.dst = results[1];
    op.src[0] = op.src[1] = results[0];
  }
  int with = -1;
  if (operands == 4) with = Read(instr.operands[3], SlotKind::kPredicate, Type::kPred);
  for (size_t i = 0; i < (pair ? 2u : 1u) && !failed_; ++i) {
    const Operand& target = pair ? to.elements[i] : to;
    if (target.kind == OperandKind::kSink) continue;
    const int slot = Write(target, SlotKind::kPredicate);
    if (combine != Opcode::kUnknown) {
      Op& op = Emit(Form(combine, {Modifier::kPred}));
      op.dst = slot;
      op.src[0] = results[i];
      op.src[1] = with;
    } else if (i == 0 && !pair) {
      code_->ops.back().dst = slot;  // the comparison writes it directly
    } else {
      Op& op = Emit(Form(Opcode::kMov, {Modifier::kPred}));
      op.dst = slot;
      op.src[0] = op.src[1] = results[i];
    }
  }
  return !failed_;
}

/// set.cmp[.bool][.ftz].dtype.stype d, a, b[, c]
bool Decoder::EmitSet(const Instr& instr) {
  const ptx::Types types = instr.Types();
  const size_t operands = instr.operands.size();
  if (types.size() != 2 || operands < 3 || operands > 4) return Fail(instr.Mnemonic());
  const bool packed = types[1] == Type::kF16x2 || types[1] == Type::kBF16x2;
  int low = EmitCompare(instr, packed ? Micro::kLow : Micro::kNone, types[1]);
  int high = packed ? EmitCompare(instr, Micro::kHigh, types[1]) : -1;
  if (operands == 4) {
    const Opcode combine = CombinationOf(instr);
    if (combine == Opcode::kUnknown) return Fail(instr.Mnemonic());
    const int with = Read(instr.operands[3], SlotKind::kPredicate, Type::kPred);
    for (int* result : {&low, &high}) {
      if (*result < 0) continue;
      Op& op = Emit(Form(combine, {Modifier::kPred}));
      op.dst = op.src[0] = *result;
      op.src[1] = with;
    }
  }
  // A packed comparison can have one 32-bit result, half of it for each part.
  const bool is_pair = packed && ptx::SizeOf(types[0]) == 4 && types[0] != types[1];
  const Form form(Opcode::kSet, {is_pair ? Modifier::kU16x2 : ptx::ModifierOf(types[0])});
  const int dst = Write(instr.operands[0], SlotKind::kWord);
  Op& op = Emit(form);
  op.dst = dst;
  op.src[0] = low;
  op.src[1] = high;
  FinishWrite(instr.operands[0], dst, SlotKind::kWord, false);
  return !failed_;
}

/// {add,sub,mad,addc,subc,madc}[.lo|.hi][.cc].type: extended precision with the condition code.
bool Decoder::EmitCarry(const Instr& instr) {
  const ptx::Types types = instr.Types();
  const bool multiplies = instr.op == Opcode::kMad || instr.op == Opcode::kMadc;
  const bool subtracts = instr.op == Opcode::kSub || instr.op == Opcode::kSubc;
  const bool takes =
      instr.op == Opcode::kAddc || instr.op == Opcode::kSubc || instr.op == Opcode::kMadc;
  if (!multiplies && !subtracts && !takes && instr.op != Opcode::kAdd) {
    return Fail(instr.Mnemonic());
  }
  const size_t operands = multiplies ? 4 : 3;
  if (types.size() != 1 || instr.operands.size() != operands) return Fail(instr.Mnemonic());
  const SlotKind kind = SlotOf(types[0]);
  if (carry_ < 0) {
    carry_ = NewSlot(SlotKind::kPredicate);
    undefined_.push_back(carry_);
  }
  std::array<int, 3> slots{-1, -1, -1};
  for (size_t i = 1; i < operands; ++i) slots[i - 1] = Read(instr.operands[i], kind, types[0]);
  if (multiplies) {
    const int product = Temporary(kind);
    const Modifier half = instr.Has(Modifier::kHi) ? Modifier::kHi : Modifier::kLo;
    Op& op = Emit(Form(Opcode::kMul, {half, ptx::ModifierOf(types[0])}));
    op.dst = product;
    op.src[0] = slots[0];
    op.src[1] = slots[1];
    slots = {product, slots[2], -1};
  }
  Form form(subtracts ? Opcode::kSubc : Opcode::kAddc,
            {kind == SlotKind::kDouble ? Modifier::kU64 : Modifier::kU32});
  const int in = takes ? carry_ : SharedConstant(SlotKind::kPredicate, 0);
  const int out = Temporary(SlotKind::kPredicate);
  auto compute = [&](Micro part, int dst) {
    form.micro = part;
    Op& op = Emit(form);
    op.dst = dst;
    op.src[0] = slots[0];
    op.src[1] = slots[1];
    op.src[2] = in;
  };
  if (instr.Has(Modifier::kCc)) compute(Micro::kCarry, out);
  const int dst = Write(instr.operands[0], kind);
  compute(Micro::kNone, dst);
  FinishWrite(instr.operands[0], dst, kind, false);
  if (instr.Has(Modifier::kCc)) {
    Op& op = Emit(Form(Opcode::kMov, {Modifier::kPred}));
    op.dst = carry_;
    op.src[0] = op.src[1] = out;
  }
  return !failed_;
}

}  // namespace cupel::emu
