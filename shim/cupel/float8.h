// The code that c10::Float8_e4m3fn and c10::Float8_e5m2 share: conversions, operators through float,
// and numeric limits. A GPU's own conversions give the same numbers as PyTorch's, which compute with
// integers. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"
#include "cupel/reduced_float.h"

namespace cupel::shim {

inline CUPEL_HOST_DEVICE uint32_t Float8Word(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
#endif
}
inline CUPEL_HOST_DEVICE float Float8Value(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
#endif
}

/// A format with `Digits` bits of fraction; from `Overflow` on there are an infinity and NaN.
/// Numbers too large become `Overflow`.
template <int Digits, int Bias, uint32_t Largest, uint32_t Overflow>
struct Float8Format {
  static constexpr int kShift = 23 - Digits;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Bias) << 23;
  static constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 24 - Bias - Digits) << 23;

  static CUPEL_HOST_DEVICE float ToFloat(uint8_t bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    float value;
    if constexpr (Digits == 3) {
      asm("{.reg .b32 p;\n.reg .b16 l, h;\ncvt.rn.f16x2.e4m3x2 p, %1;\nmov.b32 {l, h}, p;\n"
          "cvt.f32.f16 %0, l;}"
          : "=f"(value)
          : "h"(static_cast<unsigned short>(bits)));
    } else {
      asm("{.reg .b32 p;\n.reg .b16 l, h;\ncvt.rn.f16x2.e5m2x2 p, %1;\nmov.b32 {l, h}, p;\n"
          "cvt.f32.f16 %0, l;}"
          : "=f"(value)
          : "h"(static_cast<unsigned short>(bits)));
    }
    return value;
#else
    const uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7Fu;
    if (magnitude > Overflow) return Float8Value(sign | 0x7FC00000u);
    if (magnitude > Largest) return Float8Value(sign | 0x7F800000u);
    if (magnitude >> Digits) return Float8Value(sign | ((magnitude << kShift) + kRebias));
    // Subnormal: 2^(1 - Bias - Digits) is the unit.
    const float value = static_cast<float>(magnitude) *
                        Float8Value(static_cast<uint32_t>(128 - Bias - Digits) << 23);
    return sign ? -value : value;
#endif
  }

  static CUPEL_HOST_DEVICE uint8_t FromFloat(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    unsigned short pair;
    if constexpr (Digits == 3) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
      // PyTorch does not saturate: from half a step above the largest number, it gives infinity.
      if (value >= 61440.0f) pair = 0x7C;
      if (value <= -61440.0f) pair = 0xFC;
    }
    return static_cast<uint8_t>(pair);
#else
    const uint32_t bits = Float8Word(value), magnitude = bits & 0x7FFFFFFFu;
    const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
    if (magnitude > 0x7F800000u) return static_cast<uint8_t>(sign | 0x7Fu);
    uint32_t result;
    if (magnitude < kRebias + (1u << 23)) {  // adding kMagic leaves the rounded bits at the bottom
      result = Float8Word(Float8Value(magnitude) + Float8Value(kMagic)) - kMagic;
    } else {
      result = (magnitude - kRebias + ((1u << (kShift - 1)) - 1u) + ((magnitude >> kShift) & 1u)) >>
               kShift;
    }
    return static_cast<uint8_t>(sign | (result > Largest ? Overflow : result));
#endif
  }

  static constexpr CUPEL_HOST_DEVICE bool IsInfinite(uint8_t bits) {
    return Overflow > Largest && (bits & 0x7Fu) == Overflow;
  }
};
using E5M2 = Float8Format<2, 15, 0x7B, 0x7C>;
/// Saturates as PyTorch 2.13 does. Older versions give NaN.
using E4M3FN = Float8Format<3, 7, 0x7E, 0x7E>;

template <class T, int Digits, int MinExponent, int MaxExponent, uint8_t Min, uint8_t Max,
          uint8_t Epsilon, uint8_t Infinity, bool HasInfinity>
struct Float8Limits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = HasInfinity;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = false;
  static constexpr bool is_iec559 = false;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr int digits = Digits;
  static constexpr int digits10 = 0;
  static constexpr int radix = 2;
  static constexpr int min_exponent = MinExponent;
  static constexpr int max_exponent = MaxExponent;
  static constexpr CUPEL_HOST_DEVICE T Bits(uint8_t bits) { return T(bits, T::from_bits()); }
  static constexpr CUPEL_HOST_DEVICE T min() { return Bits(Min); }
  static constexpr CUPEL_HOST_DEVICE T max() { return Bits(Max); }
  static constexpr CUPEL_HOST_DEVICE T lowest() { return Bits(Max | 0x80); }
  static constexpr CUPEL_HOST_DEVICE T epsilon() { return Bits(Epsilon); }
  static constexpr CUPEL_HOST_DEVICE T infinity() { return Bits(Infinity); }
  static constexpr CUPEL_HOST_DEVICE T quiet_NaN() { return Bits(0x7F); }
  static constexpr CUPEL_HOST_DEVICE T denorm_min() { return Bits(1); }
};

}  // namespace cupel::shim

#define CUPEL_FLOAT8_TYPE(T, Format)                                                             \
  struct alignas(1) T {                                                                          \
    uint8_t x;                                                                                   \
    struct from_bits_t {};                                                                       \
    static constexpr CUPEL_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }         \
    T() = default;                                                                               \
    constexpr CUPEL_HOST_DEVICE T(uint8_t bits, from_bits_t) : x(bits) {}                        \
    CUPEL_HOST_DEVICE T(float value) : x(::cupel::shim::Format::FromFloat(value)) {}             \
    CUPEL_HOST_DEVICE operator float() const { return ::cupel::shim::Format::ToFloat(x); }       \
    CUPEL_HOST_DEVICE bool isnan() const { return static_cast<float>(*this) != *this; }          \
    CUPEL_HOST_DEVICE bool isinf() const { return ::cupel::shim::Format::IsInfinite(x); }        \
  };                                                                                             \
  CUPEL_REDUCED_FLOAT_MIXED(T, +)                                                                \
  CUPEL_REDUCED_FLOAT_MIXED(T, -)                                                                \
  CUPEL_REDUCED_FLOAT_MIXED(T, *)                                                                \
  CUPEL_REDUCED_FLOAT_MIXED(T, /)                                                                \
  inline CUPEL_HOST_DEVICE T operator-(const T& a) {                                             \
    return T(static_cast<uint8_t>(a.x ^ 0x80u), T::from_bits());                                 \
  }
