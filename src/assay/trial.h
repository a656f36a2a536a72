// What judging a trial needs for all kinds of inputs: comparing outputs, collecting findings,
// timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "engine/run.h"
#include "judge/compare.h"
#include "task/case.h"

namespace cupel::assay {

/// For one call in the emulator. The largest published kernels need a tenth of it on two cores.
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

std::vector<records::Comparison> CompareAll(const engine::Run& run, const task::Case& wanted);
/// Compares an output with that of a clean run. The clean run's own error may be as large as the
/// task allows, and is not counted. Neighbouring numbers of the type count as equal, since both
/// runs round: the order of atomic additions may decide which of them a result becomes.
records::Comparison CompareRuns(const engine::OutputTensor& got, const engine::OutputTensor& clean,
                                const task::Output& wanted);
/// For RunOptions::cancelled: true after `limit`, and after a stop request.
std::function<bool()> EndAfter(std::chrono::seconds limit, std::stop_token stop);
/// True for errors that say nothing about the candidate and end its judging: a bug of cupel, other
/// users of the machine, or a stop request.
bool IsOurs(const Error& error, const std::stop_token& stop);
bool AllRight(const std::vector<records::Comparison>& outputs);
/// Of all launches of a run.
uint64_t WarpInstructions(const records::Counters& counters);
/// How many warp instructions a launch may execute if `usual` is what a right run needed: other
/// inputs may take a correct kernel longer, but not without bound.
uint64_t BudgetFor(const records::Counters& usual);
bool HasError(const std::vector<records::Finding>& findings);
/// The finding with the same code, kernel and line; null if there is none.
records::Finding* SameFinding(const records::Finding& finding, std::vector<records::Finding>& all);
/// Adds findings of a further trial. Findings with the same code, kernel and line are merged.
void Merge(std::vector<records::Finding> more, std::vector<records::Finding>& all);

}  // namespace cupel::assay
