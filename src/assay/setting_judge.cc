// SPDX-License-Identifier: Apache-2.0
#include "assay/setting_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "assay/sampled_run.h"
#include "base/random.h"
#include "judge/compare.h"
#include "os/process.h"

namespace cupel::assay {
namespace {

/// For one call in the emulator; the largest published kernels take a tenth of it on two cores.
constexpr std::chrono::seconds kEngineDeadline{180};

/// Adds the wall time of its own lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void AppendKey(const task::Value& value, std::string& key) {
  struct Visitor {
    std::string& key;
    void operator()(task::None) const { key += "N;"; }
    void operator()(bool b) const { key += b ? "b1;" : "b0;"; }
    void operator()(int64_t i) const { key += fmt::format("i{};", i); }
    void operator()(double d) const { key += fmt::format("d{:a};", d); }
    void operator()(const std::string& s) const { key += fmt::format("s{}:{};", s.size(), s); }
    void operator()(const task::Tensor& t) const {
      key += fmt::format("t{}[{}][{}]+{}/{};", Name(t.dtype), fmt::join(t.shape, ","),
                         fmt::join(t.strides, ","), t.offset, t.storage.size());
      if (t.numel() == 1) {
        const size_t size = static_cast<size_t>(SizeOf(t.dtype));
        const auto* first =
            reinterpret_cast<const char*>(t.storage.data()) + static_cast<size_t>(t.offset) * size;
        key.append(first, size);
      }
    }
    void operator()(const std::vector<task::Value>& items) const {
      key += "(";
      for (const task::Value& item : items) AppendKey(item, key);
      key += ")";
    }
  };
  std::visit(Visitor{key}, value.data);
}

/// A failed comparison that no tensor comparison can express: wrong number or kind of results.
judge::Comparison WrongReturn(std::string message) {
  judge::Comparison comparison;
  comparison.code = "wrong_return";
  comparison.message = std::move(message);
  return comparison;
}

std::string CountOf(bool tuple, size_t n) {
  if (!tuple) return "one tensor";
  return n == 1 ? "a list or tuple of one tensor" : fmt::format("a list or tuple of {} tensors", n);
}

/// What is wrong with a plan's results before anything is executed: their number, types and shapes,
/// which also bounds what an engine has to hand over; and plans that compute nothing.
std::optional<judge::Comparison> ContractProblem(const plan::Plan& plan, const task::Case& wanted) {
  if (plan.returns_tuple != wanted.returns_tuple || plan.outputs.size() != wanted.outputs.size()) {
    std::vector<std::string> names;
    for (const task::Output& output : wanted.outputs) names.push_back(output.name);
    return WrongReturn(fmt::format("returns {}, where the task wants {} ({})",
                                   CountOf(plan.returns_tuple, plan.outputs.size()),
                                   CountOf(wanted.returns_tuple, wanted.outputs.size()),
                                   fmt::join(names, ", ")));
  }
  bool computed = false;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const plan::View& view = plan.outputs[i];
    const task::Output& output = wanted.outputs[i];
    if (output.is_none) continue;
    if (view.address.buffer == plan::kNoneOutput) {
      return WrongReturn(fmt::format("returns None for {}", output.name));
    }
    computed = computed || output.reference.numel() > 0;
    if (view.dtype != output.dtype || view.shape != output.shape) {
      task::Tensor shape_alone;
      shape_alone.dtype = view.dtype;
      shape_alone.shape = view.shape;
      return judge::Compare(shape_alone, output);
    }
  }
  if (computed && plan.nodes.empty()) {
    return WrongReturn(
        "asks for no device work once it has been called a few times: it returns memory that an "
        "earlier call filled, or an input");
  }
  return std::nullopt;
}

std::vector<judge::Comparison> CompareAll(const engine::Run& run, const task::Case& wanted) {
  std::vector<judge::Comparison> comparisons;
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const task::Output& output = wanted.outputs[i];
    judge::Comparison comparison;
    comparison.ok = output.is_none;  // the task ignores this position, whatever is there
    const engine::OutputTensor& got = run.outputs[i];
    if (!output.is_none) {
      comparison =
          got.is_sampled ? judge::CompareWritten(got, output) : judge::Compare(got.View(), output);
    }
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

bool HasError(const std::vector<engine::Finding>& findings) {
  for (const engine::Finding& finding : findings) {
    if (finding.severity == engine::Severity::kError) return true;
  }
  return false;
}

/// Adds findings of a further trial; the same code at the same line is one finding.
void Merge(std::vector<engine::Finding> more, std::vector<engine::Finding>& all) {
  for (engine::Finding& finding : more) {
    bool known = false;
    for (engine::Finding& old : all) {
      if (old.code == finding.code && old.kernel == finding.kernel && old.line == finding.line) {
        old.count += finding.count;
        known = true;
        break;
      }
    }
    if (!known) all.push_back(std::move(finding));
  }
}

/// The state of one setting between its trials.
class SettingRun {
 public:
  explicit SettingRun(const SettingContext& context) : context_(context) {
    result_.report.id = context.setting->id;
    result_.report.kind = task::Name(context.setting->kind);
    result_.report.description = context.setting->Describe();
  }

  Result<SettingResult> Run() {
    const Question& question = *context_.question;
    TRY_ASSIGN(auto cases,
               context_.oracle->Open(*question.task, question.direction, *context_.setting,
                                     question.trials, question.seed, question.fresh_cases));
    for (int trial = 0; trial < question.trials; ++trial) {
      if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
      context_.begin_trial(
          fmt::format("{} trial {} of {}", context_.setting->id, trial + 1, question.trials));
      std::optional<oracle::CaseOutcome> outcome;
      {
        Stopwatch watch(result_.report.oracle_seconds);
        TRY_ASSIGN(outcome, cases->Next());
      }
      if (!outcome) break;
      if (const auto* failure = std::get_if<oracle::SettingFailure>(&*outcome)) {
        result_.report.status = "no_reference";
        result_.report.note = failure->message;
        return std::move(result_);
      }
      TRY_ASSIGN(const bool go_on, RunTrial(std::get<task::Case>(*outcome), trial));
      if (!go_on) return std::move(result_);
    }
    result_.report.status = "passed";
    return std::move(result_);
  }

 private:
  /// False when the setting is decided: refused, unsupported or failed.
  Result<bool> RunTrial(const task::Case& wanted, int trial) {
    result_.torch_version = wanted.torch_version;
    TRY_ASSIGN(const bool recorded, RecordIfNeeded(wanted));
    if (!recorded) return false;

    if (auto broken = ContractProblem(*plan_, wanted)) {
      judge::TrialReport report;
      report.seed = wanted.seed;
      report.outputs.push_back(std::move(*broken));
      result_.report.trials.push_back(std::move(report));
      result_.report.status = "failed";
      return false;
    }

    engine::RunOptions options;
    options.seed = Random(context_.seed).Fork(fmt::format("{}/{}", context_.setting->id, trial))();
    options.full_checks = trial == 0;
    options.poison = trial % 3;
    options.counters = trial == 0;
    const auto deadline = std::chrono::steady_clock::now() + kEngineDeadline;
    options.cancelled = [deadline] {
      return os::CancelRequested() || std::chrono::steady_clock::now() > deadline;
    };
    std::vector<std::span<const std::byte>> storages;
    for (const task::Tensor* tensor : task::TensorLeaves(wanted.args)) {
      storages.push_back(tensor->storage);
    }
    engine::Run run;
    {
      Stopwatch watch(result_.report.engine_seconds);
      const auto is_right = [&](const engine::Run& sampled) {
        if (!sampled.completed || HasError(sampled.findings)) return false;
        const auto outputs = CompareAll(sampled, wanted);
        return std::all_of(outputs.begin(), outputs.end(), [](const auto& c) { return c.ok; });
      };
      auto executed = sampler_.Execute(*context_.program, *plan_, storages, options, is_right);
      if (!executed) return CannotExecute(executed.error());
      run = std::move(*executed);
    }
    if (!run.unsupported.empty()) {
      result_.report.problems.push_back(
          {"unsupported_instruction", "the emulator does not know " + run.unsupported, ""});
      result_.report.unsupported = true;
      return false;
    }
    if (trial == 0) result_.report.counters = std::move(run.counters);

    judge::TrialReport report;
    report.seed = wanted.seed;
    report.emulated_blocks = run.emulated_blocks;
    report.all_blocks = run.all_blocks;
    const bool clean = run.completed && !HasError(run.findings);
    Merge(std::move(run.findings), result_.report.findings);
    if (run.completed) {
      Stopwatch watch(result_.report.judge_seconds);
      report.outputs = CompareAll(run, wanted);
    }
    report.ok = clean;
    for (const judge::Comparison& output : report.outputs) report.ok = report.ok && output.ok;
    const bool ok = report.ok;
    result_.report.trials.push_back(std::move(report));
    if (!ok) result_.report.status = "failed";
    return ok;
  }

  /// A plan may ask for more than this machine has or can do in time: that is the candidate's
  /// doing, not a fault of ours, and must not end a run of many candidates.
  Result<bool> CannotExecute(const Error& error) {
    if (os::CancelRequested() || error.code == ErrorCode::kInternal) return tl::unexpected(error);
    const std::string message =
        error.code == ErrorCode::kCancelled
            ? fmt::format("one call did not finish within {} s in the emulator",
                          std::chrono::seconds(kEngineDeadline).count())
            : error.message;
    result_.report.problems.push_back({"cannot_execute", message, result_.report.id});
    result_.report.unsupported = true;
    result_.report.status = "failed";
    return false;
  }

  Result<bool> RecordIfNeeded(const task::Case& wanted) {
    std::string key = RecordingKey(wanted.args);
    if (plan_ && key == key_) return true;
    Stopwatch watch(result_.report.record_seconds);
    const std::string function(task::Name(context_.question->direction));
    TRY_ASSIGN(record::Outcome outcome, context_.recorder->Record(function, wanted.args));
    if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
      result_.report.problems.push_back(
          {std::move(refusal->code), std::move(refusal->message), std::move(refusal->where)});
      result_.report.unsupported = refusal->unsupported;
      result_.report.status = "failed";
      return false;
    }
    auto& recording = std::get<record::Recording>(outcome);
    result_.report.host_us = recording.host_us;
    plan_ = std::move(recording.plan);
    key_ = std::move(key);
    if (!result_.plan) result_.plan = plan_;
    return true;
  }

  SettingContext context_;
  SettingResult result_;
  std::optional<plan::Plan> plan_;
  SampledRunner sampler_;
  std::string key_;
};

}  // namespace

std::string RecordingKey(const std::vector<task::Value>& args) {
  std::string key;
  for (const task::Value& value : args) AppendKey(value, key);
  return key;
}

Result<SettingResult> JudgeSetting(const SettingContext& context) {
  return SettingRun(context).Run();
}

}  // namespace cupel::assay
