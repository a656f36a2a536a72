// Exact arithmetic on binary floating-point numbers, and rounding to every format of PTX. A number
// is an integer times a power of two. Operations keep all bits, or a flag that says that more bits
// follow, and one function rounds. The code is slow and simple, for comparison in tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cupel::reference {

/// An unsigned integer of 256 bits, least significant word first.
struct Wide {
  std::array<uint64_t, 4> word{};

  static Wide Of(uint64_t value) { return Wide{{value, 0, 0, 0}}; }
  bool IsZero() const { return (word[0] | word[1] | word[2] | word[3]) == 0; }
  bool Bit(int i) const { return ((word[static_cast<size_t>(i / 64)] >> (i % 64)) & 1u) != 0; }
  void SetBit(int i) { word[static_cast<size_t>(i / 64)] |= uint64_t{1} << (i % 64); }
  /// Position of the highest set bit plus one.
  int Length() const;
};
Wide operator<<(const Wide& a, int n);
Wide operator>>(const Wide& a, int n);
Wide operator+(const Wide& a, const Wide& b);
Wide operator-(const Wide& a, const Wide& b);
Wide operator*(const Wide& a, uint64_t b);
int Compare(const Wide& a, const Wide& b);

/// (-1)^negative * (mantissa + rest) * 2^exponent, where 0 < rest < 1 if `inexact`, else 0.
struct Number {
  enum class Kind { kFinite, kInfinite, kNan };
  Kind kind = Kind::kFinite;
  bool negative = false;
  Wide mantissa;
  int exponent = 0;
  bool inexact = false;

  bool IsNan() const { return kind == Kind::kNan; }
  bool IsInfinite() const { return kind == Kind::kInfinite; }
  bool IsZero() const { return kind == Kind::kFinite && mantissa.IsZero(); }
  static Number Nan() { return Special(Kind::kNan, false); }
  static Number Infinity(bool negative) { return Special(Kind::kInfinite, negative); }
  static Number Zero(bool negative) { return Special(Kind::kFinite, negative); }
  static Number Integer(bool negative, uint64_t magnitude);

 private:
  static Number Special(Kind kind, bool negative);
};

/// A binary format of `bits` bits: sign, exponent, fraction.
struct Format {
  int bits = 32;
  int fraction = 23;
  int bias = 127;
  bool has_infinity = true;  // false for e4m3: its highest exponent has numbers and one NaN
  uint64_t canonical_nan = 0x7fffffffu;
  bool has_nan = true;

  uint64_t SignBit() const { return uint64_t{1} << (bits - 1); }
  uint64_t ExponentField() const { return (uint64_t{1} << (bits - 1 - fraction)) - 1; }
  uint64_t LargestFinite() const;
  uint64_t InfinityBits() const { return ExponentField() << fraction; }
};
inline constexpr Format kF16{16, 10, 15, true, 0x7fff};
inline constexpr Format kBF16{16, 7, 127, true, 0x7fff};
inline constexpr Format kF32{32, 23, 127, true, 0x7fffffff};
inline constexpr Format kF64{64, 52, 1023, true, 0x7fffffffffffffff};
inline constexpr Format kTF32{19, 10, 127, true, 0x3ffff};
inline constexpr Format kE4M3{8, 3, 7, false, 0x7f};
inline constexpr Format kE5M2{8, 2, 15, true, 0x7f};
// Formats without NaN: a NaN becomes the largest number.
inline constexpr Format kE2M1{4, 1, 1, false, 0x7, false};
inline constexpr Format kE2M3{6, 3, 1, false, 0x1f, false};
inline constexpr Format kE3M2{6, 2, 3, false, 0x1f, false};

enum class Rounding { kNearestEven, kZero, kDown, kUp, kNearestAway };

Number Unpack(uint64_t bits, const Format& format);
/// Rounds. A finite number that is too large becomes infinity or the largest number, depending on
/// the rounding. With `saturate_finite`, it and infinity always become the largest number.
uint64_t Pack(const Number& number, const Format& format, Rounding rounding,
              bool saturate_finite = false);
bool IsNan(uint64_t bits, const Format& format);
bool IsSubnormal(uint64_t bits, const Format& format);
/// Subnormal numbers become zeros of their sign.
uint64_t Flush(uint64_t bits, const Format& format);

/// The rounding only decides the sign of an exact zero.
Number Add(const Number& a, const Number& b, Rounding rounding);
Number Multiply(const Number& a, const Number& b);
Number Divide(const Number& a, const Number& b);
Number SquareRoot(const Number& a);
/// -1, 0, 1; neither is a NaN. Zeros are equal.
int Compare(const Number& a, const Number& b);
/// Rounds to an integral value. NaN and infinity stay unchanged.
Number RoundToIntegral(const Number& a, Rounding rounding);

}  // namespace cupel::reference
