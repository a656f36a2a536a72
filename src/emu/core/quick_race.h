// The part of the race checks' state that vector code needs (races.inc). It includes no code of the
// standard library, because handlers are compiled for newer processors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

/// One for each warp of a checked block. Pointers refer to BlockClocks and the checkers.
struct QuickRace {
  const uint32_t* now = nullptr;             // the warp's clock
  const uint32_t* seen = nullptr;            // 32 entries, WarpClock::seen
  const uint32_t* seen_elsewhere = nullptr;  // WarpClock::seen_elsewhere
  const uint32_t* base = nullptr;            // SharedChecker::base
  uint32_t* writes = nullptr;                // shared memory, by granule
  uint32_t* reads = nullptr;
  int shift = 2;  // of shared granules
  const uint8_t* line_ids = nullptr;
  uint32_t first_thread = 0;  // of the warp
  // Watched global memory.
  int global_shift = 2;
  uint64_t floor = 0;                // stamps below are of earlier launches
  uint64_t block = 0;                // serial of the block
  const bool* reads_used = nullptr;  // some read has left a stamp; may change at any time
};

}  // namespace cupel::emu
