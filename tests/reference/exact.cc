// SPDX-License-Identifier: Apache-2.0
#include "exact.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace cupel::reference {

int Wide::Length() const {
  for (int i = 3; i >= 0; --i) {
    const uint64_t part = word[static_cast<size_t>(i)];
    if (part != 0) return 64 * i + static_cast<int>(std::bit_width(part));
  }
  return 0;
}

Wide operator<<(const Wide& a, int n) {
  Wide result;
  if (n >= 256) return result;
  const int words = n / 64, bits = n % 64;
  for (int i = 3; i >= words; --i) {
    uint64_t part = a.word[static_cast<size_t>(i - words)] << bits;
    if (bits != 0 && i > words) part |= a.word[static_cast<size_t>(i - words - 1)] >> (64 - bits);
    result.word[static_cast<size_t>(i)] = part;
  }
  return result;
}

Wide operator>>(const Wide& a, int n) {
  Wide result;
  if (n >= 256) return result;
  const int words = n / 64, bits = n % 64;
  for (int i = 0; i + words < 4; ++i) {
    uint64_t part = a.word[static_cast<size_t>(i + words)] >> bits;
    if (bits != 0 && i + words < 3) {
      part |= a.word[static_cast<size_t>(i + words + 1)] << (64 - bits);
    }
    result.word[static_cast<size_t>(i)] = part;
  }
  return result;
}

Wide operator+(const Wide& a, const Wide& b) {
  Wide result;
  unsigned carry = 0;
  for (size_t i = 0; i < 4; ++i) {
    const unsigned __int128 sum = static_cast<unsigned __int128>(a.word[i]) + b.word[i] + carry;
    result.word[i] = static_cast<uint64_t>(sum);
    carry = static_cast<unsigned>(sum >> 64);
  }
  return result;
}

Wide operator-(const Wide& a, const Wide& b) {
  Wide result;
  unsigned borrow = 0;
  for (size_t i = 0; i < 4; ++i) {
    const unsigned __int128 taken = static_cast<unsigned __int128>(b.word[i]) + borrow;
    borrow = a.word[i] < taken ? 1 : 0;
    result.word[i] = static_cast<uint64_t>(a.word[i] - taken);
  }
  return result;
}

Wide operator*(const Wide& a, uint64_t b) {
  Wide result;
  uint64_t carry = 0;
  for (size_t i = 0; i < 4; ++i) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a.word[i]) * b + carry;
    result.word[i] = static_cast<uint64_t>(product);
    carry = static_cast<uint64_t>(product >> 64);
  }
  return result;
}

int Compare(const Wide& a, const Wide& b) {
  for (size_t i = 4; i-- > 0;) {
    if (a.word[i] != b.word[i]) return a.word[i] < b.word[i] ? -1 : 1;
  }
  return 0;
}

Number Number::Special(Kind kind, bool negative) {
  Number result;
  result.kind = kind;
  result.negative = negative;
  return result;
}

Number Number::Integer(bool negative, uint64_t magnitude) {
  Number result = Zero(negative);
  result.mantissa = Wide::Of(magnitude);
  return result;
}

uint64_t Format::LargestFinite() const {
  return has_infinity ? InfinityBits() - 1 : canonical_nan - (has_nan ? 1 : 0);
}

bool IsNan(uint64_t bits, const Format& format) {
  const uint64_t magnitude = bits & (format.SignBit() - 1);
  if (!format.has_nan) return false;
  return format.has_infinity ? magnitude > format.InfinityBits()
                             : magnitude == format.canonical_nan;
}

bool IsSubnormal(uint64_t bits, const Format& format) {
  const uint64_t magnitude = bits & (format.SignBit() - 1);
  return magnitude != 0 && (magnitude >> format.fraction) == 0;
}

uint64_t Flush(uint64_t bits, const Format& format) {
  return IsSubnormal(bits, format) ? bits & format.SignBit() : bits;
}

Number Unpack(uint64_t bits, const Format& format) {
  const bool negative = (bits & format.SignBit()) != 0;
  const uint64_t magnitude = bits & (format.SignBit() - 1);
  if (IsNan(bits, format)) return Number::Nan();
  if (format.has_infinity && magnitude == format.InfinityBits()) return Number::Infinity(negative);
  const auto field = static_cast<int>(magnitude >> format.fraction);
  const uint64_t fraction = magnitude & ((uint64_t{1} << format.fraction) - 1);
  const uint64_t hidden = field == 0 ? 0 : uint64_t{1} << format.fraction;
  Number result = Number::Integer(negative, hidden | fraction);
  result.exponent = std::max(field, 1) - format.bias - format.fraction;
  return result;
}

namespace {

/// Whether a magnitude of an integer plus a fraction rounds away from zero. `odd`: the integer is
/// odd. `half`: the fraction compared with one half (-1, 0, 1). `rest`: the fraction is not zero.
bool RoundsUp(bool odd, int half, bool rest, bool negative, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return half > 0 || (half == 0 && odd);
    case Rounding::kNearestAway:
      return half >= 0;
    case Rounding::kZero:
      return false;
    case Rounding::kDown:
      return rest && negative;
    case Rounding::kUp:
      return rest && !negative;
  }
  std::abort();
}

/// The magnitude in units of 2^quantum, rounded.
Wide InUnits(const Number& number, int quantum, Rounding rounding) {
  if (quantum <= number.exponent) {
    if (number.inexact) std::abort();  // an operation kept too few bits
    return number.mantissa << (number.exponent - quantum);
  }
  const int shift = quantum - number.exponent;
  const Wide whole = number.mantissa >> shift;
  const Wide rest = shift >= 256 ? number.mantissa : number.mantissa - (whole << shift);
  const bool any = !rest.IsZero() || number.inexact;
  int half = -1;
  if (shift <= 256) {
    Wide middle;
    middle.SetBit(shift - 1);
    half = Compare(rest, middle);
    if (half == 0 && number.inexact) half = 1;
  }
  const bool up = RoundsUp(whole.Bit(0), half, any, number.negative, rounding);
  return up ? whole + Wide::Of(1) : whole;
}

}  // namespace

uint64_t Pack(const Number& number, const Format& format, Rounding rounding, bool saturate_finite) {
  const uint64_t sign = number.negative ? format.SignBit() : 0;
  if (number.IsNan()) return format.canonical_nan;
  if (number.IsInfinite()) {
    return sign | (saturate_finite ? format.LargestFinite() : format.InfinityBits());
  }
  if (number.mantissa.IsZero() && !number.inexact) return sign;
  const int smallest = 1 - format.bias - format.fraction;  // exponent of the last subnormal bit
  const int top = number.mantissa.Length() - 1 + number.exponent;
  const int quantum = std::max(top - format.fraction, smallest);
  const uint64_t units = InUnits(number, quantum, rounding).word[0];
  // Add rather than OR, because a carry out of the fraction goes into the exponent.
  const uint64_t hidden = uint64_t{1} << format.fraction;
  if (units < hidden) return sign | units;  // subnormal or zero
  const auto field = static_cast<int64_t>(quantum) - smallest + 1;
  const int64_t limit = int64_t{1} << (format.bits - 1 - format.fraction);
  const uint64_t magnitude =
      field >= limit ? ~uint64_t{0} >> 1
                     : (static_cast<uint64_t>(field) << format.fraction) + (units - hidden);
  if (magnitude <= format.LargestFinite()) return sign | magnitude;
  const bool away = rounding == Rounding::kNearestEven || rounding == Rounding::kNearestAway ||
                    (rounding == Rounding::kDown && number.negative) ||
                    (rounding == Rounding::kUp && !number.negative);
  return sign | (saturate_finite || !away ? format.LargestFinite() : format.InfinityBits());
}

Number Multiply(const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (a.IsNan() || b.IsNan()) return Number::Nan();
  if (a.IsInfinite() || b.IsInfinite()) {
    return a.IsZero() || b.IsZero() ? Number::Nan() : Number::Infinity(negative);
  }
  Number result = Number::Zero(negative);
  result.mantissa = a.mantissa * b.mantissa.word[0];  // operands have one word
  result.exponent = a.exponent + b.exponent;
  return result;
}

Number Add(const Number& a, const Number& b, Rounding rounding) {
  if (a.IsNan() || b.IsNan()) return Number::Nan();
  if (a.IsInfinite() || b.IsInfinite()) {
    if (a.IsInfinite() && b.IsInfinite() && a.negative != b.negative) return Number::Nan();
    return a.IsInfinite() ? a : b;
  }
  if (a.IsZero() && b.IsZero()) {
    if (a.negative == b.negative) return a;
    return Number::Zero(rounding == Rounding::kDown);
  }
  if (a.IsZero()) return b;
  if (b.IsZero()) return a;
  Number high = a, low = b;
  if (high.exponent < low.exponent) std::swap(high, low);
  int gap = high.exponent - low.exponent;
  // If the numbers are far apart, only the presence and the sign of the low one matter. Replace it
  // by a power of two far below the last bit of the high number and of any result.
  constexpr int kFar = 64;
  if (gap > kFar) {
    const int low_top = low.mantissa.Length() + low.exponent;
    if (low_top < high.exponent - kFar) {
      low.mantissa = Wide::Of(1);
      low.exponent = high.exponent - kFar;
    }
    gap = high.exponent - low.exponent;
  }
  // The sum fits: the two lengths (53, or 106 for a product) and kFar.
  if (high.mantissa.Length() + gap > 250) std::abort();
  high.mantissa = high.mantissa << gap;
  high.exponent = low.exponent;
  if (high.negative == low.negative) {
    high.mantissa = high.mantissa + low.mantissa;
    return high;
  }
  const int order = Compare(high.mantissa, low.mantissa);
  if (order == 0) return Number::Zero(rounding == Rounding::kDown);
  Number result = order > 0 ? high : low;
  result.mantissa = order > 0 ? high.mantissa - low.mantissa : low.mantissa - high.mantissa;
  return result;
}

Number Divide(const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (a.IsNan() || b.IsNan()) return Number::Nan();
  if (a.IsInfinite()) return b.IsInfinite() ? Number::Nan() : Number::Infinity(negative);
  if (b.IsInfinite()) return Number::Zero(negative);
  if (b.IsZero()) return a.IsZero() ? Number::Nan() : Number::Infinity(negative);
  if (a.IsZero()) return Number::Zero(negative);
  constexpr int kMore = 130;  // bits of the quotient beyond the operands' own
  Wide rest;
  Wide quotient;
  const Wide dividend = a.mantissa << kMore;
  for (int i = dividend.Length() - 1; i >= 0; --i) {  // as on paper
    rest = rest << 1;
    if (dividend.Bit(i)) rest.SetBit(0);
    if (Compare(rest, b.mantissa) >= 0) {
      rest = rest - b.mantissa;
      quotient.SetBit(i);
    }
  }
  Number result = Number::Zero(negative);
  result.mantissa = quotient;
  result.exponent = a.exponent - b.exponent - kMore;
  result.inexact = !rest.IsZero();
  return result;
}

Number SquareRoot(const Number& a) {
  if (a.IsNan() || a.IsZero()) return a;
  if (a.negative) return Number::Nan();
  if (a.IsInfinite()) return a;
  int shift = 130;
  if (((a.exponent - shift) & 1) != 0) ++shift;
  const Wide radicand = a.mantissa << shift;
  Wide root;
  for (int i = 96; i >= 0; --i) {  // the largest root whose square is not above the radicand
    Wide next = root;
    next.SetBit(i);
    const Wide square = next * next.word[0] + ((next * next.word[1]) << 64);
    if (Compare(square, radicand) <= 0) root = next;
  }
  Number result = Number::Zero(false);
  result.mantissa = root;
  result.exponent = (a.exponent - shift) / 2;
  result.inexact = Compare(root * root.word[0] + ((root * root.word[1]) << 64), radicand) != 0;
  return result;
}

int Compare(const Number& a, const Number& b) {
  if (a.IsZero() && b.IsZero()) return 0;
  auto sign = [](const Number& n) { return n.IsZero() ? 0 : (n.negative ? -1 : 1); };
  if (sign(a) != sign(b)) return sign(a) < sign(b) ? -1 : 1;
  const int direction = a.negative ? -1 : 1;
  if (a.IsInfinite() || b.IsInfinite()) {
    return direction * (int{a.IsInfinite()} - int{b.IsInfinite()});
  }
  Number difference = b;
  difference.negative = !b.negative;
  difference = Add(a, difference, Rounding::kNearestEven);
  return sign(difference);
}

Number RoundToIntegral(const Number& a, Rounding rounding) {
  if (a.kind != Number::Kind::kFinite || a.exponent >= 0) return a;
  Number result = a;
  result.mantissa = InUnits(a, 0, rounding);
  result.exponent = 0;
  result.inexact = false;
  return result;
}

}  // namespace cupel::reference
