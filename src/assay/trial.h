// What judging a trial takes, whatever its inputs: comparing all outputs, collecting findings,
// timing. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"
#include "engine/run.h"
#include "judge/compare.h"
#include "task/case.h"

namespace cupel::assay {

/// For one call in the emulator; the largest published kernels take a tenth of it on two cores.
inline constexpr std::chrono::seconds kEngineDeadline{180};

/// Adds the wall time of its own lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += SecondsSince(start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<judge::Comparison> CompareAll(const engine::Run& run, const task::Case& wanted);
/// Holds an output against that of a run without a past, which may be as far off the truth as the
/// task allows, too.
judge::Comparison CompareRuns(const engine::OutputTensor& got, const engine::OutputTensor& clean,
                              const task::Output& wanted);
/// What says nothing of the candidate and ends its judging: a bug of ours, others who use the
/// machine, or the user's interruption.
bool IsOurs(const Error& error);
bool AllRight(const std::vector<judge::Comparison>& outputs);
bool HasError(const std::vector<engine::Finding>& findings);
/// The one of the same code at the same line; null where there is none.
engine::Finding* SameFinding(const engine::Finding& finding, std::vector<engine::Finding>& all);
/// Adds findings of a further trial; the same code at the same line is one finding.
void Merge(std::vector<engine::Finding> more, std::vector<engine::Finding>& all);

}  // namespace cupel::assay
