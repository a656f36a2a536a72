// Instructions that compilers rarely emit: pairs of 16-bit integers and of f32, saturating and
// 24-bit integers, mixed precision, packing conversions, byte permutations with a mode.
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

uint64_t Clamped(__int128 value, int bits, bool is_signed) {
  const __int128 most = (static_cast<__int128>(1) << (bits - (is_signed ? 1 : 0))) - 1;
  const __int128 least = is_signed ? -most - 1 : 0;
  return Truncate(static_cast<uint64_t>(value < least ? least : (value > most ? most : value)),
                  bits);
}

/// Saturating add, sub and mad; min and max with .relu.
std::optional<Operation> Clamping(const Words& w) {
  if (w.types.size() != 1 || w.types[0] != Type::kS32) return std::nullopt;
  auto value = [](uint64_t bits) { return static_cast<__int128>(SignExtend(bits, 32)); };
  const bool saturates = w.Has(Modifier::kSat) && w.modifiers.size() == 2;
  if ((w.op == Opcode::kAdd || w.op == Opcode::kSub) && saturates) {
    const bool subtracts = w.op == Opcode::kSub;
    return OperationOn(32, {32, 32}, [=](const Operands& in) {
      return Clamped(value(in[0]) + (subtracts ? -value(in[1]) : value(in[1])), 32, true);
    });
  }
  if (w.op == Opcode::kMad && w.Has(Modifier::kHi) && w.Has(Modifier::kSat)) {
    return OperationOn(32, {32, 32, 32}, [=](const Operands& in) {
      return Clamped(((value(in[0]) * value(in[1])) >> 32) + value(in[2]), 32, true);
    });
  }
  return std::nullopt;
}

uint64_t Least(Opcode op, bool relu, bool is_signed, int bits, const Operands& in) {
  const int64_t a = SignExtend(in[0], bits), b = SignExtend(in[1], bits);
  const bool less = is_signed ? a < b : in[0] < in[1];
  const uint64_t chosen = (op == Opcode::kMin) == less ? in[0] : in[1];
  return relu && SignExtend(chosen, bits) < 0 ? 0 : chosen;
}

std::optional<Operation> IntegerPairs(const Words& w) {
  if (w.types.size() != 1) return std::nullopt;
  const Type type = w.types[0];
  const bool pairs = type == Type::kU16x2 || type == Type::kS16x2;
  const bool is_signed = type == Type::kS16x2 || type == Type::kS32;
  const int bits = pairs ? 16 : 32;
  if (w.op == Opcode::kAdd && pairs && w.modifiers.size() == 1) {
    return InHalves(
        OperationOn(16, {16, 16}, [](const Operands& in) { return Truncate(in[0] + in[1], 16); }));
  }
  if ((w.op != Opcode::kMin && w.op != Opcode::kMax) || !w.Only({Modifier::kRelu}))
    return std::nullopt;
  const bool relu = w.Has(Modifier::kRelu);
  if (!pairs && (!relu || type != Type::kS32)) return std::nullopt;
  const Opcode op = w.op;
  const Operation one = OperationOn(
      bits, {bits, bits}, [=](const Operands& in) { return Least(op, relu, is_signed, bits, in); });
  return pairs ? InHalves(one) : one;
}

/// mul24, mad24: the low 24 bits of each factor; .hi is bits 16 to 47 of the product.
std::optional<Operation> Multiply24(const Words& w) {
  if ((w.op != Opcode::kMul24 && w.op != Opcode::kMad24) || w.types.size() != 1 ||
      w.Has(Modifier::kSat)) {
    return std::nullopt;
  }
  const bool is_signed = IsSigned(w.types[0]), high = w.Has(Modifier::kHi),
             adds = w.op == Opcode::kMad24;
  Operation operation = OperationOn(32, {32, 32}, [=](const Operands& in) {
    const uint64_t a = Truncate(in[0], 24), b = Truncate(in[1], 24);
    const uint64_t product =
        is_signed ? static_cast<uint64_t>(SignExtend(a, 24) * SignExtend(b, 24)) : a * b;
    return Truncate((high ? product >> 16 : product) + (adds ? in[2] : 0), 32);
  });
  if (adds) operation.operand_bits.push_back(32);
  return operation;
}

/// prmt with a mode: two bits (three for f4e and b4e) decide which bytes of b:a are selected.
std::optional<Operation> PermuteMode(const Words& w) {
  if (w.op != Opcode::kPrmt || w.modifiers.size() != 2) return std::nullopt;
  const Modifier mode = w.modifiers[1];
  return OperationOn(32, {32, 32, 32}, [=](const Operands& in) {
    const uint64_t both = in[1] << 32 | in[0];
    const uint64_t n = in[2] & 3u;
    uint64_t result = 0;
    for (uint64_t i = 0; i < 4; ++i) {
      uint64_t byte = 0;
      if (mode == Modifier::kF4e) byte = n + i;
      if (mode == Modifier::kB4e) byte = (n + 8 - i) % 8;
      if (mode == Modifier::kRc8) byte = n;
      if (mode == Modifier::kEcl) byte = std::max(n, i);
      if (mode == Modifier::kEcr) byte = std::min(n, i);
      if (mode == Modifier::kRc16) byte = 2 * (n & 1u) + (i & 1u);
      result |= ((both >> (8 * byte)) & 0xffu) << (8 * i);
    }
    return result;
  });
}

std::optional<Operation> Extend(const Words& w) {
  if (w.op != Opcode::kSzext || w.types.size() != 1) return std::nullopt;
  const bool is_signed = IsSigned(w.types[0]), clamps = w.Has(Modifier::kClamp);
  return OperationOn(32, {32, 32}, [=](const Operands& in) -> uint64_t {
    if (clamps && in[1] >= 32) return in[0];
    const auto bits = static_cast<int>(in[1] & 31u);
    if (bits == 0) return 0;
    const uint64_t low = Truncate(in[0], bits);
    return is_signed ? Truncate(static_cast<uint64_t>(SignExtend(low, bits)), 32) : low;
  });
}

std::optional<Operation> Differences(const Words& w) {
  if (w.op != Opcode::kVabsdiff4 || w.types != ptx::Types{Type::kU32, Type::kU32, Type::kU32} ||
      !w.Only({Modifier::kAdd})) {
    return std::nullopt;
  }
  const bool adds = w.Has(Modifier::kAdd);
  return OperationOn(32, {32, 32, 32}, [=](const Operands& in) {
    uint64_t packed = 0, sum = in[2];
    for (int i = 0; i < 32; i += 8) {
      const uint64_t a = (in[0] >> i) & 0xffu, b = (in[1] >> i) & 0xffu;
      packed |= (a > b ? a - b : b - a) << i;
      sum += a > b ? a - b : b - a;
    }
    return adds ? Truncate(sum, 32) : packed;
  });
}

/// cvt.pack: a in the bits above b, and a third operand above both.
std::optional<Operation> Packing(const Words& w) {
  if (w.op != Opcode::kCvt || !w.Has(Modifier::kPack) || !w.Has(Modifier::kSat) ||
      w.types.size() < 2)
    return std::nullopt;
  const int bits = BitsOf(w.types[0]);
  const bool is_signed = IsSigned(w.types[0]), three = w.types.size() == 3;
  Operation operation = OperationOn(32, {32, 32}, [=](const Operands& in) {
    const uint64_t a = Clamped(SignExtend(in[0], 32), bits, is_signed);
    const uint64_t b = Clamped(SignExtend(in[1], 32), bits, is_signed);
    const uint64_t above = three ? in[2] << (2 * bits) : 0;
    return Truncate(above | a << bits | b, 32);
  });
  if (three) operation.operand_bits.push_back(32);
  return operation;
}

std::optional<Operation> SelectBySign(const Words& w) {
  if (w.op != Opcode::kSlct || w.types.size() != 2 || w.types[1] != Type::kF32 ||
      !w.Only({Modifier::kFtz})) {
    return std::nullopt;
  }
  const int bits = BitsOf(w.types[0]);
  const bool flush = w.Has(Modifier::kFtz);
  return OperationOn(bits, {bits, bits, 32}, [=](const Operands& in) {
    const Number c = Unpack(flush ? Flush(in[2], kF32) : in[2], kF32);
    return !c.IsNan() && Compare(c, Number::Zero(false)) >= 0 ? in[0] : in[1];
  });
}

std::optional<Operation> FloatPairs(const Words& w) {
  if (w.types.size() != 1 || w.types[0] != Type::kF32x2) return std::nullopt;
  Words one = w;
  one.types = {Type::kF32};
  one.modifiers.Replace(Modifier::kF32x2, Modifier::kF32);
  const std::optional<Operation> found = FloatOperation(one);
  if (!found) return std::nullopt;
  return InHalves(*found);
}

/// add, sub and fma of 16-bit operands and an f32 operand, with a single rounding.
std::optional<Operation> Mixed(const Words& w) {
  if (w.types.size() != 2 || w.types[0] != Type::kF32 || FormatOf(w.types[1]) == nullptr ||
      BitsOf(w.types[1]) != 16 ||
      !w.Only({Modifier::kRn, Modifier::kRz, Modifier::kRm, Modifier::kRp, Modifier::kSat})) {
    return std::nullopt;
  }
  const Format& from = *FormatOf(w.types[1]);
  const bool product = w.op == Opcode::kFma, subtracts = w.op == Opcode::kSub;
  if (!product && !subtracts && w.op != Opcode::kAdd) return std::nullopt;
  const Rounding rounding = w.FloatRounding().value_or(Rounding::kNearestEven);
  const bool saturate = w.Has(Modifier::kSat);
  Operation operation = OperationOn(32, {16, 32}, [=](const Operands& in) {
    const Number left =
        product ? Multiply(Unpack(in[0], from), Unpack(in[1], from)) : Unpack(in[0], from);
    Number right = Unpack(in[product ? 2 : 1], kF32);
    if (subtracts) right.negative = !right.negative;
    const uint64_t bits = Pack(Add(left, right, rounding), kF32, rounding);
    return saturate ? Saturated(bits, kF32) : bits;
  });
  if (product) operation.operand_bits = {16, 16, 32};
  operation.float_result = &kF32;
  return operation;
}

/// min and max of magnitudes, with the product's sign.
std::optional<Operation> Magnitudes(const Words& w) {
  if ((w.op != Opcode::kMin && w.op != Opcode::kMax) || !w.Has(Modifier::kXorsign) ||
      w.types.size() != 1 || w.types[0] != Type::kF32 ||
      !w.Only({Modifier::kXorsign, Modifier::kAbs, Modifier::kNaN, Modifier::kFtz})) {
    return std::nullopt;
  }
  const bool largest = w.op == Opcode::kMax, keep_nan = w.Has(Modifier::kNaN),
             flush = w.Has(Modifier::kFtz);
  Operation operation = OperationOn(32, {32, 32}, [=](const Operands& in) {
    const uint64_t a = flush ? Flush(in[0], kF32) : in[0], b = flush ? Flush(in[1], kF32) : in[1];
    if (keep_nan && (IsNan(a, kF32) || IsNan(b, kF32))) return kF32.canonical_nan;
    const uint64_t x = a & ~kF32.SignBit(), y = b & ~kF32.SignBit();
    return (largest ? Larger(x, y, kF32) : Smaller(x, y, kF32)) | ((a ^ b) & kF32.SignBit());
  });
  operation.float_result = &kF32;
  operation.flushes = flush;
  return operation;
}

}  // namespace

std::optional<Operation> RareOperation(const Words& w) {
  for (const auto& part :
       {&Clamping, &IntegerPairs, &Multiply24, &PermuteMode, &Extend, &Differences, &Packing,
        &SelectBySign, &FloatPairs, &Mixed, &Magnitudes}) {
    std::optional<Operation> found = part(w);
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace cupel::reference
