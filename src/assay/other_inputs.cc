// Tested by tests/e2e/test_inputs.py.
// SPDX-License-Identifier: Apache-2.0
#include "assay/other_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/cases.h"
#include "assay/contract.h"
#include "assay/few_inputs.h"
#include "assay/trial.h"
#include "assay/twin.h"
#include "base/random.h"

namespace cupel::assay {
namespace {

using task::Distribution;

/// Limits up to which all inputs are tried: warp instructions of a run (a twentieth of a second on
/// two cores) and bytes of a case.
constexpr double kEasyInstructions = 10e6;
constexpr double kEasyBytes = 16e6;
/// How many inputs are tried if neither the setting nor a smaller one is within these limits.
constexpr size_t kFew = 2;

/// How many times too large the setting is; at most 1 if it is small enough.
double Excess(const records::Counters& counters, const task::Case& wanted) {
  return std::max(static_cast<double>(WarpInstructions(counters)) / kEasyInstructions,
                  static_cast<double>(wanted.mapping.bytes().size()) / kEasyBytes);
}

}  // namespace

void OtherInputTrials::Skip(Distribution distribution, std::string why) {
  report_.other_inputs.not_tried.push_back({std::string(Name(distribution)), std::move(why)});
}

std::vector<Distribution> OtherInputTrials::Asked() {
  const task::Domain& domain = context_.question->task->domain;
  const auto& wanted = context_.question->distributions;
  std::vector<Distribution> asked;
  for (const Distribution distribution : task::OtherInputs()) {
    if (std::find(wanted.begin(), wanted.end(), distribution) == wanted.end()) {
      Skip(distribution, "not requested");
    } else if (domain.Excludes(distribution)) {
      Skip(distribution, "the task's domain excludes it");
    } else {
      asked.push_back(distribution);
    }
  }
  return asked;
}

Result<bool> OtherInputTrials::Run(const plan::Plan& plan, const task::Case& last,
                                   bool reads_values) {
  plan_ = plan;
  reads_values_ = reads_values;
  key_ = RecordingKey(last.args, reads_values_);
  TRY_ASSIGN(auto kinds, Choose(Asked(), last));
  std::unique_ptr<oracle::Oracle::Stream> next;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (context_.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    if (most_kinds_ && report_.other_inputs.tried.size() >= *most_kinds_) {
      Skip(kinds[i], context_.question->few_inputs ? "the emulator tries it"
                                                   : "the setting is too large to try all");
      continue;
    }
    if (!next) {
      TRY_ASSIGN(next, OpenCases(context_, *setting_, kinds[i]));
    }
    const auto cases = std::exchange(next, nullptr);
    if (!most_kinds_ && i + 1 < kinds.size()) {
      // The oracle computes this case while the current one is judged.
      TRY_ASSIGN(next, OpenCases(context_, *setting_, kinds[i + 1]));
    }
    TRY_ASSIGN(const bool right, TryOne(kinds[i], *cases));
    if (!right) return false;
    // The few kinds that are tried must include one that randomises every parameter.
    const auto later = kinds.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto uniform = std::find(later, kinds.end(), Distribution::kUniform);
    if (most_kinds_ && report_.other_inputs.tried.empty() && uniform != kinds.end()) {
      std::iter_swap(later, uniform);
    }
  }
  return true;
}

Result<std::vector<Distribution>> OtherInputTrials::Choose(std::vector<Distribution> asked,
                                                           const task::Case& last) {
  if (asked.empty()) return asked;
  if (context_.question->few_inputs) {
    most_kinds_ = FewInputsAt(last.mapping.bytes().size(), context_.setting->kind).kinds;
  } else {
    excess_ = Excess(report_.counters, last);
    if (excess_ <= 1) return asked;
    TRY_ASSIGN(const bool moved, MoveToTwin());
    if (moved) return asked;
    most_kinds_ = kFew;
  }
  // Judged kinds first, starting with one that randomises every parameter. The seed chooses the
  // others.
  const auto judged =
      std::stable_partition(asked.begin(), asked.end(), [&](Distribution d) { return Judges(d); });
  Random random = Random(context_.seed).Fork(fmt::format("{}/inputs", context_.setting->id));
  for (auto left = judged - asked.begin(); left > 2; --left) {
    const auto other =
        1 + static_cast<std::ptrdiff_t>(random.Below(static_cast<uint64_t>(left - 1)));
    std::swap(asked[static_cast<size_t>(left - 1)], asked[static_cast<size_t>(other)]);
  }
  return asked;
}

bool OtherInputTrials::Judges(Distribution distribution) const {
  const bool is_layout =
      distribution == Distribution::kStrided || distribution == Distribution::kShifted;
  return context_.question->task->domain.Judges(distribution) ||
         (is_layout && context_.question->strict_layouts);
}

/// Uses sizes that the task does not require: a kernel that does not handle them is not penalised.
Result<bool> OtherInputTrials::MoveToTwin() {
  twin_ = SmallerTwin(*context_.setting, 2 * excess_);
  if (!twin_) return false;
  TRY_ASSIGN(const auto cases, OpenCases(context_, *twin_));
  std::optional<oracle::CaseOutcome> outcome;
  {
    Stopwatch watch(report_.seconds.oracle);
    TRY_ASSIGN(outcome, cases->Next());
  }
  const auto* wanted = outcome ? std::get_if<task::Case>(&*outcome) : nullptr;
  if (wanted == nullptr) return false;
  const auto own_plan = plan_;
  const std::string own_key = key_;
  const bool own_reads = reads_values_;
  const task::Setting* const own_setting = std::exchange(setting_, &*twin_);
  TRY_ASSIGN(const Attempt attempt, Try(*wanted, Distribution::kUsual, false));
  if (attempt.ok && Excess(attempt.counters, *wanted) <= 1) {
    report_.cases.push_back(UsedCaseOf(context_, *twin_, Distribution::kUsual, *wanted));
    report_.other_inputs.at = twin_->Describe();
    return true;
  }
  plan_ = own_plan;
  key_ = own_key;
  reads_values_ = own_reads;
  setting_ = own_setting;
  return false;
}

Result<bool> OtherInputTrials::TryOne(Distribution distribution, oracle::Oracle::Stream& cases) {
  std::optional<oracle::CaseOutcome> outcome;
  {
    Stopwatch watch(report_.seconds.oracle);
    TRY_ASSIGN(outcome, cases.Next());
  }
  if (!outcome) return true;
  if (const auto* failure = std::get_if<oracle::SettingFailure>(&*outcome)) {
    Skip(distribution, failure->message);
    return true;
  }
  const auto& wanted = std::get<task::Case>(*outcome);
  const bool judged = Judges(distribution);
  TRY_ASSIGN(Attempt attempt, Try(wanted, distribution, judged));
  // A program makes its parameters itself, and the user of a launch description its tensors.
  if (!judged && attempt.refusal && attempt.refusal->code == "wrong_arguments") {
    attempt.not_executed = attempt.refusal->message;
  }
  if (!attempt.not_executed.empty()) {
    Skip(distribution, attempt.not_executed);
    return true;
  }
  report_.cases.push_back(UsedCaseOf(context_, *setting_, distribution, wanted));
  report_.other_inputs.tried.emplace_back(Name(distribution));
  if (judged) return AddTrial(std::move(attempt), distribution);
  if (!attempt.ok) AddLimit(attempt, distribution);
  return true;
}

/// Records if necessary. Returns an attempt if the trial ends here.
Result<std::optional<OtherInputTrials::Attempt>> OtherInputTrials::Record(const task::Case& wanted,
                                                                          bool judged) {
  const std::string key = RecordingKey(wanted.args, reads_values_);
  if (key != key_) {
    Stopwatch watch(report_.seconds.record);
    record::CallRecorder* recorder = context_.recorder;
    if (!judged) {
      TRY_ASSIGN(recorder, context_.spare_recorder());
    }
    const std::string function(task::Name(context_.question->direction));
    TRY_ASSIGN(record::Outcome outcome, recorder->Record(function, wanted.args, *setting_));
    if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
      Attempt attempt;
      if (refusal->unsupported) attempt.not_executed = "unsupported: " + refusal->message;
      attempt.refusal = {std::move(refusal->code), std::move(refusal->message),
                         std::move(refusal->where)};
      return std::optional(std::move(attempt));
    }
    auto& recording = std::get<record::Recording>(outcome);
    TRY(context_.loaded->Use(recording.images));
    plan_ = std::move(recording.plan);
    FitToCase(*plan_, wanted);
    context_.NoteWork(*plan_);
    reads_values_ = recording.reads_values;
    key_ = RecordingKey(wanted.args, reads_values_);
  }
  if (auto broken = ContractProblem(*plan_, wanted)) {
    Attempt attempt;
    attempt.trial.seed = wanted.seed;
    attempt.trial.outputs.push_back(std::move(*broken));
    return std::optional(std::move(attempt));
  }
  return std::optional<Attempt>();
}

Result<OtherInputTrials::Attempt> OtherInputTrials::Try(const task::Case& wanted,
                                                        Distribution distribution, bool judged) {
  TRY_ASSIGN(auto ended, Record(wanted, judged));
  if (ended) return std::move(*ended);
  engine::RunOptions options;
  options.seed =
      Random(context_.seed).Fork(fmt::format("{}/{}", context_.setting->id, Name(distribution)))();
  options.poison = static_cast<int>(distribution) % 3;
  options.counters = distribution == Distribution::kUsual;
  options.max_warp_instructions = BudgetFor(report_.counters);
  options.cancelled = EndAfter(kEngineDeadline, context_.stop);
  Attempt attempt;
  engine::Run run;
  {
    Stopwatch watch(report_.seconds.engine);
    const auto is_right = [&](const engine::Run& sampled) {
      return sampled.completed && !HasError(sampled.findings) &&
             AllRight(CompareAll(sampled, wanted));
    };
    SampledRunner of_twin;
    SampledRunner& sampler = setting_ == context_.setting ? *sampler_ : of_twin;
    auto executed = sampler.Execute(context_.loaded->program(), *plan_,
                                    task::StoragesOf(wanted.args), options, is_right);
    if (!executed) {
      const Error& error = executed.error();
      if (IsOurs(error, context_.stop)) return tl::unexpected(error);
      attempt.not_executed = error.code == ErrorCode::kCancelled
                                 ? "it took too long"
                                 : "cannot execute: " + error.message;
      return attempt;
    }
    run = std::move(*executed);
  }
  if (!run.unsupported.empty()) {
    attempt.not_executed = "unsupported: the emulator does not support " + run.unsupported;
    return attempt;
  }
  attempt.trial.seed = wanted.seed;
  attempt.trial.emulated_blocks = run.emulated_blocks;
  attempt.trial.all_blocks = run.all_blocks;
  attempt.counters = std::move(run.counters);
  if (run.completed) {
    Stopwatch watch(report_.seconds.judge);
    attempt.trial.outputs = CompareAll(run, wanted);
  }
  attempt.ok = attempt.trial.ok =
      run.completed && !HasError(run.findings) && AllRight(attempt.trial.outputs);
  attempt.findings = std::move(run.findings);
  return attempt;
}

bool OtherInputTrials::AddTrial(Attempt attempt, Distribution distribution) {
  if (attempt.refusal) {
    report_.problems.push_back(std::move(*attempt.refusal));
    report_.status = records::SettingStatus::kFailed;
    return false;
  }
  Merge(std::move(attempt.findings), report_.findings);
  attempt.trial.kind = Name(distribution);
  if (!report_.other_inputs.at.empty()) {
    for (records::Comparison& output : attempt.trial.outputs) {
      if (!output.ok) output.message += "; at the smaller sizes " + report_.other_inputs.at;
    }
  }
  report_.trials.push_back(std::move(attempt.trial));
  if (attempt.ok) {
    ++report_.established.tolerance_inputs;
  } else {
    report_.status = records::SettingStatus::kFailed;
  }
  return attempt.ok;
}

void OtherInputTrials::AddLimit(const Attempt& attempt, Distribution distribution) {
  judge::Failure failure;
  if (attempt.refusal) {
    failure.refused = attempt.refusal->code == "host_exception";
    failure.code = attempt.refusal->code;
    failure.message = attempt.refusal->message;
  } else if (HasError(attempt.findings)) {
    const auto error =
        std::find_if(attempt.findings.begin(), attempt.findings.end(),
                     [](const auto& f) { return f.severity == records::Severity::kError; });
    failure.code = error->code;
    failure.message = error->message;
  } else {
    const auto& outputs = attempt.trial.outputs;
    const auto wrong =
        std::find_if(outputs.begin(), outputs.end(), [](const auto& c) { return !c.ok; });
    failure.code = wrong == outputs.end() ? "trial_failed" : wrong->code;
    failure.message = wrong == outputs.end() ? "the run did not complete" : wrong->message;
    if (wrong != outputs.end()) failure.wrong = &*wrong;
  }
  report_.other_inputs.limits.push_back(judge::LimitOf(distribution, failure));
}

}  // namespace cupel::assay
