// c10::Scalar: one number with its kind, for fills, factories and item().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/ScalarType.h"

namespace c10 {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = kBoolKind;
      integer_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      kind_ = kIntegerKind;
      integer_ = static_cast<int64_t>(value);
    } else {
      kind_ = kDoubleKind;
      double_ = static_cast<double>(value);
    }
  }
  // The reduced types: templates, so that the types need not be complete here.
  template <class T,
            class = std::enable_if_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                     std::is_same_v<T, Float8_e5m2> ||
                                     std::is_same_v<T, Float8_e4m3fn>>,
            class = void>
  Scalar(const T& value) : Scalar(static_cast<double>(static_cast<float>(value))) {}

  bool isFloatingPoint() const { return kind_ == kDoubleKind; }
  bool isIntegral(bool include_bool = false) const {
    return kind_ == kIntegerKind || (include_bool && kind_ == kBoolKind);
  }
  bool isBoolean() const { return kind_ == kBoolKind; }
  bool isComplex() const { return false; }
  ScalarType type() const {
    return kind_ == kDoubleKind    ? ScalarType::Double
           : kind_ == kIntegerKind ? ScalarType::Long
                                   : ScalarType::Bool;
  }
  Scalar operator-() const { return isFloatingPoint() ? Scalar(-double_) : Scalar(-integer_); }

  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      return isFloatingPoint() ? double_ != 0 : integer_ != 0;
    } else if constexpr (std::is_integral_v<T>) {
      if (isFloatingPoint()) {
        constexpr double kEnd = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
        bool fits = double_ < kEnd && double_ >= static_cast<double>(std::numeric_limits<T>::min());
        return fits ? static_cast<T>(double_) : Overflow<T>();
      }
      bool fits =
          std::is_unsigned_v<T>
              ? (sizeof(T) == 8 || integer_ <= static_cast<int64_t>(std::numeric_limits<T>::max()))
              : (integer_ >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
                 integer_ <= static_cast<int64_t>(std::numeric_limits<T>::max()));
      return fits ? static_cast<T>(integer_) : Overflow<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      return isFloatingPoint() ? double_ : static_cast<double>(integer_);
    } else {
      double value = to<double>();
      if constexpr (std::is_same_v<T, float>) {
        if (value > FLT_MAX && value <= DBL_MAX) return Overflow<T>();
        if (value < -FLT_MAX && value >= -DBL_MAX) return Overflow<T>();
      }
      return static_cast<T>(static_cast<float>(value));
    }
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  int16_t toShort() const { return to<int16_t>(); }
  int8_t toChar() const { return to<int8_t>(); }
  uint8_t toByte() const { return to<uint8_t>(); }
  bool toBool() const { return to<bool>(); }

 private:
  enum Kind { kBoolKind, kIntegerKind, kDoubleKind };
  template <class T>
  static T Overflow() {
    cupel::shim::ThrowJoined<Error>("", "value cannot be converted to type ",
                                    CupelTypeName(CppTypeToScalarType<T>::value),
                                    " without overflow");
  }
  Kind kind_;
  union {
    int64_t integer_;
    double double_;
  };
};

inline void AppendText(cupel::shim::Text& text, const Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    text << scalar.to<double>();
  } else {
    text << scalar.to<int64_t>();
  }
}
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, const Scalar& scalar) {
  return out << cupel::shim::Join(scalar).c_str();
}

}  // namespace c10
