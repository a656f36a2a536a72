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

/// Memory of a warp and its state; the memory is reused by the blocks that follow.
struct BlockState {
  Worker* worker = nullptr;
  uint64_t number = 0;  // linear index in the grid
  plan::Dim3 index{0, 0, 0};
  uint32_t live_threads = 0;
  std::vector<Warp> warps;
  std::vector<bool> ready;                // by warp: may have a runnable group
  std::vector<uint32_t> order;            // in which warps have their turns
  size_t turn = 0;                        // index into order: who is next
  int64_t spent = 0;                      // warp instructions executed so far
  std::vector<uint64_t> warp_work;        // the same by warp
  std::array<BarrierState, 17> barriers;  // the last: of the cluster
  std::byte* memory = nullptr;            // frames, shared and local memory
  size_t memory_bytes = 0;
  std::unique_ptr<SharedChecker> checker;  // full checks only
  std::unique_ptr<BlockShadow> shadow;     // shadow runs only
  std::vector<QuickRace> races;            // by warp, likewise
  std::unique_ptr<AsyncState> async;       // null until it is needed
  std::unique_ptr<CallStacks> calls;       // likewise

  BlockState();
  ~BlockState();
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;
};

/// What is the same for all blocks of a launch.
struct LaunchState {
  const LaunchRequest* request = nullptr;
  const Kernel* kernel = nullptr;
  const Code* code = nullptr;  // the kernel's, or its variant for shadows
  const ShadowCode* shadow_code = nullptr;
  GlobalMemory* memory = nullptr;
  const engine::RunOptions* options = nullptr;
  uint32_t shared_bytes = 0;     // of a block, with what is reserved at the end
  uint32_t reserved_shared = 0;  // for cooperative groups, when the kernel asks where
  uint32_t local_bytes = 0;
  uint32_t warps_per_block = 0;
  uint64_t blocks = 0;         // of the grid
  uint64_t blocks_to_run = 0;  // fewer where LaunchRequest::only names some
  uint64_t count_every = 1;    // of as many neighbouring blocks one, drawn by the seed, is counted
  uint32_t poison = 0;
  uint64_t clock = 0, timer = 0;  // where %clock64 and %globaltimer begin: at any time
  uint32_t grid_id = 0;
  std::vector<uint32_t> processors;  // numbers of multiprocessors, in the order that blocks take
  bool watching = false;             // global memory is watched for races
  bool in_order = false;             // on one thread, in the order of their numbers
  BlockOrder order;                  // what blocks know of each other, when in_order
  uint64_t grid_workspace = 0;       // device address; 0 when the launch is not cooperative
  std::vector<std::byte> parameters;
  std::vector<std::byte> frame;      // a frame with constants and parameters filled in
  std::vector<uint32_t> block_work;  // by position: warp instructions; empty when nobody asks
  std::atomic<uint64_t> next_block{0};
  std::atomic<uint64_t> stop_at{UINT64_MAX};    // blocks from here on need not run
  std::atomic<int64_t> budget{0};               // warp instructions left
  int64_t launch_budget = 0, block_budget = 0;  // as it began; of each block
  std::atomic<bool> cancelled{false};
  std::string unsupported;  // why the launch cannot go on, when in_order

  /// The block that runs at `position` in the order, and back.
  uint64_t NumberOf(uint64_t position) const;
  uint64_t PositionOf(uint64_t number) const;
};

/// A finding with the block it was seen in.
struct SeenFinding {
  uint64_t block = 0;
  uint32_t source = 0;
  engine::Finding finding;
};

/// A read of what nobody has written, until the block ends or somebody turns out to write it.
struct Suspicion {
  std::optional<engine::Finding> finding;
  std::string reads;          // "Thread 3 reads byte 12 of shared memory"
  bool is_unwritten = false;  // or a copy is under way to it
  uint32_t source = 0;
  uint64_t place = 0;  // byte of shared memory, or device address
};

/// What one thread printed in a call of printf.
struct PrintedText {
  uint64_t block = 0;
  std::string text;
};

inline constexpr int64_t kSlice = 100'000;  // warp instructions

/// One thread's part of a launch.
struct Worker {
  LaunchState* launch = nullptr;
  bool is_main = false;  // may call options.cancelled
  std::vector<Hint> hints;
  std::vector<SeenFinding> findings;
  std::vector<PrintedText> printed;
  size_t printed_bytes = 0;
  engine::LaunchCounters counters;   // exact ones
  engine::LaunchCounters sampled;    // of counted blocks only
  std::unique_ptr<Profile> profile;  // the same by op; null when nothing is counted
  NearCache near;                    // of counted blocks
  uint64_t blocks_counted = 0;
  StoreTracker tracker;  // of a launch of which some blocks run
  int64_t budget = 0;    // taken from the launch's
  bool out_of_budget = false;
  bool waited = false;     // LaunchOutcome::wants_order
  int64_t slice = kSlice;  // of a warp's turn, in the usual order
  bool yields = false;     // the block's turn is to end
  Suspicion suspicion;
};

enum class BlockResult { kDone, kUnfinished, kStopped };

/// Gives a block its memory, once.
Status AllocateBlock(LaunchState& launch, Worker& worker, BlockState& block);
/// Makes it block `number` of the grid, about to start.
void StartBlock(BlockState& block, uint64_t number);
/// Runs the block until it ends, or about `quantum` instructions were spent.
BlockResult RunBlock(BlockState& block, int64_t quantum);

/// A turn of `slice` instructions has ended: what it took is accounted for.
void SettleTurn(Warp& warp, int64_t slice);

/// specials.cc: draws where blocks run.
void ShuffleProcessors(uint64_t seed, LaunchState* launch);
/// All special registers when the warp is new, else those that change from block to
/// block.
void FillSpecials(const LaunchState& launch, Warp& warp, const BlockState& block, bool is_new);
/// groups.cc: makes a runnable group of the warp current; false when there is none.
bool PickGroup(Warp& warp);
/// barriers.cc: after lanes exited, barriers may be full.
void RecheckBarriers(BlockState& block, Warp& warp);

// report.cc
/// A finding about `lane` at `op`, without a message.
engine::Finding Describe(const Warp& warp, const Op* op, const char* code, int lane);
/// An error: it is recorded and ends the launch.
void RecordFault(Warp& warp, uint32_t source, engine::Finding finding);
/// The block has ended: what was suspected is certain. A warning: whether the value matters is for
/// the outputs to show, which poison spoils then.
void SettleSuspicion(Warp& warp);
/// Nobody can run: says where everybody waits.
void ReportDeadlock(BlockState& block);
/// `what` spent its `budget`: "block" or "launch".
void ReportBudget(Warp& warp, const char* what, int64_t budget);

}  // namespace cupel::emu
