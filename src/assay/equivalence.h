// Checks beyond the tolerance: runs a recorded plan with shadow values, on inputs of small integers
// and in other orders, and adds the results to the setting's report.
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
  /// Borrows both. `report` must contain the counters of an ordinary run.
  Equivalence(const SettingContext& context, records::SettingReport& report)
      : context_(context), report_(report) {}

  /// How many times too large a run with shadows would be; at most 1 if it is small enough.
  static double Excess(const records::Counters& counters, const task::Case& wanted);

  /// A run with shadows, of a case that is not too large. Returns nothing if the engine could not
  /// finish it.
  Result<std::optional<engine::Run>> RunWithShadows(const plan::Plan& plan,
                                                    const task::Case& wanted);

  // Each function returns false, and says so in the report, if the candidate must be rejected.

  /// An ordinary run at a smaller size that the task does not list: shows whether the kernel works
  /// there and what the run costs. A failure does not count against the kernel.
  Result<std::optional<engine::Run>> RunTwin(const plan::Plan& plan, const task::Case& wanted);
  /// With shadows, on an ordinary case that passed, also in other orders.
  Result<bool> TryShadows(const plan::Plan& plan, const task::Case& wanted);
  /// With shadows on scaled-down inputs; uses the tolerance where shadows were lost.
  Result<bool> TryTiny(const plan::Plan& plan, const task::Case& wanted);
  /// Compares bit for bit.
  Result<bool> TryIntegers(const plan::Plan& plan, const task::Case& wanted);

 private:
  /// Returns nothing if the engine could not finish; `note` says why.
  Result<std::optional<engine::Run>> Execute(const plan::Plan& plan, const task::Case& wanted,
                                             bool shadows, uint64_t schedule, std::string* note,
                                             bool counters = false);
  /// Adds findings. False if one is an error or the run did not complete.
  bool Accept(engine::Run& run);
  bool JudgeShadows(const engine::Run& run, const task::Case& wanted, const char* kind);
  bool JudgeTinyValues(const engine::Run& run, const task::Case& wanted, size_t output);
  Result<bool> TrySchedules(const plan::Plan& plan, const task::Case& wanted,
                            const engine::Run& usual);
  void Fail(const task::Case& wanted, const char* kind, size_t output,
            records::Comparison comparison);

  const SettingContext& context_;
  records::SettingReport& report_;
};

}  // namespace cupel::assay
