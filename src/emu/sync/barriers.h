// A block's barriers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct BlockState;

/// The current group waits at barrier `id` and then continues at op + 1.
const Op* WaitAtBarrier(Warp& warp, const Op* op, uint32_t id);
/// `lanes` threads arrive at barrier `id`, which is full with `expected` threads (0: the block).
void ArriveAtBarrier(Warp& warp, const Op* op, uint32_t id, uint32_t lanes, uint32_t expected);
/// Adds the predicates `values` of `lanes` to the reduction at barrier `id`.
void ReduceAtBarrier(Warp& warp, uint32_t id, uint32_t values, uint32_t lanes);
/// Releases barriers that became full because lanes exited.
void RecheckBarriers(BlockState& block, Warp& warp);

}  // namespace cupel::emu
