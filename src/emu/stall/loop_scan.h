// Detects whether a block that has run for long is stalled. Its warps execute op by op until each
// reaches the same place twice (loop_path.h), waits, or does something that other threads can see.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/stall/loop_path.h"
#include "emu/stall/place.h"

namespace cupel::emu {

/// What a block does while no memory changes, from best to worst.
enum class StallState : uint8_t {
  kProgress,  // it changes memory, ends, or may be doing useful work
  kPolls,     // all running warps wait for memory to change; some may give up
  kWaits,     // all running warps wait for memory to change, and none can give up
  kStopped,   // an error was found
};

/// A warp that repeats a loop.
struct LoopingWarp {
  uint32_t warp = 0;
  LoopKind kind = LoopKind::kOpen;
  const Op* at = nullptr;  // the read that it waits for; without one, where the loop begins
  bool waits = false;      // `at` is a read that a branch depends on
  uint32_t lanes = 0;
  uint64_t named = 0;  // as PathStep::named
};

struct LoopScan {
  StallState found = StallState::kProgress;
  std::vector<LoopingWarp> loops;
  uint64_t fingerprint = 0;  // of the warps and the addresses that they read
};

/// Executes ops of the block as the scheduler would, and leaves it in a state between turns.
LoopScan ScanLoops(BlockState& block, const LoopEffects& effects);

}  // namespace cupel::emu
