// Tested by field_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/discrete_log.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace cupel::emu {
namespace {

constexpr uint32_t kRoot = 23171;      // above the root of 2^29
constexpr uint32_t kBaby = 1u << 14;   // powers in the table of baby steps
constexpr uint32_t kFirstPrimes = 50;  // primes below this have no smaller ones to begin with

/// x and -x have the same logarithm.
uint32_t Size(uint32_t x, uint32_t p) { return std::min(x, p - x); }

/// Numbers below the root of p whose quotient is x or -x: half of Euclid's algorithm.
struct Quotient {
  uint32_t above = 0, below = 1;
};
Quotient SmallQuotient(uint32_t x, uint32_t p) {
  uint32_t before = p, rest = x, factor_before = 0, factor = 1;
  while (rest >= kRoot) {
    const uint32_t quotient = before / rest;
    before = std::exchange(rest, before - quotient * rest);
    factor_before = std::exchange(factor, factor_before + quotient * factor);  // signs alternate
  }
  return {rest, factor};
}

/// Finds the logarithms of primes, the smallest first.
class Primes {
 public:
  explicit Primes(uint32_t p) : p_(p), largest_(kRoot + 1, 0), of_primes_(kRoot + 1, 0) {
    for (uint32_t n = 2; n <= kRoot; ++n) {
      if (largest_[n] != 0) continue;
      for (uint32_t m = n; m <= kRoot; m += n) largest_[m] = n;
      primes_.push_back(n);
    }
    uint32_t power = 1;
    std::unordered_map<uint32_t, uint32_t> baby;
    for (uint32_t step = 0; step < kBaby; ++step, power = Product(power, 2)) {
      baby.emplace(Size(power, p_), step);
    }
    for (const uint32_t n : primes_) of_primes_[n] = n < kFirstPrimes ? Search(n, baby) : Relate(n);
  }

  uint32_t LogOf(uint32_t n) const {
    uint64_t sum = 0;
    for (; n > 1; n /= largest_[n]) sum += of_primes_[largest_[n]];
    return static_cast<uint32_t>(sum % (p_ / 2));
  }

 private:
  uint32_t Product(uint32_t a, uint32_t b) const {
    return static_cast<uint32_t>(uint64_t{a} * b % p_);
  }
  /// Shanks' giant steps: x 2^k is one of the baby steps.
  uint32_t Search(uint32_t n, const std::unordered_map<uint32_t, uint32_t>& baby) const {
    const uint32_t q = p_ / 2;
    uint32_t giant = 1;  // 2^(q - kBaby), which is 2^-kBaby or its opposite
    for (uint32_t exponent = q - kBaby, square = 2; exponent != 0; exponent >>= 1) {
      if ((exponent & 1u) != 0) giant = Product(giant, square);
      square = Product(square, square);
    }
    for (uint32_t base = 0;; base += kBaby, n = Product(n, giant)) {
      if (const auto step = baby.find(Size(n, p_)); step != baby.end()) {
        return (base + step->second) % q;
      }
    }
  }
  /// n times a power of 2 is a quotient of numbers whose prime divisors are known.
  uint32_t Relate(uint32_t n) const {
    const uint32_t q = p_ / 2;
    uint32_t power = n;
    for (uint32_t shift = 1;; ++shift) {
      power = Product(power, 2);
      const auto [above, below] = SmallQuotient(power, p_);
      if (std::max(largest_[above], largest_[below]) >= n) continue;
      return (LogOf(above) + 2 * q - LogOf(below) - shift) % q;
    }
  }

  uint32_t p_;
  std::vector<uint32_t> largest_;  // prime divisor
  std::vector<uint32_t> primes_, of_primes_;
};

}  // namespace

DiscreteLog::DiscreteLog(uint32_t p) : p_(p), small_(kRoot + 1, 0) {
  const Primes primes(p);
  for (uint32_t n = 1; n <= kRoot; ++n) small_[n] = primes.LogOf(n);
}

uint32_t DiscreteLog::Of(uint32_t x) const {
  const uint32_t q = p_ / 2;
  const auto [above, below] = SmallQuotient(x, p_);
  return (small_[above] + q - small_[below]) % q;
}

}  // namespace cupel::emu
