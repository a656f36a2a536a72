// Which sectors of global memory a block has near it: its share of an SM's L1, for estimates. What
// other blocks of the SM bring in is not seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace cupel::emu {

inline constexpr uint32_t kSectorBytes = 32, kLineBytes = 128;

class NearCache {
 public:
  /// Nothing of the block's is there, and `bytes` are the block's share.
  void Start(uint64_t block, uint64_t bytes);
  /// True when the sector is there; it is afterwards.
  bool Touch(uint64_t block, uint64_t sector);

 private:
  static constexpr uint64_t kWays = 4;
  struct Line {
    uint64_t number = UINT64_MAX;
    uint64_t block = UINT64_MAX;
    uint32_t sectors = 0;  // a bit for each that is there
  };
  struct Set {
    std::array<Line, kWays> lines;
    uint32_t next = 0;  // to be replaced
  };
  std::vector<Set> sets_;
};

}  // namespace cupel::emu
