// Discrete logarithms modulo a prime of engine/field.h. Each x is a / b modulo p with a and b
// below the root of p (half of Euclid's algorithm), so a table of the logarithms of small numbers
// is enough. The first primes need a search (Shanks), later ones follow from smaller ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace cupel::emu {

class DiscreteLog {
 public:
  /// `p`: a safe prime below 2^29 that is 7 modulo 8, so that 2 has order q = (p - 1) / 2.
  explicit DiscreteLog(uint32_t p);

  /// k in [0, q) with 2^k = x or -x modulo p. 0 < x < p.
  uint32_t Of(uint32_t x) const;

 private:
  uint32_t p_;
  std::vector<uint32_t> small_;  // of numbers up to the root of p; that of zero has no meaning
};

}  // namespace cupel::emu
