// Runs the warps of a block in turns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/result.h"
#include "emu/core/block_state.h"
#include "emu/core/launch_state.h"
#include "emu/core/worker.h"

namespace cupel::emu {

enum class BlockResult {
  kDone,
  kUnfinished,
  kWaits,  // nothing has run: all threads wait
  kStopped,
};

/// Allocates a block's memory. Call it once per block.
Status AllocateBlock(LaunchState& launch, Worker& worker, BlockState& block);
/// Resets `block` to the start of block `number` of the grid.
void StartBlock(BlockState& block, uint64_t number);
/// Runs the block until it ends, waits or has spent about `quantum` instructions.
BlockResult RunBlock(BlockState& block, int64_t quantum);
/// Lets one warp-level instruction continue without the lanes that cannot arrive. Returns false if
/// none waits.
bool ForceOne(BlockState& block);

}  // namespace cupel::emu
