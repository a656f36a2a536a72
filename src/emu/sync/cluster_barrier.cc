// Tested by exec/cluster_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/cluster_barrier.h"

#include <bit>

#include "emu/check/global_race.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/cluster.h"
#include "emu/core/op_flags.h"
#include "emu/core/race_clock.h"
#include "emu/core/worker.h"
#include "emu/sync/barriers.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

uint32_t Count(uint32_t mask) { return static_cast<uint32_t>(std::popcount(mask)); }

/// True if accesses of the cluster's blocks to the same memory are checked.
bool OrdersBlocks(const ClusterState& cluster) {
  return cluster.several() && cluster.blocks[0]->worker->launch->watching;
}

/// What the cluster's threads did before they arrived happens before what they do from now on.
void OrderAll(ClusterState& cluster) {
  const bool watching = OrdersBlocks(cluster);
  for (const auto& block : cluster.blocks) {
    BlockClocks& clocks = block->checker->clocks();
    clocks.SyncAll();
    if (!watching) continue;
    // All warps have seen each other, so one of them can publish for all.
    clocks.Fence(0, true);
    OrderOf(*block).Publish(SerialOf(*block), clocks.of(0));
  }
  for (const auto& block : cluster.blocks) {
    if (watching) OrderOf(*block).Acquire(SerialOf(*block));
  }
}

/// Arrivals that are all .relaxed order only what earlier fences cover.
void OrderFenced(ClusterState& cluster) {
  const bool watching = OrdersBlocks(cluster);
  for (const auto& block : cluster.blocks) {
    BlockClocks& clocks = block->checker->clocks();
    const auto warps = static_cast<uint32_t>(block->warps.size());
    for (uint32_t w = 0; w < warps; ++w) {
      clocks.Publish(w);
      if (watching) OrderOf(*block).Publish(SerialOf(*block), clocks.of(w));
    }
    for (uint32_t w = 0; w < warps; ++w) {
      clocks.Acquire(w);
      clocks.AcquireOwn(w);
    }
  }
  for (const auto& block : cluster.blocks) {
    if (watching) OrderOf(*block).Acquire(SerialOf(*block));
  }
}

/// Releases the lanes of a warp that wait. An aligned wait requires that they all wait at the same
/// instruction.
void ReleaseWarp(Warp& warp, Warp& last) {
  warp.cluster_passed |= warp.cluster_arrived;
  warp.cluster_arrived = 0;
  const Op* seen = nullptr;
  for (int i = 0; i < warp.others; ++i) {
    Group& group = warp.other[static_cast<size_t>(i)];
    if (group.state != GroupState::kBarrier || group.barrier != kClusterBarrier) continue;
    const Op* op = group.pc - 1;
    if (seen != nullptr && seen != op && (op->aux & kBarrierAligned) != 0) {
      ReportSplitBarrier(warp, seen, op);
      last.stop = Stop::kFault;
    }
    seen = op;
    warp.cluster_passed &= ~group.mask;
    group.state = GroupState::kRunnable;
    warp.block->ready[warp.index] = true;
  }
}

/// Begins the next phase if `last` was the last to arrive or exit.
void CompleteIfFull(ClusterState& cluster, Warp& last) {
  if (cluster.missing != 0 || !cluster.any_arrived) return;
  for (const auto& block : cluster.blocks) {
    cluster.missing += block->live_threads;
    for (Warp& warp : block->warps) ReleaseWarp(warp, last);
  }
  if (last.checking) cluster.synchronizes ? OrderAll(cluster) : OrderFenced(cluster);
  cluster.any_arrived = cluster.synchronizes = false;
}

}  // namespace

const Op* ArriveAtCluster(Warp& warp, const Op* op) {
  const uint32_t again = warp.active & (warp.cluster_arrived | warp.cluster_passed);
  if (again != 0) {
    return Fault(warp, op, "invalid_barrier",
                 "A thread arrives at the cluster's barrier twice without a wait in between.",
                 std::countr_zero(again));
  }
  ClusterState& cluster = *warp.block->cluster;
  warp.cluster_arrived |= warp.active;
  cluster.missing -= Count(warp.active);
  cluster.any_arrived = true;
  cluster.synchronizes |= (op->aux & kBarrierRelaxed) == 0;
  ++warp.worker->counters.barriers;
  CompleteIfFull(cluster, warp);
  return warp.stop == Stop::kFault ? nullptr : op + 1;
}

const Op* WaitForCluster(Warp& warp, const Op* op) {
  const uint32_t absent = warp.active & ~(warp.cluster_arrived | warp.cluster_passed);
  if (absent != 0) {
    return Fault(warp, op, "invalid_barrier",
                 "A thread waits at the cluster's barrier without having arrived there.",
                 std::countr_zero(absent));
  }
  const uint32_t passing = warp.active & warp.cluster_passed;
  if (passing == 0) return WaitAtBarrier(warp, op, kClusterBarrier);
  warp.cluster_passed &= ~passing;
  return passing == warp.active ? op + 1 : Diverge(warp, op + 1, passing, op);
}

void LeaveCluster(Warp& warp, uint32_t mask) {
  ClusterState& cluster = *warp.block->cluster;
  cluster.missing -= Count(mask & ~warp.cluster_arrived);
  warp.cluster_arrived &= ~mask;
  warp.cluster_passed &= ~mask;
  CompleteIfFull(cluster, warp);
}

}  // namespace cupel::emu
