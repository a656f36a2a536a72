// SPDX-License-Identifier: Apache-2.0
#include "assay/kernel_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/secret.h"
#include "assay/trial.h"
#include "judge/compare.h"
#include "plan/operators.h"

namespace cupel::assay {
namespace {

using engine::Taken;
using engine::TakeRequest;
using engine::TimingMode;

constexpr size_t kMostKept = 8;
constexpr int kNanProbes = 24;
constexpr uint64_t kMostKeptBytes = uint64_t{1} << 30;

}  // namespace

Result<bool> DependsOnAll(const TimedKernel& kernel, uint64_t seed) {
  const task::Case& wanted = *kernel.cases[0];
  ChangedArguments arguments(wanted);
  TRY_ASSIGN(const engine::Run before,
             kernel.program->Execute(*kernel.plans[0], arguments.Change({}), engine::RunOptions()));
  if (!before.completed) return false;
  Random random(seed);
  for (int probe = 0; probe < kNanProbes; ++probe) {
    const auto change = DrawNan(wanted, random);
    if (!change) return false;
    TRY_ASSIGN(const engine::Run after,
               kernel.program->Execute(*kernel.plans[0], arguments.Change({*change}),
                                       engine::RunOptions()));
    if (!after.completed) return false;
    bool shows = false;
    for (size_t i = 0; i < after.outputs.size() && i < before.outputs.size(); ++i) {
      shows = shows || after.outputs[i].bytes != before.outputs[i].bytes;
    }
    if (!shows) return false;
  }
  return true;
}

KernelSampler::KernelSampler(const TimedKernel& kernel, engine::Timer& timer, size_t entrant,
                             uint64_t seed, int least)
    : kernel_(kernel),
      timer_(timer),
      entrant_(entrant),
      random_(seed),
      least_(static_cast<uint64_t>(std::max(least, 0))) {
  uint64_t bytes = 1;
  for (const task::Output& output : kernel.cases[0]->outputs) {
    bytes += static_cast<uint64_t>(output.Elements() * SizeOf(output.dtype));
  }
  most_ = std::clamp<size_t>(kMostKeptBytes / bytes, 1, kMostKept);
  while (chosen_.size() < std::min<uint64_t>(most_, least_)) chosen_.insert(random_.Below(least_));
}

void KernelSampler::BeginCounting() {
  if (counted_ > 0) return;
  kept_.clear();
  counting_ = true;
}

std::optional<size_t> KernelSampler::PlaceToKeep() {
  const uint64_t index = counted_++;
  if (index < least_) return chosen_.contains(index) ? std::optional(kept_.size()) : std::nullopt;
  if (kept_.size() < most_) return kept_.size();
  const uint64_t place = random_.Below(counted_);
  if (place < most_) return place;
  return std::nullopt;
}

Result<std::vector<double>> KernelSampler::Take(TimingMode mode, int set, int count) {
  // Operators are called through the worker, which takes longer than a program's own calls.
  if (mode == TimingMode::kHost && plan::HasOperators(*kernel_.plans.front())) {
    return std::vector<double>();
  }
  TakeRequest request;
  request.entrant = entrant_;
  request.mode = mode;
  request.set = set;
  request.count = count;
  const task::Case& wanted = *kernel_.cases[static_cast<size_t>(set)];
  // Drawn for this replay: the kernel cannot know the secret, nor whether its outputs are checked.
  request.changes = DrawSecrets(wanted, random_);
  std::optional<size_t> place;
  if (mode == TimingMode::kCold && counting_) place = PlaceToKeep();
  // The outputs of the last warm replay are also verified.
  if (mode == TimingMode::kWarm) place = kept_.size();
  request.keep_outputs = place.has_value();
  TRY_ASSIGN(Taken taken, timer_.Take(request));
  if (!taken.unsupported.empty()) {
    Refuse({"unsupported", taken.unsupported, ""});
    return std::vector<double>();
  }
  if (!taken.findings.empty()) {
    const records::Finding& finding = taken.findings.front();
    Refuse({finding.code, finding.message, finding.where});
    return std::vector<double>();
  }
  if (place) {
    if (*place == kept_.size()) kept_.emplace_back();
    kept_[*place] = {set, std::move(request.changes), std::move(taken.outputs)};
  }
  return std::move(taken.us);
}

Result<bool> KernelSampler::Verify() {
  // Set by set, so that large arguments are copied only once.
  for (size_t set = 0; set < kernel_.cases.size(); ++set) {
    ChangedArguments arguments(*kernel_.cases[set]);
    for (const Kept& kept : kept_) {
      if (static_cast<size_t>(kept.set) != set) continue;
      TRY_ASSIGN(const bool right, VerifyOne(kept, arguments));
      if (!right) return false;
      ++verified_;
    }
  }
  return true;
}

Result<bool> KernelSampler::VerifyOne(const Kept& kept, ChangedArguments& arguments) {
  const auto set = static_cast<size_t>(kept.set);
  const task::Case& wanted = *kernel_.cases[set];
  const plan::Plan& plan = *kernel_.plans[set < kernel_.plans.size() ? set : 0];
  TRY_ASSIGN(const engine::Run clean,
             kernel_.program->Execute(plan, arguments.Change(kept.changes), engine::RunOptions()));
  if (!clean.completed || clean.outputs.size() != kept.outputs.size() ||
      clean.outputs.size() != wanted.outputs.size()) {
    Refuse({"wrong_timed_result", "a repetition of a timed replay did not complete", ""});
    return false;
  }
  bool visible = false;
  for (size_t i = 0; i < clean.outputs.size(); ++i) {
    if (wanted.outputs[i].is_none) continue;
    // Most kernels return the same bits each time; then large outputs need no comparison by value.
    if (kept.outputs[i].bytes != clean.outputs[i].bytes ||
        kept.outputs[i].shape != clean.outputs[i].shape) {
      const records::Comparison timed =
          CompareRuns(kept.outputs[i], clean.outputs[i], wanted.outputs[i]);
      if (!timed.ok) {
        Refuse({"wrong_timed_result",
                fmt::format("a timed replay returned a wrong result for its inputs: {}",
                            timed.message),
                fmt::format("output {}", i)});
        return false;
      }
    }
    visible = visible || !judge::CompareQuietly(clean.outputs[i].View(), wanted.outputs[i]).ok;
  }
  visible_ += visible ? 1 : 0;
  return true;
}

}  // namespace cupel::assay
