// The groups of lanes of a warp: how they diverge, wait and merge again. Functions that return an
// Op return null with Warp::stop set, unless stated otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Lanes `mask` of the current group go to `target`. The rest falls through to `next`.
const Op* Diverge(Warp& warp, const Op* target, uint32_t mask, const Op* next);
/// Called at merge op `op` while another group can run at or below it. May return op + 1.
const Op* MergeOrSwitch(Warp& warp, const Op* op);
/// Lanes `mask` exit. The others, if any, continue at `next`.
const Op* EndLanes(Warp& warp, uint32_t mask, const Op* next);
/// Called for a backward branch while other groups wait, which get a turn from time to time. May
/// return target.
const Op* SpinRotate(Warp& warp, const Op* target);
/// Ends the slice. The warp continues at `pc` later.
const Op* EndSlice(Warp& warp, const Op* pc);
/// Ends the block's turn if blocks run together, or if it is interrupted here
/// (Worker::interruptions); otherwise returns false.
bool YieldTurn(Warp& warp);
/// Instruction `op` names lanes `sync_mask`, some of which are not in the current group. Returns
/// true if it may continue now. Otherwise the group waits (or has grown and runs op again), and the
/// caller returns null.
bool CollectLanes(Warp& warp, const Op* op, uint32_t sync_mask);
/// Makes a runnable group of the warp current. Returns false if there is none.
bool PickGroup(Warp& warp);
/// Moves the warp's counts to the worker.
void CollectCounts(Warp& warp);
/// Accounts for the instructions of a turn of at most `slice` instructions that has ended.
void SettleTurn(Warp& warp, int64_t slice);

}  // namespace cupel::emu
