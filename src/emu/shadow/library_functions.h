// The polynomials of functions of the CUDA library, which nvcc compiles into each kernel. Their
// coefficients are no numbers of any reference. A kernel that computes such a polynomial by
// Horner's rule, with these coefficients in this order, computes the function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace cupel::emu {

struct LibraryPolynomial {
  /// What ends it. P is the polynomial, t its argument.
  enum class End : uint8_t {
    kErf,            // t = x^2; P x + x = erf x
    kTanh,           // t = x^2; P x + x = tanh x
    kLog2OfErfc,     // P (-t) + (-t) = log2(1 - erf t)
    kLnOfOneMore,    // (P t) t + t = ln(1 + t)
    kExpLessOne,     // (P t) t + t = e^t - 1
    kLog2OfOneMore,  // t log2(e) + (P t) t = log2(1 + t)
  };
  End end = End::kErf;
  std::vector<float> coefficients;  // that of the highest power first
  double least = 0, most = 0;       // the sizes of x, or of t, that it is used for

  /// Products with t after the polynomial and before its end.
  int products() const;
};

const std::vector<LibraryPolynomial>& LibraryPolynomials();
/// The place of the polynomial whose first two coefficients these are.
std::optional<uint32_t> LibraryPolynomialOf(double first, double second);

}  // namespace cupel::emu
