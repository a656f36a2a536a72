// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/field.h"

#include <cmath>
#include <numbers>

namespace cupel::emu {
namespace {

using engine::FieldElement;

/// Numbers with at most so many significant bits are what they are.
constexpr int kShortDigits = 12;
constexpr double kWhole = 0x1p31;   // so are whole numbers below this
constexpr uint64_t kInputs = 1024;  // what Hash is asked for: inputs from here on, functions below

bool IsShort(double value) {
  int exponent = 0;
  const double digits = std::ldexp(std::frexp(value, &exponent), kShortDigits);
  return digits == std::nearbyint(digits);
}

uint32_t Both(const FieldElement& a, const FieldElement& b) { return a.flags | b.flags; }

}  // namespace

uint32_t Field::Modulus::Power(uint32_t a, uint32_t exponent) const {
  uint32_t power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1u) != 0) power = Mul(power, a);
    a = Mul(a, a);
  }
  return power;
}

uint32_t Field::Modulus::OfInteger(int64_t value) const {
  const uint64_t size =
      value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  const uint32_t residue = Reduce(size);
  return value < 0 ? Neg(residue) : residue;
}

uint32_t Field::Modulus::PowerOfTwo(int exponent) const {
  const uint32_t power = Power(2, static_cast<uint32_t>(std::abs(exponent)));
  return exponent < 0 ? Inverse(power) : power;
}

Field::Field(const engine::FieldOptions& options)
    : p_(engine::kFieldPrimes.at(static_cast<size_t>(options.index))),
      q_((p_.m - 1) / 2),
      seed_(options.seed) {
  for (const engine::FieldNumber& number : options.numbers) {
    const FieldElement element{number.p % p_.m, number.q % q_.m, 0};
    for (const double value : {number.value, double{static_cast<float>(number.value)}}) {
      if (std::isfinite(value))
        numbers_.emplace(std::bit_cast<uint64_t>(std::fabs(value)), element);
    }
    if (number.value == std::numbers::log2e) {
      log2e_ = Carried(element);
    }
  }
}

double Field::Leaf(double value) const {
  if (value == 0) return 0;
  if (!std::isfinite(value)) return Unknown();
  if (const auto known = numbers_.find(std::bit_cast<uint64_t>(std::fabs(value)));
      known != numbers_.end() && !IsShort(value)) {
    return value < 0 ? Neg(Carried(known->second)) : Carried(known->second);
  }
  int exponent = 0;
  const auto digits = static_cast<int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  const bool whole = std::fabs(value) < kWhole && value == std::nearbyint(value);
  const uint32_t flags =
      whole || IsShort(value) ? 0 : static_cast<uint32_t>(engine::kFieldConstant);
  return Carried({p_.Mul(p_.OfInteger(digits), p_.PowerOfTwo(exponent)),
                  q_.Mul(q_.OfInteger(digits), q_.PowerOfTwo(exponent)), flags});
}

uint64_t Field::Hash(uint64_t what, uint64_t at) const {
  uint64_t z = seed_ + what * 0x9e3779b97f4a7c15u + at * 0xd1b54a32d192ed03u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) >> 1;
}

double Field::Input(uint64_t input, uint64_t element) const {
  return Carried({p_.Reduce(Hash(kInputs + 2 * input, element)),
                  q_.Reduce(Hash(kInputs + 2 * input + 1, element)), 0});
}

double Field::Neg(double a) const {
  const FieldElement x = At(a);
  return Carried({p_.Neg(x.p), q_.Neg(x.q), x.flags});
}

double Field::Add(double a, double b) const {
  const FieldElement x = At(a), y = At(b);
  return Carried({p_.Add(x.p, y.p), q_.Add(x.q, y.q), Both(x, y)});
}

double Field::Mul(double a, double b) const {
  const FieldElement x = At(a), y = At(b);
  uint32_t flags = Both(x, y);
  // The product of two roots may lack a sign.
  if ((x.flags & y.flags & engine::kFieldRoot) != 0) flags |= engine::kFieldOpaque;
  return Carried({p_.Mul(x.p, y.p), q_.Mul(x.q, y.q), flags});
}

double Field::Div(double a, double b) const {
  const FieldElement y = At(b);
  if (y.p == 0) return Unknown();
  return Mul(a, Carried({p_.Inverse(y.p), q_.Inverse(y.q), y.flags}));
}

double Field::Sqrt(double a) const {
  const FieldElement x = At(a);
  if (x.p == 0 && x.q == 0) return a;
  return Carried(
      {p_.Power(x.p, (p_.m + 1) / 4), q_.Power(x.q, (q_.m + 1) / 4), x.flags | engine::kFieldRoot});
}

double Field::Exp2(double a) const {
  const FieldElement x = At(a);
  uint32_t flags = x.flags | engine::kFieldDeep;
  if ((x.flags & engine::kFieldDeep) != 0) flags |= engine::kFieldOpaque;
  if (x.q == 0) return Carried({1, 1, flags});
  return Carried({p_.Power(2, x.q), q_.Reduce(Hash(0, x.q)), flags});
}

double Field::Fma(double a, double b, double c, double value, double factor) const {
  constexpr double kLog2e = std::numbers::log2e;
  constexpr auto kLow =
      static_cast<float>(kLog2e - static_cast<double>(static_cast<float>(kLog2e)));
  if (factor == static_cast<double>(kLow) && std::fabs(value) < kWhole) {
    const double whole = std::nearbyint(value * kLog2e);
    const FieldElement rest = At(Sub(Mul(a, log2e_), c));
    for (const double k : {whole - 1, whole, whole + 1}) {
      const FieldElement wanted = At(Leaf(k));
      if (rest.p == wanted.p && rest.q == wanted.q) return c;
    }
  }
  return Add(Mul(a, b), c);
}

double Field::AnyOf(double a, double b) {
  const FieldElement x = At(a), y = At(b);
  if (x.p == y.p) return a;
  return Carried({x.p, x.q, Both(x, y) | engine::kFieldOpaque});
}

double Field::Tanh(double a) const {
  const double one = Leaf(1);
  return Sub(one, Div(Leaf(2), Add(Exp2(Mul(Mul(a, log2e_), Leaf(2))), one)));
}

double Field::Known(Function function, double a) const {
  const FieldElement x = At(a);
  const auto what = 2 * static_cast<uint64_t>(function);
  return Carried(
      {p_.Reduce(Hash(what, x.p)), q_.Reduce(Hash(what + 1, x.p)), x.flags | engine::kFieldOpaque});
}

}  // namespace cupel::emu
