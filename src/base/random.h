// Seeded, repeatable randomness: SplitMix64 (Steele, Lea, Flood 2014).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace cupel {

/// Satisfies UniformRandomBitGenerator. Cheap to copy; a copy repeats the sequence.
class Random {
 public:
  using result_type = uint64_t;
  explicit Random(uint64_t seed) : state_(seed) {}

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }

  uint64_t operator()() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound); bound > 0. The bias is below 2^-32 for bounds below 2^32.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64);
  }
  /// Uniform in [0, 1).
  double Unit() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

  /// Every order is equally likely (Fisher and Yates 1938).
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[Below(left)]);
    }
  }

  /// An independent stream named by `label`, so that adding a consumer does not shift the others.
  Random Fork(std::string_view label) const {
    uint64_t h = 0xcbf29ce484222325u;
    for (char c : label) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    Random child(state_ ^ h);
    return Random(child());
  }

 private:
  uint64_t state_;
};

}  // namespace cupel
