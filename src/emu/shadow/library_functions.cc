// Recognises functions of the CUDA library. An element within one has the flag kFieldStep, and the
// number of its polynomial and of the steps that are done in place of its residue modulo p.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/library_functions.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "emu/shadow/field.h"

namespace cupel::emu {
namespace {

using engine::FieldElement;
using End = LibraryPolynomial::End;

constexpr uint32_t kSteps = 32;           // more than any polynomial has
constexpr uint32_t kExponent = 1u << 20;  // in place of a polynomial and step

FieldElement StepElement(uint32_t polynomial, uint32_t step, uint32_t argument, uint32_t flags) {
  return {polynomial * kSteps + step, argument, flags | engine::kFieldStep};
}

/// How far a polynomial is.
struct Progress {
  uint32_t number = 0;  // the polynomial's
  uint32_t next = 0;    // the step that comes next; the first one has two coefficients
  uint32_t last = 0;    // the number of coefficients: products begin here
  uint32_t most = 0;    // the end comes here
  const LibraryPolynomial* polynomial = nullptr;
};
/// Of an element with kFieldStep. Nothing if it is an exponent.
std::optional<Progress> ProgressOf(const FieldElement& e) {
  Progress at{e.p / kSteps, e.p % kSteps + 1};
  if (at.number >= LibraryPolynomials().size()) return std::nullopt;
  at.polynomial = &LibraryPolynomials()[at.number];
  at.last = static_cast<uint32_t>(at.polynomial->coefficients.size());
  at.most = at.last + static_cast<uint32_t>(at.polynomial->products());
  return at;
}

/// Its range by its end: as the library's code has it, or a little more.
LibraryPolynomial Polynomial(End end, const std::vector<uint32_t>& bits) {
  LibraryPolynomial polynomial;
  polynomial.end = end;
  polynomial.least = end == End::kLog2OfErfc ? 1.0 : 0.0;
  polynomial.most = end == End::kErf          ? 1.01
                    : end == End::kTanh       ? 0.601
                    : end == End::kLog2OfErfc ? std::numeric_limits<double>::max()
                                              : 0.51;
  for (const uint32_t b : bits) polynomial.coefficients.push_back(std::bit_cast<float>(b));
  return polynomial;
}

}  // namespace

int LibraryPolynomial::products() const {
  if (end == End::kLog2OfOneMore) return 2;
  return end == End::kLnOfOneMore || end == End::kExpLessOne ? 1 : 0;
}

const std::vector<LibraryPolynomial>& LibraryPolynomials() {
  static const std::vector<LibraryPolynomial> polynomials = {
      Polynomial(End::kErf, {0x38b1e96a, 0xba574d20, 0x3baad5ea, 0xbcdc1be7, 0x3de718af, 0xbec093ac,
                             0x3e0375d3}),
      Polynomial(End::kLog2OfErfc, {0x38eb4c3a, 0xbaae005b, 0x3c09919f, 0xbd24d99a, 0x3e235519,
                                    0x3f69b4f9, 0x3f210a14}),
      Polynomial(End::kTanh, {0x3c80f082, 0xbd563cae, 0x3e085941, 0xbeaaa9ed, 0}),
      // logf and log10f, log1pf, log2f, expm1f
      Polynomial(End::kLnOfOneMore, {0xbe055027, 0x3e1039f6, 0xbdf8cdcc, 0x3e0f2955, 0xbe2ad8b9,
                                     0x3e4ced0b, 0xbe7fff22, 0x3eaaaa78, 0xbf000000}),
      Polynomial(End::kLnOfOneMore, {0xbd39bf78, 0x3dd80012, 0xbe0778e0, 0x3e146475, 0xbe2a68dd,
                                     0x3e4caf9e, 0xbe800042, 0x3eaaaae6, 0xbf000000}),
      Polynomial(End::kLog2OfOneMore, {0x3dc6b27f, 0xbe2c7f30, 0x3e2fcf2a, 0xbe374e43, 0x3e520bf4,
                                       0xbe763c8b, 0x3e93bf99, 0xbeb8aa49, 0x3ef6384a, 0xbf38aa3b}),
      Polynomial(End::kExpLessOne, {0x3ab5ebe6, 0x3c095663, 0x3d2aabe3, 0x3e2aa9f6, 0x3efffffe}),
  };
  return polynomials;
}

std::optional<uint32_t> LibraryPolynomialOf(double first, double second) {
  const auto& polynomials = LibraryPolynomials();
  for (uint32_t i = 0; i < polynomials.size(); ++i) {
    const auto& c = polynomials[i].coefficients;
    if (first == double{c[0]} && second == double{c[1]}) return i;
  }
  return std::nullopt;
}

double Field::ExponentOnly(double a) {
  const FieldElement x = At(a);
  return Carried({kExponent, x.q, x.flags | engine::kFieldStep});
}
bool Field::IsExponentOnly(double a) {
  const FieldElement x = Raw(a);
  return (x.flags & engine::kFieldStep) != 0 && x.p == kExponent;
}
FieldElement Field::Exponent(double a) {
  FieldElement x = Raw(a);
  x.p = 0;
  x.flags &= ~uint32_t{engine::kFieldStep};
  return x;
}

std::optional<double> Field::LibraryStart(double a, double b, double c,
                                          const double (&values)[3]) const {
  for (const bool second : {false, true}) {
    const double value = values[second ? 1 : 0];
    if ((Raw(second ? b : a).flags & engine::kFieldConstant) == 0) continue;
    const auto found = LibraryPolynomialOf(value, values[2]);
    if (!found || !IsLeaf(second ? b : a, value) || !IsLeaf(c, values[2])) continue;
    const FieldElement t = At(second ? a : b);
    return Carried(StepElement(*found, 1, t.q, t.flags));
  }
  return std::nullopt;
}

std::optional<double> Field::LibraryStep(double a, double b, double c,
                                         const double (&values)[3]) const {
  const bool second = (Raw(a).flags & engine::kFieldStep) == 0;
  const FieldElement factor = Raw(second ? b : a), other = At(second ? a : b);
  const auto at = ProgressOf(factor);
  if (!at) return std::nullopt;
  if (at->next < at->last) {
    if (other.q != factor.q || values[2] != double{at->polynomial->coefficients[at->next]} ||
        !IsLeaf(c, values[2])) {
      return std::nullopt;
    }
    return Carried(StepElement(at->number, at->next, factor.q, factor.flags | other.flags));
  }
  if (!(other == At(c)) || at->next != at->most) return std::nullopt;
  return LibraryEnd(at->number, factor.q, second ? a : b, values[second ? 0 : 1]);
}

std::optional<double> Field::LibrarySum(double a, double b, double c,
                                        const double (&values)[3]) const {
  const FieldElement sum = Raw(c);
  const auto at = ProgressOf(sum);
  if (!at || at->polynomial->end != End::kLog2OfOneMore || at->next != at->most) {
    return std::nullopt;
  }
  for (const bool second : {false, true}) {
    if (Raw(second ? b : a) == Raw(log2e_)) {
      return LibraryEnd(at->number, sum.q, second ? a : b, values[second ? 0 : 1]);
    }
  }
  return std::nullopt;
}

std::optional<double> Field::LibraryProduct(double a, double b) const {
  const bool second = (Raw(a).flags & engine::kFieldStep) == 0;
  const FieldElement factor = Raw(second ? b : a), other = At(second ? a : b);
  const auto at = ProgressOf(factor);
  if (!at || at->next < at->last || at->next >= at->most || other.q != factor.q) {
    return std::nullopt;
  }
  return Carried(StepElement(at->number, at->next, factor.q, factor.flags | other.flags));
}

std::optional<double> Field::LibraryEnd(uint32_t number, uint32_t argument, double x,
                                        double value) const {
  const LibraryPolynomial& polynomial = LibraryPolynomials().at(number);
  const End end = polynomial.end;
  const double size = std::fabs(value);
  if (!(size >= polynomial.least && size <= polynomial.most)) return std::nullopt;
  const auto is_argument = [&](double t) { return Raw(t).q == argument; };
  if (end == End::kErf || end == End::kTanh) {
    if (!is_argument(Mul(x, x))) return std::nullopt;
    return end == End::kErf ? Erf(x) : Tanh(x, value);
  }
  if (end == End::kLog2OfErfc) {
    const double t = Neg(x);
    if (!is_argument(t)) return std::nullopt;
    FieldElement rest = Raw(Sub(Leaf(1), Erf(t)));
    rest.flags |= engine::kFieldLogarithm;
    return Carried(rest);
  }
  if (!is_argument(x)) return std::nullopt;
  if (end == End::kExpLessOne) {
    return Sub(Exp2(Mul(x, log2e_), value * std::numbers::log2e), Leaf(1));
  }
  return end == End::kLnOfOneMore ? Ln(Add(x, Leaf(1))) : Log2(Add(x, Leaf(1)));
}

}  // namespace cupel::emu
