// Runs the blocks of a cluster in turns, on one thread. A block without a cluster is a cluster of
// one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/launch_state.h"
#include "emu/core/worker.h"
#include "emu/exec/scheduler.h"

namespace cupel::emu {

/// Allocates the cluster's blocks and their memory. Call it once per cluster. Returns the bytes.
Result<size_t> AllocateCluster(LaunchState& launch, Worker& worker, ClusterState& cluster);
/// Resets `cluster` to the start of the cluster whose first block is block `number` of the grid.
void StartCluster(ClusterState& cluster, uint64_t number);
/// Runs the cluster until it ends or its blocks have spent about `quantum` instructions.
BlockResult RunCluster(ClusterState& cluster, int64_t quantum);
/// Appends the blocks that have not finished.
void AppendRunning(const ClusterState& cluster, std::vector<BlockState*>* blocks);

}  // namespace cupel::emu
