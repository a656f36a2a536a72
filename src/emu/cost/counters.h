// Counts the memory accesses of counted blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/lane_addresses.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Offsets are relative to a 32-byte aligned base (global) or to the block's shared memory.
void CountGlobal(Warp& warp, const Op* op, uint32_t active, uint64_t base, const uint32_t* offsets);
/// An atomic operation.
void CountAtomic(Warp& warp, const Op* op, const LaneAddresses& lanes);
void CountShared(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets);

}  // namespace cupel::emu
