// Tested by tests/e2e/test_exploration.py.
// SPDX-License-Identifier: Apache-2.0
#include "assay/rounding_alone.h"

#include "assay/cases.h"
#include "assay/contract.h"
#include "assay/equivalence.h"
#include "assay/trial.h"
#include "judge/shadow.h"

namespace cupel::assay {
namespace {

/// Errors larger than this many limits are no rounding of a result in its own precision.
constexpr double kMostExcess = 32;

bool HasWrongNumbersAlone(const records::SettingReport& report) {
  if (!report.problems.empty() || HasError(report.findings)) return false;
  for (const records::TrialReport& trial : report.trials) {
    for (const records::Comparison& output : trial.outputs) {
      if (!output.ok && (output.code != "wrong_result" || output.max_limit <= 0)) return false;
      if (!(output.Severity() <= kMostExcess)) return false;
    }
  }
  return !report.trials.empty();
}

bool IsEqualWithoutRounding(const engine::Run& run, const task::Case& wanted) {
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const task::Output& output = wanted.outputs[i];
    if (output.is_none) continue;
    if (!IsFloating(output.dtype)) {
      if (!judge::Compare(run.outputs[i].View(), output).ok) return false;
      continue;
    }
    const judge::ShadowComparison shadow = judge::CompareShadows(run.outputs[i], output);
    if (!shadow.established() || shadow.reduced_precision) return false;
  }
  return true;
}

}  // namespace

Result<bool> IsRoundingAlone(const SettingContext& context, const records::SettingReport& report) {
  if (!HasWrongNumbersAlone(report)) return false;
  TRY_ASSIGN(const auto cases, OpenCases(context, *context.setting));
  TRY_ASSIGN(const auto outcome, cases->Next());
  const auto* wanted = outcome ? std::get_if<task::Case>(&*outcome) : nullptr;
  if (wanted == nullptr || Equivalence::Excess(report.counters, *wanted) > 1) return false;
  const std::string function(task::Name(context.question->direction));
  TRY_ASSIGN(record::Outcome recorded,
             context.recorder->Record(function, wanted->args, *context.setting));
  auto* recording = std::get_if<record::Recording>(&recorded);
  if (recording == nullptr) return false;
  TRY(context.loaded->Use(recording->images));
  FitToCase(recording->plan, *wanted);
  if (ContractProblem(recording->plan, *wanted)) return false;
  records::SettingReport quiet;
  TRY_ASSIGN(const auto run, Equivalence(context, quiet).RunWithShadows(recording->plan, *wanted));
  return run && run->completed && !HasError(run->findings) && IsEqualWithoutRounding(*run, *wanted);
}

}  // namespace cupel::assay
