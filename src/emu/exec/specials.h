// Special registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/block_state.h"
#include "emu/core/launch_state.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Assigns blocks to multiprocessors at random.
void ShuffleProcessors(uint64_t seed, LaunchState* launch);
/// Sets the special registers: all if the warp is new, otherwise those that differ between blocks.
void FillSpecials(const LaunchState& launch, Warp& warp, const BlockState& block, bool is_new);

}  // namespace cupel::emu
