// Barriers of a block. A barrier counts threads and does not wait for threads that have exited.
// SPDX-License-Identifier: Apache-2.0

#include "emu/sync/barriers.h"

#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/sync/muted_barrier.h"

namespace cupel::emu {
namespace {

uint32_t Reduced(const BarrierState& barrier, const Op* op) {
  if ((op->aux & kBarrierAnd) != 0) return barrier.true_count == barrier.reduced ? kFullMask : 0;
  return barrier.true_count != 0 ? kFullMask : 0;
}

/// Writes the result of bar.red to the lanes of a group that waited.
void DeliverReduction(const Warp& warp, const Group& group, const BarrierState& barrier) {
  const Op* op = group.pc - 1;
  if (op->src[2] < 0) return;
  if ((op->aux & kBarrierPopc) != 0) {
    for (uint32_t rest = group.mask; rest != 0; rest &= rest - 1) {
      At<uint32_t>(warp, op->dst)[__builtin_ctz(rest)] = barrier.true_count;
    }
  } else {
    uint32_t& mask = MaskAt(warp, op->dst);
    mask = (mask & ~group.mask) | (Reduced(barrier, op) & group.mask);
  }
}

/// Whether the race checks leave this barrier out.
bool IsMuted(const Warp& warp, const Op* op) {
  const MutedBarrier* muted = warp.worker->launch->request->muted;
  return muted != nullptr && muted->Is(warp, op);
}

/// Releases all lanes that wait at barrier `id`. Aligned barriers require that all lanes of a warp
/// wait at the same instruction.
void Release(BlockState& block, Warp& releasing, uint32_t id) {
  BarrierState& barrier = block.barriers[id];
  const Op* first = nullptr;
  for (size_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[w];
    const Op* seen = nullptr;
    for (int i = 0; i < warp.others; ++i) {
      Group& group = warp.other[static_cast<size_t>(i)];
      if (group.state != GroupState::kBarrier || group.barrier != id) continue;
      if (seen != nullptr && seen != group.pc && ((group.pc - 1)->aux & kBarrierAligned) != 0) {
        ReportSplitBarrier(warp, seen - 1, group.pc - 1);
        releasing.stop = Stop::kFault;
      }
      seen = group.pc;
      // Warn about warps that wait for the whole block at different instructions: this works only
      // by accident.
      if (first == nullptr) first = group.pc;
      if (first != group.pc && id == 0 && barrier.expected == 0) {
        WarnBarrierPlaces(warp, first - 1, group.pc - 1, group.mask);
      }
      DeliverReduction(warp, group, barrier);
      group.state = GroupState::kRunnable;
      block.ready[w] = true;
      if (block.checker && !IsMuted(warp, group.pc - 1)) {
        block.checker->clocks().Leave(warp.index, group.mask, id);
      }
    }
  }
  barrier = BarrierState{};
  if (block.checker) block.checker->clocks().Finish(id);
}

bool Full(const BlockState& block, const BarrierState& barrier) {
  const uint32_t expected = barrier.expected == 0 ? block.live_threads : barrier.expected;
  return barrier.arrived != 0 && barrier.arrived >= expected;
}

}  // namespace

void ArriveAtBarrier(Warp& warp, const Op* op, uint32_t id, uint32_t lanes, uint32_t expected) {
  BlockState& block = *warp.block;
  BarrierState& barrier = block.barriers[id];
  barrier.arrived += lanes;
  barrier.expected = expected;
  ++warp.worker->counters.barriers;
  if (block.checker && !IsMuted(warp, op)) block.checker->clocks().Arrive(warp.index, id);
  if (Full(block, barrier)) Release(block, warp, id);
}

void ReduceAtBarrier(Warp& warp, uint32_t id, uint32_t values, uint32_t lanes) {
  BarrierState& barrier = warp.block->barriers[id];
  barrier.true_count += static_cast<uint32_t>(__builtin_popcount(values));
  barrier.reduced += static_cast<uint32_t>(__builtin_popcount(lanes));
}

void RecheckBarriers(BlockState& block, Warp& warp) {
  for (uint32_t id = 0; id < block.barriers.size(); ++id) {
    BarrierState& barrier = block.barriers[id];
    if (barrier.arrived != 0 && barrier.expected == 0 && Full(block, barrier)) {
      Release(block, warp, id);
    }
  }
}

}  // namespace cupel::emu
