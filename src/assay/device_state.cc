// Tested by device_state_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "assay/device_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "assay/trial.h"
#include "engine/state.h"
#include "judge/compare.h"

namespace cupel::assay {
namespace {

using Arguments = std::vector<std::span<const std::byte>>;

constexpr std::chrono::seconds kDeadline{60};
constexpr uint64_t kOneIn = 64;
/// Each draw has a 5 % chance of not exceeding a counter's threshold.
constexpr int kScrambles = 3;
constexpr size_t kMostAlone = 8;  // arguments that are changed one at a time

bool Has(const records::SettingReport& report, std::string_view code) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const records::Finding& finding) { return finding.code == code; });
}

/// True if a call can find state that an earlier call left: in variables, or in memory that it
/// reads before it writes. If the engine does not detect such reads, a workspace of host code is
/// enough.
bool CanRemember(const records::SettingReport& report, const plan::Plan& plan,
                 const engine::StateKeeper& keeper) {
  if (Has(report, "device_state")) return true;
  if (keeper.SeesUnwrittenReads()) return Has(report, "uninitialized_global");
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const plan::Buffer& buffer) {
    return buffer.kind == plan::BufferKind::kWorkspace;
  });
}

/// "the __device__ variables a, b", or a text about memory if there are none.
std::string NamesOf(const records::SettingReport& report) {
  std::string names;
  for (const records::Finding& finding : report.findings) {
    if (finding.code != "device_state") continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", finding.where);
  }
  return names.empty() ? "memory that the kernel does not write first"
                       : "the __device__ variables " + names;
}

bool IsClean(const engine::Run& run) { return run.completed && !HasError(run.findings); }

/// Returns nothing if the engine could not finish.
Result<std::optional<engine::Run>> Execute(const SettingContext& context, const plan::Plan& plan,
                                           const Arguments& arguments, double& seconds) {
  engine::RunOptions options;
  options.seed = Random(context.seed).Fork(fmt::format("{}/state", context.setting->id))();
  options.counters = false;
  const Stopwatch watch(seconds);
  options.cancelled = EndAfter(kDeadline, context.stop);
  auto run = context.loaded->program().Execute(plan, arguments, options);
  if (run) return std::optional(std::move(*run));
  if (IsOurs(run.error(), context.stop)) return tl::unexpected(run.error());
  return std::optional<engine::Run>();
}

void Report(const task::Case& last, size_t output, records::Comparison comparison,
            records::SettingReport& report) {
  comparison.message = fmt::format(
      "the result depends on what earlier calls left in {}: {} of {} elements differ from the "
      "first call's result for the same inputs",
      NamesOf(report), comparison.wrong_count, comparison.count);
  comparison.code = "device_state";
  records::TrialReport trial;
  trial.seed = last.seed;
  trial.kind = "state";
  trial.outputs.resize(last.outputs.size());
  for (records::Comparison& other : trial.outputs) other.ok = true;
  trial.outputs[output] = std::move(comparison);
  report.trials.push_back(std::move(trial));
  report.status = records::SettingStatus::kFailed;
}

/// Returns false and adds a report if an output differs.
bool SameAnswer(const engine::Run& run, const engine::Run& fresh, const task::Case& last,
                records::SettingReport& report) {
  for (size_t i = 0; i < fresh.outputs.size(); ++i) {
    if (last.outputs[i].is_none) continue;
    auto comparison = CompareRuns(run.outputs[i], fresh.outputs[i], last.outputs[i]);
    if (comparison.ok) continue;
    Report(last, i, std::move(comparison), report);
    return false;
  }
  return true;
}

/// All arguments changed, then one at a time: a cache may check only some of them.
std::vector<Arguments> Variations(const Arguments& before,
                                  const std::vector<std::vector<std::byte>>& changed) {
  std::vector<Arguments> variations{Arguments(changed.begin(), changed.end())};
  for (size_t i = 0; i < before.size() && variations.size() <= kMostAlone; ++i) {
    const bool is_changed = !std::equal(before[i].begin(), before[i].end(), changed[i].begin());
    if (!is_changed || before.size() == 1) continue;
    variations.push_back(before);
    variations.back()[i] = changed[i];
  }
  return variations;
}

}  // namespace

std::vector<std::vector<std::byte>> ManyChanged(const std::vector<task::Value>& args,
                                                Random& random) {
  std::vector<std::vector<std::byte>> changed;
  for (const task::Tensor* tensor : task::TensorLeaves(args)) {
    auto& bytes = changed.emplace_back(tensor->storage.begin(), tensor->storage.end());
    if (!IsFloating(tensor->dtype) || tensor->numel() < 2) continue;
    const auto size = static_cast<size_t>(SizeOf(tensor->dtype));
    const uint64_t elements = bytes.size() / size;
    for (uint64_t i = 0; i < std::max<uint64_t>(1, elements / kOneIn); ++i) {
      std::byte* const to = bytes.data() + random.Below(elements) * size;
      const std::byte* const from = tensor->storage.data() + random.Below(elements) * size;
      std::memcpy(to, from, size);
      to[size - 1] ^= std::byte{0x80};  // another element, with the other sign
    }
  }
  return changed;
}

Result<bool> IsStateless(const SettingContext& context, const plan::Plan& plan,
                         const task::Case& last, records::SettingReport& report) {
  auto* const keeper = dynamic_cast<engine::StateKeeper*>(&context.loaded->program());
  if (keeper == nullptr || !CanRemember(report, plan, *keeper)) return true;
  Random random = Random(context.seed).Fork(fmt::format("{}/changes", context.setting->id));
  const auto bytes = ManyChanged(last.args, random);
  const Arguments before = task::StoragesOf(last.args);
  const auto call = [&](const Arguments& arguments) {
    return Execute(context, plan, arguments, report.seconds.engine);
  };
  bool may_scramble = context.may_scramble == nullptr || *context.may_scramble;
  for (const Arguments& changed : Variations(before, bytes)) {
    keeper->KeepState();
    TRY(call(before));  // leaves the answer to `last`
    std::vector<std::optional<engine::Run>> runs(1);
    TRY_ASSIGN(runs[0], call(changed));
    for (int i = 0; may_scramble && i < kScrambles; ++i) {
      keeper->ScrambleState(random());
      TRY_ASSIGN(auto scrambled, call(changed));
      may_scramble = scrambled && scrambled->completed;
      if (context.may_scramble != nullptr) *context.may_scramble = may_scramble;
      runs.push_back(std::move(scrambled));
    }
    may_scramble = false;  // one variation is enough
    keeper->ForgetState();
    TRY_ASSIGN(const auto fresh, call(changed));
    if (!fresh || !IsClean(*fresh)) return true;
    for (const auto& run : runs) {
      // With random numbers a correct barrier may wait forever: a call that does not end proves
      // nothing.
      if (run && IsClean(*run) && !SameAnswer(*run, *fresh, last, report)) return false;
    }
  }
  return true;
}

}  // namespace cupel::assay
