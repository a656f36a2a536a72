// Inputs that the task does not draw itself: other distributions, special values, other layouts
// (docs/judging.md, "Other inputs"). What the task's domain includes is judged like a usual trial;
// what fails outside it becomes a limit on the record.
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

/// Of one setting whose usual trials are right.
class OtherInputTrials {
 public:
  /// All borrowed; `sampler` knows what a run of the setting costs.
  OtherInputTrials(const SettingContext& context, judge::SettingReport& report,
                   SampledRunner& sampler)
      : context_(context), report_(report), sampler_(&sampler), setting_(context.setting) {}

  /// `plan` was recorded for `last`, which was right. False when a trial speaks against the
  /// candidate: then the report says so.
  Result<bool> Run(const plan::Plan& plan, const task::Case& last);

 private:
  /// What one trial came to.
  struct Attempt {
    std::string not_executed;              // why not, where cupel or the engine is the reason
    std::optional<judge::Reason> refusal;  // the host code's
    judge::TrialReport trial;
    std::vector<engine::Finding> findings;
    engine::Counters counters;
    bool ok = false;
  };

  std::vector<task::Distribution> Asked();
  /// Where and in which order: at the setting itself when its runs are small, at a smaller twin, or
  /// a few of them.
  Result<std::vector<task::Distribution>> Choose(std::vector<task::Distribution> asked,
                                                 const task::Case& last);
  Result<bool> MoveToTwin();
  Result<bool> TryOne(task::Distribution distribution, oracle::Oracle::Stream& cases);
  Result<Attempt> Try(const task::Case& wanted, task::Distribution distribution, bool judged);
  Result<std::optional<Attempt>> Record(const task::Case& wanted, bool judged);
  /// False when the trial failed.
  bool Hold(Attempt attempt, task::Distribution distribution);
  void Limit(const Attempt& attempt, task::Distribution distribution);
  void Skip(task::Distribution distribution, std::string why);

  const SettingContext& context_;
  judge::SettingReport& report_;
  SampledRunner* sampler_;
  const task::Setting* setting_;  // the context's, or twin_
  std::optional<task::Setting> twin_;
  std::optional<plan::Plan> plan_;
  std::string key_;    // of what plan_ was recorded for
  double excess_ = 0;  // how many times too large the setting is
  bool few_ = false;   // not all are tried
};

}  // namespace cupel::assay
