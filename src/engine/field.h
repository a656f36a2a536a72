// Finite fields in which a run computes instead of real numbers (docs/proof.md). Each run has one
// pair of primes p and q = (p - 1) / 2. A number is its residue modulo p, and modulo q for use as
// an exponent: 2 has order q modulo p, so 2^x is 2 to the power of x modulo q. The oracle's
// field_numbers.py computes the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cupel::engine {

inline constexpr size_t kFieldCount = 4;
/// p of each field of a proof with this seed: safe primes, 7 modulo 8, between 2^28 and 2^29. They
/// are drawn, so that no kernel can have terms that are multiples of them.
std::array<uint32_t, kFieldCount> FieldPrimes(uint64_t seed);

/// Random numbers of 63 bits, the same for the same arguments.
inline uint64_t FieldHash(uint64_t seed, uint64_t what, uint64_t at) {
  uint64_t z = seed + what * 0x9e3779b97f4a7c15u + at * 0xd1b54a32d192ed03u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) >> 1;
}

/// Why an element is not what a real number maps to.
enum FieldFlag : uint32_t {
  kFieldUnknown = 1,   // infinite, NaN, or divided by an element that is zero
  kFieldConstant = 2,  // computed from a constant that is no number of the reference
  kFieldOpaque = 4,    // of a function that is known only by its argument: laws may be missing
  kFieldRoot = 8,      // computed from a square root, whose square may have the wrong sign
  kFieldDeep = 16,     // the residue modulo q is that of an exponential: laws are missing
  // Within a function of the CUDA library (emu/shadow/library_functions.h):
  kFieldStep = 32,       // p: its polynomial and step; q: that of the polynomial's argument
  kFieldLogarithm = 64,  // the real number is log2 of this element
};
inline constexpr uint32_t kFieldWithin = kFieldStep | kFieldLogarithm;

/// An element as 64 bits: p in the lowest 29, the first three flags above it, q in the upper word,
/// the other four from bit 60 on. Zero is zero.
struct FieldElement {
  uint32_t p = 0, q = 0, flags = 0;
  bool operator==(const FieldElement&) const = default;
};
inline uint64_t PackElement(const FieldElement& e) {
  return e.p | uint64_t{e.flags & 7u} << 29 | uint64_t{e.q} << 32 | uint64_t{e.flags >> 3} << 60;
}
inline FieldElement UnpackElement(uint64_t bits) {
  constexpr uint32_t kResidue = (1u << 29) - 1;
  const auto flags = static_cast<uint32_t>((bits >> 29 & 7u) | (bits >> 60) << 3);
  return {static_cast<uint32_t>(bits) & kResidue, static_cast<uint32_t>(bits >> 32) & kResidue >> 1,
          flags};
}

/// A number of the reference: constants that are `value`, or `value` rounded, stand for it.
struct FieldNumber {
  double value = 0;
  uint32_t p = 0, q = 0;
};

/// An argument whose elements are not random: a result of the reference's forward function.
struct FieldArgument {
  int index = 0;
  std::vector<uint32_t> p, q;  // in the order of its storage
};

struct FieldOptions {
  int index = 0;      // of FieldPrimes
  uint64_t seed = 0;  // of primes, inputs and functions that are known only by their arguments
  std::vector<FieldNumber> numbers;
  std::vector<FieldArgument> arguments;
};

}  // namespace cupel::engine
