// What memory accesses cost: 32-byte sectors of global memory, wavefronts of shared memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emu/block.h"

namespace cupel::emu {
namespace {

void AddGlobal(Warp& warp, bool store, uint64_t sectors, uint64_t bytes) {
  engine::LaunchCounters& counters = warp.worker->sampled;
  (store ? counters.global_store_sectors : counters.global_load_sectors) += sectors;
  (store ? counters.global_store_bytes : counters.global_load_bytes) += bytes;
}

}  // namespace

void CountGlobal(Warp& warp, const Op* op, uint32_t active, const uint32_t* offsets) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  if (shape.is_constant || (shape.is_atomic && shape.store)) return;
  uint32_t seen[kLanes];
  uint32_t count = 0;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const uint32_t sector = offsets[__builtin_ctz(rest)] >> 5;
    if (count != 0 && seen[count - 1] == sector) continue;
    if (std::find(seen, seen + count, sector) == seen + count) seen[count++] = sector;
  }
  AddGlobal(warp, shape.store, count,
            uint64_t{shape.bytes()} * static_cast<uint32_t>(__builtin_popcount(active)));
}

/// A wavefront serves each of the 32 banks once; lanes that want the same word share it. Accesses
/// of 8 and 16 bytes go in halves and quarters of a warp.
void CountShared(Warp& warp, uint32_t active, uint32_t bytes, const uint32_t* offsets) {
  const uint32_t lanes_at_once = bytes <= 4 ? 32 : std::max(1u, 128 / bytes);
  for (uint32_t first = 0; first < kLanes; first += lanes_at_once) {
    // Each bank's first word, and the rest of the words that conflict.
    uint32_t word_of_bank[32];
    uint8_t in_bank[32] = {};
    uint32_t conflicting[kLanes * 4];
    uint32_t conflicts = 0;
    uint32_t most = 0;
    for (uint32_t lane = first; lane < first + lanes_at_once; ++lane) {
      if (((active >> lane) & 1u) == 0) continue;
      for (uint32_t word = offsets[lane] / 4; word <= (offsets[lane] + bytes - 1) / 4; ++word) {
        const uint32_t bank = word % 32;
        if (in_bank[bank] == 0) {
          word_of_bank[bank] = word;
        } else if (word_of_bank[bank] == word || std::find(conflicting, conflicting + conflicts,
                                                           word) != conflicting + conflicts) {
          continue;
        } else {
          conflicting[conflicts++] = word;
        }
        most = std::max<uint32_t>(most, ++in_bank[bank]);
      }
    }
    warp.worker->sampled.shared_wavefronts += most;
  }
}

void CountAtomic(Warp& warp, const LaneAddresses& lanes) {
  warp.worker->sampled.global_atomics += static_cast<uint32_t>(__builtin_popcount(lanes.global));
}

}  // namespace cupel::emu
