// A resident block and the worker that runs it: state shared by the scheduler, the checkers and the
// counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emu/code.h"
#include "emu/global_race.h"
#include "emu/kernel.h"
#include "emu/launch.h"
#include "emu/near_cache.h"
#include "emu/op.h"
#include "emu/profile.h"
#include "emu/quick_race.h"
#include "emu/store_tracker.h"
#include "engine/engine.h"

namespace cupel::emu {

class AsyncState;
class BlockShadow;
class CallStacks;
class SharedChecker;
struct ShadowCode;

struct BarrierState {
  uint32_t arrived = 0;
  uint32_t expected = 0;  // 0: all threads of the block
  uint32_t true_count = 0, reduced = 0;
};

/// The state of a resident block. Later blocks reuse its memory.
struct BlockState {
  Worker* worker = nullptr;
  uint64_t number = 0;  // linear index in the grid
  plan::Dim3 index{0, 0, 0};
  uint32_t live_threads = 0;
  std::vector<Warp> warps;
  std::vector<bool> ready;                // by warp: may have a runnable group
  std::vector<uint32_t> order;            // the order in which warps take turns
  size_t turn = 0;                        // index into order: the next warp
  int64_t spent = 0;                      // warp instructions executed so far
  std::vector<uint64_t> warp_work;        // spent, by warp
  std::array<BarrierState, 17> barriers;  // the last one is the cluster's
  std::byte* memory = nullptr;            // frames, shared and local memory
  size_t memory_bytes = 0;
  std::unique_ptr<SharedChecker> checker;  // full checks only
  std::unique_ptr<BlockShadow> shadow;     // shadow runs only
  std::vector<QuickRace> races;            // by warp; full checks only
  std::unique_ptr<AsyncState> async;       // null until first used
  std::unique_ptr<CallStacks> calls;       // null until first used

  BlockState();
  ~BlockState();
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;
};

/// State that all blocks of a launch share.
struct LaunchState {
  const LaunchRequest* request = nullptr;
  const Kernel* kernel = nullptr;
  const Code* code = nullptr;  // the kernel's code, or its variant for shadow runs
  const ShadowCode* shadow_code = nullptr;
  GlobalMemory* memory = nullptr;
  const engine::RunOptions* options = nullptr;
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
  uint64_t grid_workspace = 0;       // device address; 0 if the launch is not cooperative
  std::vector<std::byte> parameters;
  std::vector<std::byte> frame;      // a frame with constants and parameters filled in
  std::vector<uint32_t> block_work;  // warp instructions by position; empty without counters
  std::atomic<uint64_t> next_block{0};
  std::atomic<uint64_t> stop_at{UINT64_MAX};    // blocks from here on need not run
  std::atomic<int64_t> executed{0};             // warp instructions that the workers reported
  int64_t launch_budget = 0, block_budget = 0;  // initial, for the launch and for each block
  std::atomic<bool> cancelled{false};
  std::string unsupported;  // why the launch cannot continue, if in_order

  /// The block that runs at `position` in the order, and back.
  uint64_t NumberOf(uint64_t position) const;
  uint64_t PositionOf(uint64_t number) const;
};

/// A finding and the block that caused it.
struct SeenFinding {
  uint64_t block = 0;
  uint32_t source = 0;
  engine::Finding finding;
};

/// A read of memory that nothing has written so far. If a thread writes that memory later, this is
/// reported as a race; otherwise SettleSuspicion reports it when the block ends.
struct Suspicion {
  std::optional<engine::Finding> finding;
  std::string reads;          // "Thread 3 reads byte 12 of shared memory"
  bool is_unwritten = false;  // false: a copy to it is in flight
  uint32_t source = 0;
  uint64_t place = 0;  // offset in shared memory, or device address
};

/// The text that one thread printed in one printf call.
struct PrintedText {
  uint64_t block = 0;
  std::string text;
};

inline constexpr int64_t kSlice = 100'000;  // warp instructions

/// The part of a launch that one host thread runs.
struct Worker {
  LaunchState* launch = nullptr;
  bool is_main = false;  // may call options.cancelled
  std::vector<Hint> hints;
  std::vector<SeenFinding> findings;
  std::vector<PrintedText> printed;
  size_t printed_bytes = 0;
  engine::LaunchCounters counters;   // exact, of all blocks
  engine::LaunchCounters sampled;    // of counted blocks only
  std::unique_ptr<Profile> profile;  // of counted blocks, by op; null without counters
  NearCache near;                    // of counted blocks
  uint64_t blocks_counted = 0;
  StoreTracker tracker;  // used if only some blocks of the launch run
  int64_t budget = 0;    // warp instructions until the next report of its work
  int64_t granted = 0;   // what `budget` was after the last report
  bool out_of_budget = false;
  bool waited = false;     // LaunchOutcome::wants_order
  int64_t slice = kSlice;  // length of a warp's turn with the usual schedule
  bool yields = false;     // the block's turn should end
  Suspicion suspicion;
};

enum class BlockResult { kDone, kUnfinished, kStopped };

/// Allocates a block's memory. Call it once per block.
Status AllocateBlock(LaunchState& launch, Worker& worker, BlockState& block);
/// Resets `block` to the start of block `number` of the grid.
void StartBlock(BlockState& block, uint64_t number);
/// Runs the block until it ends or has spent about `quantum` instructions.
BlockResult RunBlock(BlockState& block, int64_t quantum);

/// Accounts for the instructions of a turn of at most `slice` instructions that has ended.
void SettleTurn(Warp& warp, int64_t slice);

/// specials.cc: assigns blocks to multiprocessors at random.
void ShuffleProcessors(uint64_t seed, LaunchState* launch);
/// Sets the special registers: all if the warp is new, otherwise those that differ between blocks.
void FillSpecials(const LaunchState& launch, Warp& warp, const BlockState& block, bool is_new);
/// groups.cc: makes a runnable group of the warp current. Returns false if there is none.
bool PickGroup(Warp& warp);
/// barriers.cc: releases barriers that became full because lanes exited.
void RecheckBarriers(BlockState& block, Warp& warp);

// report.cc
/// A finding about `lane` at `op`, without a message.
engine::Finding Describe(const Warp& warp, const Op* op, const char* code, int lane);
/// Records an error, which ends the launch.
void RecordFault(Warp& warp, uint32_t source, engine::Finding finding);
/// Reports the worker's suspicion as a warning when the block has ended. It is only a warning: if
/// the value matters, poison shows up in the outputs.
void SettleSuspicion(Warp& warp);
/// Reports a deadlock and where each warp waits.
void ReportDeadlock(BlockState& block);
/// Reports that `what` ("block" or "launch") has used up its `budget`.
void ReportBudget(Warp& warp, const char* what, int64_t budget);

}  // namespace cupel::emu
