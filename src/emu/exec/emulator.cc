// Executes a plan: binds the buffers, runs the nodes in order, and extracts the outputs. Tested by
// emulator_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "emu/check/global_race.h"
#include "emu/check/race_trial.h"
#include "emu/check/report.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_request.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/store_tracker.h"
#include "emu/cost/cost.h"
#include "emu/decode/kernel_module.h"
#include "emu/exec/launch.h"
#include "emu/exec/launch_check.h"
#include "emu/exec/sampling.h"
#include "emu/nodes/binding.h"
#include "emu/nodes/nodes.h"
#include "emu/shadow/nodes.h"
#include "emu/shadow/shadow.h"
#include "emu/sync/muted_barrier.h"
#include "engine/state.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

using engine::Run;
using engine::RunOptions;
using records::Finding;

/// The total bytes of the buffers in `numbers` for which `counts` returns true.
template <typename Predicate>
uint64_t BytesOf(const std::set<int>& numbers, std::span<const BoundBuffer> buffers,
                 Predicate counts) {
  uint64_t bytes = 0;
  for (const int number : numbers) {
    if (number < 0 || static_cast<size_t>(number) >= buffers.size() || !counts(number)) continue;
    bytes += buffers[static_cast<size_t>(number)].bytes;
  }
  return bytes;
}

uint64_t BytesMoved(const plan::Copy& copy) { return copy.bytes; }
uint64_t BytesMoved(const plan::Upload& upload) { return upload.bytes.size(); }
uint64_t BytesMoved(const plan::Fill& fill) { return fill.count * fill.pattern.size() / 2; }
uint64_t BytesMoved(const plan::CopyView& copy) {
  const auto read = static_cast<uint64_t>(SizeOf(copy.from.dtype));
  const auto written = static_cast<uint64_t>(SizeOf(copy.to.dtype));
  return plan::ElementsOf(copy.to) * (read + written) / 2;
}

/// Of the arguments and the results. The estimate of an operator is a copy of as many bytes.
uint64_t BytesMoved(const plan::Operator& work) {
  uint64_t bytes = 0;
  plan::ForEachView(work, [&](const plan::View& view, bool /*is_written*/) {
    bytes += plan::ElementsOf(view) * static_cast<uint64_t>(SizeOf(view.dtype)) / 2;
  });
  return bytes;
}

template <typename Node>
double EstimateNodeUs(const Node& node, const device::Description& device) {
  return EstimateCopyUs(BytesMoved(node), device);
}
/// The peak operations per second of the units that a library uses for the product.
double PeakOf(const plan::Gemm& gemm, const device::Description& device) {
  if (gemm.compute == "f64") return device.fp64_flops;
  if (SizeOf(gemm.a_type) == 2 && SizeOf(gemm.b_type) == 2) return device.tensor_flops;
  return gemm.compute == "f32_tf32" ? device.tensor_flops / 2 : device.fp32_flops;
}

double EstimateNodeUs(const plan::Gemm& gemm, const device::Description& device) {
  const double products = gemm.pointers.empty() ? static_cast<double>(gemm.batch)
                                                : static_cast<double>(gemm.pointers.size());
  const auto m = static_cast<double>(gemm.m), n = static_cast<double>(gemm.n),
             k = static_cast<double>(gemm.k);
  const double bytes = m * k * static_cast<double>(SizeOf(gemm.a_type)) +
                       k * n * static_cast<double>(SizeOf(gemm.b_type)) +
                       m * n * static_cast<double>(SizeOf(gemm.c_type));
  return EstimateGemmUs(2 * m * n * k * products, PeakOf(gemm, device), bytes * products, device);
}

/// How a plan is executed, if not as usual.
struct Attempt {
  bool in_order = false;       // LaunchRequest::in_order
  RaceTrial* trial = nullptr;  // LaunchRequest::trial
};
/// What an execution suggests to do next.
struct Advice {
  bool wants_order = false;  // LaunchOutcome::wants_order
  bool read_race = false;    // LaunchOutcome::read_race
};

/// The warp instructions of a pass of a race trial, and of one of its launches. With more, a race
/// is an error.
constexpr uint64_t kMostTrialWork = 20'000'000;

/// The warp instructions of a run of addresses, over all its launches.
constexpr uint64_t kMostAddressWork = 20'000'000;

/// One execution of one plan.
class Execution {
 public:
  Execution(const KernelModules& modules, const build::Images& images,
            const device::Description& device, const plan::Plan& plan, const RunOptions& options,
            std::span<const BoundBuffer> buffers, GlobalMemory& memory, ThreadPool& pool,
            ShadowRun* shadows, plan::OperatorRunner* operators, const Attempt& attempt)
      : modules_(modules),
        images_(images),
        device_(device),
        plan_(plan),
        options_(options),
        buffers_(buffers),
        memory_(memory),
        pool_(pool),
        nodes_(memory, buffers, pool),
        operators_(operators),
        shadows_(shadows),
        in_order_(attempt.in_order),
        trial_(attempt.trial) {
    if (!options.muted_barrier.empty()) muted_.emplace(options.muted_barrier);
    if (shadows != nullptr) shadow_nodes_.emplace(shadows->memory(), memory, buffers, pool);
  }

  const Advice& advice() const { return advice_; }

  /// Runs all nodes and extracts the outputs into `run`; stops at the first error.
  Status RunPlan(std::span<const std::span<const std::byte>> arguments, Run* run) {
    if (options_.addresses_only) return RunAddresses(run);
    const std::vector<bool> sampled = SampledNodes(plan_, modules_, options_.max_blocks);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].kind == plan::BufferKind::kArgument) filled_.insert(static_cast<int>(i));
    }
    for (size_t i = 0; i < plan_.nodes.size(); ++i) {
      const plan::Node& node = plan_.nodes[i];
      sample_ = sampled[i];
      // What a program's construction did is not the call's work.
      if (static_cast<int>(i) == plan_.prepared) run->counters = {};
      if (options_.cancelled && options_.cancelled()) {
        return Fail(ErrorCode::kCancelled, "the emulation was cancelled");
      }
      TRY(std::visit([&](const auto& work) { return Step(work, run); }, node.work));
      after_launch_ = std::holds_alternative<plan::Launch>(node.work);
      if (trial_ != nullptr && (trial_->failed() || executed_ > kMostTrialWork)) return {};
      if (stopped_) return {};
      filled_.merge(BuffersOf(node));
    }
    CheckArguments(arguments, run);
    Extract(run);
    if (shadow_nodes_ && !shadow_nodes_->not_followed().empty()) {
      run->not_followed.push_back(shadow_nodes_->not_followed());
    }
    if (stopped_) {
      run->outputs.clear();
      return {};
    }
    run->completed = true;
    return {};
  }

 private:
  /// Runs a sample of the blocks of every launch, whether or not they depend on others, for
  /// RunOptions::addresses_only.
  Status RunAddresses(Run* run) {
    sample_ = true;
    for (const plan::Node& node : plan_.nodes) {
      if (options_.cancelled && options_.cancelled()) {
        return Fail(ErrorCode::kCancelled, "the emulation was cancelled");
      }
      if (const auto* launch = std::get_if<plan::Launch>(&node.work)) TRY(Step(*launch, run));
      if (const auto* upload = std::get_if<plan::Upload>(&node.work)) TRY(Step(*upload, run));
      if (stopped_ || executed_ > kMostAddressWork) return {};
    }
    run->completed = true;
    return {};
  }

  template <typename Work>
  void MakeReachable(const Work& work) {
    plan::ForEachPointer(work, [&](const plan::Address& address) {
      const auto index = static_cast<size_t>(address.buffer);
      if (address.buffer >= 0 && index < buffers_.size()) {
        memory_.SetReachable(buffers_[index].address, true);
      }
    });
  }

  Status Step(const plan::Upload& upload, Run* run) {
    MakeReachable(upload);
    Note(nodes_.Run(upload), run);
    run->counters.estimated_us += EstimateNodeUs(upload, device_);
    return {};
  }

  Status Step(const plan::Operator& work, Run* run) {
    if (operators_ == nullptr) {
      Note({{}, fmt::format("PyTorch's operator {} cannot be executed here", work.name)}, run);
      return {};
    }
    if (shadow_nodes_) shadow_nodes_->Before(work);
    TRY_ASSIGN(NodeOutcome outcome, nodes_.Run(work, *operators_));
    Note(std::move(outcome), run);
    if (shadow_nodes_ && !stopped_) TRY(shadow_nodes_->After(work, *operators_));
    run->counters.estimated_us += EstimateNodeUs(work, device_);
    return {};
  }

  template <typename Node>
  Status Step(const Node& node, Run* run) {
    if (shadow_nodes_) shadow_nodes_->Before(node);
    Note(nodes_.Run(node), run);
    if (shadow_nodes_ && !stopped_) shadow_nodes_->After(node);
    run->counters.estimated_us += EstimateNodeUs(node, device_);
    return {};
  }

  Status Step(const plan::Launch& launch, Run* run) {
    const Kernel* kernel = FindKernel(modules_, launch);
    if (kernel == nullptr) {
      Note({{},
            fmt::format("kernel {} is launched, but the image contains no PTX for it",
                        ptx::Demangle(launch.kernel))},
           run);
      return {};
    }
    const auto image = static_cast<size_t>(launch.image);
    const KernelLimits limits =
        LimitsOf(*kernel, modules_[image]->module(), images_[image]->resources);
    if (auto finding = CheckLaunch(launch, limits, device_)) {
      Note({std::move(finding), {}}, run);
      return {};
    }
    if (!kernel->unsupported.empty()) {
      Note({{}, kernel->unsupported}, run);
      return {};
    }
    // Doublewords, so that parameters are aligned as they are on the device.
    std::vector<uint64_t> words(launch.parameters.size() / 8 + 1);
    std::memcpy(words.data(), launch.parameters.data(), launch.parameters.size());
    const auto parameters =
        std::as_writable_bytes(std::span(words)).first(launch.parameters.size());
    if (!Relocate(launch.relocations, launch.tensor_maps, buffers_, parameters)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "a pointer or a tensor map is outside the parameters of " + kernel->demangled);
    }
    MakeReachable(launch);
    std::vector<uint64_t> only;
    const plan::Dim3 cluster = kernel->ClusterFor(launch.cluster);
    if (sample_) only = SampleBlocks(launch.grid, cluster, options_.max_blocks, options_.seed);
    const LaunchRequest request{
        .kernel = kernel,
        .image = launch.image,
        .grid = launch.grid,
        .block = launch.block,
        .cluster = cluster,
        .lone_clusters = launch.lone_clusters,
        .dynamic_shared = launch.dynamic_shared,
        .cooperative = launch.cooperative,
        .early = launch.early && after_launch_,
        .parameters = parameters,
        .only = only,
        .shadows = shadows_,
        .registers = limits.movable_registers,
        .resident_blocks = ResidentBlocks(launch, limits),
        .near_bytes = NearBytes(launch, limits),
        .in_order = in_order_,
        .processors = static_cast<uint32_t>(std::max(device_.sm_count, 1)),
        .processor_warps = static_cast<uint32_t>(device_.max_threads_per_sm) / kLanes,
        .trial = trial_,
        .muted = muted_ ? &*muted_ : nullptr};
    TRY_ASSIGN(LaunchOutcome outcome, RunLaunch(request, memory_, options_, pool_));
    advice_.wants_order |= outcome.wants_order;
    advice_.read_race |= outcome.read_race;
    if (options_.lists_barriers && kernel->code) {
      for (std::string& place : BarrierPlaces(*kernel->code)) {
        if (std::ranges::find(run->barriers, place) == run->barriers.end()) {
          run->barriers.push_back(std::move(place));
        }
      }
    }
    run->met_muted_barrier |= muted_ && muted_->met();
    run->order_matters |= kernel->has_global_atomics || kernel->has_shared_atomics ||
                          kernel->may_spin || cluster.Count() > 1;
    run->warp_instructions += outcome.counters.warp_instructions;
    executed_ += outcome.counters.warp_instructions /
                 (only.empty() ? 1 : std::max<uint64_t>(1, launch.grid.Count() / only.size()));
    run->all_blocks += launch.grid.Count();
    run->emulated_blocks += only.empty() ? launch.grid.Count() : only.size();
    if (sample_) NoteWritten(launch, outcome.written);
    Record(launch, limits, std::move(outcome), run);
    return {};
  }

  device::Occupancy OccupancyOf(const plan::Launch& launch, const KernelLimits& limits) const {
    return device::ComputeOccupancy(
        device_, static_cast<int>(launch.block.Count()), limits.registers,
        static_cast<int64_t>(limits.static_shared + launch.dynamic_shared));
  }
  /// The number of the launch's blocks that the whole device holds at a time.
  uint64_t ResidentBlocks(const plan::Launch& launch, const KernelLimits& limits) const {
    return static_cast<uint64_t>(std::max(OccupancyOf(launch, limits).blocks_per_sm, 0)) *
           static_cast<uint64_t>(std::max(device_.sm_count, 0));
  }
  /// A block's share of the part of an SM's L1 that shared memory does not use.
  uint64_t NearBytes(const plan::Launch& launch, const KernelLimits& limits) const {
    constexpr int64_t kBeyondShared = 28 << 10;  // of compute capabilities 8.0 and 9.0
    const auto sms = static_cast<uint64_t>(std::max(device_.sm_count, 1));
    const auto wanted = static_cast<int64_t>((launch.grid.Count() + sms - 1) / sms);
    const int64_t blocks = std::clamp<int64_t>(OccupancyOf(launch, limits).blocks_per_sm, 1,
                                               std::max<int64_t>(wanted, 1));
    const auto shared = static_cast<int64_t>(limits.static_shared + launch.dynamic_shared);
    const int64_t left = device_.shared_per_sm + kBeyondShared -
                         blocks * (shared + device_.shared_reserved_per_block);
    return static_cast<uint64_t>(std::max(left, kBeyondShared) / blocks);
  }

  void Record(const plan::Launch& launch, const KernelLimits& limits, LaunchOutcome outcome,
              Run* run) {
    std::move(outcome.findings.begin(), outcome.findings.end(), std::back_inserter(run->findings));
    std::move(outcome.printed.begin(), outcome.printed.end(), std::back_inserter(run->printed));
    if (!outcome.completed) stopped_ = true;
    if (!outcome.unsupported.empty()) Note({{}, std::move(outcome.unsupported)}, run);
    if (!options_.counters) return;
    const auto shared = static_cast<int64_t>(limits.static_shared + launch.dynamic_shared);
    CostInput cost;
    cost.occupancy = OccupancyOf(launch, limits);
    const std::set<int> reached = BuffersOf(launch);
    cost.footprint_bytes = BytesOf(reached, buffers_, [](int) { return true; });
    cost.filled_bytes = BytesOf(reached, buffers_, [&](int b) { return filled_.contains(b); });
    cost.counters = std::move(outcome.counters);
    cost.counters.occupancy = cost.occupancy.fraction;
    cost.counters.limited_by = cost.occupancy.limited_by;
    cost.counters.registers = limits.registers;
    cost.counters.shared_bytes = shared;
    cost.counters.imbalance = Imbalance(outcome.block_work, launch.grid.Count(), device_);
    const CostBreakdown breakdown = EstimateLaunch(cost, device_);
    cost.counters.estimated_us = breakdown.Total();
    cost.counters.bounds = breakdown.Bounds();
    run->counters.estimated_us += cost.counters.estimated_us;
    run->counters.launches.push_back(std::move(cost.counters));
  }

  /// Records that only the ranges `written` have results, of all buffers that the launch may write.
  void NoteWritten(const plan::Launch& launch, const std::vector<WrittenRange>& written) {
    plan::ForEachPointer(
        launch, [&](const plan::Address& address) { sampled_buffers_.insert(address.buffer); });
    written_.insert(written_.end(), written.begin(), written.end());
  }

  void Note(NodeOutcome outcome, Run* run) {
    if (outcome.ok()) return;
    stopped_ = true;
    if (outcome.finding) run->findings.push_back(std::move(*outcome.finding));
    if (run->unsupported.empty()) run->unsupported = std::move(outcome.unsupported);
  }

  // Reports inputs that have changed. Inputs belong to the caller, even if the plan returns one.
  void CheckArguments(std::span<const std::span<const std::byte>> arguments, Run* run) {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const plan::Buffer& buffer = plan_.buffers[i];
      if (!plan::IsReadOnly(buffer) || buffer.bytes == 0) continue;
      const std::span<const std::byte> before = arguments[static_cast<size_t>(buffer.argument)];
      const std::byte* after = memory_.Host(buffers_[i].address);
      if (std::memcmp(after, before.data(), before.size()) == 0) continue;
      const auto first = std::mismatch(before.begin(), before.end(), after).first - before.begin();
      Finding finding;
      finding.code = "writes_input";
      finding.where = fmt::format("{} + {} bytes", buffers_[i].name, first);
      finding.message = fmt::format(
          "{} is an input, but its bytes changed, first "
          "at byte {}",
          buffers_[i].name, first);
      run->findings.push_back(std::move(finding));
    }
  }

  bool IsSampled(int buffer) const {
    return sampled_buffers_.contains(buffer) && buffer >= 0 &&
           !plan::IsReadOnly(plan_.buffers[static_cast<size_t>(buffer)]);
  }

  void Extract(Run* run) {
    JoinRanges(&written_);
    for (size_t i = 0; i < plan_.outputs.size() && !stopped_; ++i) {
      const plan::View& view = plan_.outputs[i];
      engine::OutputTensor output;
      output.is_none = view.address.buffer == plan::kNoneOutput;
      if (!output.is_none) {
        output.dtype = view.dtype;
        output.shape = view.shape;
        output.is_sampled = IsSampled(view.address.buffer);
        if (output.is_sampled) {
          output.written = WrittenElements(view, buffers_, written_);
          Note(nodes_.ExtractRanges(view, fmt::format("output {}", i), output.written,
                                    &output.bytes),
               run);
        } else {
          CheckWritten(view, i, run);
          Note(nodes_.Extract(view, fmt::format("output {}", i), &output.bytes), run);
          if (shadow_nodes_ && !stopped_) shadow_nodes_->Extract(view, &output);
        }
      }
      run->outputs.push_back(std::move(output));
    }
  }

  // Reports an unwritten element of a contiguous output. Nearly all outputs are contiguous. In the
  // others, unwritten elements contain poison.
  void CheckWritten(const plan::View& view, size_t output, Run* run) {
    if (CheckerOf(memory_) == nullptr || view.address.buffer < 0) return;
    uint64_t elements = 1;
    for (size_t i = view.shape.size(); i-- > 0;) {
      if (view.shape[i] != 1 && view.strides[i] != static_cast<int64_t>(elements)) return;
      elements *= static_cast<uint64_t>(view.shape[i]);
    }
    const uint64_t size = static_cast<uint64_t>(SizeOf(view.dtype));
    const uint64_t begin = DeviceAddress(buffers_, view.address);
    if (!memory_.Contains(begin, elements * size)) return;
    const uint64_t at = CheckerOf(memory_)->FirstUnwritten(begin, elements * size);
    if (at == begin + elements * size) return;
    Finding finding;
    finding.code = "unwritten_output";
    finding.where = memory_.Describe(at);
    finding.message = fmt::format("Element {} of output {} (of {} elements) was never written.",
                                  (at - begin) / size, output, elements);
    run->findings.push_back(std::move(finding));
  }

  const KernelModules& modules_;
  const build::Images& images_;
  const device::Description& device_;
  const plan::Plan& plan_;
  const RunOptions& options_;
  std::span<const BoundBuffer> buffers_;
  GlobalMemory& memory_;
  ThreadPool& pool_;
  NodeRunner nodes_;
  plan::OperatorRunner* operators_;  // null: operators are unsupported
  ShadowRun* shadows_;
  std::optional<ShadowNodes> shadow_nodes_;
  bool after_launch_ = false;  // the node before the current one launched a kernel
  bool sample_ = false;        // only some blocks of the current launch run
  std::set<int> filled_;       // buffers that contain data
  std::set<int> sampled_buffers_;
  std::vector<WrittenRange> written_;
  bool in_order_;
  RaceTrial* trial_;
  std::optional<MutedBarrier> muted_;
  uint64_t executed_ = 0;  // warp instructions, about
  Advice advice_;
  bool stopped_ = false;
};

class EmulatedProgram : public engine::Program, public engine::StateKeeper {
 public:
  /// `unsupported` is why the PTX of an image as a whole is unsupported; empty if it is not.
  EmulatedProgram(device::Description device, build::Images images, const EmulatorOptions& options,
                  KernelModules modules, std::string unsupported, GlobalMemory memory)
      : operators_(options.operators),
        device_(std::move(device)),
        images_(std::move(images)),
        modules_(std::move(modules)),
        unsupported_(std::move(unsupported)),
        memory_(std::move(memory)),
        pool_(options.threads) {}

  Result<Run> Execute(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
                      const RunOptions& options) override {
    const auto start = std::chrono::steady_clock::now();
    Run run;
    if (!unsupported_.empty()) {
      run.unsupported = unsupported_;
      return run;
    }
    if (!plan.device.empty() && plan.device != device_.name) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("the plan was recorded for {}, but the emulator emulates {}",
                              plan.device, device_.name),
                  "record and run the plan with the same GPU model");
    }
    Attempt attempt;
    Advice advice;
    if (options.addresses_only) {
      // With one thread, the same blocks use up the limits every time.
      ThreadPool alone(1);
      TRY_ASSIGN(run, ExecuteOn(alone, plan, arguments, options, attempt, &advice));
      run.seconds = SecondsSince(start);
      return run;
    }
    TRY_ASSIGN(run, ExecuteOn(pool_, plan, arguments, options, attempt, &advice));
    if (advice.wants_order) {
      attempt.in_order = true;
      TRY_ASSIGN(run, ExecuteOn(pool_, plan, arguments, options, attempt, &advice));
    }
    if (pool_.size() > 1 && HasRace(run)) {
      // Which race is found first depends on thread timing. With one thread it is always the same.
      attempt.in_order = false;
      ThreadPool alone(1);
      TRY_ASSIGN(run, ExecuteOn(alone, plan, arguments, options, attempt, &advice));
    }
    const bool tries_races = options.muted_barrier.empty();
    if (!run.completed && advice.read_race && run.unsupported.empty() && tries_races) {
      TRY(TryRaces(plan, arguments, options, attempt.in_order, &run));
    }
    if (run.completed) {
      variables_ = std::move(left_);
      memory_kept_ = std::move(memory_left_);
    }
    run.seconds = SecondsSince(start);
    return run;
  }

  void KeepState() override { keeps_memory_ = true; }
  void ForgetState() override {
    keeps_memory_ = false;
    variables_.clear();
    memory_kept_.clear();
  }
  bool SeesUnwrittenReads() const override { return true; }

  void ScrambleState(uint64_t seed) override {
    Random random(seed);
    for (size_t i = 0; i < variables_.size() && i < initial_.size(); ++i) {
      if (variables_[i].bytes != initial_[i].bytes) {
        engine::Scramble(variables_[i].bytes, random);
      }
    }
    for (std::vector<std::byte>& bytes : memory_kept_) engine::Scramble(bytes, random);
  }

 private:
  /// A race between a read and a write has ended `run`. If the values of such reads are not used,
  /// replaces it by a run in which these races are warnings.
  Status TryRaces(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
                  const RunOptions& options, bool in_order, Run* run) {
    ThreadPool alone(1);
    RaceTrial trial;
    const Attempt attempt{.in_order = in_order, .trial = &trial};
    Advice advice;
    RunOptions limited = options;
    limited.max_warp_instructions = std::min(options.max_warp_instructions, kMostTrialWork);
    trial.Begin(RaceTrial::Pass::kCollect);
    TRY_ASSIGN(Run tolerant, ExecuteOn(alone, plan, arguments, limited, attempt, &advice));
    if (trial.failed() || !tolerant.completed || advice.wants_order) return {};
    const Variables left = left_;
    const engine::KeptMemory memory_left = memory_left_;
    limited.counters = limited.shadows = false;
    for (const RaceTrial::Pass pass : {RaceTrial::Pass::kFind, RaceTrial::Pass::kFollow}) {
      trial.Begin(pass);
      TRY_ASSIGN(const Run again, ExecuteOn(alone, plan, arguments, limited, attempt, &advice));
      if (trial.failed() || !again.completed || !SameResults(tolerant, again)) return {};
      if (!SameValues(left, left_) || memory_left != memory_left_) return {};
    }
    *run = std::move(tolerant);
    return {};
  }
  static bool SameResults(const Run& a, const Run& b) {
    return std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                      [](const engine::OutputTensor& x, const engine::OutputTensor& y) {
                        return x.is_none == y.is_none && x.bytes == y.bytes;
                      });
  }

  Result<Run> ExecuteOn(ThreadPool& pool, const plan::Plan& plan,
                        std::span<const std::span<const std::byte>> arguments,
                        const RunOptions& options, const Attempt& attempt, Advice* advice) {
    Run run;
    memory_.Reset();
    if (options.addresses_only) memory_.OnDemand();
    if (options.full_checks) memory_.Watch(std::make_unique<GlobalChecker>(RaceGranuleShift()));
    std::vector<const ptx::Module*> modules;
    for (const auto& module : modules_) modules.push_back(&module->module());
    TRY_ASSIGN(const std::vector<BoundBuffer> buffers,
               BindPlan(plan, arguments, modules, options.seed, &memory_, options.poison));
    RebasePointers();
    RestoreVariables();
    RestoreMemory(plan, buffers);
    std::unique_ptr<ShadowRun> shadows;
    if (options.shadows) {
      TRY_ASSIGN(shadows, ShadowRun::Create(memory_.base(), options.field));
      NoteInputs(plan, options.argument_types, buffers, shadows->memory());
      if (options.field) {
        DrawElements(plan, options.argument_types, options.field->arguments, buffers,
                     shadows->memory());
      }
    }
    Execution execution(modules_, images_, device_, plan, options, buffers, memory_, pool,
                        shadows.get(), operators_.get(), attempt);
    const Variables before = ReadVariables();
    if (variables_.empty()) initial_ = before;
    TRY(execution.RunPlan(arguments, &run));
    *advice = execution.advice();
    if (run.completed) {
      left_ = ReadVariables();
      memory_left_ = ReadMemory(plan, buffers);
      NoteState(before, left_, plan, &run);
    }
    if (shadows) {
      for (std::string& name : shadows->unknown()) run.not_followed.push_back(std::move(name));
      if (options.field) run.decisions = shadows->decisions();
    }
    return run;
  }
  /// Of race checks: as narrow as any of the modules needs it.
  int RaceGranuleShift() const {
    int shift = 2;
    for (const auto& module : modules_) shift = std::min(shift, module->global_granule_shift());
    return shift;
  }
  static void NoteInputs(const plan::Plan& plan, const std::vector<DType>& types,
                         const std::vector<BoundBuffer>& buffers, ShadowMemory& shadows) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto argument = static_cast<size_t>(plan.buffers[i].argument);
      const bool known =
          plan.buffers[i].kind == plan::BufferKind::kArgument && argument < types.size();
      if (known) {
        shadows.HoldsInput(buffers[i].address, buffers[i].bytes, types[argument] == DType::kF32);
      }
    }
  }
  /// Gives the elements of float arguments elements of the field: random ones, or those given.
  void DrawElements(const plan::Plan& plan, const std::vector<DType>& types,
                    const std::vector<engine::FieldArgument>& given,
                    const std::vector<BoundBuffer>& buffers, ShadowMemory& shadows) const {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto argument = static_cast<size_t>(plan.buffers[i].argument);
      if (plan.buffers[i].kind != plan::BufferKind::kArgument || argument >= types.size()) continue;
      const DType dtype = types[argument];
      if (!IsFloating(dtype) || IsFloat8(dtype)) continue;
      const auto known = std::find_if(
          given.begin(), given.end(),
          [&](const engine::FieldArgument& one) { return one.index == plan.buffers[i].argument; });
      const auto size = static_cast<uint64_t>(SizeOf(dtype));
      for (uint64_t at = 0; at < buffers[i].bytes / size; ++at) {
        const uint64_t address = buffers[i].address + at * size;
        uint64_t bits = 0;
        std::memcpy(&bits, memory_.Host(address), size);
        double element = Field::Unknown();
        if (known != given.end() && at < known->p.size()) {
          element = Field::Given(known->p[at], known->q.at(at));
        } else if (known == given.end() && std::isfinite(ValueOfBits(dtype, bits))) {
          element = shadows.field()->Input(argument, at);
        }
        shadows.Write(address, dtype, bits, {element, 0});
      }
    }
  }
  static bool HasRace(const Run& run) {
    return std::any_of(run.findings.begin(), run.findings.end(),
                       [](const Finding& finding) { return finding.code == "global_race"; });
  }

  // The __device__ variables of loaded modules keep their values from call to call, as on a GPU.
  // If a kernel caches results in them and returns the results of an earlier call, the check
  // detects it.
  struct Variable {
    int image = 0;
    std::string name;
    std::vector<std::byte> bytes;
  };
  using Variables = std::vector<Variable>;
  static bool SameValues(const Variables& a, const Variables& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Variable& x, const Variable& y) { return x.bytes == y.bytes; });
  }

  /// Calls `visit(image, variable)` with the variables of all modules.
  template <typename Visit>
  void ForEachVariable(Visit visit) const {
    for (size_t i = 0; i < modules_.size(); ++i) {
      for (const auto& variable : modules_[i]->module().variables) {
        visit(static_cast<int>(i), variable);
      }
    }
  }
  Variables ReadVariables() const {
    Variables variables;
    ForEachVariable([&](int image, const ptx::Variable& variable) {
      const auto address = memory_.SymbolAddress(variable.name, image);
      if (variable.space != ptx::Space::kGlobal || !address) return;
      const std::byte* bytes = memory_.Host(*address);
      variables.push_back({image, variable.name, {bytes, bytes + variable.bytes}});
    });
    return variables;
  }
  /// Reports variables that the call changed, because the next call may depend on them. Variables
  /// that the plan names are not reported: host code manages them.
  static void NoteState(const Variables& before, const Variables& after, const plan::Plan& plan,
                        Run* run) {
    for (size_t i = 0; i < after.size(); ++i) {
      const auto& [image, name, bytes] = after[i];
      if (bytes == before[i].bytes || plan::HasVariable(plan, image, name)) continue;
      run->findings.push_back(engine::StateFinding(name));
    }
  }
  /// The buffers that the next call will see; empty if memory is not kept.
  engine::KeptMemory ReadMemory(const plan::Plan& plan,
                                const std::vector<BoundBuffer>& buffers) const {
    engine::KeptMemory left;
    if (!keeps_memory_ || !engine::CanKeepMemory(plan)) return left;
    left.resize(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!engine::OutlivesCalls(plan.buffers[i])) continue;
      const std::byte* bytes = memory_.Host(buffers[i].address);
      left[i].assign(bytes, bytes + buffers[i].bytes);
    }
    return left;
  }
  /// Restores kept buffers. A buffer whose size has changed is not the same buffer and is skipped.
  void RestoreMemory(const plan::Plan& plan, const std::vector<BoundBuffer>& buffers) {
    if (!keeps_memory_ || memory_kept_.size() != buffers.size()) return;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::vector<std::byte>& bytes = memory_kept_[i];
      if (!engine::OutlivesCalls(plan.buffers[i]) || bytes.size() != buffers[i].bytes) continue;
      std::memcpy(memory_.Host(buffers[i].address), bytes.data(), bytes.size());
    }
  }
  struct Place {
    uint64_t begin = 0, bytes = 0;
  };
  /// Adjusts pointers to variables in kept memory. On a GPU the modules' variables keep their
  /// addresses; here they get new addresses in each run.
  void RebasePointers() {
    std::vector<Place> now;
    ForEachVariable([&](int image, const ptx::Variable& variable) {
      now.push_back({memory_.SymbolAddress(variable.name, image).value_or(0), variable.bytes});
    });
    const std::vector<Place> before = std::exchange(places_, std::move(now));
    if (before.empty()) return;
    for (Variables* variables : {&initial_, &variables_}) {
      for (Variable& variable : *variables) Rebase(before, variable.bytes);
    }
    for (std::vector<std::byte>& bytes : memory_kept_) Rebase(before, bytes);
  }
  void Rebase(const std::vector<Place>& before, std::span<std::byte> bytes) const {
    for (uint64_t word = 0; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
      std::memcpy(&word, bytes.data(), sizeof word);
      if (word < kLowestAddress || word >= kHighestAddress) continue;
      const auto old = std::find_if(before.begin(), before.end(), [&](const Place& place) {
        return word - place.begin < place.bytes;
      });
      if (old == before.end()) continue;
      word += places_[static_cast<size_t>(old - before.begin())].begin - old->begin;
      std::memcpy(bytes.data(), &word, sizeof word);
    }
  }
  void RestoreVariables() {
    for (const auto& [image, name, bytes] : variables_) {
      if (const auto address = memory_.SymbolAddress(name, image)) {
        std::memcpy(memory_.Host(*address), bytes.data(), bytes.size());
      }
    }
  }

  std::shared_ptr<plan::OperatorRunner> operators_;
  device::Description device_;
  build::Images images_;
  KernelModules modules_;      // of the images
  Variables initial_;          // values when the modules were loaded
  Variables variables_;        // values after the last call
  Variables left_;             // values after the current call
  std::vector<Place> places_;  // addresses of the modules' variables in the latest run
  bool keeps_memory_ = false;
  engine::KeptMemory memory_kept_, memory_left_;  // buffers after the last and the current call
  std::string unsupported_;
  GlobalMemory memory_;
  ThreadPool pool_;
};

class Emulator : public engine::Engine {
 public:
  Emulator(const device::Description& device, EmulatorOptions options)
      : device_(device), options_(std::move(options)) {}

  std::string Name() const override { return "emu"; }
  const device::Description& Device() const override { return device_; }

  Result<std::unique_ptr<engine::Program>> Load(const build::Images& images) override {
    TRY_ASSIGN(GlobalMemory memory, GlobalMemory::Create());
    KernelModules modules;
    std::string unsupported;
    for (const auto& image : images) {
      // If host code uses only library calls, there is no PTX.
      auto module =
          image->ptx.empty() ? Result<ptx::Module>(ptx::Module{}) : ptx::Parse(image->ptx);
      if (!module && module.error().code == ErrorCode::kUnsupported) {
        unsupported = module.error().message;
        break;
      }
      TRY(module);
      TRY_ASSIGN(modules.emplace_back(), KernelModule::Decode(*module, 2, image->is_of_triton));
    }
    return std::make_unique<EmulatedProgram>(device_, images, options_, std::move(modules),
                                             std::move(unsupported), std::move(memory));
  }

 private:
  device::Description device_;
  EmulatorOptions options_;
};

}  // namespace

std::unique_ptr<engine::Engine> MakeEmulator(const device::Description& device,
                                             EmulatorOptions options) {
  return std::make_unique<Emulator>(device, std::move(options));
}

}  // namespace cupel::emu
