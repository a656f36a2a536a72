// Runs the warps of one block one after another, each until it waits, ends or uses up its slice.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/scheduler.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "base/round_up.h"
#include "emu/check/follow_code.h"
#include "emu/check/global_race.h"
#include "emu/check/race_trial.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/check/wrap_code.h"
#include "emu/core/block_state.h"
#include "emu/core/call_stacks.h"
#include "emu/core/cluster.h"
#include "emu/core/code.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/quick_race.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/profile.h"
#include "emu/exec/schedule.h"
#include "emu/exec/specials.h"
#include "emu/shadow/shadow.h"
#include "emu/sync/async.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

constexpr int64_t kBetweenReports = 4'000'000;  // warp instructions of a worker
/// The same for memory on demand: each may make 32 pages, and `cancelled` limits them.
constexpr int64_t kBetweenAddressReports = 20'000;
constexpr size_t kAlign = 64;

/// Adds what the worker has executed to the launch's sum, and sets what it may execute until the
/// next report. Returns false if the launch's budget is used up or the launch must stop. Workers
/// take nothing in advance: with many of them, what they had taken and not used would be missing.
bool ReportWork(Worker& worker) {
  LaunchState& launch = *worker.launch;
  if (worker.is_main && launch.options->cancelled && launch.options->cancelled()) {
    launch.cancelled = true;
  }
  if (launch.cancelled) return false;
  const int64_t executed = worker.granted - worker.budget;
  const int64_t left = launch.launch_budget - (launch.executed.fetch_add(executed) + executed);
  const int64_t most = launch.options->addresses_only ? kBetweenAddressReports : kBetweenReports;
  worker.granted = worker.budget = std::clamp(left, int64_t{0}, most);
  worker.out_of_budget = left <= 0;
  return left > 0;
}

enum class Turn { kWaits, kSliceOver, kStopped };

Turn RunTurn(Warp& warp, const Code& code) {
  Worker& worker = *warp.worker;
  if (warp.active == 0 && !PickGroup(warp)) return Turn::kWaits;
  const BlockState& block = *warp.block;
  const uint64_t moment = block.number * 0x2545f4914f6cdd1du + static_cast<uint64_t>(block.spent);
  const int64_t slice = std::min(
      SliceLength(worker.slice, worker.launch->options->schedule, moment ^ warp.index << 8),
      worker.budget);
  warp.slice = slice;
  for (;;) {
    if (warp.counting || !worker.launch->request->only.empty()) {
      RunObserved(warp);
    } else {
      code.handlers->run(warp);
    }
    if (warp.stop == Stop::kSwitch) {
      warp.active = 0;
      if (PickGroup(warp)) continue;
    }
    break;
  }
  worker.budget -= slice - warp.slice;
  if (warp.stop == Stop::kSwitch) return Turn::kWaits;
  return warp.stop == Stop::kSlice ? Turn::kSliceOver : Turn::kStopped;
}

/// True if lanes wait for other blocks, which may release them.
bool WaitsForCluster(const BlockState& block) {
  if (!block.cluster->several()) return false;
  return std::any_of(block.warps.begin(), block.warps.end(), [](const Warp& warp) {
    return std::any_of(
        warp.other.begin(), warp.other.begin() + warp.others, [](const Group& group) {
          return group.state == GroupState::kBarrier && group.barrier == kClusterBarrier;
        });
  });
}

/// Sets up the checkers' state for vector code.
void PrepareRace(const LaunchState& launch, BlockState& block, Warp& warp) {
  QuickRace& race = block.races[warp.index];
  SharedChecker& shared = *block.checker;
  const WarpClock& clock = shared.clocks().of(warp.index);
  race.now = &clock.now;
  race.seen = clock.seen.data();
  race.seen_elsewhere = &clock.seen_elsewhere;
  race.base = &shared.base();
  race.writes = shared.writes();
  race.reads = shared.reads();
  race.shift = shared.granule_shift();
  race.line_ids = launch.code->line_ids.data();
  race.first_thread = warp.index * kLanes;
  if (const GlobalChecker* global = CheckerOf(*launch.memory); global != nullptr) {
    race.global_shift = global->granule_shift();
    race.floor = global->floor();
    race.reads_used = global->reads_used();
  }
  if (const RaceTrial* trial = launch.request->trial; trial != nullptr && trial->sees_all()) {
    race.shift = race.global_shift = 31;  // no access is that wide: the checkers see all
  }
  warp.race = &race;
}

void Poison(std::byte* begin, size_t bytes, uint32_t poison) {
  auto* words = reinterpret_cast<uint32_t*>(begin);
  std::fill(words, words + bytes / 4, poison);
}

}  // namespace

BlockState::BlockState() = default;
BlockState::~BlockState() { ::operator delete[](memory, std::align_val_t{kAlign}); }

Status AllocateBlock(LaunchState& launch, Worker& worker, BlockState& block) {
  const size_t frame = RoundUp<size_t>(static_cast<size_t>(launch.code->frame_bytes), kAlign);
  const size_t local = RoundUp<size_t>(size_t{launch.local_bytes} * kLanes, kAlign);
  // 64 bytes after shared memory: vector handlers may read (not use) past a masked access.
  const size_t shared = RoundUp<size_t>(launch.shared_bytes, kAlign) + kAlign;
  block.memory_bytes = (frame + local) * launch.warps_per_block + shared;
  block.memory = static_cast<std::byte*>(
      ::operator new[](block.memory_bytes, std::align_val_t{kAlign}, std::nothrow));
  if (block.memory == nullptr) {
    return Fail(ErrorCode::kEnvironment, "not enough memory for the registers of a block");
  }
  block.worker = &worker;
  block.warps.resize(launch.warps_per_block);
  block.ready.assign(launch.warps_per_block, true);
  block.order.resize(launch.warps_per_block);
  if (launch.options->full_checks) {
    block.checker = std::make_unique<SharedChecker>(
        launch.shared_bytes, static_cast<uint32_t>(launch.request->block.Count()),
        launch.code->shared_granule_shift);
    block.races.resize(launch.warps_per_block);
  }
  if (launch.shadow_code != nullptr) {
    block.shadow = std::make_unique<BlockShadow>(
        *launch.shadow_code, launch.request->shadows->memory(), launch.warps_per_block,
        launch.shared_bytes, launch.local_bytes);
  }
  if (launch.follow_code != nullptr) {
    block.follows.resize(launch.warps_per_block);
    for (WarpFollow& follow : block.follows) {
      follow.code = launch.follow_code;
      follow.trial = launch.request->trial;
      follow.lanes.resize(launch.follow_code->flow.values());
    }
  }
  if (launch.wrap_code != nullptr) {
    block.wraps.resize(launch.warps_per_block);
    for (WarpWraps& wraps : block.wraps) {
      wraps.code = launch.wrap_code.get();
      wraps.registers.resize(launch.wrap_code->is_constant.size());
    }
  }
  std::byte* at = block.memory + shared;
  for (uint32_t w = 0; w < launch.warps_per_block; ++w) {
    Warp& warp = block.warps[w];
    warp.frame = at;
    warp.local = at + frame;
    at += frame + local;
    std::memcpy(warp.frame, launch.frame.data(), launch.frame.size());
    warp.index = w;
    warp.shared = block.memory;
    warp.shared_bytes = launch.shared_bytes;
    warp.local_bytes = launch.local_bytes;
    warp.param = launch.parameters.data();
    warp.param_bytes = launch.parameters.size();
    warp.bias = launch.memory->bias();
    warp.hints = worker.hints.data();
    warp.block = &block;
    warp.worker = &worker;
    warp.code = launch.code->ops.data();
    warp.lists = launch.code->lists.data();
    warp.checking = launch.options->full_checks;
    warp.shadow = block.shadow ? &block.shadow->warp(w) : nullptr;
    if (warp.shadow != nullptr) warp.shadow->block = &block;
    warp.watching = warp.checking && launch.watching;
    if (warp.checking) PrepareRace(launch, block, warp);
    FillSpecials(launch, warp, block, true);
  }
  return {};
}

namespace {

/// Of each `count_every` neighbouring blocks, the seed selects one to count. A kernel cannot
/// predict which, so it cannot appear cheaper than it is.
bool IsCounted(const LaunchState& launch, uint64_t position) {
  const uint64_t window = position / launch.count_every;
  const uint64_t first = window * launch.count_every;
  Random random(launch.options->seed ^ ((window + 1) * 0x9e3779b97f4a7c15u));
  return position - first ==
         random.Below(std::min(launch.count_every, launch.blocks_to_run - first));
}

}  // namespace

namespace {

/// The block is done: records its work, and that of its busiest warp.
void NoteWork(const BlockState& block) {
  Worker& worker = *block.worker;
  worker.counters.critical_warp_instructions +=
      *std::max_element(block.warp_work.begin(), block.warp_work.end());
  std::vector<uint32_t>& work = worker.launch->block_work;
  if (work.empty()) return;
  work[worker.launch->PositionOf(block.number)] =
      static_cast<uint32_t>(std::min<int64_t>(block.spent, UINT32_MAX));
}

}  // namespace

uint64_t LaunchState::FirstBlockInTurn(uint64_t turn, bool blocks_wait) const {
  return NumberOf(BlockInTurn(turn, clusters_to_run(), options->schedule, blocks_wait) *
                  cluster.Count());
}
uint64_t LaunchState::NumberOf(uint64_t position) const {
  return request->only.empty() ? position : request->only[position];
}
uint64_t LaunchState::PositionOf(uint64_t number) const {
  if (request->only.empty()) return number;
  const auto only = request->only;
  return static_cast<uint64_t>(std::lower_bound(only.begin(), only.end(), number) - only.begin());
}

void StartBlock(BlockState& block, uint64_t number) {
  LaunchState& launch = *block.worker->launch;
  const uint64_t threads = launch.request->block.Count();
  block.number = number;
  block.index = BlockIndex(launch.request->grid, launch.cluster, number);
  block.live_threads = static_cast<uint32_t>(threads);
  block.barriers = {};
  block.turn = 0;
  block.spent = 0;
  block.warp_work.assign(block.warps.size(), 0);
  Poison(block.memory, RoundUp<size_t>(launch.shared_bytes, kAlign), launch.poison);
  if (block.checker) block.checker->Reset();
  if (block.shadow) block.shadow->Start();
  for (WarpFollow& follow : block.follows) follow.Clear();
  for (WarpWraps& wraps : block.wraps) wraps.Clear();
  if (RaceTrial* trial = launch.request->trial; trial != nullptr) {
    trial->BeginBlock(!launch.in_order && launch.cluster.Count() == 1);
  }
  if (const GlobalChecker* global = CheckerOf(*launch.memory); global != nullptr) {
    for (QuickRace& race : block.races) race.block = global->Serial(number);
  }
  block.grid_waits.clear();
  block.async.reset();
  block.calls.reset();
  std::fill(block.ready.begin(), block.ready.end(), true);
  for (uint32_t w = 0; w < block.order.size(); ++w) block.order[w] = w;
  const uint64_t order = launch.options->seed ^ (launch.options->schedule * 0xbf58476d1ce4e5b9u);
  if (order != 0) {
    Random random(order ^ (number * 0x9e3779b97f4a7c15u));
    for (size_t i = block.order.size(); i > 1; --i) {
      std::swap(block.order[i - 1], block.order[random.Below(i)]);
    }
  }
  const bool counting = launch.options->counters && IsCounted(launch, launch.PositionOf(number));
  block.worker->blocks_counted += counting;
  // The blocks of a cluster run in turns and share the model of a cache.
  const uint64_t near_bytes = launch.request->near_bytes * launch.cluster.Count();
  if (counting) block.worker->near.Start(number, near_bytes);
  for (Warp& warp : block.warps) {
    const uint64_t first = uint64_t{warp.index} * kLanes;
    const uint64_t here = std::min<uint64_t>(threads - first, kLanes);
    warp.live = here == kLanes ? kFullMask : (1u << here) - 1;
    warp.active = warp.live;
    warp.others = 0;
    warp.min_other = nullptr;
    warp.sticky = warp.forced = false;
    warp.cluster_arrived = warp.cluster_passed = 0;
    warp.spin = 0;
    warp.pc = launch.code->ops.data();
    warp.counting = counting;
    for (const Code::Range& range : launch.code->undefined) {
      Poison(warp.frame + range.begin, static_cast<size_t>(range.end - range.begin), launch.poison);
    }
    for (int32_t offset : launch.code->cleared) MaskAt(warp, offset) = 0;
    if (launch.local_bytes != 0) {
      Poison(warp.local, size_t{launch.local_bytes} * kLanes, launch.poison);
    }
    FillSpecials(launch, warp, block, false);
  }
}

/// Lanes that wait for the same lanes at different places count as arrived (__syncwarp).
bool ForceOne(BlockState& block) {
  for (size_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[w];
    for (int i = 0; i < warp.others; ++i) {
      const Group& first = warp.other[static_cast<size_t>(i)];
      if (first.state != GroupState::kSync) continue;
      const uint32_t mask = first.sync_mask;
      for (int j = i; j < warp.others; ++j) {
        Group& group = warp.other[static_cast<size_t>(j)];
        if (group.state != GroupState::kSync || group.sync_mask != mask) continue;
        group.state = GroupState::kRunnable;
        group.forced = true;
      }
      block.ready[w] = true;
      return true;
    }
  }
  return false;
}

BlockResult RunBlock(BlockState& block, int64_t quantum) {
  Worker& worker = *block.worker;
  const Code& code = *worker.launch->code;
  for (bool waits = true;; waits = false) {
    bool ran = false;
    if (block.turn >= block.order.size()) block.turn = 0;
    while (block.turn < block.order.size()) {
      const uint32_t w = block.order[block.turn++];
      Warp& warp = block.warps[w];
      if (!block.ready[w]) continue;
      // A whole slice must be available: the end of a turn must not depend on what this thread ran
      // before.
      if (worker.budget < kSlice && !ReportWork(worker) && worker.budget <= 0) {
        if (worker.out_of_budget) ReportBudget(warp, "launch", worker.launch->launch_budget);
        return BlockResult::kStopped;
      }
      const int64_t before = worker.budget;
      const Turn turn = RunTurn(warp, code);
      quantum -= before - worker.budget;
      block.spent += before - worker.budget;
      CollectCounts(warp);
      ran = true;
      if (turn == Turn::kStopped) return BlockResult::kStopped;
      if (block.spent > worker.launch->block_budget && warp.active != 0) {
        ReportBudget(warp, "block", worker.launch->block_budget);
        return BlockResult::kStopped;
      }
      // The warp's own arrival may have opened its barrier. Then it is ready again.
      if (turn == Turn::kWaits && warp.active == 0) {
        bool runnable = false;
        for (int i = 0; i < warp.others; ++i) {
          runnable |= warp.other[static_cast<size_t>(i)].state == GroupState::kRunnable;
        }
        block.ready[w] = runnable;
      }
      if (quantum <= 0 || std::exchange(worker.yields, false)) return BlockResult::kUnfinished;
    }
    if (ran || std::find(block.ready.begin(), block.ready.end(), true) != block.ready.end())
      continue;
    if (block.live_threads == 0) {
      if (block.async && !block.async->DeliverAll(block.warps[0])) return BlockResult::kStopped;
      NoteWork(block);
      SettleSuspicion(block.warps[0]);
      return BlockResult::kDone;
    }
    if (WaitsForCluster(block) || !ForceOne(block)) {
      return waits ? BlockResult::kWaits : BlockResult::kUnfinished;
    }
  }
}

}  // namespace cupel::emu
