// f32 and f64 arithmetic that PTX defines bit for bit, and f16 and bf16 arithmetic, which is the
// same with other formats. NaN results are the format's canonical NaN. Only f32 and the 16-bit
// formats guarantee that, and comparisons allow for it.
// SPDX-License-Identifier: Apache-2.0
#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;
using Numbers = std::array<Number, 3>;

struct Traits {
  const Format* format = nullptr;
  Rounding rounding = Rounding::kNearestEven;
  bool flush = false, saturate = false, relu = false;
};

uint64_t Relu(uint64_t bits, const Format& format) {
  if (IsNan(bits, format)) return format.canonical_nan;
  return (bits & format.SignBit()) != 0 ? 0 : bits;
}

/// An operation that rounds: flush operands, compute exactly, round, clamp, flush.
template <class F>
Operation Rounded(const Traits& traits, int operands, F f) {
  Operation operation;
  operation.result_bits = traits.format->bits;
  operation.operand_bits.assign(static_cast<size_t>(operands), traits.format->bits);
  operation.float_result = traits.format;
  operation.flushes = traits.flush;
  operation.compute = [=](const Operands& in) {
    Numbers numbers;
    for (size_t i = 0; i < static_cast<size_t>(operands); ++i) {
      numbers[i] = Unpack(traits.flush ? Flush(in[i], *traits.format) : in[i], *traits.format);
    }
    uint64_t bits = Pack(f(numbers, traits.rounding), *traits.format, traits.rounding);
    if (traits.saturate) bits = Saturated(bits, *traits.format);
    if (traits.relu) bits = Relu(bits, *traits.format);
    return traits.flush ? Flush(bits, *traits.format) : bits;
  };
  return operation;
}

Number Negated(Number number) {
  number.negative = !number.negative;
  return number;
}

std::optional<Operation> Arithmetic(const Words& w, const Traits& traits) {
  if (w.op == Opcode::kAdd) {
    return Rounded(traits, 2, [](const Numbers& n, Rounding r) { return Add(n[0], n[1], r); });
  }
  if (w.op == Opcode::kSub) {
    return Rounded(traits, 2,
                   [](const Numbers& n, Rounding r) { return Add(n[0], Negated(n[1]), r); });
  }
  if (w.op == Opcode::kMul) {
    return Rounded(traits, 2, [](const Numbers& n, Rounding) { return Multiply(n[0], n[1]); });
  }
  // From here on PTX has no default rounding.
  if (!w.FloatRounding()) return std::nullopt;
  if (w.op == Opcode::kFma || w.op == Opcode::kMad) {
    return Rounded(traits, 3,
                   [](const Numbers& n, Rounding r) { return Add(Multiply(n[0], n[1]), n[2], r); });
  }
  if (traits.format->bits < 32) return std::nullopt;
  if (w.op == Opcode::kDiv) {
    return Rounded(traits, 2, [](const Numbers& n, Rounding) { return Divide(n[0], n[1]); });
  }
  if (w.op == Opcode::kRcp) {
    return Rounded(traits, 1, [](const Numbers& n, Rounding) {
      return Divide(Number::Integer(false, 1), n[0]);
    });
  }
  if (w.op == Opcode::kSqrt) {
    return Rounded(traits, 1, [](const Numbers& n, Rounding) { return SquareRoot(n[0]); });
  }
  return std::nullopt;
}

/// min, max, neg, abs, copysign: operations without rounding.
std::optional<Operation> Selection(const Words& w, const Traits& traits) {
  const Format& format = *traits.format;
  Operation operation;
  operation.result_bits = format.bits;
  operation.operand_bits = {format.bits, format.bits};
  operation.float_result = &format;
  operation.flushes = traits.flush;
  const bool flush = traits.flush;
  if (w.op == Opcode::kMin || w.op == Opcode::kMax) {
    if (!w.Only({Modifier::kFtz, Modifier::kNaN})) return std::nullopt;
    const bool largest = w.op == Opcode::kMax, keep_nan = w.Has(Modifier::kNaN);
    operation.compute = [=](const Operands& in) {
      const uint64_t a = flush ? Flush(in[0], format) : in[0];
      const uint64_t b = flush ? Flush(in[1], format) : in[1];
      if (keep_nan && (IsNan(a, format) || IsNan(b, format))) return format.canonical_nan;
      return largest ? Larger(a, b, format) : Smaller(a, b, format);
    };
    return operation;
  }
  if (w.op == Opcode::kCopysign && w.modifiers.size() == 1) {
    operation.compute = [=](const Operands& in) {
      return (in[0] & format.SignBit()) | (in[1] & ~format.SignBit());
    };
    return operation;
  }
  if (!w.Only({Modifier::kFtz})) return std::nullopt;
  operation.operand_bits = {format.bits};
  if (w.op == Opcode::kNeg) {
    operation.compute = [=](const Operands& in) {
      return (flush ? Flush(in[0], format) : in[0]) ^ format.SignBit();
    };
    return operation;
  }
  if (w.op == Opcode::kAbs) {
    operation.compute = [=](const Operands& in) {
      return (flush ? Flush(in[0], format) : in[0]) & ~format.SignBit();
    };
    return operation;
  }
  return std::nullopt;
}

}  // namespace

uint64_t Saturated(uint64_t bits, const Format& format) {
  const Number number = Unpack(bits, format);
  if (number.IsNan() || number.negative || number.IsZero()) return 0;
  const Number one = Number::Integer(false, 1);
  return Compare(number, one) > 0 ? Pack(one, format, Rounding::kNearestEven) : bits;
}

uint64_t Smaller(uint64_t a, uint64_t b, const Format& format) {
  if (IsNan(a, format)) return IsNan(b, format) ? format.canonical_nan : b;
  if (IsNan(b, format)) return a;
  const int order = Compare(Unpack(a, format), Unpack(b, format));
  if (order == 0) return (a & format.SignBit()) != 0 ? a : b;  // -0 is below +0
  return order < 0 ? a : b;
}

uint64_t Larger(uint64_t a, uint64_t b, const Format& format) {
  if (IsNan(a, format)) return IsNan(b, format) ? format.canonical_nan : b;
  if (IsNan(b, format)) return a;
  const int order = Compare(Unpack(a, format), Unpack(b, format));
  if (order == 0) return (a & format.SignBit()) != 0 ? b : a;
  return order > 0 ? a : b;
}

std::optional<Operation> FloatOperation(const Words& w) {
  if (w.types.size() != 1 || (w.types[0] != Type::kF32 && w.types[0] != Type::kF64)) {
    return std::nullopt;
  }
  const Traits traits{FormatOf(w.types[0]), w.FloatRounding().value_or(Rounding::kNearestEven),
                      w.Has(Modifier::kFtz), w.Has(Modifier::kSat), false};
  if (traits.flush && w.types[0] == Type::kF64) return std::nullopt;
  if (w.Only({Modifier::kRn, Modifier::kRz, Modifier::kRm, Modifier::kRp, Modifier::kFtz,
              Modifier::kSat})) {
    std::optional<Operation> found = Arithmetic(w, traits);
    if (found) return found;
  }
  return Selection(w, traits);
}

std::optional<Operation> HalfOperation(const Words& w) {
  if (w.types.size() != 1) return std::nullopt;
  const Type type = w.types[0];
  const bool packed = type == Type::kF16x2 || type == Type::kBF16x2;
  if (!packed && type != Type::kF16 && type != Type::kBF16) return std::nullopt;
  const Traits traits{FormatOf(type), Rounding::kNearestEven, w.Has(Modifier::kFtz),
                      w.Has(Modifier::kSat), w.Has(Modifier::kRelu)};
  std::optional<Operation> found;
  if (w.Only({Modifier::kRn, Modifier::kFtz, Modifier::kSat, Modifier::kRelu}))
    found = Arithmetic(w, traits);
  if (!found) found = Selection(w, traits);
  if (found && packed) return InHalves(*found);
  return found;
}

}  // namespace cupel::reference
