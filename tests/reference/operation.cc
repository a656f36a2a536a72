// SPDX-License-Identifier: Apache-2.0
#include "operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "instruction.h"

namespace cupel::reference {

using ptx::Modifier;
using ptx::Type;

const Format* FormatOf(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2:
      return &kF16;
    case Type::kBF16:
    case Type::kBF16x2:
      return &kBF16;
    case Type::kF32:
      return &kF32;
    case Type::kF64:
      return &kF64;
    case Type::kE4M3x2:
      return &kE4M3;
    case Type::kE5M2x2:
      return &kE5M2;
    case Type::kE2M1x2:
      return &kE2M1;
    case Type::kE2M3x2:
      return &kE2M3;
    case Type::kE3M2x2:
      return &kE3M2;
    default:
      return nullptr;
  }
}

bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

int BitsOf(Type type) { return type == Type::kPred ? 1 : 8 * ptx::SizeOf(type); }

uint64_t Truncate(uint64_t value, int bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

int64_t SignExtend(uint64_t value, int bits) {
  if (bits >= 64) return static_cast<int64_t>(value);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>((Truncate(value, bits) ^ sign) - sign);
}

bool Words::Only(std::initializer_list<Modifier> known) const {
  return std::all_of(modifiers.begin(), modifiers.end(), [&](Modifier word) {
    return ptx::TypeOf(word) != Type::kNone ||
           std::find(known.begin(), known.end(), word) != known.end();
  });
}

std::optional<Rounding> Words::FloatRounding() const {
  if (Has(Modifier::kRn)) return Rounding::kNearestEven;
  if (Has(Modifier::kRz)) return Rounding::kZero;
  if (Has(Modifier::kRm)) return Rounding::kDown;
  if (Has(Modifier::kRp)) return Rounding::kUp;
  if (Has(Modifier::kRna)) return Rounding::kNearestAway;
  return std::nullopt;
}

Operation InHalves(const Operation& one) {
  Operation both = one;
  both.packed = true;
  both.result_bits = one.result_bits == 1 ? 1 : 2 * one.result_bits;
  for (int& bits : both.operand_bits) bits *= 2;
  const int bits = one.result_bits;
  const std::vector<int> operand_bits = one.operand_bits;
  const auto compute = one.compute;
  both.compute = [=](const Operands& in) {
    Operands low{}, high{};
    for (size_t i = 0; i < operand_bits.size(); ++i) {
      low[i] = Truncate(in[i], operand_bits[i]);
      high[i] = Truncate(in[i] >> operand_bits[i], operand_bits[i]);
    }
    return compute(low) | compute(high) << bits;
  };
  return both;
}

std::optional<Operation> FindOperation(ptx::Opcode op, const ptx::Modifiers& modifiers) {
  const Words words{op, modifiers, ptx::TypesOf(modifiers)};
  if (words.types.empty()) return std::nullopt;
  for (const auto& part :
       {&IntegerOperation, &BitOperation, &CompareOperation, &ConvertOperation,
        &ApproximateOperation, &FloatOperation, &HalfOperation, &RareOperation}) {
    std::optional<Operation> found = part(words);
    if (found) return found;
  }
  return std::nullopt;
}

namespace {

long double ValueOf(uint64_t bits, const Format& format) {
  const Number number = Unpack(bits, format);
  if (number.IsNan()) return NAN;
  if (number.IsInfinite()) return number.negative ? -HUGE_VALL : HUGE_VALL;
  const auto magnitude =
      std::ldexp(static_cast<long double>(number.mantissa.word[0]), number.exponent);
  return number.negative ? -magnitude : magnitude;
}

/// The distance of neighbouring numbers at `value`.
long double Ulp(long double value, const Format& format) {
  if (value == 0 || !std::isfinite(value)) value = 0;
  const int smallest = 1 - format.bias - format.fraction;
  const int exponent = value == 0 ? smallest : std::ilogb(value) - format.fraction;
  return std::ldexp(1.0L, std::max(exponent, smallest));
}

bool ApproximatelyEqual(const Operation& operation, const Operands& operands, uint64_t expected,
                        uint64_t got) {
  const Format& format = *operation.float_result;
  const long double exact = operation.exact(operands);
  const long double value = ValueOf(got, format);
  if (std::isnan(exact) || std::isnan(value)) return std::isnan(exact) && std::isnan(value);
  const long double first = ValueOf(operands[0], format);
  const Bound& bound = operation.bound;
  if (first < bound.lowest || first > bound.highest) return true;
  if (std::isinf(exact) || std::isinf(value) || exact == 0) {
    if (expected == got) return true;
    if (std::isinf(exact) || exact == 0) return exact == 0 && std::abs(value) <= bound.absolute;
  }
  if (operation.flushes) {
    // Results below the normal numbers are zero. At the boundary both are possible.
    const long double tiny = std::ldexp(1.0L, 1 - format.bias);
    if (IsSubnormal(got, format)) return false;
    if (std::abs(exact) < tiny * 1.001L && value == 0) return true;
  }
  // A result that overflows is compared as if the exponent were unbounded.
  const long double most = std::ldexp(1.0L, format.bias + 1);
  const long double seen = std::isinf(value) ? std::copysign(most, value) : value;
  const long double error = std::abs(seen - exact);
  // Subnormal results have no relative precision.
  const long double quantum = std::ldexp(1.0L, 1 - format.bias - format.fraction);
  return error <= bound.absolute || error <= bound.relative * std::abs(exact) + quantum ||
         error <= bound.ulps * Ulp(exact, format);
}

bool FloatsAgree(const Operation& operation, uint64_t expected, uint64_t got) {
  const Format& format = *operation.float_result;
  if (IsNan(expected, format) || IsNan(got, format)) {
    return IsNan(expected, format) && IsNan(got, format);
  }
  if (!operation.flushes || expected == got) return expected == got;
  // An exact result just below the smallest normal number that rounds to it: PTX does not define
  // whether rounding or flushing comes first.
  const uint64_t smallest = uint64_t{1} << format.fraction;
  const uint64_t sign = format.SignBit();
  return (expected & ~sign) == smallest && (got & ~sign) == 0 && ((expected ^ got) & sign) == 0;
}

}  // namespace

bool Agrees(const Operation& operation, const Operands& operands, uint64_t expected, uint64_t got) {
  if (operation.is_undefined && operation.is_undefined(operands)) return true;
  if (operation.exact && !operation.packed) {
    return ApproximatelyEqual(operation, operands, expected, got);
  }
  if (operation.float_result == nullptr) return expected == got;
  if (!operation.packed) return FloatsAgree(operation, expected, got);
  const int bits = operation.float_result->bits;
  Operation one = operation;
  one.packed = false;
  Operands low{}, high{};
  for (size_t i = 0; i < operation.operand_bits.size(); ++i) {
    low[i] = Truncate(operands[i], operation.operand_bits[i] / 2);
    high[i] = operands[i] >> (operation.operand_bits[i] / 2);
  }
  return Agrees(one, low, Truncate(expected, bits), Truncate(got, bits)) &&
         Agrees(one, high, expected >> bits, got >> bits);
}

}  // namespace cupel::reference
