// Beyond the tolerance: runs a recorded plan with shadow values, on inputs of small integers and in
// other orders, and writes what that establishes into the setting's report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "assay/setting_judge.h"
#include "engine/engine.h"
#include "judge/verdict.h"
#include "plan/plan.h"
#include "task/case.h"

namespace cupel::assay {

class Equivalence {
 public:
  /// Both are borrowed. `report` has the counters of an ordinary run.
  Equivalence(const SettingContext& context, judge::SettingReport& report)
      : context_(context), report_(report) {}

  /// How many times too large a run with shadows would be; at most 1: it is not.
  static double Excess(const engine::Counters& counters, const task::Case& wanted);

  // Each returns false when what it found speaks against the candidate: then the report says so.

  /// An ordinary run at sizes that nobody has asked for: whether the kernel is made for them and
  /// what it costs. Nothing is held against it.
  Result<std::optional<engine::Run>> RunTwin(const plan::Plan& plan, const task::Case& wanted);
  /// With shadows, on an ordinary case that was right, and in other orders.
  Result<bool> TryShadows(const plan::Plan& plan, const task::Case& wanted);
  /// With shadows on scaled-down inputs; by the tolerance where shadows were lost.
  Result<bool> TryTiny(const plan::Plan& plan, const task::Case& wanted);
  /// Bit for bit.
  Result<bool> TryIntegers(const plan::Plan& plan, const task::Case& wanted);

 private:
  /// Nothing when the engine gave up: the note says so.
  Result<std::optional<engine::Run>> Execute(const plan::Plan& plan, const task::Case& wanted,
                                             bool shadows, uint64_t schedule, std::string* note,
                                             bool counters = false);
  /// Adds findings; false when one is an error or the run did not complete.
  bool Accept(engine::Run& run);
  bool JudgeShadows(const engine::Run& run, const task::Case& wanted, const char* kind);
  bool JudgeTinyValues(const engine::Run& run, const task::Case& wanted, size_t output);
  Result<bool> TrySchedules(const plan::Plan& plan, const task::Case& wanted,
                            const engine::Run& usual);
  void Fail(const task::Case& wanted, const char* kind, size_t output,
            judge::Comparison comparison);

  const SettingContext& context_;
  judge::SettingReport& report_;
};

}  // namespace cupel::assay
