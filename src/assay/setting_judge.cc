// SPDX-License-Identifier: Apache-2.0
#include "assay/setting_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "assay/cases.h"
#include "assay/contract.h"
#include "assay/derived.h"
#include "assay/device_state.h"
#include "assay/equivalence.h"
#include "assay/few_inputs.h"
#include "assay/kept_memory.h"
#include "assay/other_inputs.h"
#include "assay/sampled_run.h"
#include "assay/trial.h"
#include "assay/twin.h"
#include "base/random.h"
#include "judge/compare.h"
#include "judge/controls.h"
#include "plan/twice.h"

namespace cupel::assay {
namespace {

/// The state of one setting across its trials.
class SettingRun {
 public:
  explicit SettingRun(const SettingContext& context) : context_(context) {
    result_.report.id = context.setting->id;
    result_.report.kind = context.setting->kind;
    result_.report.description = context.setting->Describe();
    result_.report.derived = context.setting->derived;
    result_.report.reduced = context.setting->reduced;
    trials_ = TrialsAt(*context.setting, context.question->trials);
  }

  Result<SettingResult> Run() {
    TRY(RunTrials());
    ConvertRefusalToLimit(result_.report);
    return std::move(result_);
  }

 private:
  Status RunTrials() {
    TRY_ASSIGN(auto cases,
               OpenCases(context_, *context_.setting, oracle::Distribution::kUsual, trials_));
    for (int trial = 0; trial < trials_; ++trial) {
      if (context_.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
      context_.begin_trial(
          fmt::format("{} trial {} of {}", context_.setting->id, trial + 1, trials_));
      std::optional<oracle::CaseOutcome> outcome;
      {
        Stopwatch watch(result_.report.seconds.oracle);
        TRY_ASSIGN(outcome, cases->Next());
      }
      if (!outcome) break;
      if (const auto* failure = std::get_if<oracle::SettingFailure>(&*outcome)) {
        result_.report.status = records::SettingStatus::kNoReference;
        result_.report.note = failure->message;
        return {};
      }
      const auto& wanted = std::get<task::Case>(*outcome);
      if (trial == 0) LimitTrials(wanted);
      result_.report.cases.push_back({"usual", wanted.seed, ""});
      if (!TryControls(wanted, trial)) return {};
      TRY_ASSIGN(const bool passed, RunTrial(wanted, trial));
      if (!passed) return {};
      ++result_.report.established.tolerance_inputs;
      if (trial + 1 < trials_) continue;
      TRY_ASSIGN(const bool repeatable, TrySecondCall(wanted));
      if (!repeatable) return {};
      TRY_ASSIGN(const bool stateless, IsStateless(context_, *plan_, wanted, result_.report));
      if (!stateless) return {};
      TRY_ASSIGN(const bool defined, TryFilledVariables(wanted));
      if (!defined) return {};
      TRY_ASSIGN(const bool equivalent, CheckBeyondTolerance(wanted));
      if (!equivalent) return {};
      TRY_ASSIGN(const bool right, TryOtherInputs(wanted));
      if (!right) return {};
    }
    // A repeated record may list fewer cases than trials.
    if (CanJudge()) result_.report.status = records::SettingStatus::kPassed;
    return {};
  }

  void LimitTrials(const task::Case& wanted) {
    if (!context_.question->few_inputs) return;
    const size_t bytes = wanted.mapping.bytes().size();
    trials_ = std::min(trials_, FewInputsAt(bytes, context_.setting->kind).trials);
  }

  /// False if a wrong answer passes, so that the setting cannot distinguish right from wrong.
  bool TryControls(const task::Case& wanted, int trial) {
    if (!context_.tries_controls) return true;
    Stopwatch watch(result_.report.seconds.judge);
    trial == 0 ? controls_.TryFirst(wanted) : controls_.TryOther(wanted);
    result_.report.controls = controls_.all();
    return trial + 1 < trials_ || CanJudge();  // a later case may still detect it
  }

  bool CanJudge() {
    result_.report.note = judge::PassingText(controls_.all());
    if (result_.report.note.empty()) return true;
    result_.report.status = records::SettingStatus::kCannotJudge;
    return false;
  }

  /// Results with a dimension that the task's lack are a limit.
  void NoteDimensions(std::optional<size_t> output, const task::Case& wanted) {
    auto& limits = result_.report.other_inputs.limits;
    const auto is_known = [](const records::Limit& limit) { return limit.kind == "shape"; };
    if (!output || std::ranges::any_of(limits, is_known)) return;
    limits.push_back({"shape", "wrong_shape",
                      fmt::format("returns the shape [1] for {}, and PyTorch a number of shape []",
                                  wanted.outputs[*output].name),
                      "the numbers were compared"});
  }

  /// Records if necessary and checks what the plan returns. False if the setting failed.
  Result<bool> RecordAndCheck(const task::Case& wanted, const task::Setting& setting) {
    TRY_ASSIGN(const bool recorded, RecordIfNeeded(wanted, setting));
    if (!recorded) return false;
    auto broken = ContractProblem(*plan_, wanted);
    if (!broken) return true;
    records::TrialReport report;
    report.seed = wanted.seed;
    report.outputs.push_back(std::move(*broken));
    result_.report.trials.push_back(std::move(report));
    result_.report.status = records::SettingStatus::kFailed;
    return false;
  }

  /// Executes `plan_`. If it changes memory that earlier calls set up, that memory is state: the
  /// call is executed again, without the set-up.
  Result<std::optional<engine::Run>> ExecuteOwn(const task::Case& wanted,
                                                const engine::RunOptions& options) {
    const KeptMemory kept(*plan_);
    if (!kept.is_unwatchable()) {
      if (!kept.is_watched()) return Execute(*plan_, wanted, options);
      TRY_ASSIGN(auto run, Execute(kept.Watching(*plan_), wanted, options));
      if (!run || kept.Check(*run)) return run;
    }
    is_kept_state_ = true;
    if (result_.plan == plan_) result_.plan = WithoutPrepared(*plan_);
    plan_ = WithoutPrepared(std::move(*plan_));
    return Execute(*plan_, wanted, options);
  }

  /// Executes one call. Returns nothing if that is impossible, which decides the setting.
  Result<std::optional<engine::Run>> Execute(const plan::Plan& plan, const task::Case& wanted,
                                             engine::RunOptions options) {
    options.cancelled = EndAfter(kEngineDeadline, context_.stop);
    const auto storages = task::StoragesOf(wanted.args);
    const auto is_right = [&](const engine::Run& sampled) {
      if (!sampled.completed || HasError(sampled.findings)) return false;
      return AllRight(CompareAll(sampled, wanted));
    };
    Stopwatch watch(result_.report.seconds.engine);
    auto run = sampler_.Execute(context_.loaded->program(), plan, storages, options, is_right);
    if (!run) {
      TRY(CannotExecute(run.error()));
      return std::optional<engine::Run>();
    }
    if (run->unsupported.empty()) return std::optional(std::move(*run));
    result_.report.problems.push_back(
        {"unsupported_instruction", "the emulator does not support " + run->unsupported, ""});
    result_.report.unsupported = true;
    return std::optional<engine::Run>();
  }

  /// The first call may do more than later calls, for example allocate a workspace, but its result
  /// must also be correct.
  Result<bool> TryFirstCall(const task::Case& wanted, engine::RunOptions options) {
    const plan::Plan first = *std::exchange(first_, std::nullopt);
    options.counters = false;
    bool right = !ContractProblem(first, wanted);
    if (right) {
      TRY_ASSIGN(std::optional<engine::Run> run, Execute(first, wanted, options));
      if (!run) return false;
      right = run->completed && !HasError(run->findings) && AllRight(CompareAll(*run, wanted));
      Merge(std::move(run->findings), result_.report.findings);
    }
    if (right) {
      right_first_ = first;
      return true;
    }
    result_.report.problems.push_back(
        {"wrong_first_call",
         "with the same arguments, the first call launches other GPU work than later calls, and "
         "its result is wrong",
         result_.report.id});
    result_.report.status = records::SettingStatus::kFailed;
    return false;
  }

  /// A program may use what its construction made only if its calls leave it as it is: the second
  /// call in a row must be right, too. `wanted` passed.
  Result<bool> TrySecondCall(const task::Case& wanted) {
    // A second call would see other arguments if the first one changes them.
    if (plan_->prepared == 0 || wanted.ReturnedOutputs() < wanted.outputs.size()) return true;
    engine::RunOptions options;
    options.seed = Random(context_.seed).Fork(fmt::format("{}/second", context_.setting->id))();
    options.counters = false;
    TRY_ASSIGN(std::optional<engine::Run> run, Execute(plan::TwiceCalled(*plan_), wanted, options));
    if (!run) return false;
    if (run->completed && !HasError(run->findings) && AllRight(CompareAll(*run, wanted))) {
      return true;
    }
    Merge(std::move(run->findings), result_.report.findings);
    result_.report.problems.push_back(
        {"impure",
         "the second call's result is wrong: calls change what the program's construction made",
         result_.report.id});
    result_.report.status = records::SettingStatus::kFailed;
    return false;
  }

  /// Host code may leave variables undefined, and their bytes may reach the GPU in a structure or a
  /// table. The result must be right with other bytes, too. `wanted` passed with `plan_`.
  Result<bool> TryFilledVariables(const task::Case& wanted) {
    TRY_ASSIGN(record::CallRecorder * recorder, context_.filled_recorder());
    if (recorder == nullptr) return true;
    const std::string function(task::Name(context_.question->direction));
    std::optional<record::Outcome> outcome;
    {
      Stopwatch watch(result_.report.seconds.record);
      TRY_ASSIGN(outcome, recorder->Survey(function, wanted.args, *context_.setting));
    }
    if (const auto* refusal = std::get_if<record::Refusal>(&*outcome)) {
      return DependsOnUndefined(refusal->message);  // the usual host code was not refused
    }
    auto& recording = std::get<record::Recording>(*outcome);
    for (auto* plan : {recording.first ? &*recording.first : nullptr, &recording.plan}) {
      if (plan == nullptr) continue;
      if (is_kept_state_) *plan = WithoutPrepared(std::move(*plan));
      FitToCase(*plan, wanted);
      if (*plan == *plan_ || (right_first_ && *plan == *right_first_)) continue;
      TRY_ASSIGN(const std::string problem, ProblemOf(*plan, wanted));
      if (problem.empty()) continue;
      // A rare error of the kernel would be no fault of the host code.
      TRY_ASSIGN(const std::string usual_problem, ProblemOf(*plan_, wanted));
      if (usual_problem.empty()) return DependsOnUndefined(problem);
    }
    return true;
  }

  /// What is wrong with the work of this plan; empty if nothing is. Does not change the report.
  Result<std::string> ProblemOf(const plan::Plan& plan, const task::Case& wanted) {
    if (ContractProblem(plan, wanted)) return "the result has another shape or type";
    engine::RunOptions options;
    options.seed = Random(context_.seed).Fork(fmt::format("{}/filled", context_.setting->id))();
    options.counters = false;
    options.max_warp_instructions = BudgetFor(result_.report.counters);
    options.cancelled = EndAfter(kEngineDeadline, context_.stop);
    const auto is_right = [&](const engine::Run& run) {
      return run.completed && !HasError(run.findings) && AllRight(CompareAll(run, wanted));
    };
    Stopwatch watch(result_.report.seconds.engine);
    auto run = SampledRunner().Execute(context_.loaded->program(), plan,
                                       task::StoragesOf(wanted.args), options, is_right);
    if (!run) {
      if (IsOurs(run.error(), context_.stop)) return tl::unexpected(run.error());
      // Slow, not wrong: a loop without an end exceeds the budget first.
      return run.error().code == ErrorCode::kCancelled ? std::string() : run.error().message;
    }
    if (!run->unsupported.empty()) return "the emulator does not support " + run->unsupported;
    for (const records::Finding& finding : run->findings) {
      if (finding.severity == records::Severity::kError) return finding.message;
    }
    if (!run->completed) return "the work does not complete";
    for (const records::Comparison& output : CompareAll(*run, wanted)) {
      if (!output.ok) return output.message;
    }
    return std::string();
  }

  bool DependsOnUndefined(const std::string& what) {
    result_.report.problems.push_back(
        {"undefined_variable",
         fmt::format("the result depends on variables that the host code leaves undefined (set all "
                     "members of structures, for example with {{}}); if their bytes are 0xfe: {}",
                     what),
         result_.report.id});
    result_.report.status = records::SettingStatus::kFailed;
    return false;
  }

  /// False if the setting is decided: refused, unsupported or failed.
  Result<bool> RunTrial(const task::Case& wanted, int trial) {
    result_.torch_version = wanted.torch_version;
    TRY_ASSIGN(const bool recorded, RecordAndCheck(wanted, *context_.setting));
    if (!recorded) return false;

    engine::RunOptions options;
    options.seed = Random(context_.seed).Fork(fmt::format("{}/{}", context_.setting->id, trial))();
    options.full_checks = trial == 0;
    options.poison = trial % 3;
    options.counters = trial == 0;
    TRY_ASSIGN(std::optional<engine::Run> executed, ExecuteOwn(wanted, options));
    if (!executed) return false;
    engine::Run& run = *executed;
    if (trial == 0) result_.report.counters = std::move(run.counters);

    records::TrialReport report;
    report.seed = wanted.seed;
    report.emulated_blocks = run.emulated_blocks;
    report.all_blocks = run.all_blocks;
    const bool clean = run.completed && !HasError(run.findings);
    Merge(std::move(run.findings), result_.report.findings);
    if (run.completed) {
      Stopwatch watch(result_.report.seconds.judge);
      report.outputs = CompareAll(run, wanted);
    }
    report.ok = clean && AllRight(report.outputs);
    const bool ok = report.ok;
    result_.report.trials.push_back(std::move(report));
    if (!ok) result_.report.status = records::SettingStatus::kFailed;
    if (ok && first_) return TryFirstCall(wanted, options);
    return ok;
  }

  /// Checks what the tolerance cannot detect, at this setting or, if it is too large, at a smaller
  /// one. `last` passed.
  Result<bool> CheckBeyondTolerance(const task::Case& last) {
    const Question& question = *context_.question;
    if (!question.shadows && !question.integers) return true;
    context_.begin_trial(fmt::format("{} beyond the tolerance", context_.setting->id));
    Equivalence equivalence(context_, result_.report);
    const double excess = Equivalence::Excess(result_.report.counters, last);
    if (excess > 1) return TryTwin(excess, equivalence);
    if (question.shadows) {
      TRY_ASSIGN(const bool equal, equivalence.TryShadows(*plan_, last));
      if (!equal) return false;
    }
    return RunSpecialTrials(*context_.setting, equivalence);
  }

  /// Uses sizes that the task does not require: a kernel that fails there is not penalised.
  Result<bool> TryTwin(double excess, Equivalence& equivalence) {
    records::Established& established = result_.report.established;
    established.shadow_note = established.exact_note =
        fmt::format("{:.2g} times too large", excess);
    // Four times smaller than necessary, because several runs follow.
    const auto twin = SmallerTwin(*context_.setting, 4 * excess);
    if (!twin) return true;
    TRY_ASSIGN(auto wanted, CaseOf(*twin, oracle::Distribution::kUsual));
    if (!wanted) return true;
    TRY_ASSIGN(const bool recorded, RecordQuietly(*wanted, *twin));
    if (!recorded) return true;
    TRY_ASSIGN(const auto run, equivalence.RunTwin(*plan_, *wanted));
    if (!run || Equivalence::Excess(run->counters, *wanted) > 1) return true;
    established.shadow_note = established.exact_note = "";
    established.twin = twin->Describe();
    if (context_.question->shadows) {
      TRY_ASSIGN(const bool equal, equivalence.TryShadows(*plan_, *wanted));
      if (!equal) return false;
    }
    return RunSpecialTrials(*twin, equivalence);
  }

  /// Cases of other distributions, judged only beyond the tolerance.
  Result<bool> RunSpecialTrials(const task::Setting& setting, Equivalence& equivalence) {
    const Question& question = *context_.question;
    if (question.integers) {
      TRY_ASSIGN(auto wanted, CaseOf(setting, oracle::Distribution::kIntegers));
      if (!wanted) {
        result_.report.established.exact_note =
            question.task->domain.Excludes(oracle::Distribution::kIntegers)
                ? "the task's domain excludes them"
                : "the task is not exact on small integers";
      } else {
        TRY_ASSIGN(const bool recorded, RecordAndCheck(*wanted, setting));
        if (!recorded) return false;
        TRY_ASSIGN(const bool equal, equivalence.TryIntegers(*plan_, *wanted));
        if (!equal) return false;
      }
    }
    TRY_ASSIGN(auto wanted, CaseOf(setting, oracle::Distribution::kTiny));
    if (!wanted) return true;
    TRY_ASSIGN(const bool recorded, RecordAndCheck(*wanted, setting));
    if (!recorded) return false;
    return equivalence.TryTiny(*plan_, *wanted);
  }

  Result<std::optional<task::Case>> CaseOf(const task::Setting& setting,
                                           oracle::Distribution distribution) {
    if (context_.question->task->domain.Excludes(distribution)) return std::optional<task::Case>();
    Stopwatch watch(result_.report.seconds.oracle);
    TRY_ASSIGN(auto cases, OpenCases(context_, setting, distribution));
    TRY_ASSIGN(auto outcome, cases->Next());
    if (!outcome || std::holds_alternative<oracle::SettingFailure>(*outcome)) {
      return std::optional<task::Case>();
    }
    auto& found = std::get<task::Case>(*outcome);
    result_.report.cases.push_back(UsedCaseOf(context_, setting, distribution, found));
    return std::optional<task::Case>(std::move(found));
  }

  /// Inputs that the task does not draw itself. `last` passed.
  Result<bool> TryOtherInputs(const task::Case& last) {
    // At derived sizes, the usual trials are enough.
    if (context_.question->distributions.empty() || !context_.setting->derived.empty()) return true;
    context_.begin_trial(fmt::format("{} on other inputs", context_.setting->id));
    // The recording of a twin may have replaced the setting's own.
    TRY_ASSIGN(const bool recorded, RecordAndCheck(last, *context_.setting));
    if (!recorded) return false;
    return OtherInputTrials(context_, result_.report, sampler_).Run(*plan_, last, reads_values_);
  }

  /// Like RecordAndCheck, but a refusal does not change the report.
  Result<bool> RecordQuietly(const task::Case& wanted, const task::Setting& setting) {
    records::SettingReport& report = result_.report;
    const size_t problems = report.problems.size(), trials = report.trials.size();
    const records::SettingStatus status = report.status;
    const bool unsupported = report.unsupported;
    TRY_ASSIGN(const bool recorded, RecordAndCheck(wanted, setting));
    if (recorded) return true;
    report.problems.resize(problems);
    report.trials.resize(trials);
    report.status = status;
    report.unsupported = unsupported;
    return false;
  }

  /// A plan may need more memory or time than this machine has. That is the candidate's fault and
  /// must not end a run of many candidates. Other users of the machine are not its fault.
  Result<bool> CannotExecute(const Error& error) {
    if (IsOurs(error, context_.stop)) return tl::unexpected(error);
    const std::string message =
        error.code == ErrorCode::kCancelled
            ? fmt::format("one call did not finish within {} s in the emulator",
                          std::chrono::seconds(kEngineDeadline).count())
            : error.message;
    result_.report.problems.push_back({"cannot_execute", message, result_.report.id});
    result_.report.unsupported = true;
    result_.report.status = records::SettingStatus::kFailed;
    return false;
  }

  Result<bool> RecordIfNeeded(const task::Case& wanted, const task::Setting& setting) {
    std::string key = RecordingKey(wanted.args, reads_values_);
    if (plan_ && key == key_) return true;
    Stopwatch watch(result_.report.seconds.record);
    const std::string function(task::Name(context_.question->direction));
    TRY_ASSIGN(record::Outcome outcome, context_.recorder->Record(function, wanted.args, setting));
    if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
      result_.report.problems.push_back(
          {std::move(refusal->code), std::move(refusal->message), std::move(refusal->where)});
      result_.report.unsupported = refusal->unsupported;
      result_.report.status = records::SettingStatus::kFailed;
      return false;
    }
    auto& recording = std::get<record::Recording>(outcome);
    if (const Status loaded = context_.loaded->Use(recording.images); !loaded) {
      if (!IsUnsupportedCode(loaded.error())) return tl::unexpected(loaded.error());
      result_.report.problems.push_back({"unsupported_instruction", loaded.error().message, ""});
      result_.report.unsupported = true;
      result_.report.status = records::SettingStatus::kFailed;
      return false;
    }
    result_.searches = std::move(recording.searches);
    if (!result_.plan)
      result_.report.seconds.host_us = recording.host_us;  // not for a smaller twin
    plan_ = is_kept_state_ ? WithoutPrepared(std::move(recording.plan)) : std::move(recording.plan);
    first_ = std::move(recording.first);
    NoteDimensions(FitToCase(*plan_, wanted), wanted);
    if (first_) FitToCase(*first_, wanted);
    reads_values_ = recording.reads_values;
    key_ = RecordingKey(wanted.args, reads_values_);
    context_.NoteWork(*plan_);
    if (!result_.plan) {
      result_.plan = plan_;
      result_.images = std::move(recording.images);
      result_.notes = std::move(recording.notes);
    }
    return true;
  }

  SettingContext context_;
  SettingResult result_;
  judge::Controls controls_;
  int trials_ = 0;
  std::optional<plan::Plan> plan_;
  std::optional<plan::Plan> first_;        // of the first call, until it was tried
  std::optional<plan::Plan> right_first_;  // the last one that was right
  SampledRunner sampler_;
  bool reads_values_ = false;   // Recording::reads_values of plan_
  bool is_kept_state_ = false;  // calls change what earlier ones set up
  std::string key_;
};

}  // namespace

void SettingContext::NoteWork(const plan::Plan& plan) const {
  const plan::OwnWork found = plan::OwnWorkIn(plan);
  own_work->kernels |= found.kernels;
  own_work->products |= found.products;
  for (const plan::Node& node : plan.nodes) {
    if (const auto* launch = std::get_if<plan::Launch>(&node.work))
      launched->insert(launch->kernel);
    if (const auto* work = std::get_if<plan::Operator>(&node.work)) operators->insert(work->name);
  }
}

Result<SettingResult> JudgeSetting(const SettingContext& context) {
  return SettingRun(context).Run();
}

}  // namespace cupel::assay
