// Instructions that compute. Each becomes one entry of the handler table, or a sequence of entries.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "emu/decode.h"
#include "ptx/names.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

bool IsFloat(Type type) {
  return type == Type::kF32 || type == Type::kF64 || type == Type::kF16 || type == Type::kF16x2 ||
         type == Type::kBF16 || type == Type::kBF16x2;
}
SlotKind SlotOf(Type type) {
  if (type == Type::kPred) return SlotKind::kPredicate;
  return ptx::SizeOf(type) == 8 ? SlotKind::kDouble : SlotKind::kWord;
}
/// The name of the type, with b32 as u32: both compare and shift in the same way.
std::string AsUnsigned(Type type) {
  std::string name(ptx::Name(type));
  if (name[0] == 'b' && name != "bf16" && name != "bf16x2") name[0] = 'u';
  return name;
}

}  // namespace

/// The handler key of an instruction. Equivalent spellings have the same key.
std::string Decoder::CanonicalKey(const Instr& instr) const {
  const std::vector<Type> types = instr.Types();
  const bool is_float = !types.empty() && IsFloat(types.back());
  const bool is_sum = instr.op == "add" || instr.op == "sub" || instr.op == "mul";
  const bool is_shift = instr.op == "shl" || instr.op == "shr";
  const bool to_integer = instr.op == "cvt" && types.size() == 2 && !IsFloat(types[0]) &&
                          IsFloat(types[1]) && types[0] != Type::kTF32 && ptx::SizeOf(types[0]) > 0;
  std::string key = instr.op;
  for (size_t i = 0; i < instr.modifiers.size(); ++i) {
    const std::string& modifier = instr.modifiers[i];
    if (is_sum && is_float && modifier == "rn") continue;
    if (to_integer && modifier == "sat" && !instr.Has("e4m3x2") && !instr.Has("e5m2x2")) continue;
    const bool is_type = is_shift && ptx::TypeNamed(modifier) != Type::kNone;
    key += '.';
    key += is_type ? AsUnsigned(ptx::TypeNamed(modifier)) : modifier;
    if (is_shift && is_type && instr.op == "shl") key.replace(key.rfind('.') + 1, 1, "u");
  }
  return key;
}

/// Emits the handler for `key` with the operands that its entry lists, destination first. Returns
/// false if there is no such handler or the operands do not fit.
bool Decoder::EmitTable(const Instr& instr, const std::string& key) {
  const Entry* entry = handlers_.Find(key);
  if (entry == nullptr || entry->dst == SlotKind::kNone || instr.operands.empty()) return false;
  const std::vector<Type> types = instr.Types();
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
  const std::string widths = fmt::format("b{}.b{}", bits, bits / static_cast<int>(parts));
  const SlotKind whole = SlotOf(type);
  if (packs) {
    std::array<int, 4> slots{-1, -1, -1, -1};
    for (size_t i = 0; i < parts; ++i)
      slots[i] = Read(vector.elements[i], SlotKind::kWord, Type::kB32);
    const int to = Write(dst, whole);
    Op& op = Emit("pack." + widths);
    op.dst = to;
    for (size_t i = 0; i < 4; ++i) op.src[i] = slots[i];
    FinishWrite(dst, to, whole, false);
    return !failed_;
  }
  const int from = Read(src, whole, type);
  for (size_t i = 0; i < parts; ++i) {
    if (vector.elements[i].kind == OperandKind::kSink) continue;
    const int to = Write(vector.elements[i], SlotKind::kWord);
    Op& op = Emit(fmt::format("part{}.{}", i, widths));
    op.src[0] = from;
    op.dst = to;
    FinishWrite(vector.elements[i], to, SlotKind::kWord, false);
  }
  return !failed_;
}

bool Decoder::EmitMov(const Instr& instr) {
  if (instr.operands.size() != 2 || instr.Types().size() != 1) return Fail(instr.Mnemonic());
  const Operand& from = instr.operands[1];
  const Type type = instr.Types()[0];
  if (from.kind == OperandKind::kVector || instr.operands[0].kind == OperandKind::kVector) {
    return EmitPacked(instr.operands[0], from, type) || Fail(instr.Mnemonic() + " of a vector");
  }
  if (from.kind == OperandKind::kSpecial &&
      (from.symbol.starts_with("clock") || from.symbol.starts_with("globaltimer"))) {
    const SlotKind kind = SlotOf(type);
    const int to = Write(instr.operands[0], kind);
    const char* const size = kind == SlotKind::kDouble ? "b64" : "b32";
    const char* const which = from.symbol.starts_with("clock") ? "" : "timer.";
    const char* const half = from.symbol.ends_with("_hi") ? "hi." : "";
    Emit(fmt::format("clock.{}{}{}", which, half, size)).dst = to;
    return true;
  }
  if (type == Type::kB128) return Fail(instr.Mnemonic());
  return EmitTable(instr, "mov." + std::string(ptx::Name(type))) || Fail(instr.Mnemonic());
}

/// Global addresses are generic addresses; the other spaces have windows.
bool Decoder::EmitCvta(const Instr& instr) {
  if (instr.operands.size() != 2) return Fail(instr.Mnemonic());
  const bool to = instr.Has("to");
  uint64_t window = 0;
  if (instr.Has("shared") || instr.Has("shared::cta")) window = kSharedWindow;
  if (instr.Has("local")) window = kLocalWindow;
  if (instr.Has("param")) window = kParamWindow;
  if (window == 0 && !instr.Has("global") && !instr.Has("const")) return Fail(instr.Mnemonic());
  // A .param variable of a function body is in local memory.
  const Operand& from = instr.operands[1];
  if (from.kind == OperandKind::kSymbol) {
    const auto place = places_.find(from.symbol);
    if (place != places_.end() && place->second.space == ptx::Space::kLocal) window = kLocalWindow;
  }
  const int source = Read(from, SlotKind::kDouble, Type::kU64);
  const int dst = Write(instr.operands[0], SlotKind::kDouble);
  const int base = SharedConstant(SlotKind::kDouble, window);
  Op& op = Emit(to ? "sub.u64" : "add.u64");
  op.dst = dst;
  op.src[0] = source;
  op.src[1] = base;
  FinishWrite(instr.operands[0], dst, SlotKind::kDouble, false);
  return true;
}

/// Emits the comparison and returns the slot of its predicate.
int Decoder::EmitCompare(const Instr& instr, const std::string& tail, const Operand& a,
                         const Operand& b, Type type) {
  const SlotKind kind = SlotOf(type);
  std::string key = "setp." + instr.modifiers[0];
  if (instr.Has("ftz")) key += ".ftz";
  key += '.';
  key += AsUnsigned(type) + tail;
  const int left = Read(a, kind, type);
  const int right = Read(b, kind, type);
  const int result = Temporary(SlotKind::kPredicate);
  if (handlers_.Find(key) == nullptr) {
    Fail(instr.Mnemonic());
    return result;
  }
  Op& op = Emit(key);
  op.src[0] = left;
  op.src[1] = right;
  op.dst = result;
  return result;
}

/// setp.cmp[.bool][.ftz].type p[|q], a, b[, c]
bool Decoder::EmitSetp(const Instr& instr) {
  const size_t operands = instr.operands.size();
  const std::vector<Type> types = instr.Types();
  if (operands < 3 || operands > 4 || types.empty()) return Fail(instr.Mnemonic());
  const Type type = types.back();
  const Operand& to = instr.operands[0];
  const bool pair = to.kind == OperandKind::kPair;
  std::string combine;
  for (const char* name : {"and", "or", "xor"}) {
    if (instr.Has(name)) combine = name;
  }
  if (combine.empty() != (operands == 3)) return Fail(instr.Mnemonic() + " with these operands");
  const bool packed = type == Type::kF16x2 || type == Type::kBF16x2;
  std::array<int, 2> results{-1, -1};
  results[0] = EmitCompare(instr, packed ? ".low" : "", instr.operands[1], instr.operands[2], type);
  if (packed) {
    results[1] = EmitCompare(instr, ".high", instr.operands[1], instr.operands[2], type);
  } else if (pair) {
    results[1] = Temporary(SlotKind::kPredicate);
    Op& op = Emit("not.pred");
    op.dst = results[1];
    op.src[0] = op.src[1] = results[0];
  }
  int with = -1;
  if (operands == 4) with = Read(instr.operands[3], SlotKind::kPredicate, Type::kPred);
  for (size_t i = 0; i < (pair ? 2u : 1u) && !failed_; ++i) {
    const Operand& target = pair ? to.elements[i] : to;
    if (target.kind == OperandKind::kSink) continue;
    const int slot = Write(target, SlotKind::kPredicate);
    if (!combine.empty()) {
      Op& op = Emit(combine + ".pred");
      op.dst = slot;
      op.src[0] = results[i];
      op.src[1] = with;
    } else if (i == 0 && !pair) {
      code_->ops.back().dst = slot;  // the comparison writes it directly
    } else {
      Op& op = Emit("mov.pred");
      op.dst = slot;
      op.src[0] = op.src[1] = results[i];
    }
  }
  return !failed_;
}

/// set.cmp[.bool][.ftz].dtype.stype d, a, b[, c]
bool Decoder::EmitSet(const Instr& instr) {
  const std::vector<Type> types = instr.Types();
  const size_t operands = instr.operands.size();
  if (types.size() != 2 || operands < 3 || operands > 4) return Fail(instr.Mnemonic());
  const bool packed = types[1] == Type::kF16x2 || types[1] == Type::kBF16x2;
  int low =
      EmitCompare(instr, packed ? ".low" : "", instr.operands[1], instr.operands[2], types[1]);
  int high =
      packed ? EmitCompare(instr, ".high", instr.operands[1], instr.operands[2], types[1]) : -1;
  if (operands == 4) {
    std::string combine =
        instr.Has("and") ? "and.pred" : (instr.Has("or") ? "or.pred" : "xor.pred");
    const int with = Read(instr.operands[3], SlotKind::kPredicate, Type::kPred);
    for (int* result : {&low, &high}) {
      if (*result < 0) continue;
      Op& op = Emit(combine);
      op.dst = op.src[0] = *result;
      op.src[1] = with;
    }
  }
  std::string key = "set." + std::string(ptx::Name(types[0]));
  if (packed && ptx::SizeOf(types[0]) == 4 && types[0] != types[1]) key = "set.u32x2";
  const int dst = Write(instr.operands[0], SlotKind::kWord);
  Op& op = Emit(key);
  op.dst = dst;
  op.src[0] = low;
  op.src[1] = high;
  FinishWrite(instr.operands[0], dst, SlotKind::kWord, false);
  return !failed_;
}

/// {add,sub,mad,addc,subc,madc}[.lo|.hi][.cc].type: extended precision with the condition code.
bool Decoder::EmitCarry(const Instr& instr) {
  const std::vector<Type> types = instr.Types();
  const bool multiplies = instr.op.starts_with("mad");
  const size_t operands = multiplies ? 4 : 3;
  if (types.size() != 1 || instr.operands.size() != operands) return Fail(instr.Mnemonic());
  const SlotKind kind = SlotOf(types[0]);
  const std::string width = kind == SlotKind::kDouble ? "u64" : "u32";
  if (carry_ < 0) {
    carry_ = NewSlot(SlotKind::kPredicate);
    undefined_.push_back(carry_);
  }
  std::array<int, 3> slots{-1, -1, -1};
  for (size_t i = 1; i < operands; ++i) slots[i - 1] = Read(instr.operands[i], kind, types[0]);
  if (multiplies) {
    const int product = Temporary(kind);
    Op& op = Emit(fmt::format("mul.{}.{}", instr.Has("hi") ? "hi" : "lo", ptx::Name(types[0])));
    op.dst = product;
    op.src[0] = slots[0];
    op.src[1] = slots[1];
    slots = {product, slots[2], -1};
  }
  const bool takes = instr.op.ends_with("c");
  const std::string key = (instr.op.starts_with("sub") ? "subc." : "addc.") + width;
  const int in = takes ? carry_ : SharedConstant(SlotKind::kPredicate, 0);
  const int out = Temporary(SlotKind::kPredicate);
  auto compute = [&](const std::string& what, int dst) {
    Op& op = Emit(what);
    op.dst = dst;
    op.src[0] = slots[0];
    op.src[1] = slots[1];
    op.src[2] = in;
  };
  if (instr.Has("cc")) compute("carry." + key, out);
  const int dst = Write(instr.operands[0], kind);
  compute(key, dst);
  FinishWrite(instr.operands[0], dst, kind, false);
  if (instr.Has("cc")) {
    Op& op = Emit("mov.pred");
    op.dst = carry_;
    op.src[0] = op.src[1] = out;
  }
  return !failed_;
}

}  // namespace cupel::emu
