// SPDX-License-Identifier: Apache-2.0
#include "assay/equivalence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/trial.h"
#include "base/clock.h"
#include "base/random.h"
#include "judge/established.h"
#include "judge/shadow.h"

namespace cupel::assay {
namespace {

/// Limit for a run with shadows, in warp instructions: some seconds on two cores.
constexpr double kShadowBudget = 60e6;
/// A run with shadows touches eight times the bytes that it stores, and the oracle computes its
/// cases in double.
constexpr double kStoreBudget = 64e6;
constexpr double kCaseBudget = 256e6;
constexpr std::chrono::seconds kRunDeadline{60};
/// How many other orders to try if the order may matter.
constexpr int kUsualSchedules = 2;
constexpr char kTinyText[] = "; the inputs are scaled by 2^-10, where small terms matter";

/// Adds findings that only a further run found. Counts remain those of the trial itself.
void AddNew(std::vector<records::Finding> more, std::vector<records::Finding>& all) {
  for (records::Finding& finding : more) {
    if (SameFinding(finding, all) == nullptr) all.push_back(std::move(finding));
  }
}

}  // namespace

double Equivalence::Excess(const records::Counters& counters, const task::Case& wanted) {
  double instructions = 0, stored = 0;
  for (const records::LaunchCounters& launch : counters.launches) {
    instructions += static_cast<double>(launch.warp_instructions);
    stored += static_cast<double>(launch.global_store_bytes);
  }
  const auto bytes = static_cast<double>(wanted.mapping.bytes().size());
  return std::max({instructions / kShadowBudget, stored / kStoreBudget, bytes / kCaseBudget});
}

Result<std::optional<engine::Run>> Equivalence::RunTwin(const plan::Plan& plan,
                                                        const task::Case& wanted) {
  std::string note;
  TRY_ASSIGN(std::optional<engine::Run> run, Execute(plan, wanted, false, 0, &note, true));
  if (!run || !run->completed) return std::optional<engine::Run>();
  for (const records::Finding& finding : run->findings) {
    if (finding.severity == records::Severity::kError) return std::optional<engine::Run>();
  }
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    const task::Output& output = wanted.outputs[i];
    if (!output.is_none && !judge::Compare(run->outputs[i].View(), output).ok) {
      return std::optional<engine::Run>();
    }
  }
  return run;
}

Result<std::optional<engine::Run>> Equivalence::RunWithShadows(const plan::Plan& plan,
                                                               const task::Case& wanted) {
  std::string note;
  return Execute(plan, wanted, true, 0, &note);
}

Result<std::optional<engine::Run>> Equivalence::Execute(const plan::Plan& plan,
                                                        const task::Case& wanted, bool shadows,
                                                        uint64_t schedule, std::string* note,
                                                        bool counters) {
  engine::RunOptions options;
  options.seed = Random(context_.seed).Fork(fmt::format("{}/exact", context_.setting->id))();
  options.counters = counters;
  options.shadows = shadows;
  options.schedule = schedule;
  options.cancelled = EndAfter(kRunDeadline, context_.stop);
  const auto storages = task::StoragesOf(wanted.args);
  options.argument_types = task::TypesOf(wanted.args);
  const auto start = std::chrono::steady_clock::now();
  auto run = context_.loaded->program().Execute(plan, storages, options);
  report_.seconds.engine += SecondsSince(start);
  if (run && run->unsupported.empty()) return std::optional(std::move(*run));
  if (!run && IsOurs(run.error(), context_.stop)) return tl::unexpected(run.error());
  *note =
      !run ? (run.error().code == ErrorCode::kCancelled ? "it took too long" : run.error().message)
           : "the emulator does not support " + run->unsupported;
  return std::optional<engine::Run>();
}

bool Equivalence::Accept(engine::Run& run) {
  bool ok = run.completed;
  for (const records::Finding& finding : run.findings) {
    ok = ok && finding.severity != records::Severity::kError;
  }
  AddNew(std::move(run.findings), report_.findings);
  return ok;
}

void Equivalence::Fail(const task::Case& wanted, const char* kind, size_t output,
                       records::Comparison comparison) {
  records::TrialReport trial;
  trial.seed = wanted.seed;
  trial.kind = kind;
  trial.outputs.resize(wanted.outputs.size());
  for (records::Comparison& other : trial.outputs) other.ok = true;
  comparison.ok = false;
  trial.outputs[output] = std::move(comparison);
  report_.trials.push_back(std::move(trial));
  report_.status = records::SettingStatus::kFailed;
}

bool Equivalence::JudgeShadows(const engine::Run& run, const task::Case& wanted, const char* kind) {
  records::Established& established = report_.established;
  ++established.shadow_inputs;
  for (const std::string& name : run.not_followed) {
    if (std::find(established.not_followed.begin(), established.not_followed.end(), name) ==
        established.not_followed.end()) {
      established.not_followed.push_back(name);
    }
  }
  const bool tiny = std::string_view(kind) == "tiny";
  bool ok = true;
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const task::Output& output = wanted.outputs[i];
    if (output.is_none) continue;
    const judge::ShadowComparison shadow = judge::CompareShadows(run.outputs[i], output);
    judge::Add(established, i, output.name, shadow, !tiny);
    if (!ok) continue;
    if (shadow.ok() && !tiny && !shadow.unexplained.empty()) {
      ok = false;
      records::Comparison comparison;
      comparison.code = "wrong_result";
      comparison.message = fmt::format(
          "the errors of {} of {} elements are within the tolerance of a 16-bit type, but {}",
          shadow.reset, shadow.count, shadow.unexplained);
      comparison.count = shadow.count;
      comparison.wrong_count = shadow.reset;
      Fail(wanted, kind, i, std::move(comparison));
      continue;
    }
    if (shadow.ok()) {
      // If a shadow was lost and disagrees, the value is judged instead. On usual inputs it
      // already was.
      if (tiny && !shadow.established()) ok = JudgeTinyValues(run, wanted, i);
      continue;
    }
    ok = false;
    records::Comparison comparison;
    comparison.code = "not_equivalent";
    comparison.message = judge::DisagreementText(shadow);
    if (tiny) {
      comparison.message += kTinyText;
    }
    comparison.count = shadow.count;
    comparison.wrong_count = shadow.disagree;
    comparison.max_error = comparison.rms_error = shadow.largest;
    comparison.max_limit = comparison.rms_limit = shadow.limit;
    comparison.first_wrong.push_back({shadow.first, shadow.first_shadow, shadow.first_truth});
    Fail(wanted, kind, i, std::move(comparison));
  }
  return ok;
}

bool Equivalence::JudgeTinyValues(const engine::Run& run, const task::Case& wanted, size_t output) {
  const engine::OutputTensor& got = run.outputs[output];
  const std::vector<std::byte> bytes = judge::BytesWithAgreeingShadows(got, wanted.outputs[output]);
  task::Tensor view = got.View();
  view.storage = bytes;
  records::Comparison comparison = judge::Compare(view, wanted.outputs[output]);
  if (comparison.ok) return true;
  comparison.message += kTinyText;
  Fail(wanted, "tiny", output, std::move(comparison));
  return false;
}

Result<bool> Equivalence::TryShadows(const plan::Plan& plan, const task::Case& wanted) {
  TRY_ASSIGN(std::optional<engine::Run> run,
             Execute(plan, wanted, true, 0, &report_.established.shadow_note));
  if (!run) return true;
  if (!Accept(*run) || !JudgeShadows(*run, wanted, "shadow")) return false;
  return TrySchedules(plan, wanted, *run);
}

Result<bool> Equivalence::TryTiny(const plan::Plan& plan, const task::Case& wanted) {
  const bool shadows = context_.question->shadows;
  std::string note;
  TRY_ASSIGN(std::optional<engine::Run> run, Execute(plan, wanted, shadows, 0, &note));
  if (!run) return true;
  if (!Accept(*run)) return false;
  if (shadows) {
    if (!JudgeShadows(*run, wanted, "tiny")) return false;
    ++report_.established.tiny_inputs;
    return true;
  }
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    if (!wanted.outputs[i].is_none && !JudgeTinyValues(*run, wanted, i)) return false;
  }
  ++report_.established.tolerance_inputs;
  return true;
}

Result<bool> Equivalence::TryIntegers(const plan::Plan& plan, const task::Case& wanted) {
  TRY_ASSIGN(std::optional<engine::Run> run,
             Execute(plan, wanted, false, 0, &report_.established.exact_note));
  if (!run) return true;
  if (!Accept(*run)) return false;
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    if (wanted.outputs[i].is_none) continue;
    records::Comparison comparison =
        judge::CompareExactly(run->outputs[i].View(), wanted.outputs[i]);
    if (comparison.ok) continue;
    Fail(wanted, "integers", i, std::move(comparison));
    return false;
  }
  ++report_.established.exact_inputs;
  return true;
}

Result<bool> Equivalence::TrySchedules(const plan::Plan& plan, const task::Case& wanted,
                                       const engine::Run& usual) {
  const int asked = context_.question->schedules;
  const int count = asked >= 0 ? asked : (usual.order_matters ? kUsualSchedules : 0);
  for (int schedule = 1; schedule <= count; ++schedule) {
    TRY_ASSIGN(std::optional<engine::Run> run,
               Execute(plan, wanted, true, static_cast<uint64_t>(schedule),
                       &report_.established.schedule_note));
    if (!run) return true;
    if (!Accept(*run)) return false;
    for (size_t i = 0; i < run->outputs.size(); ++i) {
      const task::Output& output = wanted.outputs[i];
      if (output.is_none) continue;
      const int64_t at = judge::FirstOrderDependence(usual.outputs[i], run->outputs[i]);
      records::Comparison values = judge::Compare(run->outputs[i].View(), output);
      if (at < 0 && values.ok) continue;
      const std::string what = at >= 0
                                   ? fmt::format("element [{}] changes by more than rounding",
                                                 fmt::join(task::IndexOf(at, output.shape), ", "))
                                   : values.message;
      values.code = "order_dependence";
      values.message = fmt::format(
          "the result depends on the order in which blocks and warps run: under another fair order "
          "(schedule {}) {}",
          schedule, what);
      Fail(wanted, "schedule", i, std::move(values));
      return false;
    }
    ++report_.established.schedules;
  }
  return true;
}

}  // namespace cupel::assay
