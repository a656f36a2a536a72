// The state of a resident block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emu/core/quick_race.h"
#include "emu/core/warp.h"
#include "plan/plan.h"

namespace cupel::emu {

class AsyncState;
class BlockShadow;
class CallStacks;
class SharedChecker;
struct ClusterState;
struct WarpFollow;
struct WarpWraps;
struct Worker;

struct BarrierState {
  uint32_t arrived = 0;
  uint32_t expected = 0;  // 0: all threads of the block
  uint32_t true_count = 0, reduced = 0;
};

/// Lanes of a warp have waited for the launch before this one (griddepcontrol.wait).
struct GridWait {
  uint32_t warp = 0, clock = 0, lanes = 0;
};

/// The state of a resident block. Later blocks reuse its memory.
struct BlockState {
  Worker* worker = nullptr;
  ClusterState* cluster = nullptr;
  uint32_t rank = 0;    // in its cluster
  uint64_t number = 0;  // in the grid (cluster.h)
  plan::Dim3 index{0, 0, 0};
  uint32_t live_threads = 0;
  std::vector<Warp> warps;
  std::vector<bool> ready;          // by warp: may have a runnable group
  std::vector<uint32_t> order;      // the order in which warps take turns
  size_t turn = 0;                  // index into order: the next warp
  int64_t spent = 0;                // warp instructions executed so far
  std::vector<uint64_t> warp_work;  // spent, by warp
  std::array<BarrierState, 16> barriers;
  std::byte* memory = nullptr;  // frames, shared and local memory
  size_t memory_bytes = 0;
  std::unique_ptr<SharedChecker> checker;  // full checks only
  std::unique_ptr<BlockShadow> shadow;     // shadow runs only
  std::vector<QuickRace> races;            // by warp; full checks only
  std::unique_ptr<AsyncState> async;       // null until first used
  std::unique_ptr<CallStacks> calls;       // null until first used
  std::vector<GridWait> grid_waits;        // full checks only
  std::vector<WarpFollow> follows;         // by warp; RaceTrial::Pass::kFollow only
  std::vector<WarpWraps> wraps;            // by warp; RunOptions::addresses_only

  BlockState();
  ~BlockState();
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;
};

}  // namespace cupel::emu
