// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "gpu/faults.h"
#include "gpu/guard.h"
#include "gpu/operators.h"
#include "gpu/originals.h"
#include "gpu/outputs.h"

namespace cupel::gpu {
namespace {

using engine::Taken;
using engine::TakeRequest;
using engine::TimingMode;
using records::Finding;
using Arguments = std::vector<std::span<const std::byte>>;
using SteadyClock = std::chrono::steady_clock;

constexpr double kShareOfMemory = 0.6;  // of the free memory
constexpr std::chrono::milliseconds kReplayDeadline{20'000};
constexpr uint64_t kMostChangedBytes = 4096;

double MicrosecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

bool SameBuffers(const TimerEntrant& a, const TimerEntrant& b, size_t sets) {
  for (size_t set = 0; set < sets; ++set) {
    if (a.plan(set).buffers != b.plan(set).buffers) return false;
  }
  return true;
}

/// One entrant on one set of arguments.
struct Bound {
  Bound(const Device& device, std::span<const Module> modules, const plan::Plan& its_plan)
      : plan(its_plan), memory(device), replay(device, modules, memory) {}
  const plan::Plan& plan;
  const Originals* originals = nullptr;
  PlanMemory memory;
  Replay replay;
  std::optional<TimedGraph> cold, warm, operators;
};

struct Runner {
  TimerEntrant entrant;
  size_t region = 0;  // of memory
  std::vector<std::unique_ptr<Bound>> sets;
};

class LocalTimer : public engine::Timer {
 public:
  LocalTimer(const Device& device, Clock& clock, const Nvml* nvml, std::span<const Arguments> sets,
             Block scratch, Guard guard)
      : device_(device),
        clock_(clock),
        nvml_(nvml),
        scratch_(std::move(scratch)),
        guard_(std::move(guard)) {
    for (const Arguments& set : sets) arguments_.push_back(set);
  }

  Status Place(std::span<const TimerEntrant> entrants) {
    std::vector<uint64_t> sizes;
    for (const TimerEntrant& entrant : entrants) {
      Runner runner{entrant, sizes.size(), {}};
      for (const Runner& other : runners_) {
        if (SameBuffers(other.entrant, entrant, arguments_.size())) runner.region = other.region;
      }
      if (runner.region == sizes.size()) {
        uint64_t size = 0;
        for (const plan::Plan* plan : entrant.plans) {
          size = std::max(size, PlanMemory(device_).BytesFor(*plan));
        }
        sizes.push_back(size);
      }
      runners_.push_back(std::move(runner));
    }
    TRY(ReserveRegions(sizes, entrants));
    std::vector<bool> filled(sizes.size(), false);
    for (Runner& runner : runners_) {
      for (size_t set = 0; set < arguments_.size(); ++set) {
        const std::span<const Module> modules = runner.entrant.program->modules();
        const CuPointer base = regions_[runner.region].address() + set * sizes[runner.region];
        auto bound = std::make_unique<Bound>(device_, modules, runner.entrant.plan(set));
        bound->originals = &originals_[set];
        if (filled[runner.region]) {
          TRY(bound->memory.PlaceBuffers(bound->plan, modules, base));
        } else {
          TRY(bound->memory.Bind(bound->plan, arguments_[set], modules, 0, base));
        }
        runner.sets.push_back(std::move(bound));
      }
      filled[runner.region] = true;
    }
    return WatchMemory(sizes);
  }

  int Sets() const override { return static_cast<int>(arguments_.size()); }
  Result<double> MeasureOverhead() override { return clock_.MeasureOverhead(); }

  Result<Taken> Take(const TakeRequest& request) override {
    if (request.entrant >= runners_.size() || request.set < 0 || request.set >= Sets() ||
        request.count < 1) {
      return Fail(ErrorCode::kInternal, "no such entrant or set of arguments");
    }
    Runner& runner = runners_[request.entrant];
    Bound& bound = *runner.sets[static_cast<size_t>(request.set)];
    Taken taken;
    TRY_ASSIGN(const bool ready, Prepare(runner, bound, &taken));
    if (!ready) return taken;
    TRY(ApplyChanges(bound, request.changes));
    switch (request.mode) {
      case TimingMode::kCold:
        TRY(TakeCold(runner, bound, request.count, &taken));
        break;
      case TimingMode::kWarm:
        TRY(TakeWarm(runner, bound, request.count, &taken));
        break;
      case TimingMode::kOperators:
        TRY(TakeOperators(runner, bound, request.count, &taken));
        break;
      case TimingMode::kHost:
        TRY(TakeHost(runner, bound, request.count, &taken));
        break;
    }
    if (!taken.findings.empty()) return taken;
    DropKeptLines();  // must not reduce the L2 for the next measurement in another process
    if (request.keep_outputs) {
      TRY_ASSIGN(taken.outputs, ReadOutputs(device_, bound.memory, bound.plan, &taken.findings));
    }
    TRY(RevertChanges());
    TRY(Restore(bound));  // no other kernel may find this one's results
    TRY(AwaitCopies());
    // When outputs are checked, also check for hidden writes.
    if (request.keep_outputs) TRY(FindHiddenWrites(&taken.findings));
    return taken;
  }

  Result<records::EnergyUse> MeasureEnergy(size_t entrant, double seconds) override {
    if (entrant >= runners_.size()) return Fail(ErrorCode::kInternal, "no such entrant");
    if (nvml_ == nullptr) {
      return Fail(ErrorCode::kUnsupported, "unsupported: measuring energy needs NVML");
    }
    Runner& runner = runners_[entrant];
    Taken taken;
    for (const auto& bound : runner.sets) {
      if (bound->originals->bytes() > 0) {
        return Fail(ErrorCode::kUnsupported,
                    "unsupported: measuring the energy of calls that change their arguments, since "
                    "it would include restoring them");
      }
      TRY_ASSIGN(const bool ready, Prepare(runner, *bound, &taken));
      if (!ready) return Fail(ErrorCode::kUnsupported, "cannot run the kernel");
      TRY(Reset(runner, 0));
    }
    std::vector<const TimedGraph*> replays;
    replays.reserve(runner.sets.size());
    for (const auto& bound : runner.sets) replays.push_back(&*bound->warm);
    TRY_ASSIGN(const Spent with, Spend(replays, 1, seconds));
    // A graph's launch takes longer than a small preparation, so one graph has many of them.
    constexpr size_t kPreparations = 16;
    const auto prepare = [&]() -> Status {
      for (size_t i = 0; i < kPreparations; ++i) {
        TRY(PrepareWarm(*runner.sets[i % runner.sets.size()]));
      }
      return {};
    };
    TRY_ASSIGN(const TimedGraph preparations, TimedGraph::Capture(device_, nullptr, prepare));
    const TimedGraph* only[] = {&preparations};
    TRY_ASSIGN(const Spent without, Spend(only, kPreparations, seconds));
    const double joules = std::max(0.0, with.joules - without.joules);
    const double took = with.seconds - without.seconds;
    return records::EnergyUse{joules, took > 0 ? joules / took : 0, with.count};
  }

  Result<std::vector<Finding>> Finish() override {
    std::vector<Finding> findings;
    for (Runner& runner : runners_) {
      for (size_t set = 0; set < runner.sets.size() && findings.empty(); ++set) {
        const Bound& bound = *runner.sets[set];
        TRY(FindStrayWrites(bound.memory, &findings));
        TRY(FindChangedArguments(device_, bound.memory, bound.plan, arguments_[set], &findings));
      }
    }
    if (findings.empty()) TRY(FindHiddenWrites(&findings));
    return findings;
  }

 private:
  /// Means over `count` calls or preparations.
  struct Spent {
    double joules = 0, seconds = 0;
    int64_t count = 0;
  };

  /// Launches the graphs in turn for about `seconds`. Each does its work `times`.
  Result<Spent> Spend(std::span<const TimedGraph* const> graphs, int64_t times, double seconds) {
    TRY_ASSIGN(const double before, nvml_->EnergyJoules());
    const auto start = SteadyClock::now();
    size_t launches = 0;
    while (MicrosecondsSince(start) < seconds * 1e6) {
      constexpr int kAtATime = 16;  // few enough to finish within the deadline
      for (int i = 0; i < kAtATime; ++i) TRY(graphs[launches++ % graphs.size()]->Launch());
      TRY_ASSIGN(const auto fault, AwaitKernels(device_, kReplayDeadline));
      if (fault) return Fail(ErrorCode::kEnvironment, fault->message);
    }
    const double took = MicrosecondsSince(start) / 1e6;
    TRY_ASSIGN(const double after, nvml_->EnergyJoules());
    const int64_t count = static_cast<int64_t>(launches) * times;
    return Spent{(after - before) / static_cast<double>(count), took / static_cast<double>(count),
                 count};
  }

  static std::vector<const plan::Plan*> PlansOf(std::span<const TimerEntrant> entrants,
                                                size_t set) {
    std::vector<const plan::Plan*> plans;
    for (const TimerEntrant& entrant : entrants) plans.push_back(&entrant.plan(set));
    return plans;
  }

  /// Reserves memory for as many sets as fit, at least one.
  Status ReserveRegions(std::span<const uint64_t> sizes, std::span<const TimerEntrant> entrants) {
    size_t free = 0, total = 0;
    const Driver& driver = device_.driver();
    TRY(driver.Check(driver.memory_info(&free, &total), "reading the free memory"));
    uint64_t a_set = 0;
    for (size_t set = 0; set < arguments_.size(); ++set) {
      a_set = std::max(a_set, Originals(PlansOf(entrants, set)).bytes());
    }
    for (const uint64_t size : sizes) a_set += size;
    const auto fit = static_cast<size_t>(kShareOfMemory * static_cast<double>(free) /
                                         static_cast<double>(std::max<uint64_t>(a_set, 1)));
    if (arguments_.size() > fit) arguments_.resize(std::max<size_t>(1, fit));
    for (const uint64_t size : sizes) {
      TRY_ASSIGN(Block block, Block::Allocate(device_, size * arguments_.size()));
      regions_.push_back(std::move(block));
    }
    for (size_t set = 0; set < arguments_.size(); ++set) {
      originals_.emplace_back(PlansOf(entrants, set));
      TRY(originals_.back().Fill(device_, arguments_[set]));
    }
    return {};
  }

  /// Watches all memory that a kernel can reach but must not write.
  Status WatchMemory(std::span<const uint64_t> sizes) {
    for (size_t i = 0; i < regions_.size(); ++i) {
      const uint64_t used = sizes[i] * arguments_.size();
      guard_.Watch(regions_[i].address() + used, regions_[i].capacity() - used, "unused memory");
    }
    std::vector<bool> seen(regions_.size(), false);
    for (const Runner& runner : runners_) {
      const Block& copies = runner.entrant.program->variables().copies();
      guard_.Watch(copies.address(), copies.capacity(), "memory of the measurement");
      if (seen[runner.region]) continue;
      seen[runner.region] = true;
      for (const auto& bound : runner.sets) {
        for (size_t i = 0; i < bound->plan.buffers.size(); ++i) {
          // Those that calls change are as they were whenever the guard looks.
          if (bound->plan.buffers[i].kind != plan::BufferKind::kArgument) continue;
          const gpu::Place& place = bound->memory.places()[i];
          guard_.Watch(place.address, place.bytes, place.name);
        }
      }
    }
    for (const Originals& originals : originals_) {
      if (const Block* block = originals.block()) {
        guard_.Watch(block->address(), block->capacity(), "memory of the measurement");
      }
    }
    guard_.Watch(scratch_.address(), scratch_.capacity(), "memory of the measurement");
    guard_.Watch(clock_.flushed().address(), clock_.flushed().capacity(), "memory of the clock");
    TRY(scratch_.Fill(0));
    return guard_.Remember();
  }

  /// Adds a finding if an earlier replay wrote where it must not write.
  Status FindHiddenWrites(std::vector<Finding>* findings) {
    for (const Runner& runner : runners_) {
      for (const auto& bound : runner.sets) {
        if (findings->empty()) TRY(FindStrayWrites(bound->memory, findings));
      }
    }
    if (!findings->empty()) return {};
    TRY_ASSIGN(const std::vector<std::string> changed, guard_.Changed());
    if (changed.empty()) return {};
    Finding finding;
    finding.code = "out_of_bounds";
    finding.where = changed.front();
    finding.message =
        fmt::format("A kernel wrote to {}, which it must not change.", changed.front());
    findings->push_back(std::move(finding));
    return {};
  }

  /// Enqueues that the arguments which a call changes get back what they had.
  Status Restore(const Bound& bound) {
    return bound.originals->Restore(device_, bound.plan, bound.memory);
  }

  /// The same for all sets and entrants: a kernel could have reached the arguments of another set.
  Status RestoreAll() {
    std::vector<bool> seen(regions_.size(), false);
    for (const Runner& runner : runners_) {
      if (seen[runner.region]) continue;  // the same arguments at the same places
      seen[runner.region] = true;
      for (const auto& of_set : runner.sets) TRY(Restore(*of_set));
    }
    return {};
  }

  /// Clears all memory in which a replay could find data of earlier replays, of any entrant.
  Status Reset(const Runner& runner, int poison) {
    TRY(RestoreAll());
    TRY(runner.entrant.program->variables().Restore());
    for (const Runner& any : runners_) {
      if (&any != &runner && any.region == runner.region) continue;
      for (const auto& of_set : any.sets) TRY(of_set->memory.Poison(poison));
    }
    TRY(clock_.Scrub());
    if (const Blas* blas = device_.opened_blas()) TRY(blas->workspace().Fill(0));
    if (Operators* operators = device_.operators()) TRY(operators->Clear());
    DropKeptLines();
    return {};
  }

  /// Lines of the L2 cache that were accessed with evict_last survive a flush. Best effort, because
  /// not every GPU has a persisting L2.
  void DropKeptLines() { device_.driver().context_reset_persisting_l2(); }

  static Status Enqueue(Bound& bound, Taken* taken) {
    TRY_ASSIGN(Refusal refusal, bound.replay.Enqueue(bound.plan));
    refusal.MoveTo(taken);
    return {};
  }

  /// What the program's construction did, which is no part of a call. It was enqueued before, so
  /// the driver does not refuse it.
  static Status EnqueuePrepared(Bound& bound) {
    TRY_ASSIGN(const Refusal refusal, bound.replay.EnqueuePrepared(bound.plan));
    if (refusal.ok()) return {};
    return Fail(ErrorCode::kInternal, "the prepared work cannot be repeated");
  }

  /// Enqueues what comes before a warm replay. Without the poison in the last one's outputs, a
  /// kernel could find its work already done.
  Status PrepareWarm(Bound& bound) {
    TRY(Restore(bound));
    TRY(bound.memory.Poison(1));
    return EnqueuePrepared(bound);
  }

  Status Await(Taken* taken, bool spin = false) {
    TRY_ASSIGN(auto fault, AwaitKernels(device_, kReplayDeadline, spin));
    if (fault) taken->findings.push_back(std::move(*fault));
    return {};
  }

  /// Runs a first replay, which triggers lazy loading, and captures the graphs. False on failure.
  Result<bool> Prepare(const Runner& runner, Bound& bound, Taken* taken) {
    if (bound.cold) return true;
    TRY(Reset(runner, 0));
    TRY(Enqueue(bound, taken));
    TRY(Await(taken));
    if (!taken->findings.empty() || !taken->unsupported.empty()) return false;
    Refusal refusal;
    const auto before_warm = [&] { return PrepareWarm(bound); };
    const auto before_cold = [&]() -> Status {
      TRY(EnqueuePrepared(bound));
      return clock_.Flush();
    };
    TRY_ASSIGN(TimedGraph warm,
               TimedGraph::Capture(device_, bound.plan, bound.replay, before_warm, &refusal));
    if (refusal.ok()) {
      TRY_ASSIGN(TimedGraph cold,
                 TimedGraph::Capture(device_, bound.plan, bound.replay, before_cold, &refusal));
      bound.cold.emplace(std::move(cold));
    }
    if (!refusal.ok()) {
      refusal.MoveTo(taken);
      return false;
    }
    bound.warm.emplace(std::move(warm));
    return true;
  }

  /// The operators alone compute with what a whole call has left in memory: poison would be no
  /// valid index.
  Status TakeOperators(const Runner& runner, Bound& bound, int count, Taken* taken) {
    TRY(CaptureOperators(bound));
    TRY(Reset(runner, 0));
    for (int i = 0; i < count; ++i) {
      TRY(bound.warm->Launch());
      TRY(Await(taken));
      if (taken->findings.empty()) TRY(TakeOne(*bound.operators, taken));
      if (!taken->findings.empty()) return {};
    }
    return {};
  }

  static Status EnqueueOperators(Bound& bound) {
    for (size_t i = static_cast<size_t>(bound.plan.prepared); i < bound.plan.nodes.size(); ++i) {
      const plan::Node& node = bound.plan.nodes[i];
      if (!std::holds_alternative<plan::Operator>(node.work)) continue;
      TRY_ASSIGN(const Refusal refusal, bound.replay.Enqueue(node));
      if (!refusal.ok()) return Fail(ErrorCode::kInternal, "an operator cannot be repeated");
    }
    return {};
  }

  Status CaptureOperators(Bound& bound) {
    if (bound.operators) return {};
    TRY_ASSIGN(TimedGraph graph,
               TimedGraph::Capture(device_, nullptr, [&] { return EnqueueOperators(bound); }));
    bound.operators.emplace(std::move(graph));
    return {};
  }

  Status TakeCold(const Runner& runner, const Bound& bound, int count, Taken* taken) {
    for (int i = 0; i < count; ++i) {
      TRY(Reset(runner, static_cast<int>(++replays_ % 3)));
      TRY(TakeOne(*bound.cold, taken));
      if (!taken->findings.empty()) return {};
    }
    return {};
  }

  Status TakeWarm(const Runner& runner, const Bound& bound, int count, Taken* taken) {
    TRY(Reset(runner, 0));
    for (int i = -1; i < count; ++i) {
      TRY(TakeOne(*bound.warm, taken));
      if (!taken->findings.empty()) return {};
      if (i < 0) taken->us.clear();  // the first replay only loads the data into the L2
    }
    return {};
  }

  Status TakeOne(const TimedGraph& graph, Taken* taken) {
    TRY(graph.Launch());
    TRY(Await(taken));
    if (!taken->findings.empty()) return {};
    TRY_ASSIGN(const double us, graph.Microseconds());
    taken->us.push_back(us);
    return {};
  }

  Status TakeHost(const Runner& runner, Bound& bound, int count, Taken* taken) {
    TRY(Reset(runner, 0));
    TRY(EnqueuePrepared(bound));
    TRY(Await(taken));
    for (int i = -1; i < count && taken->findings.empty(); ++i) {
      if (bound.originals->bytes() > 0) {
        TRY(Restore(bound));
        TRY(Await(taken));
      }
      const auto start = SteadyClock::now();
      TRY_ASSIGN(Refusal refusal, bound.replay.EnqueueCall(bound.plan));
      refusal.MoveTo(taken);
      TRY(Await(taken, true));
      if (i >= 0) taken->us.push_back(MicrosecondsSince(start));
    }
    return {};
  }

  /// The device address of a change: in the original of an argument that is restored before each
  /// replay. 0 if the plan does not use this argument.
  static CuPointer PlaceOf(const Bound& bound, const engine::Change& change) {
    for (size_t i = 0; i < bound.plan.buffers.size(); ++i) {
      const plan::Buffer& buffer = bound.plan.buffers[i];
      const bool is_it =
          buffer.kind == plan::BufferKind::kArgument && buffer.argument == change.argument;
      if (!is_it) continue;
      if (change.offset > buffer.bytes || change.bytes.size() > buffer.bytes - change.offset) break;
      const CuPointer original = bound.originals->AddressOf(buffer.argument);
      return (original != 0 ? original : bound.memory.places()[i].address) + change.offset;
    }
    return 0;
  }

  /// Applies the changes and saves the old bytes in `scratch_`.
  Status ApplyChanges(const Bound& bound, std::span<const engine::Change> changes) {
    const Driver& driver = device_.driver();
    CuPointer at = scratch_.address();
    changed_.clear();
    for (const engine::Change& change : changes) {
      const uint64_t bytes = change.bytes.size();
      if (at + bytes > scratch_.address() + kMostChangedBytes) {
        return Fail(ErrorCode::kInternal, "too many bytes are changed at once");
      }
      const CuPointer place = PlaceOf(bound, change);
      if (place == 0 || bytes == 0) continue;
      TRY(driver.Check(driver.copy_across(at, place, bytes, device_.stream()),
                       "changing an argument"));
      TRY(driver.Check(driver.copy_in(place, change.bytes.data(), bytes, device_.stream()),
                       "changing an argument"));
      changed_.push_back({place, at, bytes});
      at += bytes;
    }
    return {};
  }

  /// Reverts the changes in reverse order, because two of them may affect the same element.
  Status RevertChanges() {
    const Driver& driver = device_.driver();
    for (; !changed_.empty(); changed_.pop_back()) {
      const Changed& changed = changed_.back();
      TRY(driver.Check(
          driver.copy_across(changed.place, changed.kept, changed.bytes, device_.stream()),
          "changing an argument back"));
    }
    return scratch_.Fill(0);
  }

  Status AwaitCopies() {
    CuResult code = 0;
    return device_.Await(kReplayDeadline, &code);
  }

  struct Changed {
    CuPointer place = 0, kept = 0;
    uint64_t bytes = 0;
  };

  const Device& device_;
  Clock& clock_;
  const Nvml* nvml_;
  Block scratch_;
  Guard guard_;
  std::vector<Arguments> arguments_;
  std::vector<Runner> runners_;
  std::vector<Block> regions_;
  std::vector<Originals> originals_;  // one for each set
  std::vector<Changed> changed_;
  uint64_t replays_ = 0;
};

}  // namespace

Result<std::unique_ptr<engine::Timer>> MakeLocalTimer(const Device& device, Clock& clock,
                                                      const Nvml* nvml,
                                                      std::span<const TimerEntrant> entrants,
                                                      std::span<const Arguments> sets) {
  if (entrants.empty() || sets.empty()) {
    return Fail(ErrorCode::kInternal, "nothing to time");
  }
  TRY_ASSIGN(Block scratch, Block::Allocate(device, kMostChangedBytes));
  TRY_ASSIGN(Guard guard, Guard::Make(device, clock));
  auto timer =
      std::make_unique<LocalTimer>(device, clock, nvml, sets, std::move(scratch), std::move(guard));
  TRY(timer->Place(entrants));
  return std::unique_ptr<engine::Timer>(std::move(timer));
}

}  // namespace cupel::gpu
