// Thread block clusters: blocks that run together and access each other's shared memory. A block of
// a launch without clusters is alone in its cluster.
//
// Blocks are numbered cluster by cluster, and within a cluster by rank. Without clusters the number
// is the linear index in the grid.
//
// An address of shared::cluster names a block by its rank + 1 in the upper 8 bits; the others are
// the offset in the block's shared memory. Addresses below 2^24 belong to the executing block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emu/core/block_order.h"
#include "emu/core/block_state.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_state.h"
#include "emu/core/worker.h"
#include "plan/plan.h"

namespace cupel::emu {

/// The most blocks of a cluster. More than 8 need an attribute of the kernel.
inline constexpr uint64_t kLargestCluster = 16;

struct ClusterState {
  std::vector<std::unique_ptr<BlockState>> blocks;  // by rank; finished ones stay
  std::vector<uint32_t> order;                      // the ranks, in the order of turns
  // The current phase of the cluster's barrier.
  uint32_t missing = 0;       // live threads that have not arrived
  bool any_arrived = false;   // some thread has arrived
  bool synchronizes = false;  // an arrival was not .relaxed
  /// Happens-before order between the blocks, unless the launch has one (LaunchState::in_order).
  BlockOrder happens_before;

  bool several() const { return blocks.size() > 1; }
};

/// The position of block `number` in the grid.
inline plan::Dim3 BlockIndex(const plan::Dim3& grid, const plan::Dim3& cluster, uint64_t number) {
  const auto rank = static_cast<uint32_t>(number % cluster.Count());
  const uint64_t index = number / cluster.Count();
  const uint64_t columns = grid.x / cluster.x, rows = grid.y / cluster.y;
  return {static_cast<uint32_t>(index % columns) * cluster.x + rank % cluster.x,
          static_cast<uint32_t>(index / columns % rows) * cluster.y + rank / cluster.x % cluster.y,
          static_cast<uint32_t>(index / columns / rows) * cluster.z + rank / cluster.x / cluster.y};
}

/// A location in the shared memory of a block.
struct SharedPlace {
  BlockState* block = nullptr;  // null: the address names no block of the cluster
  uint32_t offset = 0;          // may be past the end of the memory
};
/// Where a shared::cluster address points that a thread of `block` uses.
inline SharedPlace FindShared(BlockState& block, uint64_t address) {
  if (address >> kRankShift == 0) return {&block, static_cast<uint32_t>(address)};
  const uint64_t rank = (address >> kRankShift) - 1;
  const ClusterState& cluster = *block.cluster;
  if (rank >= cluster.blocks.size()) return {};
  return {cluster.blocks[rank].get(), static_cast<uint32_t>(address) & ((1u << kRankShift) - 1)};
}

/// The order between blocks that `block` takes part in.
inline BlockOrder& OrderOf(const BlockState& block) {
  LaunchState& launch = *block.worker->launch;
  return launch.in_order ? launch.order : block.cluster->happens_before;
}

}  // namespace cupel::emu
