// SPDX-License-Identifier: Apache-2.0
#include "emu/core/near_cache.h"

#include <algorithm>

namespace cupel::emu {
namespace {

constexpr uint64_t kSectorsInLine = kLineBytes / kSectorBytes;

}  // namespace

void NearCache::Start(uint64_t block, uint64_t bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 20;
  const uint64_t sets = std::clamp<uint64_t>(bytes, kLineBytes * kWays, kMost) / kLineBytes / kWays;
  if (sets_.size() != sets) sets_.assign(sets, {});
  for (Set& set : sets_) {
    for (Line& line : set.lines) {
      if (line.block == block) line = {};
    }
  }
}

bool NearCache::Touch(uint64_t block, uint64_t sector) {
  const uint64_t number = sector / kSectorsInLine;
  const uint32_t bit = 1u << (sector % kSectorsInLine);
  // Without mixing, rows of a power of two bytes would all map to one set.
  const uint64_t mixed = number ^ (number >> 7) ^ (number >> 13);
  Set& set = sets_[mixed % sets_.size()];
  for (Line& line : set.lines) {
    if (line.number != number || line.block != block) continue;
    const bool is_there = (line.sectors & bit) != 0;
    line.sectors |= bit;
    return is_there;
  }
  Line& line = set.lines[set.next];
  set.next = (set.next + 1) % kWays;
  line = {number, block, bit};
  return false;
}

}  // namespace cupel::emu
