// Runs a launch. Its blocks run on several threads, or in order on one thread if blocks may depend
// on each other.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/launch.h"

#include <fmt/format.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/random.h"
#include "emu/check/follow_code.h"
#include "emu/check/global_race.h"
#include "emu/check/race_trial.h"
#include "emu/check/shared_race.h"
#include "emu/check/wrap_code.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_request.h"
#include "emu/core/launch_state.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/op_profile.h"
#include "emu/core/thread_pool.h"
#include "emu/core/worker.h"
#include "emu/cost/profile.h"
#include "emu/exec/cluster.h"
#include "emu/exec/schedule.h"
#include "emu/exec/scheduler.h"
#include "emu/exec/specials.h"
#include "emu/shadow/shadow.h"
#include "emu/stall/stall.h"

namespace cupel::emu {
namespace {

constexpr int64_t kLongQuantum = 2'000'000;  // while only one block runs
constexpr int64_t kShortQuantum = 20'000;    // when blocks wait for each other
constexpr int64_t kSpinQuantum = 4'000;      // the same, for kernels with Kernel::may_spin
constexpr int64_t kShareQuantum = 2'000;     // when blocks share out work
constexpr int64_t kSlicesInQuantum = 8;      // so that all warps of a block get a turn
constexpr int64_t kUnlimited = INT64_MAX / 2;
constexpr size_t kResidentBytes = size_t{2} << 30;
constexpr uint64_t kMostBlocksWithWork = uint64_t{1} << 24;
constexpr uint64_t kMostBlocks = uint64_t{1} << 40;  // so that nothing overflows
constexpr uint64_t kCountedBlocks = 128;
constexpr uint32_t kReservedShared = 1024;  // as on sm_80 and later

/// Fills in what all warps of a launch share: constants and parameters. Returns the name of a
/// symbol without an address; empty if there is none.
std::string FillFrame(LaunchState& launch) {
  launch.frame.assign(static_cast<size_t>(launch.code->frame_bytes), std::byte{0});
  auto* words = reinterpret_cast<uint32_t*>(launch.frame.data());
  std::fill(words, words + launch.frame.size() / 4, launch.poison);
  auto fill = [&](int32_t offset, SlotKind kind, uint64_t bits) {
    const size_t bytes = kind == SlotKind::kDouble ? 8 : 4;
    const size_t count = kind == SlotKind::kPredicate ? 1 : kLanes;
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(launch.frame.data() + static_cast<size_t>(offset) + i * bytes, &bits, bytes);
    }
  };
  for (const ConstantSlot& slot : launch.code->constants) {
    uint64_t bits = slot.bits;
    if (!slot.symbol.empty()) {
      const std::optional<uint64_t> address =
          launch.memory->SymbolAddress(slot.symbol, launch.request->image);
      if (!address) return slot.symbol;
      bits += *address;
    }
    fill(slot.offset, slot.kind, bits);
  }
  for (const ParameterSlot& slot : launch.code->parameters) {
    uint64_t bits = 0;
    std::memcpy(&bits, launch.parameters.data() + slot.from, slot.bytes);
    if (slot.is_signed) {
      const int shift = 64 - 8 * static_cast<int>(slot.bytes);
      bits = static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
    }
    fill(slot.offset, slot.bytes == 8 ? SlotKind::kDouble : SlotKind::kWord, bits);
  }
  return {};
}

/// Draws a random time and date for each run. This exposes kernels that behave differently after a
/// date, or if a clock does not advance.
void SetClocks(uint64_t seed, LaunchState* launch) {
  constexpr uint64_t kYear = 31'557'600'000'000'000;  // nanoseconds
  Random random = Random(seed).Fork("clocks");
  launch->clock = random.Below(uint64_t{1} << 48);
  launch->timer = 55 * kYear + random.Below(75 * kYear);  // 2025 to 2100
  launch->grid_id = static_cast<uint32_t>(random());
}

/// Provides memory for the grid barrier, as the driver does for cooperative launches. All launches
/// share it, under a name among the symbols.
Status ProvideWorkspace(LaunchState& launch) {
  constexpr const char* kName = "grid workspace";
  constexpr uint64_t kBytes = 64;
  const auto uses = [](const SpecialSlot& slot) {
    return slot.which == Special::kGridWorkspaceHigh || slot.which == Special::kGridWorkspaceLow;
  };
  const std::vector<SpecialSlot>& specials = launch.code->specials;
  if (!launch.request->cooperative || std::none_of(specials.begin(), specials.end(), uses))
    return {};
  if (!launch.memory->SymbolAddress(kName)) {
    TRY_ASSIGN(uint64_t address, launch.memory->Allocate(kBytes, -1, false, kName));
    launch.memory->BindSymbol(kName, address);
  }
  launch.grid_workspace = *launch.memory->SymbolAddress(kName);
  std::memset(launch.memory->Host(launch.grid_workspace), 0, kBytes);
  launch.memory->MarkWritten(launch.grid_workspace, kBytes);
  return {};
}

/// Sets the thread's float mode for the handlers, and restores it.
class FloatEnvironment {
 public:
  explicit FloatEnvironment(unsigned mode) : saved_(_mm_getcsr()) { _mm_setcsr(mode); }
  ~FloatEnvironment() { _mm_setcsr(saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  unsigned saved_;
};

/// Runs a cluster that does not depend on other blocks, to its end.
BlockResult RunAlone(ClusterState& cluster, StallWatch& watch) {
  watch.Restart();
  for (;;) {
    const BlockResult result = RunCluster(cluster, watch.first_check());
    if (result != BlockResult::kUnfinished) return result;
    int64_t spent = 0;
    for (const auto& block : cluster.blocks) spent += block->spent;
    std::vector<BlockState*> blocks;
    AppendRunning(cluster, &blocks);
    const StallOutcome stall = watch.Check(blocks, spent);
    if (stall == StallOutcome::kOpen || stall == StallOutcome::kWaiting) continue;
    if (stall != StallOutcome::kStopped) {
      watch.Report(blocks, 0, stall);
      Worker& worker = *blocks[0]->worker;
      worker.waited |= worker.launch->clusters_to_run() > 1;
    }
    return BlockResult::kStopped;
  }
}

/// Takes clusters from the launch's counter and runs them one after another.
Status RunIndependent(LaunchState& launch, Worker& worker) {
  ClusterState cluster;
  StallWatch watch(launch, false);
  for (;;) {
    const uint64_t position = launch.next_cluster.fetch_add(1);
    if (position >= launch.clusters_to_run() || launch.cancelled) return {};
    const uint64_t number = launch.FirstBlockInTurn(position, launch.kernel->may_spin);
    if (number >= launch.stop_at) continue;
    if (cluster.blocks.empty()) TRY(AllocateCluster(launch, worker, cluster));
    StartCluster(cluster, number);
    if (RunAlone(cluster, watch) == BlockResult::kStopped) return {};
  }
}

/// Runs clusters in order on one thread. Those that wait for each other take turns.
class InOrder {
 public:
  InOrder(LaunchState& launch, Worker& worker)
      : launch_(launch), worker_(worker), watch_(launch, launch.clusters_to_run() > 1) {}

  Status Run() {
    const bool together = launch_.request->cooperative;
    // In other orders, blocks that may wait for each other run side by side from the start, and are
    // interrupted at any time.
    const bool mixes = launch_.options->schedule != 0 && BlocksWait() && !together;
    const bool shares = launch_.options->counters && MayShareWork();
    const uint64_t side_by_side = together || shares ? launch_.clusters_to_run()
                                  : mixes            ? kScheduleWindow
                                                     : 0;
    if (mixes) worker_.interruptions.emplace(launch_.options->seed ^ launch_.options->schedule);
    do {
      if (side_by_side > 0) {
        TRY(StartUpTo(side_by_side));
      } else if (resident_.empty() || waiting_) {
        TRY(StartNext());
      }
      waiting_ = false;
      const bool alone = resident_.size() == 1 && side_by_side == 0;
      // Check the first cluster early: if it does not wait for others, it continues alone.
      const bool is_first = alone && !std::exchange(first_checked_, true);
      int64_t quantum = launch_.kernel->may_spin ? kSpinQuantum : kShortQuantum;
      if (shares) quantum = kShareQuantum;
      worker_.slice = alone ? kSlice : quantum / kSlicesInQuantum;
      if (alone) quantum = kLongQuantum;
      if (is_first) quantum = watch_.first_check();
      for (size_t i = 0; i < resident_.size();) {
        if (mixes) quantum = ShortTurn(*worker_.interruptions);
        const BlockResult result = RunCluster(*resident_[i], quantum);
        if (result == BlockResult::kStopped) return {};
        if (result == BlockResult::kUnfinished) {
          waiting_ = true;
          ++i;
          continue;
        }
        free_.push_back(std::move(resident_[i]));
        resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (waiting_) {
        const uint64_t before = started_;
        TRY_ASSIGN(const bool stopped, StopIfStuck());
        if (stopped) return {};
        waiting_ = !is_first || started_ != before;
      }
    } while (!resident_.empty() || started_ < launch_.clusters_to_run());
    return {};
  }

 private:
  /// Starts clusters until so many are resident, if there is room.
  Status StartUpTo(uint64_t most) {
    while (resident_.size() < most) {
      const uint64_t before = started_;
      TRY(StartNext());
      if (started_ == before) break;
    }
    return {};
  }

  Status StartNext() {
    if (started_ >= launch_.clusters_to_run()) return {};
    if (IsDeviceFull()) return {};
    if (free_.empty()) {
      if (bytes_ > kResidentBytes) return {};
      auto cluster = std::make_unique<ClusterState>();
      TRY_ASSIGN(const size_t bytes, AllocateCluster(launch_, worker_, *cluster));
      bytes_ += bytes;
      free_.push_back(std::move(cluster));
    }
    resident_.push_back(std::move(free_.back()));
    free_.pop_back();
    StartCluster(*resident_.back(), launch_.FirstBlockInTurn(started_++, BlocksWait()));
    return {};
  }

  /// True if decoding found that blocks may wait for others. They then start roughly in order.
  bool BlocksWait() const { return launch_.kernel->may_spin || launch_.request->cooperative; }

  /// True if blocks may take work from a counter, and a device runs all of them at a time. One
  /// after another, the first one would do all the work, and costs would be those of one block.
  bool MayShareWork() const {
    return launch_.kernel->takes_numbers && !BlocksWait() && launch_.options->schedule == 0 &&
           launch_.blocks_to_run <= launch_.request->resident_blocks;
  }

  /// False if blocks start far out of order: the blocks that a device would start first may then
  /// come last, so there must be room for all blocks.
  bool IsDeviceFull() const {
    if (launch_.options->schedule % 2 == 1 && !BlocksWait()) return false;
    const uint64_t most = launch_.request->resident_blocks / launch_.cluster.Count();
    return most != 0 && resident_.size() >= std::max(most, 2 * kScheduleWindow);
  }

  /// If all blocks wait, starts as many more blocks, so that a grid barrier is reached soon.
  /// Returns true if the launch ends with an error, for example because no block is left to start.
  Result<bool> StopIfStuck() {
    const auto now = static_cast<int64_t>(worker_.counters.warp_instructions);
    if (!watch_.IsDue(now)) return false;
    std::vector<BlockState*> blocks;
    for (const auto& cluster : resident_) AppendRunning(*cluster, &blocks);
    const StallOutcome stall = watch_.Check(blocks, now);
    if (stall == StallOutcome::kOpen) return false;
    if (stall == StallOutcome::kStopped) return true;
    const uint64_t before = started_;
    const size_t running = resident_.size();
    for (size_t i = 0; i < running; ++i) TRY(StartNext());
    if (started_ != before || stall == StallOutcome::kWaiting) return false;
    const uint64_t not_started = launch_.blocks_to_run - started_ * launch_.cluster.Count();
    if (not_started != 0 && !IsDeviceFull()) {
      launch_.unsupported =
          fmt::format("{} blocks that wait for each other, of which only {} fit into memory",
                      launch_.blocks_to_run, resident_.size() * launch_.cluster.Count());
    } else {
      watch_.Report(blocks, not_started, stall);
    }
    return true;
  }

  LaunchState& launch_;
  Worker& worker_;
  StallWatch watch_;
  std::vector<std::unique_ptr<ClusterState>> resident_, free_;
  uint64_t started_ = 0;  // clusters
  size_t bytes_ = 0;
  bool waiting_ = false, first_checked_ = false;
};

void AddCounters(const records::LaunchCounters& from, records::LaunchCounters* to) {
  to->warp_instructions += from.warp_instructions;
  to->lane_instructions += from.lane_instructions;
  to->global_load_sectors += from.global_load_sectors;
  to->global_store_sectors += from.global_store_sectors;
  to->global_load_bytes += from.global_load_bytes;
  to->global_store_bytes += from.global_store_bytes;
  to->shared_wavefronts += from.shared_wavefronts;
  to->global_atomics += from.global_atomics;
  to->barriers += from.barriers;
  to->floating_point_operations += from.floating_point_operations;
  to->critical_warp_instructions += from.critical_warp_instructions;
}

/// Scales the counts of `counted` blocks to all `blocks`.
void Extrapolate(uint64_t blocks, uint64_t counted, records::LaunchCounters* counters) {
  if (counted == 0 || counted == blocks) return;
  auto scale = [&](uint64_t& value) {
    value = static_cast<uint64_t>(static_cast<unsigned __int128>(value) * blocks / counted);
  };
  for (uint64_t* value :
       {&counters->warp_instructions, &counters->lane_instructions, &counters->barriers,
        &counters->floating_point_operations, &counters->global_load_sectors,
        &counters->global_store_sectors, &counters->global_load_bytes,
        &counters->global_store_bytes, &counters->shared_wavefronts, &counters->global_atomics,
        &counters->critical_warp_instructions}) {
    scale(*value);
  }
}

/// Sums up the counts of all workers. Some cover all blocks that ran, others only counted blocks.
void MergeCounters(LaunchState& launch, std::vector<Worker>& workers, LaunchOutcome* outcome) {
  records::LaunchCounters sampled;
  Profile* profile = workers[0].profile.get();
  uint64_t counted = 0;
  for (Worker& worker : workers) {
    AddCounters(worker.counters, &outcome->counters);
    AddCounters(worker.sampled, &sampled);
    counted += worker.blocks_counted;
    if (profile != nullptr && &worker != &workers[0]) profile->Add(*worker.profile);
  }
  Extrapolate(launch.blocks, launch.blocks_to_run, &outcome->counters);
  Extrapolate(launch.blocks, counted, &sampled);
  AddCounters(sampled, &outcome->counters);
  outcome->counters.blocks_run = launch.blocks_to_run;
  outcome->counters.blocks_counted = counted;
  if (profile != nullptr) {
    Summarize(*launch.code, *profile, launch.blocks, counted, &outcome->counters);
  }
  outcome->block_work = std::move(launch.block_work);
}

/// Keeps one finding for each code and source line, from the block with the lowest number. After an
/// error, findings of later blocks are dropped, because how far these blocks ran depends on thread
/// timing.
void MergeFindings(std::vector<Worker>& workers, uint64_t stop_at, LaunchOutcome* outcome) {
  std::vector<SeenFinding> all;
  for (Worker& worker : workers) {
    for (SeenFinding& seen : worker.findings) {
      if (seen.block <= stop_at) all.push_back(std::move(seen));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const SeenFinding& a, const SeenFinding& b) { return a.block < b.block; });
  for (SeenFinding& seen : all) {
    const auto same = [&](const records::Finding& other) {
      return other.code == seen.finding.code && other.line == seen.finding.line &&
             other.file == seen.finding.file;
    };
    const auto found = std::find_if(outcome->findings.begin(), outcome->findings.end(), same);
    if (found == outcome->findings.end()) {
      outcome->findings.push_back(std::move(seen.finding));
    } else {
      const auto count = found->count + seen.finding.count;
      // An error hides warnings.
      if (seen.finding.severity == records::Severity::kError &&
          found->severity != records::Severity::kError) {
        *found = std::move(seen.finding);
      }
      found->count = count;
    }
  }
}

void MergePrinted(std::vector<Worker>& workers, uint64_t stop_at, LaunchOutcome* outcome) {
  std::vector<PrintedText> all;
  for (Worker& worker : workers) {
    for (PrintedText& printed : worker.printed) {
      if (printed.block <= stop_at) all.push_back(std::move(printed));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const PrintedText& a, const PrintedText& b) { return a.block < b.block; });
  for (PrintedText& printed : all) outcome->printed.push_back(std::move(printed.text));
}

/// Checks the request. If it cannot run, puts the reason into `outcome` and returns true.
bool Refused(const LaunchRequest& request, LaunchOutcome* outcome) {
  auto refuse = [&](std::string message) {
    records::Finding finding;
    finding.code = "illegal_launch";
    finding.kernel = request.kernel->demangled;
    finding.message = std::move(message);
    outcome->findings.push_back(std::move(finding));
    return true;
  };
  const uint64_t threads = request.block.Count();
  if (threads == 0 || threads > 1024) {
    return refuse("A block must have between 1 and 1024 threads.");
  }
  if (request.grid.Count() == 0) return refuse("A grid must have at least one block.");
  const unsigned __int128 blocks =
      static_cast<unsigned __int128>(request.grid.x) * request.grid.y * request.grid.z;
  if (blocks > kMostBlocks) {
    outcome->unsupported = "a launch of more than 2^40 blocks";
    return true;
  }
  if (uint64_t{request.dynamic_shared} + request.kernel->static_shared_bytes > (1u << 24)) {
    return refuse("The launch asks for more shared memory than any GPU has.");
  }
  if (request.parameters.size() < request.kernel->param_bytes) {
    return refuse("The launch passes fewer parameter bytes than the kernel takes.");
  }
  const plan::Dim3& grid = request.grid;
  const plan::Dim3 cluster = request.kernel->ClusterFor(request.cluster);
  if (cluster.Count() == 0 || cluster.Count() > kLargestCluster || grid.x % cluster.x != 0 ||
      grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return refuse("The grid must be a multiple of the cluster, which must have 1 to 16 blocks.");
  }
  return false;
}

void Prepare(const LaunchRequest& request, GlobalMemory& memory, const engine::RunOptions& options,
             LaunchState* launch) {
  launch->request = &request;
  launch->kernel = request.kernel;
  launch->code = request.kernel->code.get();
  if (request.shadows != nullptr) {
    launch->shadow_code = &request.shadows->CodeOf(*request.kernel);
    launch->code = launch->shadow_code->variant.get();
  }
  if (request.trial != nullptr) {
    launch->follow_code = request.trial->BeginLaunch(*request.kernel);
    if (launch->follow_code != nullptr) launch->code = launch->follow_code->variant.get();
  }
  if (options.addresses_only) {
    launch->wrap_code = MakeWrapCode(*request.kernel);
    if (launch->wrap_code != nullptr) launch->code = launch->wrap_code->variant.get();
  }
  launch->memory = &memory;
  launch->options = &options;
  launch->cluster = request.kernel->ClusterFor(request.cluster);
  launch->is_clustered = launch->cluster.Count() > 1 || request.lone_clusters ||
                         request.kernel->explicit_cluster || request.kernel->cluster.Count() != 0;
  launch->shared_bytes = request.kernel->static_shared_bytes + request.dynamic_shared;
  for (const SpecialSlot& slot : launch->code->specials) {
    if (slot.which != Special::kReservedSharedBegin) continue;
    launch->shared_bytes = (launch->shared_bytes + 127) / 128 * 128 + kReservedShared;
    launch->reserved_shared = kReservedShared;
  }
  launch->local_bytes = request.kernel->local_bytes;
  launch->warps_per_block = static_cast<uint32_t>((request.block.Count() + kLanes - 1) / kLanes);
  launch->blocks = request.grid.Count();
  launch->blocks_to_run = request.only.empty() ? launch->blocks : request.only.size();
  launch->count_every = std::max<uint64_t>(1, launch->blocks_to_run / kCountedBlocks);
  if (options.counters && launch->blocks_to_run <= kMostBlocksWithWork) {
    launch->block_work.resize(launch->blocks_to_run);
  }
  SetClocks(options.seed, launch);
  ShuffleProcessors(options.seed, launch);
  launch->poison = 0xfff00001u ^ static_cast<uint32_t>(options.seed * 0x9e37u & 0xffffeu);
  launch->parameters.assign(request.parameters.begin(), request.parameters.end());
  const auto bounded = [](uint64_t budget) {
    return static_cast<int64_t>(std::min<uint64_t>(budget, static_cast<uint64_t>(kUnlimited)));
  };
  launch->launch_budget = bounded(options.max_warp_instructions);
  launch->block_budget =
      bounded(options.max_block_warp_instructions / (options.full_checks ? 4 : 1));
  launch->in_order = request.in_order || request.cooperative ||
                     request.kernel->has_global_atomics || request.kernel->may_spin;
  launch->watching = options.full_checks && CheckerOf(memory) != nullptr &&
                     CheckerOf(memory)->BeginLaunch(launch->blocks, request.early);
}

}  // namespace

Result<LaunchOutcome> RunLaunch(const LaunchRequest& request, GlobalMemory& memory,
                                const engine::RunOptions& options, ThreadPool& pool) {
  LaunchOutcome outcome;
  outcome.counters.kernel = request.kernel->demangled;
  outcome.counters.grid = request.grid;
  outcome.counters.block = request.block;
  if (!request.kernel->unsupported.empty()) {
    outcome.unsupported = request.kernel->unsupported;
    return outcome;
  }
  if (Refused(request, &outcome)) return outcome;
  LaunchState launch;
  Prepare(request, memory, options, &launch);
  const std::string missing = FillFrame(launch);
  if (!missing.empty()) {
    return Fail(ErrorCode::kInternal, "variable '" + missing + "' has no address");
  }
  TRY(ProvideWorkspace(launch));
  const bool in_order = launch.in_order;
  std::vector<Worker> workers(in_order || launch.clusters_to_run() == 1 || request.trial != nullptr
                                  ? 1
                                  : static_cast<size_t>(pool.size()));
  std::vector<Status> statuses(workers.size());
  auto work = [&](int index) {
    if (static_cast<size_t>(index) >= workers.size()) return;
    Worker& worker = workers[static_cast<size_t>(index)];
    worker.launch = &launch;
    worker.is_main = index == 0;
    worker.hints.resize(launch.code->hints);
    if (options.counters) worker.profile = std::make_unique<Profile>(*launch.code);
    const FloatEnvironment environment(launch.code->flush ? kFlushMode : kIeeeMode);
    try {
      statuses[static_cast<size_t>(index)] =
          in_order ? InOrder(launch, worker).Run() : RunIndependent(launch, worker);
    } catch (const std::bad_alloc&) {
      statuses[static_cast<size_t>(index)] =
          Fail(ErrorCode::kEnvironment, "not enough memory to run a block");
    }
  };
  if (workers.size() == 1) {
    work(0);
  } else {
    pool.Run(work);
  }
  for (const Status& status : statuses) TRY(status);
  if (launch.cancelled) return Fail(ErrorCode::kCancelled, "the run was cancelled");
  MergeCounters(launch, workers, &outcome);
  for (Worker& worker : workers) {
    worker.tracker.AppendTo(&outcome.written);
    outcome.wants_order |= worker.waited;
    outcome.read_race |= worker.read_race;
    if (!worker.unsupported.empty()) launch.unsupported = std::move(worker.unsupported);
  }
  JoinRanges(&outcome.written);
  MergeFindings(workers, launch.stop_at, &outcome);
  MergePrinted(workers, launch.stop_at, &outcome);
  outcome.unsupported = std::move(launch.unsupported);
  outcome.completed = launch.stop_at == UINT64_MAX && outcome.unsupported.empty();
  return outcome;
}

}  // namespace cupel::emu
