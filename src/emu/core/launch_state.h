// State that all blocks of a launch share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/core/block_order.h"
#include "emu/core/changed_maps.h"
#include "emu/core/code.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_request.h"
#include "emu/core/memory.h"
#include "engine/engine.h"

namespace cupel::emu {

struct FollowCode;
struct WrapCode;
struct ShadowCode;

/// State that all blocks of a launch share.
struct LaunchState {
  const LaunchRequest* request = nullptr;
  const Kernel* kernel = nullptr;
  const Code* code = nullptr;  // the kernel's code, or a variant of it
  const ShadowCode* shadow_code = nullptr;
  GlobalMemory* memory = nullptr;
  const engine::RunOptions* options = nullptr;
  plan::Dim3 cluster;            // 1, 1, 1 without clusters
  bool is_clustered = false;     // launched as clusters, perhaps of one block
  uint32_t shared_bytes = 0;     // of a block, including reserved_shared at the end
  uint32_t reserved_shared = 0;  // for cooperative groups, if the kernel reads its address
  uint32_t local_bytes = 0;
  uint32_t warps_per_block = 0;
  uint64_t blocks = 0;         // of the grid
  uint64_t blocks_to_run = 0;  // fewer if LaunchRequest::only is not empty
  uint64_t count_every = 1;    // of this many neighbouring blocks, one random block is counted
  uint32_t poison = 0;
  uint64_t clock = 0, timer = 0;  // initial values of %clock64 and %globaltimer, random
  uint32_t grid_id = 0;
  std::vector<uint32_t> processors;  // multiprocessor numbers, in the order that blocks use them
  bool watching = false;             // global memory is checked for races
  bool in_order = false;             // blocks start in order, on one thread
  BlockOrder order;                  // happens-before order between blocks, if in_order
  ChangedMaps changed_maps;          // full checks only
  uint64_t grid_workspace = 0;       // device address; 0 if the launch is not cooperative
  std::vector<std::byte> parameters;
  std::vector<std::byte> frame;      // a frame with constants and parameters filled in
  std::vector<uint32_t> block_work;  // warp instructions by position; empty without counters
  std::atomic<uint64_t> next_cluster{0};
  std::atomic<uint64_t> stop_at{UINT64_MAX};    // blocks from here on need not run
  std::atomic<int64_t> executed{0};             // warp instructions that the workers reported
  int64_t launch_budget = 0, block_budget = 0;  // initial, for the launch and for each block
  std::atomic<bool> cancelled{false};
  std::string unsupported;                    // why the launch cannot continue, if in_order
  const FollowCode* follow_code = nullptr;    // RaceTrial::Pass::kFollow only
  std::shared_ptr<const WrapCode> wrap_code;  // null, but with RunOptions::addresses_only

  uint64_t clusters_to_run() const { return blocks_to_run / cluster.Count(); }
  /// The first block of the cluster that starts at position `turn`. `blocks_wait`: blocks may wait
  /// for blocks with lower numbers.
  uint64_t FirstBlockInTurn(uint64_t turn, bool blocks_wait) const;
  /// The block that runs at `position` in the order, and back.
  uint64_t NumberOf(uint64_t position) const;
  uint64_t PositionOf(uint64_t number) const;
};

}  // namespace cupel::emu
