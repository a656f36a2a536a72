// SPDX-License-Identifier: Apache-2.0
#include "assay/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "assay/baseline_sampler.h"
#include "assay/contract.h"
#include "assay/kernel_sampler.h"
#include "assay/open_recorder.h"
#include "assay/probe_sampler.h"
#include "assay/roofline.h"
#include "assay/trial.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "plan/operators.h"
#include "stats/robust.h"

namespace cupel::assay {
namespace {

/// A bench does not say which other processes use the GPU.
records::GpuState Clocks(records::GpuState state) {
  state.processes = 0;
  return state;
}

using engine::TimingMode;
using Arguments = std::vector<std::span<const std::byte>>;

constexpr uint64_t kMostCaseBytes = uint64_t{8} << 30;  // held at once
constexpr int kReplaysOfOperators = 11;
constexpr int kReplaysToFindFault = 6;  // replays that search for a faulty kernel

/// A kernel loaded and recorded: one plan for all sets of inputs, or one for each.
struct Prepared {
  std::string name;
  std::unique_ptr<engine::Program> program;
  std::vector<plan::Plan> plans;
};

class SettingBench {
 public:
  SettingBench(const Parts& parts, const Question& question, const task::Setting& setting,
               const BenchOptions& options)
      : parts_(parts),
        question_(question),
        setting_(setting),
        options_(options),
        seed_(question.seed ? *question.seed : EntropySeed()) {
    times_.id = setting.id;
    times_.kind = setting.kind;
    times_.description = setting.Describe();
  }

  Result<records::SettingTimes> Run(std::span<const KernelToTime> kernels) {
    const auto start = std::chrono::steady_clock::now();
    TRY_ASSIGN(const bool has_cases, DrawCases());
    if (!has_cases) return std::move(times_);
    for (const KernelToTime& kernel : kernels) TRY(Prepare(kernel));
    if (kernels_.empty()) return std::move(times_);
    TRY(PrepareBaselines());
    times_.read_bytes = BytesToRead(cases_.front());
    times_.written_bytes = BytesToWrite(cases_.front());
    times_.floor_us = times_.read_bytes / options_.ceilings.read_bytes * 1e6;
    // The state is only recorded: a GPU that cannot report it is still timed.
    if (auto state = parts_.engine->State()) times_.before = Clocks(*state);
    for (bool again = true; again;) {
      TRY_ASSIGN(again, MeasureOnce());
    }
    TRY(Conclude());
    times_.seconds = SecondsSince(start);
    return std::move(times_);
  }

 private:
  void Show(const std::string& stage) { parts_.Show({setting_.id + " " + stage}); }

  Result<bool> DrawCases() {
    Stopwatch watch(times_.stages.cases);
    TRY_ASSIGN(auto stream,
               parts_.oracle->Open(*question_.task, question_.direction, setting_, options_.sets,
                                   question_.seed, question_.fresh_cases));
    uint64_t bytes = 0;
    while (static_cast<int>(cases_.size()) < options_.sets && bytes < kMostCaseBytes) {
      TRY_ASSIGN(auto outcome, stream->Next());
      if (!outcome) break;
      if (const auto* failure = std::get_if<oracle::SettingFailure>(&*outcome)) {
        times_.note = "no reference: " + failure->message;
        return false;
      }
      cases_.push_back(std::move(std::get<task::Case>(*outcome)));
      for (const task::Tensor* tensor : task::TensorLeaves(cases_.back().args)) {
        bytes += tensor->storage.size();
      }
    }
    if (cases_.empty()) return Fail(ErrorCode::kInternal, "the oracle returned no case");
    times_.torch_version = cases_.front().torch_version;
    for (const task::Case& wanted : cases_) {
      arguments_.push_back(task::StoragesOf(wanted.args));
    }
    return true;
  }

  void AddRefused(const std::string& name, records::Reason reason, bool is_baseline = false) {
    records::Timing timing;
    timing.name = name;
    timing.is_baseline = is_baseline;
    timing.refused = std::move(reason);
    times_.timings.push_back(std::move(timing));
  }

  Status Prepare(const KernelToTime& kernel) {
    Show("recording " + kernel.name);
    Stopwatch watch(times_.stages.prepare);
    TRY_ASSIGN(const auto recorder,
               OpenRecorder(*kernel.candidate, question_, parts_,
                            Random(seed_).Fork("addresses of " + kernel.name)()));
    Prepared prepared{kernel.name, nullptr, {}};
    build::Images images;
    const std::string first_key = RecordingKey(cases_.front().args, true);
    const bool alike = std::all_of(cases_.begin(), cases_.end(), [&](const task::Case& wanted) {
      return RecordingKey(wanted.args, true) == first_key;
    });
    for (const task::Case& wanted : cases_) {
      if (alike && !prepared.plans.empty()) break;
      TRY_ASSIGN(auto outcome, recorder->Record(std::string(task::Name(question_.direction)),
                                                wanted.args, setting_));
      if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
        AddRefused(kernel.name, {refusal->code, refusal->message, refusal->where});
        return {};
      }
      auto& recording = std::get<record::Recording>(outcome);
      images = std::move(recording.images);  // a recorder's list only grows
      FitToCase(recording.plan, wanted);
      prepared.plans.push_back(std::move(recording.plan));
    }
    TRY_ASSIGN(prepared.program, parts_.engine->Load(images));
    kernels_.push_back(std::make_unique<Prepared>(std::move(prepared)));
    return {};
  }

  Status PrepareBaselines() {
    Stopwatch watch(times_.stages.prepare);
    if (options_.baselines.empty()) return {};
    TRY_ASSIGN(const auto no_measurements, parts_.engine->PutOffMeasurements());
    std::vector<uint64_t> seeds;
    seeds.reserve(cases_.size());
    for (const task::Case& wanted : cases_) seeds.push_back(wanted.seed);
    for (const oracle::Baseline& baseline : options_.baselines) {
      Show(fmt::format("preparing {}", baseline.Name()));
      if (baseline.kind == oracle::BaselineKind::kProbe) {
        TRY_ASSIGN(Probe probe, LoadProbe(*parts_.engine));
        probe_.emplace(std::move(probe));
      }
      TRY_ASSIGN(auto prepared, options_.torch->Prepare(*question_.task, question_.direction,
                                                        setting_, baseline, seeds));
      if (const auto* failure = std::get_if<oracle::SettingFailure>(&prepared)) {
        AddRefused(baseline.Name(), {"no_baseline", failure->message, ""}, true);
        continue;
      }
      auto sampler = std::make_unique<BaselineSampler>(
          *options_.torch, std::move(std::get<oracle::BaselineInfo>(prepared)));
      if (auto other = ComputesOther(sampler->info())) {
        AddRefused(baseline.Name(), std::move(*other), true);
        continue;
      }
      baselines_.push_back(std::move(sampler));
    }
    return {};
  }

  TimedKernel Timed(const Prepared& prepared) const {
    TimedKernel timed;
    timed.name = prepared.name;
    timed.program = prepared.program.get();
    for (const plan::Plan& plan : prepared.plans) timed.plans.push_back(&plan);
    for (const task::Case& wanted : cases_) timed.cases.push_back(&wanted);
    return timed;
  }

  /// The probe, if there is one, comes last.
  Result<std::unique_ptr<engine::Timer>> MakeTimer(std::span<const std::unique_ptr<Prepared>> of) {
    Stopwatch watch(times_.stages.timer);
    std::vector<engine::Entrant> entrants;
    for (const auto& prepared : of) {
      entrants.push_back({prepared->program.get(), Timed(*prepared).plans});
    }
    if (probe_) entrants.push_back({probe_->program.get(), {&probe_->plan}});
    return parts_.engine->MakeTimer(entrants, arguments_);
  }

  /// True if a kernel dropped out, so that the others must be measured again.
  Result<bool> MeasureOnce() {
    std::vector<Sampler*> samplers;
    samplers.reserve(baselines_.size() + kernels_.size() + 1);
    for (const auto& baseline : baselines_) samplers.push_back(baseline.get());
    std::vector<std::unique_ptr<KernelSampler>> mine;
    if (kernels_.empty()) return false;
    TRY_ASSIGN(auto timer, MakeTimer(kernels_));
    times_.sets = timer->Sets();
    for (const auto& baseline : baselines_) {
      const bool is_probe = baseline->info().baseline.kind == oracle::BaselineKind::kProbe;
      if (!is_probe) times_.sets = std::min(times_.sets, baseline->info().sets);
    }
    ProbeSampler own_probe(*timer, kernels_.size());
    if (probe_) samplers.push_back(&own_probe);
    for (size_t i = 0; i < kernels_.size(); ++i) {
      mine.push_back(std::make_unique<KernelSampler>(Timed(*kernels_[i]), *timer, i,
                                                     Random(seed_).Fork("secrets")() + i,
                                                     options_.measure.least));
      samplers.push_back(mine.back().get());
    }
    TRY_ASSIGN(Measured measured, TakeReplays(samplers, *timer));
    times_.overhead_us = measured.overhead_us;
    // Read the state now: verifying would leave the GPU idle.
    if (auto state = parts_.engine->State()) times_.after = Clocks(*state);
    for (size_t i = 0; i < baselines_.size(); ++i) {
      if (!baselines_[i]->problem()) continue;
      AddRefused(baselines_[i]->Name(), *baselines_[i]->problem(), true);
      baselines_.erase(baselines_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i]->problem()) continue;
      DropKernel(i, *mine[i]->problem());
      return true;
    }
    if (own_probe.problem()) {
      // The probe itself is correct, so a kernel must have corrupted its memory.
      timer.reset();
      records::Finding finding;
      finding.code = own_probe.problem()->code;
      finding.message = own_probe.problem()->message;
      TRY(DropFaultyKernels(finding));
      return true;
    }
    if (measured.samples.size() != samplers.size()) {
      return Fail(ErrorCode::kInternal, "the GPU timer returned neither times nor a reason");
    }
    TRY_ASSIGN(const auto of_operators, TimeOperators(mine, measured.overhead_us));
    TRY_ASSIGN(const auto findings, Finish(*timer));
    if (!findings.empty()) {
      timer.reset();
      TRY(DropFaultyKernels(findings.front()));
      return true;
    }
    for (size_t i = 0; i < samplers.size(); ++i) Add(*samplers[i], std::move(measured.samples[i]));
    for (size_t i = 0; i < mine.size(); ++i) TimingOf(i).operators_us = of_operators[i];
    timer.reset();  // measuring energy needs a timer of its own
    TRY(MeasureEnergy());
    return VerifyAll(mine);
  }

  Result<Measured> TakeReplays(std::span<Sampler* const> samplers, engine::Timer& timer) {
    Show("timing");
    Stopwatch watch(times_.stages.replays);
    return Measure(
        samplers, [&] { return timer.MeasureOverhead(); }, times_.sets, options_.measure,
        [&](int rounds) { Show(fmt::format("timing, round {}", rounds)); }, parts_.stop);
  }

  /// By kernel; nullopt for kernels without operators.
  Result<std::vector<std::optional<double>>> TimeOperators(
      std::span<const std::unique_ptr<KernelSampler>> samplers, double overhead_us) {
    Stopwatch watch(times_.stages.replays);
    std::vector<std::optional<double>> medians(samplers.size());
    for (size_t i = 0; i < samplers.size(); ++i) {
      if (!plan::HasOperators(kernels_[i]->plans.front())) continue;
      TRY_ASSIGN(const std::vector<double> us,
                 samplers[i]->Take(TimingMode::kOperators, 0, kReplaysOfOperators));
      if (!us.empty()) medians[i] = std::max(0.0, stats::Median(us) - overhead_us);
    }
    return medians;
  }

  Result<std::vector<records::Finding>> Finish(engine::Timer& timer) {
    Stopwatch watch(times_.stages.verify);
    return timer.Finish();
  }

  void DropKernel(size_t index, records::Reason reason) {
    AddRefused(kernels_[index]->name, std::move(reason));
    kernels_.erase(kernels_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  /// Runs each kernel alone to find the one that caused `finding`. Drops all kernels if none causes
  /// it alone.
  Status DropFaultyKernels(const records::Finding& finding) {
    bool found = false;
    for (size_t i = 0; i < kernels_.size();) {
      TRY_ASSIGN(auto timer, MakeTimer(std::span(kernels_).subspan(i, 1)));
      KernelSampler alone(Timed(*kernels_[i]), *timer, 0, seed_);
      for (int replay = 0; replay < kReplaysToFindFault && !alone.problem(); ++replay) {
        TRY(alone.Take(TimingMode::kCold, replay % timer->Sets(), 1));
      }
      std::vector<records::Finding> mine;
      if (!alone.problem()) {
        TRY_ASSIGN(mine, timer->Finish());
      }
      if (mine.empty() && !alone.problem()) {
        ++i;
        continue;
      }
      found = true;
      DropKernel(i, alone.problem() ? *alone.problem()
                                    : records::Reason{mine.front().code, mine.front().message,
                                                      mine.front().where});
    }
    while (!found && !kernels_.empty()) {
      DropKernel(0, {finding.code, finding.message + " It is unknown which kernel caused this.",
                     finding.where});
    }
    return {};
  }

  void Add(const Sampler& sampler, records::Samples samples) {
    records::Timing timing;
    timing.name = sampler.Name();
    timing.is_baseline = sampler.IsBaseline();
    timing.median = stats::MedianInterval(samples.cold);
    timing.spread = stats::Mad(samples.cold);
    timing.warm_us = stats::Median(samples.warm);
    if (!samples.host.empty()) timing.host_us = stats::Median(samples.host);
    timing.samples = std::move(samples);
    times_.timings.push_back(std::move(timing));
  }

  records::Timing& TimingOf(size_t kernel) {
    return *(times_.timings.end() - static_cast<std::ptrdiff_t>(kernels_.size() - kernel));
  }

  records::Timing& TimingOfBaseline(size_t baseline) {
    const size_t later = kernels_.size() + (probe_ ? 1 : 0) + baselines_.size() - baseline;
    return *(times_.timings.end() - static_cast<std::ptrdiff_t>(later));
  }

  bool IsProbe(size_t entrant) const {
    return entrant < baselines_.size() &&
           baselines_[entrant]->info().baseline.kind == oracle::BaselineKind::kProbe;
  }

  /// What a setting's entrants use, the baselines' first. As for times, rounds alternate between
  /// forwards and backwards.
  Status MeasureEnergy() {
    if (options_.energy_seconds <= 0 || kernels_.empty()) return {};
    Show("measuring energy");
    TRY_ASSIGN(auto timer, MakeTimer(kernels_));
    const size_t all = baselines_.size() + kernels_.size();
    std::vector<bool> failed(all);
    for (int round = 0; round < options_.energy_rounds; ++round) {
      for (size_t step = 0; step < all; ++step) {
        const size_t i = round % 2 == 0 ? step : all - 1 - step;
        if (failed[i] || IsProbe(i)) continue;
        const bool is_baseline = i < baselines_.size();
        records::Timing& timing =
            is_baseline ? TimingOfBaseline(i) : TimingOf(i - baselines_.size());
        auto use = is_baseline
                       ? baselines_[i]->MeasureEnergy(options_.energy_seconds)
                       : timer->MeasureEnergy(i - baselines_.size(), options_.energy_seconds);
        if (use) {
          AddEnergy(*use, timing);
          continue;
        }
        if (use.error().code == ErrorCode::kCancelled) return tl::unexpected(use.error());
        failed[i] = true;
        timing.oddities.push_back(kNoEnergy + use.error().message);
        if (is_baseline || use.error().code == ErrorCode::kUnsupported) continue;
        timer.reset();
        TRY_ASSIGN(timer, MakeTimer(kernels_));
      }
    }
    return {};
  }

  static void AddEnergy(const records::EnergyUse& use, records::Timing& timing) {
    timing.joules.push_back(use.joules);
    const double rounds = static_cast<double>(timing.joules.size());
    records::EnergyUse mean = timing.energy.value_or(records::EnergyUse{});
    mean.joules += (use.joules - mean.joules) / rounds;
    mean.watts += (use.watts - mean.watts) / rounds;
    mean.calls += use.calls;
    timing.energy = mean;
  }

  /// Always false: rejecting a kernel here does not affect the others' times.
  Result<bool> VerifyAll(std::span<const std::unique_ptr<KernelSampler>> samplers) {
    Show("verifying what was timed");
    Stopwatch watch(times_.stages.verify);
    for (size_t i = 0; i < samplers.size(); ++i) {
      records::Timing& timing = TimingOf(i);
      TRY_ASSIGN(const bool right, samplers[i]->Verify());
      if (!right) timing.refused = samplers[i]->problem();
      timing.verified = samplers[i]->verified();
      timing.visible = samplers[i]->visible();
    }
    return false;
  }

  Status Conclude() {
    bool tf32 = false;
    for (const auto& baseline : baselines_) {
      times_.flops = std::max(times_.flops, baseline->info().flops);
      tf32 |= baseline->info().tf32;
      for (records::Timing& timing : times_.timings) {
        if (timing.is_baseline && timing.name == baseline->Name()) baseline->Describe(&timing);
      }
    }
    times_.unit = UnitOf(cases_.front(), tf32);
    for (records::Timing& timing : times_.timings) {
      if (!timing.samples.cold.empty()) Assess(options_.ceilings, L2Bytes(), times_, &timing);
    }
    TRY(JudgeImpossible());
    for (size_t a = 0; a < times_.timings.size(); ++a) {
      for (size_t b = 0; b < a; ++b) Compare(a, b);
    }
    return {};
  }

  /// Rejects a time below the floor if the result depends on all inputs.
  Status JudgeImpossible() {
    for (records::Timing& timing : times_.timings) {
      if (timing.is_baseline || timing.refused || timing.samples.cold.empty()) continue;
      const std::string what = BelowFloor(options_.ceilings, Peak(), L2Bytes(), times_, timing);
      if (what.empty()) continue;
      bool all = false;
      for (const auto& kernel : kernels_) {
        if (kernel->name != timing.name) continue;
        TRY_ASSIGN(all, DependsOnAll(Timed(*kernel), seed_));
      }
      if (all) {
        timing.refused = records::Reason{"below_roofline", "impossibly fast: " + what, setting_.id};
        timing.refused->at.setting = setting_.id;
      } else {
        timing.oddities.push_back("does not depend on all of its inputs: " + what);
      }
    }
    return {};
  }

  /// The memory bandwidth known for this GPU: the measured one may have been disturbed.
  double Peak() const { return parts_.engine->Device().dram_bytes; }
  double L2Bytes() const { return static_cast<double>(parts_.engine->Device().l2_bytes); }

  void Compare(size_t a, size_t b) {
    const records::Timing &mine = times_.timings[a], &other = times_.timings[b];
    const bool both = !mine.refused && !other.refused && !mine.samples.cold.empty() &&
                      mine.samples.cold.size() == other.samples.cold.size();
    if (!both || mine.is_baseline) return;
    times_.comparisons.push_back({mine.name, other.name,
                                  stats::CompareTimes(mine.samples.cold, other.samples.cold,
                                                      kPlacementUs, options_.confidence)});
  }

  const Parts& parts_;
  const Question& question_;
  const task::Setting& setting_;
  const BenchOptions& options_;
  uint64_t seed_;
  records::SettingTimes times_;
  std::vector<task::Case> cases_;
  std::vector<Arguments> arguments_;  // of the cases
  std::vector<std::unique_ptr<Prepared>> kernels_;
  std::vector<std::unique_ptr<BaselineSampler>> baselines_;
  std::optional<Probe> probe_;
};

}  // namespace

Result<records::SettingTimes> TimeSetting(const Parts& parts, const Question& question,
                                          const task::Setting& setting,
                                          std::span<const KernelToTime> kernels,
                                          const BenchOptions& options) {
  return SettingBench(parts, question, setting, options).Run(kernels);
}

}  // namespace cupel::assay
