// Inputs that the task does not draw itself: other distributions, special values, other layouts
// (docs/judging.md, "Other inputs"). Inside the task's domain they are judged like a usual trial;
// failures outside it become limits in the record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/sampled_run.h"
#include "assay/setting_judge.h"
#include "judge/other_inputs.h"

namespace cupel::assay {

/// The trials on other inputs of one setting whose usual trials have passed.
class OtherInputTrials {
 public:
  /// Borrows everything. `sampler` must know the cost of a run of the setting.
  OtherInputTrials(const SettingContext& context, records::SettingReport& report,
                   SampledRunner& sampler)
      : context_(context), report_(report), sampler_(&sampler), setting_(context.setting) {}

  /// `plan` was recorded for `last`, which passed. Returns false, and says so in the report, if a
  /// trial must reject the candidate.
  Result<bool> Run(const plan::Plan& plan, const task::Case& last, bool reads_values);

 private:
  /// The result of one trial.
  struct Attempt {
    std::string not_executed;                // why, if cupel or the engine is the reason
    std::optional<records::Reason> refusal;  // the host code's
    records::TrialReport trial;
    std::vector<records::Finding> findings;
    records::Counters counters;
    bool ok = false;
  };

  std::vector<task::Distribution> Asked();
  /// Decides what to try, where and in which order: all kinds at the setting itself if its runs are
  /// small, all at a smaller twin, or only a few.
  Result<std::vector<task::Distribution>> Choose(std::vector<task::Distribution> asked,
                                                 const task::Case& last);
  /// Whether a failure rejects the candidate; otherwise it is a limit.
  bool Judges(task::Distribution distribution) const;
  Result<bool> MoveToTwin();
  Result<bool> TryOne(task::Distribution distribution, oracle::Oracle::Stream& cases);
  Result<Attempt> Try(const task::Case& wanted, task::Distribution distribution, bool judged);
  Result<std::optional<Attempt>> Record(const task::Case& wanted, bool judged);
  /// False if the trial failed.
  bool AddTrial(Attempt attempt, task::Distribution distribution);
  void AddLimit(const Attempt& attempt, task::Distribution distribution);
  void Skip(task::Distribution distribution, std::string why);

  const SettingContext& context_;
  records::SettingReport& report_;
  SampledRunner* sampler_;
  const task::Setting* setting_;  // the context's, or twin_
  std::optional<task::Setting> twin_;
  std::optional<plan::Plan> plan_;
  bool reads_values_ = false;         // Recording::reads_values of plan_
  std::string key_;                   // RecordingKey of the arguments for which plan_ was recorded
  double excess_ = 0;                 // how many times too large the setting is
  std::optional<size_t> most_kinds_;  // to try, if not all
};

}  // namespace cupel::assay
