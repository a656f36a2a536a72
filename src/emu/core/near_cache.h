// A model of a block's share of an SM's L1 cache, for estimates: which sectors of global memory are
// cached. Loads by other blocks of the SM are not modelled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace cupel::emu {

inline constexpr uint32_t kSectorBytes = 32, kLineBytes = 128;

class NearCache {
 public:
  /// Clears the block's cache. `bytes` is the block's share.
  void Start(uint64_t block, uint64_t bytes);
  /// Returns true if the sector is cached. It is cached afterwards.
  bool Touch(uint64_t block, uint64_t sector);

 private:
  static constexpr uint64_t kWays = 4;
  struct Line {
    uint64_t number = UINT64_MAX;
    uint64_t block = UINT64_MAX;
    uint32_t sectors = 0;  // one bit for each cached sector
  };
  struct Set {
    std::array<Line, kWays> lines;
    uint32_t next = 0;  // to be replaced
  };
  std::vector<Set> sets_;
};

}  // namespace cupel::emu
