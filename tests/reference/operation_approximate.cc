// Instructions for which PTX only bounds the error: ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt,
// div. The exact value comes from the C library in long double, which is about 2000 times as
// precise as the tightest bound.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "instruction.h"

namespace cupel::reference {
namespace {

using ptx::Modifier;
using ptx::Opcode;
using ptx::Type;

long double Value(uint64_t bits, const Format& format) {
  const Number n = Unpack(bits, format);
  if (n.IsNan()) return NAN;
  if (n.IsInfinite()) return n.negative ? -HUGE_VALL : HUGE_VALL;
  const long double magnitude =
      std::ldexp(static_cast<long double>(n.mantissa.word[0]), n.exponent);
  return n.negative ? -magnitude : magnitude;
}

Number NumberOf(long double value) {
  if (std::isnan(value)) return Number::Nan();
  if (std::isinf(value)) return Number::Infinity(value < 0);
  int exponent = 0;
  const long double fraction = std::frexp(std::fabs(value), &exponent);
  Number number =
      Number::Integer(std::signbit(value), static_cast<uint64_t>(std::ldexp(fraction, 64)));
  number.exponent = exponent - 64;
  return number;
}

/// For |b| in (2^126, 2^128) PTX defines the result as the hardware's a * (1 / b).
long double Quotient(long double a, long double b, bool full_range) {
  const long double size = std::fabs(b);
  if (!full_range && size > 0x1p126L && !std::isinf(b)) {
    if (std::isinf(a)) return NAN;
    return std::isnan(a) ? a : (std::signbit(a) != std::signbit(b) ? -0.0L : 0.0L);
  }
  return a / b;
}

struct Kind {
  std::function<long double(long double, long double)> value;
  Bound bound;
  int operands = 1;
};

std::optional<Kind> Single(const Words& w) {
  auto unary = [](long double (*f)(long double), Bound bound) {
    return Kind{[f](long double a, long double) { return f(a); }, bound, 1};
  };
  constexpr double kTwoPi = 6.283185307179586;
  if (w.op == Opcode::kDiv) {
    const bool full = w.Has(Modifier::kFull);
    return Kind{
        [full](long double a, long double b) { return Quotient(a, b, full); }, {.ulps = 2}, 2};
  }
  if (w.op == Opcode::kRcp) return unary([](long double a) { return 1 / a; }, {.ulps = 1});
  if (w.op == Opcode::kSqrt)
    return unary([](long double a) { return sqrtl(a); }, {.relative = 0x1p-23});
  if (w.op == Opcode::kRsqrt) {
    return unary([](long double a) { return 1 / sqrtl(a); }, {.relative = std::exp2(-22.9)});
  }
  if (w.op == Opcode::kEx2)
    return unary([](long double a) { return exp2l(a); }, {.relative = 0x1p-22});
  if (w.op == Opcode::kLg2) {
    // The bound is absolute between 1/2 and 2 and relative elsewhere. The other one is never wider.
    return unary([](long double a) { return log2l(a); },
                 {.relative = 0x1p-22, .absolute = 0x1p-22});
  }
  if (w.op == Opcode::kSin || w.op == Opcode::kCos) {
    const Bound bound{.absolute = std::exp2(-20.5), .lowest = -kTwoPi, .highest = kTwoPi};
    if (w.op == Opcode::kSin) return unary([](long double a) { return sinl(a); }, bound);
    return unary([](long double a) { return cosl(a); }, bound);
  }
  if (w.op == Opcode::kTanh)
    return unary([](long double a) { return tanhl(a); }, {.relative = 0x1p-11});
  return std::nullopt;
}

std::optional<Kind> Double(const Words& w) {
  // Only the upper 32 bits of operands and results are used. PTX gives no bound.
  const Bound gross{.relative = 0x1p-19, .stated = false};
  if (w.op == Opcode::kRcp && w.Has(Modifier::kFtz)) {
    return Kind{[](long double a, long double) { return 1 / a; }, gross, 1};
  }
  if (w.op == Opcode::kRsqrt) {
    const Bound fine{.relative = 0x1p-48, .stated = false};
    return Kind{[](long double a, long double) { return 1 / sqrtl(a); },
                w.Has(Modifier::kFtz) ? gross : fine, 1};
  }
  return std::nullopt;
}

std::optional<Kind> Half(const Words& w, const Format& format) {
  const bool brain = &format == &kBF16;
  if (w.op == Opcode::kEx2) {
    return Kind{[](long double a, long double) { return exp2l(a); },
                {.relative = brain ? 0x1p-7 : std::exp2(-9.9)},
                1};
  }
  if (w.op == Opcode::kTanh) {
    const Bound bound = {.absolute = brain ? 0x1p-8 : std::exp2(-10.987)};
    return Kind{[](long double a, long double) { return tanhl(a); }, bound, 1};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Operation> ApproximateOperation(const Words& w) {
  if (!w.Has(Modifier::kApprox) && !w.Has(Modifier::kFull)) return std::nullopt;
  if (w.types.size() != 1 || FormatOf(w.types[0]) == nullptr ||
      !w.Only({Modifier::kApprox, Modifier::kFull, Modifier::kFtz})) {
    return std::nullopt;
  }
  const Format& format = *FormatOf(w.types[0]);
  const bool flush = w.Has(Modifier::kFtz);
  const std::optional<Kind> kind =
      format.bits == 32 ? Single(w) : (format.bits == 64 ? Double(w) : Half(w, format));
  if (!kind) return std::nullopt;
  Operation operation;
  operation.result_bits = format.bits;
  operation.operand_bits.assign(static_cast<size_t>(kind->operands), format.bits);
  operation.float_result = &format;
  operation.flushes = flush;
  operation.bound = kind->bound;
  const auto value = kind->value;
  operation.exact = [=](const Operands& in) {
    auto get = [&](uint64_t bits) { return Value(flush ? Flush(bits, format) : bits, format); };
    return value(get(in[0]), get(in[1]));
  };
  const auto exact = operation.exact;
  operation.compute = [=](const Operands& in) {
    const uint64_t bits = Pack(NumberOf(exact(in)), format, Rounding::kNearestEven);
    return flush ? Flush(bits, format) : bits;
  };
  const bool packed = w.types[0] == Type::kF16x2 || w.types[0] == Type::kBF16x2;
  return packed ? InHalves(operation) : operation;
}

}  // namespace cupel::reference
