// cvt between scalar types, and the packed forms for halves and fp8.
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

/// Clamps a finite number, already rounded to an integral value, to an integer type's range.
uint64_t ToInteger(const Number& number, int bits, bool is_signed) {
  const Wide most =
      Wide::Of(is_signed ? Truncate(~uint64_t{0}, bits - 1) : Truncate(~uint64_t{0}, bits));
  if (number.negative) {
    if (!is_signed) return 0;
    const Wide least = Wide::Of(uint64_t{1} << (bits - 1));
    const bool low = number.IsInfinite() || number.exponent > 64 ||
                     number.mantissa.Length() + number.exponent > 65 ||
                     Compare(number.mantissa << number.exponent, least) > 0;
    const uint64_t magnitude = low ? least.word[0] : (number.mantissa << number.exponent).word[0];
    return Truncate(~magnitude + 1, bits);
  }
  const bool high = number.IsInfinite() || number.exponent > 64 ||
                    number.mantissa.Length() + number.exponent > 65 ||
                    Compare(number.mantissa << number.exponent, most) > 0;
  return high ? most.word[0] : (number.mantissa << number.exponent).word[0];
}

std::optional<Rounding> IntegerRounding(const Words& w) {
  if (w.Has(Modifier::kRni)) return Rounding::kNearestEven;
  if (w.Has(Modifier::kRzi)) return Rounding::kZero;
  if (w.Has(Modifier::kRmi)) return Rounding::kDown;
  if (w.Has(Modifier::kRpi)) return Rounding::kUp;
  return std::nullopt;
}

std::optional<Operation> FloatToInteger(const Words& w, Operation operation, const Format& from) {
  const std::optional<Rounding> rounding = IntegerRounding(w);
  if (!rounding || !w.Only({Modifier::kRni, Modifier::kRzi, Modifier::kRmi, Modifier::kRpi,
                            Modifier::kFtz, Modifier::kSat}))
    return std::nullopt;
  const int bits = BitsOf(w.types[0]);
  const bool is_signed = IsSigned(w.types[0]);
  const bool flush = w.Has(Modifier::kFtz);
  operation.compute = [=](const Operands& in) -> uint64_t {
    const Number number = Unpack(flush ? Flush(in[0], from) : in[0], from);
    if (number.IsNan()) {
      // Zero for narrow conversions, otherwise only the top bit.
      return from.bits < 64 && bits < 64 ? 0 : uint64_t{1} << (bits - 1);
    }
    return ToInteger(RoundToIntegral(number, *rounding), bits, is_signed);
  };
  return operation;
}

std::optional<Operation> IntegerToFloat(const Words& w, Operation operation, const Format& to) {
  const std::optional<Rounding> rounding = w.FloatRounding();
  if (!rounding || !w.Only({Modifier::kRn, Modifier::kRz, Modifier::kRm, Modifier::kRp}))
    return std::nullopt;
  const int bits = BitsOf(w.types[1]);
  const bool is_signed = IsSigned(w.types[1]);
  operation.compute = [=](const Operands& in) {
    const bool negative = is_signed && SignExtend(in[0], bits) < 0;
    const uint64_t magnitude =
        negative ? ~static_cast<uint64_t>(SignExtend(in[0], bits)) + 1 : in[0];
    return Pack(Number::Integer(negative, magnitude), to, *rounding);
  };
  return operation;
}

std::optional<Operation> IntegerToInteger(const Words& w, Operation operation) {
  if (!w.Only({Modifier::kSat})) return std::nullopt;
  const int to = BitsOf(w.types[0]), from = BitsOf(w.types[1]);
  const bool to_signed = IsSigned(w.types[0]), from_signed = IsSigned(w.types[1]);
  const bool saturate = w.Has(Modifier::kSat);
  operation.compute = [=](const Operands& in) {
    const bool negative = from_signed && SignExtend(in[0], from) < 0;
    const uint64_t extended = from_signed ? static_cast<uint64_t>(SignExtend(in[0], from)) : in[0];
    if (!saturate) return Truncate(extended, to);
    return ToInteger(Number::Integer(negative, negative ? ~extended + 1 : extended), to, to_signed);
  };
  return operation;
}

uint64_t Finish(uint64_t bits, const Words& w, const Format& format) {
  if (w.Has(Modifier::kRelu)) {
    if (IsNan(bits, format)) return format.canonical_nan;
    if ((bits & format.SignBit()) != 0) bits = 0;
  }
  return w.Has(Modifier::kSat) ? Saturated(bits, format) : bits;
}

std::optional<Operation> FloatToFloat(const Words& w, Operation operation, const Format& to,
                                      const Format& from) {
  if (!w.Only({Modifier::kRn, Modifier::kRz, Modifier::kRm, Modifier::kRp, Modifier::kRni,
               Modifier::kRzi, Modifier::kRmi, Modifier::kRpi, Modifier::kFtz, Modifier::kSat,
               Modifier::kRelu, Modifier::kSatfinite})) {
    return std::nullopt;
  }
  const std::optional<Rounding> integral = IntegerRounding(w);
  const std::optional<Rounding> rounding = w.FloatRounding();
  if (integral && to.bits != from.bits) return std::nullopt;
  const bool narrows = to.fraction < from.fraction || to.bias < from.bias;
  const bool may_omit = to.bits == 16 && from.bits == 16;  // then .rn
  if (rounding ? !narrows || integral : narrows && !may_omit) return std::nullopt;
  // Only f32 operands and results are flushed.
  const bool flush_from = w.Has(Modifier::kFtz) && from.bits == 32,
             flush_to = w.Has(Modifier::kFtz) && to.bits == 32;
  operation.flushes = flush_to;
  const bool finite = w.Has(Modifier::kSatfinite);
  operation.float_result = &to;
  const Words words = w;
  operation.compute = [=](const Operands& in) {
    Number number = Unpack(flush_from ? Flush(in[0], from) : in[0], from);
    if (integral) number = RoundToIntegral(number, *integral);
    uint64_t bits = Pack(number, to, rounding.value_or(Rounding::kNearestEven), finite);
    bits = Finish(bits, words, to);
    return flush_to ? Flush(bits, to) : bits;
  };
  return operation;
}

/// The distance in bits between the two numbers of a packed type.
int Stride(const Format& format) { return format.bits == 6 ? 8 : format.bits; }

/// Converts two values into one packed register. The first operand is the upper half.
std::optional<Operation> Pair(const Words& w, const Format& to) {
  const Type from = w.types[1];
  const bool small = to.bits <= 8;
  if (!w.FloatRounding() || (small && !w.Has(Modifier::kSatfinite)) ||
      !w.Only(
          {Modifier::kRn, Modifier::kRz, Modifier::kRelu, Modifier::kSatfinite, Modifier::kFtz})) {
    return std::nullopt;
  }
  const Rounding rounding = *w.FloatRounding();
  const Words words = w;
  const bool finite = w.Has(Modifier::kSatfinite), flush = w.Has(Modifier::kFtz);
  auto narrow = [=](uint64_t bits, const Format& format) {
    const uint64_t flushed = flush && format.bits == 32 ? Flush(bits, format) : bits;
    if (words.Has(Modifier::kRelu) && IsNan(flushed, format)) return to.canonical_nan;
    return Finish(Pack(Unpack(flushed, format), to, rounding, finite), words, to);
  };
  const int stride = Stride(to);
  Operation operation;
  operation.result_bits = 2 * stride;
  if (stride == to.bits && to.has_nan) {
    operation.float_result = &to;
    operation.packed = true;
  }
  if (from == Type::kF32) {
    operation.operand_bits = {32, 32};
    operation.compute = [=](const Operands& in) {
      return narrow(in[0], kF32) << stride | narrow(in[1], kF32);
    };
    return operation;
  }
  if (from == Type::kF16x2 && small) {
    operation.operand_bits = {32};
    operation.compute = [=](const Operands& in) {
      return narrow(in[0] >> 16, kF16) << stride | narrow(in[0] & 0xffffu, kF16);
    };
    return operation;
  }
  return std::nullopt;
}

std::optional<Operation> FromFp8(const Words& w, const Format& from) {
  if (w.types[0] != Type::kF16x2 || !w.Has(Modifier::kRn) ||
      !w.Only({Modifier::kRn, Modifier::kRelu}))
    return std::nullopt;
  Operation operation;
  operation.result_bits = 32;
  const int stride = Stride(from);
  operation.operand_bits = {2 * stride};
  operation.float_result = &kF16;
  operation.packed = true;
  const Words words = w;
  operation.compute = [=](const Operands& in) {
    auto widen = [&](uint64_t bits) {
      const Number number = Unpack(Truncate(bits, from.bits), from);
      return Finish(Pack(number, kF16, Rounding::kNearestEven), words, kF16);
    };
    return widen(in[0] >> stride) << 16 | widen(in[0]);
  };
  return operation;
}

std::optional<Operation> ToTf32(const Words& w, Operation operation) {
  const std::optional<Rounding> rounding = w.FloatRounding();
  if (w.types[1] != Type::kF32 || !rounding ||
      !w.Only(
          {Modifier::kRn, Modifier::kRna, Modifier::kRz, Modifier::kRelu, Modifier::kSatfinite})) {
    return std::nullopt;
  }
  operation.result_bits = 32;
  operation.operand_bits = {32};
  operation.float_result = &kF32;
  const Words words = w;
  operation.compute = [=](const Operands& in) {
    // A NaN stays a NaN.
    const uint64_t bits =
        Pack(Unpack(in[0], kF32), kTF32, *rounding, words.Has(Modifier::kSatfinite));
    return Finish(bits, words, kTF32) << 13;
  };
  return operation;
}

}  // namespace

std::optional<Operation> ConvertOperation(const Words& w) {
  if (w.op != Opcode::kCvt || w.types.size() != 2 || w.Has(Modifier::kPack)) return std::nullopt;
  const Type to = w.types[0], from = w.types[1];
  Operation operation;
  operation.result_bits = BitsOf(to);
  operation.result_is_signed = IsSigned(to);
  operation.operand_bits = {BitsOf(from)};
  if (to == Type::kTF32) return ToTf32(w, operation);
  const Format* to_format = FormatOf(to);
  const Format* from_format = FormatOf(from);
  if (to == Type::kUE8M0x2 || from == Type::kUE8M0x2) return std::nullopt;
  const bool from_small = from_format != nullptr && from_format->bits <= 8;
  const bool to_small = to_format != nullptr && to_format->bits <= 8;
  if (from_small) return FromFp8(w, *from_format);
  if (to_small || to == Type::kF16x2 || to == Type::kBF16x2) return Pair(w, *to_format);
  if (from == Type::kF16x2 || from == Type::kBF16x2) return std::nullopt;
  if (to_format != nullptr && from_format != nullptr) {
    return FloatToFloat(w, operation, *to_format, *from_format);
  }
  if (to_format != nullptr) return IntegerToFloat(w, operation, *to_format);
  if (from_format != nullptr) return FloatToInteger(w, operation, *from_format);
  return IntegerToInteger(w, operation);
}

}  // namespace cupel::reference
