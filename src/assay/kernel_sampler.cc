// SPDX-License-Identifier: Apache-2.0
#include "assay/kernel_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/secret.h"
#include "judge/compare.h"

namespace cupel::assay {
namespace {

using engine::Taken;
using engine::TakeRequest;
using engine::TimingMode;

constexpr size_t kMostKept = 8;
constexpr int kNanProbes = 24;
constexpr uint64_t kMostKeptBytes = uint64_t{1} << 30;

/// The outputs of a replay without a past, as the truth that a timed one is held against: both may
/// be off by what the task allows.
struct Expected {
  std::vector<double> values;
  task::Output output;
};

Expected ExpectedFrom(const task::Output& wanted, const engine::OutputTensor& clean) {
  Expected expected;
  expected.output =
      task::Output{wanted.is_none,     wanted.name,        wanted.dtype, wanted.shape, {}, {},
                   wanted.error_scale, wanted.conditioning};
  expected.output.truth = clean.View();
  if (!IsFloating(wanted.dtype)) return expected;
  const task::Tensor view = clean.View();
  expected.values.resize(static_cast<size_t>(view.numel()));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] = task::ElementAsDouble(view, static_cast<int64_t>(i));
  }
  expected.output.truth.dtype = DType::kF64;
  expected.output.truth.storage = std::as_bytes(std::span(expected.values));
  return expected;
}

}  // namespace

Result<bool> DependsOnAll(const TimedKernel& kernel, uint64_t seed) {
  const task::Case& wanted = *kernel.cases[0];
  const ChangedArguments usual(wanted, {});
  TRY_ASSIGN(const engine::Run before,
             kernel.program->Execute(*kernel.plans[0], usual.storages(), engine::RunOptions()));
  if (!before.completed) return false;
  Random random(seed);
  for (int probe = 0; probe < kNanProbes; ++probe) {
    const auto change = DrawNan(wanted, random);
    if (!change) return false;
    const ChangedArguments changed(wanted, {*change});
    TRY_ASSIGN(const engine::Run after,
               kernel.program->Execute(*kernel.plans[0], changed.storages(), engine::RunOptions()));
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
                             uint64_t seed)
    : kernel_(kernel), timer_(timer), entrant_(entrant), random_(seed) {}

void KernelSampler::BeginCounting() {
  if (counted_ > 0) return;
  kept_.clear();
  counting_ = true;
}

std::optional<size_t> KernelSampler::PlaceToKeep() {
  const size_t most =
      std::clamp<size_t>(kMostKeptBytes / std::max<uint64_t>(output_bytes_, 1), 1, kMostKept);
  ++counted_;
  if (kept_.size() < most) return kept_.size();
  const uint64_t place = random_.Below(counted_);
  if (place < most) return place;
  return std::nullopt;
}

Result<std::vector<double>> KernelSampler::Take(TimingMode mode, int set, int count) {
  TakeRequest request;
  request.entrant = entrant_;
  request.mode = mode;
  request.set = set;
  request.count = count;
  const task::Case& wanted = *kernel_.cases[static_cast<size_t>(set)];
  // Drawn for this replay: the kernel has seen neither it nor whether anybody will look.
  request.changes = DrawSecrets(wanted, random_);
  std::optional<size_t> place;
  if (mode == TimingMode::kCold && counting_) place = PlaceToKeep();
  // Those of the last warm replay are verified, too.
  if (mode == TimingMode::kWarm) place = kept_.size();
  request.keep_outputs = place.has_value();
  TRY_ASSIGN(Taken taken, timer_.Take(request));
  if (!taken.unsupported.empty()) {
    Refuse({"unsupported", taken.unsupported, ""});
    return std::vector<double>();
  }
  if (!taken.findings.empty()) {
    const engine::Finding& finding = taken.findings.front();
    Refuse({finding.code, finding.message, finding.where});
    return std::vector<double>();
  }
  if (place) {
    output_bytes_ = 0;
    for (const engine::OutputTensor& output : taken.outputs) output_bytes_ += output.bytes.size();
    if (*place == kept_.size()) kept_.emplace_back();
    kept_[*place] = {set, std::move(request.changes), std::move(taken.outputs)};
  }
  return std::move(taken.us);
}

Result<bool> KernelSampler::Verify() {
  for (const Kept& kept : kept_) {
    TRY_ASSIGN(const bool right, VerifyOne(kept));
    if (!right) return false;
    ++verified_;
  }
  return true;
}

Result<bool> KernelSampler::VerifyOne(const Kept& kept) {
  const auto set = static_cast<size_t>(kept.set);
  const task::Case& wanted = *kernel_.cases[set];
  const ChangedArguments arguments(wanted, kept.changes);
  const plan::Plan& plan = *kernel_.plans[set < kernel_.plans.size() ? set : 0];
  TRY_ASSIGN(const engine::Run clean,
             kernel_.program->Execute(plan, arguments.storages(), engine::RunOptions()));
  if (!clean.completed || clean.outputs.size() != kept.outputs.size() ||
      clean.outputs.size() != wanted.outputs.size()) {
    Refuse({"wrong_timed_result", "a replay of what was timed did not complete", ""});
    return false;
  }
  bool visible = false;
  for (size_t i = 0; i < clean.outputs.size(); ++i) {
    if (wanted.outputs[i].is_none) continue;
    const Expected expected = ExpectedFrom(wanted.outputs[i], clean.outputs[i]);
    const judge::Comparison timed = judge::Compare(kept.outputs[i].View(), expected.output);
    if (!timed.ok) {
      Refuse(
          {"wrong_timed_result",
           fmt::format("a timed replay did not compute what its inputs ask for: {}", timed.message),
           fmt::format("output {}", i)});
      return false;
    }
    visible = visible || !judge::Compare(clean.outputs[i].View(), wanted.outputs[i]).ok;
  }
  visible_ += visible ? 1 : 0;
  return true;
}

}  // namespace cupel::assay
