// Arithmetic of shadows in a finite field (engine/field.h). Elements are carried as the bits of a
// double, so that everything that only moves shadows carries them, too. Each operation takes the
// flags of its operands. Functions follow these laws:
//
// - sums, products, quotients: exact. A quotient by zero is unknown.
// - ex2: 2^(x + y) = 2^x 2^y, and 2^k for whole k. Its result as an exponent is known only by its
//   argument. tanh x = 1 - 2 / (e^(2x) + 1).
// - sqrt: x^((p + 1) / 4), which is multiplicative. It is a root of x or of -x.
// - lg2, sin, cos: known only by their argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <unordered_map>

#include "engine/field.h"

namespace cupel::emu {

class Field {
 public:
  explicit Field(const engine::FieldOptions& options);

  /// What a number stands for that no operation has made: a number of the reference, or itself.
  double Leaf(double value) const;
  /// The random element of an input's element.
  double Input(uint64_t input, uint64_t element) const;

  double Neg(double a) const;
  double Add(double a, double b) const;
  double Sub(double a, double b) const { return Add(a, Neg(b)); }
  double Mul(double a, double b) const;
  double Div(double a, double b) const;
  double Sqrt(double a) const;
  double Rsqrt(double a) const { return Div(Leaf(1), Sqrt(a)); }
  double Exp2(double a) const;
  double Tanh(double a) const;
  enum class Function : uint64_t { kLog2 = 1, kSin = 2, kCos = 3 };
  /// A function that is known only by its argument.
  double Known(Function function, double a) const;

  /// a * b + c. `value`, `factor`: those of a and b. The exponential of the CUDA library multiplies
  /// by log2(e) in two parts: x * high - k, then + x * low. The first part stands for log2(e)
  /// already, so the second one adds nothing there.
  double Fma(double a, double b, double c, double value, double factor) const;
  /// One of two equal numbers: the reference may choose the other one.
  static double AnyOf(double a, double b);

  static double Unknown() { return Carried({0, 0, engine::kFieldUnknown}); }

 private:
  struct Modulus {
    explicit Modulus(uint32_t modulus) : m(modulus), inverse(~uint64_t{0} / modulus) {}
    uint32_t m;
    uint64_t inverse;  // of Barrett's reduction
    uint32_t Reduce(uint64_t x) const {
      const auto quotient =
          static_cast<uint64_t>((static_cast<unsigned __int128>(x) * inverse) >> 64);
      const uint64_t rest = x - quotient * m;
      return static_cast<uint32_t>(rest >= m ? rest - m : rest);
    }
    uint32_t Add(uint32_t a, uint32_t b) const { return a + b >= m ? a + b - m : a + b; }
    uint32_t Neg(uint32_t a) const { return a == 0 ? 0 : m - a; }
    uint32_t Mul(uint32_t a, uint32_t b) const { return Reduce(uint64_t{a} * b); }
    uint32_t Power(uint32_t a, uint32_t exponent) const;
    uint32_t Inverse(uint32_t a) const { return Power(a, m - 2); }
    uint32_t OfInteger(int64_t value) const;
    /// 2^exponent
    uint32_t PowerOfTwo(int exponent) const;
  };
  static double Carried(const engine::FieldElement& e) {
    return std::bit_cast<double>(engine::PackElement(e));
  }
  static engine::FieldElement At(double carried) {
    return engine::UnpackElement(std::bit_cast<uint64_t>(carried));
  }
  uint64_t Hash(uint64_t what, uint64_t at) const;

  Modulus p_, q_;
  uint64_t seed_;
  std::unordered_map<uint64_t, engine::FieldElement> numbers_;  // by the bits of their double
  double log2e_ = 0;
};

}  // namespace cupel::emu
