// Divergence: a warp has one running group of lanes and other groups that wait. The group with the
// lowest program counter runs first, so that lanes reconverge where control flow joins. After some
// thousand iterations of a loop another group gets a turn, so that spin loops do not starve the
// lanes that they wait for.
// SPDX-License-Identifier: Apache-2.0

#include "emu/sync/groups.h"

#include "emu/check/sync_notes.h"
#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/sync/async.h"
#include "emu/sync/barriers.h"
#include "emu/sync/cluster_barrier.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kSpinLimit = 4096;

void UpdateMin(Warp& warp) {
  const Op* least = nullptr;
  for (int i = 0; i < warp.others; ++i) {
    const Group& group = warp.other[static_cast<size_t>(i)];
    if (group.state == GroupState::kRunnable && (least == nullptr || group.pc < least)) {
      least = group.pc;
    }
  }
  warp.min_other = least;
}

void Park(Warp& warp, const Group& group) {
  warp.other[static_cast<size_t>(warp.others++)] = group;
  if (group.state == GroupState::kRunnable &&
      (warp.min_other == nullptr || group.pc < warp.min_other)) {
    warp.min_other = group.pc;
  }
}

void Remove(Warp& warp, int i) {
  warp.other[static_cast<size_t>(i)] = warp.other[static_cast<size_t>(--warp.others)];
}

/// Merges the runnable groups at `pc` and the lanes `mask` into the current group.
void Resume(Warp& warp, const Op* pc, uint32_t mask) {
  bool forced = false;
  for (int i = 0; i < warp.others;) {
    const Group& group = warp.other[static_cast<size_t>(i)];
    if (group.state == GroupState::kRunnable && group.pc == pc) {
      mask |= group.mask;
      forced = forced || group.forced;
      Remove(warp, i);
    } else {
      ++i;
    }
  }
  warp.active = mask;
  warp.pc = pc;
  warp.forced = forced;
  warp.stop = Stop::kContinue;
  UpdateMin(warp);
}

}  // namespace

const Op* Diverge(Warp& warp, const Op* target, uint32_t mask, const Op* next) {
  Group taken{target, mask};
  Group rest{next, warp.active & ~mask};
  if (rest.pc < taken.pc) std::swap(taken, rest);
  Park(warp, rest);
  warp.active = taken.mask;
  warp.pc = taken.pc;
  warp.stop = Stop::kContinue;
  return nullptr;
}

const Op* MergeOrSwitch(Warp& warp, const Op* op) {
  const uint32_t before = warp.active;
  Resume(warp, op, before);
  if (warp.active != before) warp.sticky = false;
  if (!warp.sticky && warp.min_other != nullptr && warp.min_other < op) {
    Park(warp, {op, warp.active});
    Resume(warp, warp.min_other, 0);
    return nullptr;
  }
  if (warp.active == kFullMask) {
    warp.pc = op + 1;
    return nullptr;
  }
  return op + 1;
}

const Op* EndLanes(Warp& warp, uint32_t mask, const Op* next) {
  if (warp.block->async) FinishCopies(warp, mask);
  warp.live &= ~mask;
  warp.active &= ~mask;
  warp.block->live_threads -= static_cast<uint32_t>(__builtin_popcount(mask));
  if (warp.checking) NoteExit(warp, mask);
  if (warp.block->async && warp.live == 0 && !warp.block->async->warpgroups().Exit(warp)) {
    return nullptr;
  }
  RecheckBarriers(*warp.block, warp);
  LeaveCluster(warp, mask);
  if (warp.stop == Stop::kFault) return nullptr;
  if (warp.active != 0) {
    warp.pc = next;
    warp.stop = Stop::kContinue;
  } else {
    warp.sticky = false;
    warp.stop = Stop::kSwitch;
  }
  return nullptr;
}

const Op* SpinRotate(Warp& warp, const Op* target) {
  if (warp.min_other == nullptr || ++warp.spin < kSpinLimit) return target;
  warp.spin = 0;
  // Choose the runnable group with the next higher pc; if there is none, the lowest.
  const Op* chosen = nullptr;
  for (int i = 0; i < warp.others; ++i) {
    const Group& group = warp.other[static_cast<size_t>(i)];
    if (group.state == GroupState::kRunnable && group.pc > target &&
        (chosen == nullptr || group.pc < chosen)) {
      chosen = group.pc;
    }
  }
  Park(warp, {target, warp.active});
  Resume(warp, chosen != nullptr ? chosen : warp.min_other, 0);
  warp.sticky = true;
  return nullptr;
}

const Op* EndSlice(Warp& warp, const Op* pc) {
  warp.pc = pc;
  warp.stop = Stop::kSlice;
  return nullptr;
}

bool CollectLanes(Warp& warp, const Op* op, uint32_t sync_mask) {
  if (warp.forced) {
    warp.forced = false;
    return true;
  }
  const uint32_t before = warp.active;
  uint32_t mask = before;
  for (int i = 0; i < warp.others;) {
    const Group& group = warp.other[static_cast<size_t>(i)];
    const bool here = group.pc == op && (group.state == GroupState::kRunnable ||
                                         (group.state == GroupState::kSync && !group.forced));
    if (here) {
      mask |= group.mask;
      Remove(warp, i);
    } else {
      ++i;
    }
  }
  UpdateMin(warp);
  warp.sticky = false;
  if ((sync_mask & warp.live & ~mask) == 0) {
    warp.active = mask;
    warp.pc = op;
    warp.stop = Stop::kContinue;
    return false;
  }
  Group group{op, mask, GroupState::kSync};
  group.sync_mask = sync_mask;
  Park(warp, group);
  warp.active = 0;
  warp.stop = Stop::kSwitch;
  return false;
}

const Op* WaitAtBarrier(Warp& warp, const Op* op, uint32_t id) {
  Group group{op + 1, warp.active, GroupState::kBarrier};
  group.barrier = static_cast<uint8_t>(id);
  Park(warp, group);
  warp.active = 0;
  warp.sticky = false;
  warp.stop = Stop::kSwitch;
  return nullptr;
}

bool PickGroup(Warp& warp) {
  UpdateMin(warp);
  if (warp.min_other == nullptr) return false;
  Resume(warp, warp.min_other, 0);
  return true;
}

void SettleTurn(Warp& warp, int64_t slice) {
  warp.worker->budget -= slice - warp.slice;
  warp.block->spent += slice - warp.slice;
  CollectCounts(warp);
}

bool YieldTurn(Warp& warp) {
  Worker& worker = *warp.worker;
  const bool interrupts = worker.interruptions && worker.interruptions->Below(2) == 0;
  if (!worker.launch->request->cooperative && !interrupts) return false;
  return worker.yields = true;
}

void CollectCounts(Warp& warp) {
  records::LaunchCounters& counters = warp.worker->counters;
  counters.warp_instructions += warp.warp_instructions;
  counters.lane_instructions += warp.lane_instructions;
  counters.floating_point_operations += warp.flops;
  warp.block->warp_work[warp.index] += warp.warp_instructions;
  warp.warp_instructions = warp.lane_instructions = warp.flops = 0;
}

}  // namespace cupel::emu
