// 8-bit floats of AMD's GPUs, with one zero, one NaN (the bits of -0) and no infinity.
//
// The shim has no tensors of them, but code for GPUs of both makers names them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"

namespace cupel::shim {

/// `Digits` bits of fraction.
template <int Digits, int Bias>
struct FnuzFormat {
  static constexpr int kNan = 0x80;

  static C10_HOST_DEVICE float ToFloat(uint8_t bits) {
    if (bits == kNan) return NAN;
    const int exponent = (bits & 0x7F) >> Digits, fraction = bits & ((1 << Digits) - 1);
    const int whole = exponent == 0 ? fraction : fraction + (1 << Digits);
    const float value =
        ldexpf(static_cast<float>(whole), (exponent == 0 ? 1 : exponent) - Bias - Digits);
    return bits & 0x80 ? -value : value;
  }
  /// Rounds to the nearest, to even. What is too large becomes NaN.
  static C10_HOST_DEVICE uint8_t FromFloat(float value) {
    const float size = fabsf(value);
    if (!(size < INFINITY)) return kNan;
    int exponent = size > 0 ? ilogbf(size) : 1 - Bias;
    if (exponent < 1 - Bias) exponent = 1 - Bias;
    int whole = static_cast<int>(rintf(ldexpf(size, Digits - exponent)));
    if (whole == 2 << Digits) whole >>= 1, ++exponent;
    const int normal = whole >> Digits;  // 0 or 1
    const int bits = normal ? ((exponent + Bias) << Digits) + whole - (1 << Digits) : whole;
    if (bits > 0x7F) return kNan;
    return static_cast<uint8_t>(bits == 0 ? 0 : bits | (value < 0 ? 0x80 : 0));
  }
};

}  // namespace cupel::shim

#define CUPEL_FNUZ_TYPE(Name, Format)                                                  \
  struct alignas(1) Name {                                                             \
    uint8_t x;                                                                         \
    struct from_bits_t {};                                                             \
    static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); } \
    Name() = default;                                                                  \
    constexpr C10_HOST_DEVICE Name(uint8_t bits, from_bits_t) : x(bits) {}             \
    C10_HOST_DEVICE Name(float value) : x(cupel::shim::Format::FromFloat(value)) {}    \
    C10_HOST_DEVICE operator float() const { return cupel::shim::Format::ToFloat(x); } \
    C10_HOST_DEVICE bool isnan() const { return x == cupel::shim::Format::kNan; }      \
  };

namespace cupel::shim {
using Fnuz43 = FnuzFormat<3, 8>;
using Fnuz52 = FnuzFormat<2, 16>;
}  // namespace cupel::shim

namespace c10 {
CUPEL_FNUZ_TYPE(Float8_e4m3fnuz, Fnuz43)
CUPEL_FNUZ_TYPE(Float8_e5m2fnuz, Fnuz52)
}  // namespace c10

namespace at {
using c10::Float8_e4m3fnuz;
using c10::Float8_e5m2fnuz;
}  // namespace at
