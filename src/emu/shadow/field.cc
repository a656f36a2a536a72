// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/field.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "emu/shadow/discrete_log.h"

namespace cupel::emu {
namespace {

using engine::FieldElement;

/// Numbers with at most so many significant bits are what they are.
constexpr int kShortDigits = 12;
constexpr double kWhole = 0x1p31;  // so are whole numbers below this
constexpr double kLargestExponent = 4096;
constexpr uint64_t kInputs = 1024;  // what Hash is asked for: inputs from here on, functions below

// ln(2) as expm1f of the CUDA library has it.
constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 0x1.7f7d1cp-20;

bool IsShort(double value) {
  int exponent = 0;
  const double digits = std::ldexp(std::frexp(value, &exponent), kShortDigits);
  return digits == std::nearbyint(digits);
}

uint32_t Both(const FieldElement& a, const FieldElement& b) { return a.flags | b.flags; }

uint32_t ProductFlags(uint32_t a, uint32_t b) {
  // The product of two roots may lack a sign.
  return a | b | ((a & b & engine::kFieldRoot) != 0 ? uint32_t{engine::kFieldOpaque} : 0);
}

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
    : p_(engine::FieldPrimes(options.seed).at(static_cast<size_t>(options.index))),
      q_((p_.m - 1) / 2),
      seed_(options.seed),
      options_(options) {
  for (const engine::FieldNumber& number : options.numbers) {
    const FieldElement element{number.p % p_.m, number.q % q_.m, 0};
    for (const double value : {number.value, double{static_cast<float>(number.value)}}) {
      if (std::isfinite(value) && value != 0) Note(value, element);
    }
    if (number.value == std::numbers::log2e) log2e_ = Carried(element);
    if (number.value == std::numbers::ln2) ln2_ = Carried(element);
  }
  // A number in two parts: the high one stands for what the number has beyond the low one.
  const double high = Sub(ln2_, Leaf(kLn2Low));
  Note(kLn2High, Raw(high));
}

FieldElement Field::Scaled(const FieldElement& x, int exponent) const {
  return {p_.Mul(x.p, p_.PowerOfTwo(exponent)), q_.Mul(x.q, q_.PowerOfTwo(exponent)), x.flags};
}

void Field::Note(double value, const FieldElement& element) {
  int exponent = 0;
  const double digits = std::fabs(std::frexp(value, &exponent));
  numbers_.emplace(std::bit_cast<uint64_t>(std::fabs(value)), element);
  scaled_.emplace(std::bit_cast<uint64_t>(digits), Scaled(element, -exponent));
}

std::optional<FieldElement> Field::Known(double value) const {
  if (IsShort(value)) return std::nullopt;
  if (const auto number = numbers_.find(std::bit_cast<uint64_t>(std::fabs(value)));
      number != numbers_.end()) {
    return number->second;
  }
  int exponent = 0;
  const double digits = std::fabs(std::frexp(value, &exponent));
  const auto scaled = scaled_.find(std::bit_cast<uint64_t>(digits));
  if (scaled == scaled_.end()) return std::nullopt;
  return Scaled(scaled->second, exponent);
}

double Field::Leaf(double value) const {
  if (value == 0) return 0;
  if (!std::isfinite(value)) return Unknown();
  int exponent = 0;
  const double digits = std::frexp(value, &exponent);
  if (const auto known = Known(value)) return value < 0 ? Neg(Carried(*known)) : Carried(*known);
  constexpr int kDigits = 53;
  const auto whole_digits = static_cast<int64_t>(std::ldexp(digits, kDigits));
  const bool whole = std::fabs(value) < kWhole && value == std::nearbyint(value);
  const uint32_t flags =
      whole || IsShort(value) ? 0 : static_cast<uint32_t>(engine::kFieldConstant);
  return Carried(
      Scaled({p_.OfInteger(whole_digits), q_.OfInteger(whole_digits), flags}, exponent - kDigits));
}

double Field::Input(uint64_t input, uint64_t element) const {
  return Carried({p_.Reduce(engine::FieldHash(seed_, kInputs + 2 * input, element)),
                  q_.Reduce(engine::FieldHash(seed_, kInputs + 2 * input + 1, element)), 0});
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
  if (((Raw(a).flags | Raw(b).flags) & engine::kFieldStep) != 0) {
    if (const auto step = LibraryProduct(a, b)) return *step;
  }
  const FieldElement x = At(a), y = At(b);
  return Carried({p_.Mul(x.p, y.p), q_.Mul(x.q, y.q), ProductFlags(x.flags, y.flags)});
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

double Field::Exp2(double a, double value) const {
  if (FieldElement e = Raw(a); (e.flags & engine::kFieldLogarithm) != 0) {
    e.flags &= ~uint32_t{engine::kFieldLogarithm};
    return Carried(e);
  }
  const FieldElement x = IsExponentOnly(a) ? Exponent(a) : At(a);
  uint32_t flags = x.flags | engine::kFieldDeep;
  if ((x.flags & engine::kFieldDeep) != 0) flags |= engine::kFieldOpaque;
  const int whole = std::fabs(value) < kLargestExponent ? static_cast<int>(std::floor(value)) : 0;
  const uint32_t rest = q_.Add(x.q, q_.Neg(q_.OfInteger(whole)));
  const uint32_t hash = rest == 0 ? 1 : q_.Reduce(engine::FieldHash(seed_, 0, rest));
  return Carried({p_.Power(2, x.q), q_.Mul(hash, q_.PowerOfTwo(whole)), flags});
}

double Field::Fma(double a, double b, double c, const double (&values)[3]) const {
  constexpr double kLog2e = std::numbers::log2e;
  constexpr auto kLow =
      static_cast<float>(kLog2e - static_cast<double>(static_cast<float>(kLog2e)));
  const uint32_t factors = Raw(a).flags | Raw(b).flags;
  std::optional<double> step;
  if ((factors & engine::kFieldStep) != 0) {
    step = LibraryStep(a, b, c, values);
  } else if ((Raw(c).flags & engine::kFieldStep) != 0) {
    step = LibrarySum(a, b, c, values);
  } else if ((factors & engine::kFieldConstant) != 0) {
    step = LibraryStart(a, b, c, values);
  }
  if (step) return *step;
  if (values[1] == static_cast<double>(kLow) && std::fabs(values[0]) < kWhole) {
    const double whole = std::nearbyint(values[0] * kLog2e);
    const FieldElement rest = At(Sub(Mul(a, log2e_), c));
    for (const double k : {whole - 1, whole, whole + 1}) {
      const FieldElement wanted = At(Leaf(k));
      if (rest.p == wanted.p && rest.q == wanted.q) return ExponentOnly(c);
    }
  }
  return Add(Mul(a, b), c);
}

Field::Vectors Field::Unpacked(const std::vector<double>& elements, int length) {
  Vectors vectors;
  vectors.length = static_cast<size_t>(length);
  vectors.p.resize(elements.size());
  vectors.q.resize(elements.size());
  vectors.flags.resize(elements.size() / vectors.length);
  for (size_t i = 0; i < elements.size(); ++i) {
    const FieldElement e = At(elements[i]);
    vectors.p[i] = e.p;
    vectors.q[i] = e.q;
    vectors.flags[i / vectors.length] |= e.flags;
  }
  return vectors;
}

double Field::AddDot(const Vectors& a, size_t i, const Vectors& b, size_t j, double sum) const {
  const FieldElement x = At(sum);
  const uint32_t *ap = &a.p[i * a.length], *bp = &b.p[j * b.length];
  const uint32_t *aq = &a.q[i * a.length], *bq = &b.q[j * b.length];
  uint64_t p = x.p, q = x.q;  // 32 products of 58 bits, and a sum that is smaller, have 63 bits
  for (size_t d = 0; d < a.length; ++d) {
    p += uint64_t{ap[d]} * bp[d];
    q += uint64_t{aq[d]} * bq[d];
  }
  return Carried({p_.Reduce(p), q_.Reduce(q), x.flags | ProductFlags(a.flags[i], b.flags[j])});
}

double Field::AnyOf(double a, double b) {
  const FieldElement x = At(a), y = At(b);
  if (x.p == y.p) return a;
  return Carried({x.p, x.q, Both(x, y) | engine::kFieldOpaque});
}

double Field::Tanh(double a, double value) const {
  const double one = Leaf(1), twice = Mul(Mul(a, log2e_), Leaf(2));
  return Sub(one, Div(Leaf(2), Add(Exp2(twice, 2 * value * std::numbers::log2e), one)));
}

double Field::Hashed(uint64_t function, double a) const {
  const FieldElement x = At(a);
  const uint32_t size = std::min(x.p, p_.Neg(x.p));
  return Carried({p_.Reduce(engine::FieldHash(seed_, 2 * function, size)),
                  q_.Reduce(engine::FieldHash(seed_, 2 * function + 1, size)),
                  x.flags | engine::kFieldOpaque});
}

double Field::Odd(uint64_t function, double a) const {
  const FieldElement x = At(a);
  const double result = Hashed(function, a);
  if (x.p == 0) return Carried({0, 0, x.flags});
  return x.p < p_.Neg(x.p) ? result : Neg(result);
}

double Field::Log2(double a) const {
  FieldElement result = Raw(Hashed(1, a));
  const FieldElement x = At(a);
  if (x.p == 0) return Unknown();
  std::call_once(log_made_, [&] { log_ = std::make_unique<DiscreteLog>(p_.m); });
  result.q = log_->Of(x.p);
  return Carried(result);
}

}  // namespace cupel::emu
