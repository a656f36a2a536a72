// Tested by cluster_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/cluster.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/random.h"
#include "emu/check/report.h"
#include "emu/core/call_stacks.h"
#include "emu/core/code.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

// Turns are short, because blocks may poll what another block of the cluster writes.
constexpr int64_t kTurn = 4'000;
constexpr int64_t kSlicesInTurn = 8;

}  // namespace

Result<size_t> AllocateCluster(LaunchState& launch, Worker& worker, ClusterState& cluster) {
  size_t bytes = 0;
  for (uint32_t rank = 0; rank < launch.cluster.Count(); ++rank) {
    auto block = std::make_unique<BlockState>();
    block->cluster = &cluster;
    block->rank = rank;
    TRY(AllocateBlock(launch, worker, *block));
    bytes += block->memory_bytes + (block->shadow ? block->shadow->bytes() : 0);
    if (!launch.code->functions.empty()) bytes += kMostStackBytes;
    cluster.blocks.push_back(std::move(block));
  }
  cluster.order.resize(cluster.blocks.size());
  return bytes;
}

void StartCluster(ClusterState& cluster, uint64_t number) {
  for (const auto& block : cluster.blocks) StartBlock(*block, number + block->rank);
  const LaunchState& launch = *cluster.blocks[0]->worker->launch;
  cluster.missing = static_cast<uint32_t>(launch.request->block.Count() * cluster.blocks.size());
  cluster.any_arrived = cluster.synchronizes = false;
  if (!cluster.several()) return;
  cluster.happens_before = {};
  std::iota(cluster.order.begin(), cluster.order.end(), 0u);
  if (launch.options->schedule == 0) return;
  Random random(launch.options->schedule * 0x9fb21c651e98df25u ^ number);
  random.Shuffle(cluster.order);
}

BlockResult RunCluster(ClusterState& cluster, int64_t quantum) {
  Worker& worker = *cluster.blocks[0]->worker;
  const bool several = cluster.several();
  if (several) worker.slice = std::min(worker.slice, kTurn / kSlicesInTurn);
  do {
    bool ran = false, is_done = true;
    for (const uint32_t rank : cluster.order) {
      BlockState& block = *cluster.blocks[rank];
      if (block.live_threads == 0) continue;
      const int64_t before = block.spent;
      const BlockResult result = RunBlock(block, several ? std::min(quantum, kTurn) : quantum);
      if (result == BlockResult::kStopped) return result;
      quantum -= block.spent - before;
      ran |= result != BlockResult::kWaits;
      is_done &= result == BlockResult::kDone;
    }
    if (is_done) return BlockResult::kDone;
    if (!ran && std::none_of(cluster.blocks.begin(), cluster.blocks.end(),
                             [](const auto& block) { return ForceOne(*block); })) {
      ReportDeadlock(cluster);
      return BlockResult::kStopped;
    }
    // In a cooperative launch, blocks leave a grid barrier together (YieldTurn).
  } while (quantum > 0 && !worker.launch->request->cooperative);
  return BlockResult::kUnfinished;
}

void AppendRunning(const ClusterState& cluster, std::vector<BlockState*>* blocks) {
  for (const auto& block : cluster.blocks) {
    if (block->live_threads != 0) blocks->push_back(block.get());
  }
}

}  // namespace cupel::emu
