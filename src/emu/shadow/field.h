// Arithmetic of shadows in a finite field (engine/field.h). Elements are carried as the bits of a
// double, so that everything that only moves shadows carries them, too. Each operation takes the
// flags of its operands. Functions follow these laws:
//
// - sums, products, quotients: exact. A quotient by zero is unknown.
// - ex2: 2^(x + y) = 2^x 2^y, and 2^k for whole k. Its result as an exponent is known only by its
//   argument, and that 2^(x + k) = 2^k 2^x. tanh x = 1 - 2 / (e^(2x) + 1).
// - sqrt: x^((p + 1) / 4), which is multiplicative. It is a root of x or of -x.
// - lg2: modulo q, the discrete logarithm of x or -x: log2(xy) = log2 x + log2 y. Modulo p, it is
//   known only by its argument.
// - sin, cos, erf: known only by their argument. sin and erf are odd, cos is even.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emu/shadow/discrete_log.h"
#include "engine/field.h"

namespace cupel::emu {

class Field {
 public:
  explicit Field(const engine::FieldOptions& options);

  /// What a number stands for that no operation has made: a number of the reference, or itself.
  double Leaf(double value) const;
  /// The random element of an input's element.
  double Input(uint64_t input, uint64_t element) const;

  /// A result of the reference's forward function, of which not all laws are known.
  static double Given(uint32_t p, uint32_t q) {
    return Carried({p, q, engine::kFieldOpaque | engine::kFieldDeep | engine::kFieldRoot});
  }

  double Neg(double a) const;
  double Add(double a, double b) const;
  double Sub(double a, double b) const { return Add(a, Neg(b)); }
  double Mul(double a, double b) const;
  double Div(double a, double b) const;
  /// `value`: that of b, which may be infinite: then the quotient is zero.
  double Div(double a, double b, double value) const {
    const bool is_infinite = std::isinf(value) && (Raw(b).flags & engine::kFieldUnknown) != 0;
    return is_infinite ? Leaf(0) : Div(a, b);
  }
  double Sqrt(double a) const;
  double Rsqrt(double a) const { return Div(Leaf(1), Sqrt(a)); }
  /// `value`: that of a in the registers, whose whole part k counts: modulo q, 2^(k + f) is 2^k
  /// times a function of f that is known only by its argument.
  double Exp2(double a, double value) const;
  double Log2(double a) const;
  double Ln(double a) const { return Mul(Log2(a), ln2_); }
  double Tanh(double a, double value) const;
  double Sin(double a) const { return Odd(2, a); }
  double Cos(double a) const { return Hashed(3, a); }
  double Erf(double a) const { return Odd(4, a); }

  /// a * b + c, whose values in the registers are `values`. The exponential of the CUDA library
  /// multiplies by log2(e) in two parts: x * high - k, then + x * low. The first part stands for
  /// log2(e) already, so the second one adds nothing, once. Its polynomials are recognised
  /// (library_functions.h).
  double Fma(double a, double b, double c, const double (&values)[3]) const;
  /// Vectors of `length` elements each, for dot products.
  struct Vectors {
    size_t length = 0;
    std::vector<uint32_t> p, q;
    std::vector<uint32_t> flags;  // of each vector
  };
  /// length: at most 32.
  static Vectors Unpacked(const std::vector<double>& elements, int length);
  /// sum + the dot product of vector `i` of a and vector `j` of b
  double AddDot(const Vectors& a, size_t i, const Vectors& b, size_t j, double sum) const;
  /// An element for PyTorch, which knows no flags; these are added to `flags`. And one from there.
  static double Sent(double element, uint32_t* flags) {
    const engine::FieldElement e = At(element);
    *flags |= e.flags;
    return Carried({e.p, e.q, 0});
  }
  static double Received(double element, uint32_t flags) {
    constexpr uint32_t kOfFunctions =
        engine::kFieldOpaque | engine::kFieldRoot | engine::kFieldDeep;
    const engine::FieldElement e = Raw(element);
    return Carried({e.p, e.q, flags | kOfFunctions});
  }
  const engine::FieldOptions& options() const { return options_; }

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
  static engine::FieldElement Raw(double carried) {
    return engine::UnpackElement(std::bit_cast<uint64_t>(carried));
  }
  /// An operand of anything but the next step of a function of the library.
  static engine::FieldElement At(double carried) {
    const engine::FieldElement e = Raw(carried);
    if ((e.flags & engine::kFieldWithin) == 0) [[likely]]
      return e;
    return {0, 0,
            (e.flags & ~engine::kFieldWithin) | engine::kFieldConstant | engine::kFieldUnknown};
  }
  /// Functions that are known only by their argument, or by its opposite.
  double Hashed(uint64_t function, double a) const;
  double Odd(uint64_t function, double a) const;

  /// An exponent that is complete: only Exp2 takes it, and no second low part of log2(e).
  static double ExponentOnly(double a);
  static bool IsExponentOnly(double a);
  static engine::FieldElement Exponent(double a);
  bool IsLeaf(double a, double value) const { return Raw(a) == Raw(Leaf(value)); }
  /// The first and the next step of a function of the library, if this is one: a * b + c, where the
  /// function's last step is a or b, or c; a * b; and the end of polynomial `number`, in which x
  /// takes part. `argument`: modulo q, that of the polynomial.
  std::optional<double> LibraryStart(double a, double b, double c, const double (&values)[3]) const;
  std::optional<double> LibraryStep(double a, double b, double c, const double (&values)[3]) const;
  std::optional<double> LibrarySum(double a, double b, double c, const double (&values)[3]) const;
  std::optional<double> LibraryProduct(double a, double b) const;
  std::optional<double> LibraryEnd(uint32_t number, uint32_t argument, double x,
                                   double value) const;

  Modulus p_, q_;
  uint64_t seed_;
  /// x 2^exponent
  engine::FieldElement Scaled(const engine::FieldElement& x, int exponent) const;
  /// The number that |value|, or its product with a power of 2, stands for.
  std::optional<engine::FieldElement> Known(double value) const;
  /// `value` stands for `element`, and its products with powers of 2 for those of `element`. If
  /// these are numbers themselves, that counts: modulo q, the root of 4 may be -2.
  void Note(double value, const engine::FieldElement& element);

  /// By the bits of a positive double: numbers, and these scaled to [1/2, 1).
  std::unordered_map<uint64_t, engine::FieldElement> numbers_, scaled_;
  engine::FieldOptions options_;
  double log2e_ = 0, ln2_ = 0;
  mutable std::once_flag log_made_;
  mutable std::unique_ptr<DiscreteLog> log_;  // made at the first use
};

}  // namespace cupel::emu
