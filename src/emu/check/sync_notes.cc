// Records what orders accesses: warp-level synchronisation, fences, strong accesses.
// SPDX-License-Identifier: Apache-2.0

#include "emu/check/sync_notes.h"

#include "emu/check/global_race.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_order.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {

void NoteWarpSync(Warp& warp, uint32_t mask) {
  warp.block->checker->clocks().Sync(warp.index, mask);
}

void NoteExit(Warp& warp, uint32_t mask) { warp.block->checker->clocks().Exit(warp.index, mask); }

void NoteFence(Warp& warp, bool reaches_other_blocks) {
  warp.block->checker->clocks().Fence(warp.index, reaches_other_blocks);
  const bool may_order = warp.worker->launch->in_order || warp.block->cluster->several();
  if (reaches_other_blocks && may_order && warp.watching) {
    OrderOf(*warp.block).Fence(SerialOf(*warp.block));
  }
}

void NoteProxyFence(Warp& warp) { warp.block->checker->clocks().FenceProxy(warp.index); }

void NoteStrong(Warp& warp, AccessKind kind, bool is_global) {
  BlockClocks& clocks = warp.block->checker->clocks();
  const LaunchState& launch = *warp.worker->launch;
  // Blocks can order each other if they run on one thread: those of kernels that may wait for
  // others, and those of a cluster, also through shared memory.
  const bool in_cluster = warp.block->cluster->several();
  const bool may_order = (in_cluster || (is_global && launch.in_order)) && !kind.is_of_block;
  BlockOrder* order = may_order && warp.watching ? &OrderOf(*warp.block) : nullptr;
  const uint64_t block = order != nullptr ? SerialOf(*warp.block) : 0;
  if (kind.reads()) {
    clocks.Acquire(warp.index);
    if (order != nullptr) kind.acquires ? order->Acquire(block) : order->Read(block);
  }
  if (kind.store) {
    if (kind.releases) {
      clocks.Fence(warp.index, (is_global || in_cluster) && !kind.is_of_block);
    }
    clocks.Publish(warp.index);
    if (order != nullptr) order->Publish(block, clocks.of(warp.index));
  }
}

void NoteRelease(Warp& warp) {
  BlockClocks& clocks = warp.block->checker->clocks();
  clocks.Fence(warp.index, true);
  clocks.Publish(warp.index);
  if (!warp.watching) return;
  OrderOf(*warp.block).Publish(SerialOf(*warp.block), clocks.of(warp.index));
}

void NoteAcquire(Warp& warp) {
  warp.block->checker->clocks().Acquire(warp.index);
  if (!warp.watching) return;
  OrderOf(*warp.block).Acquire(SerialOf(*warp.block));
}

}  // namespace cupel::emu
