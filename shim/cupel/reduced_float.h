// The code that c10::Half and c10::BFloat16 share: operators through float, numeric limits, and
// host-side conversions. Element copies need the conversions even if the types are left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

namespace cupel::shim {

template <class T, int Digits, int MinExponent, int MinExponent10, int MaxExponent,
          int MaxExponent10, unsigned short Min, unsigned short Max, unsigned short Epsilon,
          unsigned short Infinity, unsigned short Nan>
struct ReducedFloatLimits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  static constexpr bool is_iec559 = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr int digits = Digits;
  static constexpr int digits10 = (Digits - 1) * 301 / 1000;
  static constexpr int max_digits10 = Digits * 301 / 1000 + 2;
  static constexpr int radix = 2;
  static constexpr int min_exponent = MinExponent;
  static constexpr int min_exponent10 = MinExponent10;
  static constexpr int max_exponent = MaxExponent;
  static constexpr int max_exponent10 = MaxExponent10;
  static constexpr CUPEL_HOST_DEVICE T Bits(unsigned short bits) { return T(bits, T::from_bits()); }
  static constexpr CUPEL_HOST_DEVICE T min() { return Bits(Min); }
  static constexpr CUPEL_HOST_DEVICE T max() { return Bits(Max); }
  static constexpr CUPEL_HOST_DEVICE T lowest() { return Bits(Max | 0x8000); }
  static constexpr CUPEL_HOST_DEVICE T epsilon() { return Bits(Epsilon); }
  static constexpr CUPEL_HOST_DEVICE T infinity() { return Bits(Infinity); }
  static constexpr CUPEL_HOST_DEVICE T quiet_NaN() { return Bits(Nan); }
  static constexpr CUPEL_HOST_DEVICE T denorm_min() { return Bits(1); }
};

float HalfBitsToFloat(uint16_t bits);
uint16_t FloatToHalfBits(float value);
float BFloat16BitsToFloat(uint16_t bits);
uint16_t FloatToBFloat16Bits(float value);

#if CUPEL_BODIES
CUPEL_INLINE uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
CUPEL_INLINE float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
CUPEL_INLINE float HalfBitsToFloat(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 31) return FloatOf(sign | 0x7F800000u | (fraction << 13));
  if (exponent) return FloatOf(sign | ((exponent + 112) << 23) | (fraction << 13));
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}
CUPEL_INLINE uint16_t FloatToHalfBits(float value) {
  uint32_t bits = BitsOf(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded bits at the bottom
    uint32_t rounded = BitsOf(FloatOf(magnitude) + 0.5f) - 0x3F000000u;
    return static_cast<uint16_t>(sign | rounded);
  }
  magnitude += 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u) >> 13));
}
CUPEL_INLINE float BFloat16BitsToFloat(uint16_t bits) { return FloatOf(uint32_t{bits} << 16); }
CUPEL_INLINE uint16_t FloatToBFloat16Bits(float value) {
  uint32_t bits = BitsOf(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
#endif

}  // namespace cupel::shim

// Mixed arithmetic gives the wider type for float and double, T for integers, as PyTorch defines
// it.
#define CUPEL_REDUCED_FLOAT_MIXED(T, op)                                                          \
  inline CUPEL_HOST_DEVICE T operator op(const T& a, const T& b) {                                \
    return T(static_cast<float>(a) op static_cast<float>(b));                                     \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE T& operator op##=(T& a, const T& b) { return a = a op b; }             \
  inline CUPEL_HOST_DEVICE float operator op(T a, float b) { return static_cast<float>(a) op b; } \
  inline CUPEL_HOST_DEVICE float operator op(float a, T b) { return a op static_cast<float>(b); } \
  inline CUPEL_HOST_DEVICE float& operator op##=(float& a, const T& b) {                          \
    return a op## = static_cast<float>(b);                                                        \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE double operator op(T a, double b) {                                    \
    return static_cast<double>(static_cast<float>(a)) op b;                                       \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE double operator op(double a, T b) {                                    \
    return a op static_cast<double>(static_cast<float>(b));                                       \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE T operator op(T a, int b) {                                            \
    return T(static_cast<float>(a) op static_cast<float>(b));                                     \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE T operator op(int a, T b) {                                            \
    return T(static_cast<float>(a) op static_cast<float>(b));                                     \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE T operator op(T a, int64_t b) {                                        \
    return T(static_cast<float>(a) op static_cast<float>(b));                                     \
  }                                                                                               \
  inline CUPEL_HOST_DEVICE T operator op(int64_t a, T b) {                                        \
    return T(static_cast<float>(a) op static_cast<float>(b));                                     \
  }
#define CUPEL_REDUCED_FLOAT_OPERATORS(T)                                  \
  CUPEL_REDUCED_FLOAT_MIXED(T, +)                                         \
  CUPEL_REDUCED_FLOAT_MIXED(T, -)                                         \
  CUPEL_REDUCED_FLOAT_MIXED(T, *)                                         \
  CUPEL_REDUCED_FLOAT_MIXED(T, /)                                         \
  inline CUPEL_HOST_DEVICE T operator-(const T& a) {                      \
    return T(static_cast<unsigned short>(a.x ^ 0x8000u), T::from_bits()); \
  }
