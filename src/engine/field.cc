// SPDX-License-Identifier: Apache-2.0
#include "engine/field.h"

#include <algorithm>
#include <initializer_list>

namespace cupel::engine {
namespace {

constexpr uint32_t kLeast = 1u << 28;
constexpr uint64_t kWhat = 990;  // what FieldHash is asked for

uint64_t Power(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t power = 1;
  for (base %= modulus; exponent != 0; exponent >>= 1, base = base * base % modulus) {
    if ((exponent & 1u) != 0) power = power * base % modulus;
  }
  return power;
}

/// The test of Miller and Rabin. These bases suffice below 2^31. n: odd, above 7.
bool IsPrime(uint32_t n) {
  uint32_t odd = n - 1;
  int twos = 0;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  for (const uint64_t base : {2, 3, 5, 7}) {
    uint64_t x = Power(base, odd, n);
    bool passes = x == 1 || x == n - 1;
    for (int i = 1; i < twos && !passes; ++i) {
      x = x * x % n;
      passes = x == n - 1;
    }
    if (!passes) return false;
  }
  return true;
}

}  // namespace

std::array<uint32_t, kFieldCount> FieldPrimes(uint64_t seed) {
  std::array<uint32_t, kFieldCount> primes{};
  for (size_t i = 0; i < primes.size(); ++i) {
    uint32_t p = kLeast + static_cast<uint32_t>(FieldHash(seed, kWhat + i, 0) % kLeast) / 8 * 8 + 7;
    const auto is_new = [&] { return std::find(primes.begin(), primes.end(), p) == primes.end(); };
    while (!(IsPrime(p / 2) && IsPrime(p) && is_new())) {
      p = p + 8 < 2 * kLeast ? p + 8 : kLeast + 7;
    }
    primes[i] = p;
  }
  return primes;
}

}  // namespace cupel::engine
