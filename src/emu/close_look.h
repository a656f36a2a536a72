// A close look at a block that has run for long: its warps execute op by op until each has come to
// the same place twice (loop_path.h), waits, or does something that others can see.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/block.h"
#include "emu/loop_path.h"
#include "emu/place.h"

namespace cupel::emu {

/// How a block goes on while no memory changes, from the best to the worst.
enum class Standstill : uint8_t {
  kMoves,    // it changes memory, ends, or does what cannot be told from honest work
  kPolls,    // all warps that run wait for memory to change; some may give up
  kWaits,    // they can never do anything else
  kStopped,  // an error was found
};

/// A warp that goes round a loop.
struct LoopingWarp {
  uint32_t warp = 0;
  LoopKind kind = LoopKind::kOpen;
  const Op* at = nullptr;  // the read that it waits for, else where the loop begins
  bool waits = false;      // `at` is a read that a branch depends on
  uint32_t lanes = 0;
  uint64_t named = 0;  // as PathStep::named
};

struct Sight {
  Standstill found = Standstill::kMoves;
  std::vector<LoopingWarp> loops;
  uint64_t fingerprint = 0;  // of who reads where
};

/// Executes what it looks at, in the way that the scheduler would. Never a state between turns.
Sight LookClosely(BlockState& block, const LoopEffects& effects);

}  // namespace cupel::emu
