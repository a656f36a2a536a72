// Takes each candidate of a run from source to verdict: build, judge, measure, archive. A candidate
// is first judged on the search settings. A potential new best is judged again, on all settings
// with fresh cases, before it is accepted. All state is in the archive, so a run can resume after a
// kill at any time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "assay/assay.h"
#include "base/part_events.h"
#include "device/device.h"
#include "evolve/form.h"
#include "evolve/objective.h"

namespace cupel::evolve {

/// What a run's progress contains in addition to what the archive says.
struct RunScale {
  int budget = 0;                       // total candidates; 0: unknown
  int generation = 0, generations = 0;  // 0: the run has none
  double usd = 0;                       // spent on models
};

struct EvaluatorOptions {
  device::Description device;  // the target of the kernels
  Form form = Form::kCuda;     // of all candidates
  int builds_ahead = 2;        // concurrent compilations
  uint64_t seed = 0;
  bool user_seed = false;  // draw cases from the seed, not from the pool
  std::stop_token stop;    // Build and Evaluate then end with kCancelled
  /// "8.27 us (estimate)": a value of the objective for progress and for prompts.
  std::function<std::string(double)> objective_text;
  /// Folder for candidate sources, for the compiler and for users.
  std::filesystem::path source_folder;
  /// Linter remarks on an accepted kernel, as lines. If empty, no linter runs.
  std::function<std::string(const std::filesystem::path&)> remarks = {};
  /// The GPU profile of an accepted kernel, as a page. If empty, the page shows the judge's counts
  /// instead. `judged` has a plan. Errors: kCancelled.
  std::function<Result<std::string>(const assay::Judged& judged)> profile = {};
};

/// Borrowed.
struct RunParts {
  archive::Archive& archive;
  assay::Assay& assay;
  Objective& objective;
  PartEvents& events;  // also of the assay
};

/// Not thread-safe.
class Evaluator {
 public:
  /// `question`: task, direction, setting kinds and trials of the final judgement.
  Evaluator(const RunParts& parts, assay::Question question, EvaluatorOptions options)
      : parts_(parts), question_(std::move(question)), options_(std::move(options)) {}

  /// Compiles these candidates, several at a time; earlier builds come from the cache. Calls `each`
  /// in the order of `ids`, while the next ones compile.
  Status Build(std::span<const int64_t> ids,
               const std::function<Status(int64_t id, const assay::Candidate& built)>& each);
  /// Judges the candidates of `ids`, in order. Skips those that have a verdict or were dropped.
  Status Evaluate(std::span<const int64_t> ids);

  RunScale& scale() { return scale_; }
  Form form() const { return options_.form; }
  const std::function<std::string(double)>& objective_text() const {
    return options_.objective_text;
  }
  /// Reports the run's progress, and a new best kernel.
  Status Report(const std::string& stage);
  /// Repeats the last Report() with a new stage. Does not use the archive.
  void ShowAgain(const std::string& stage) { parts_.events.Show({stage}); }

 private:
  Result<archive::Stage> StageOf(int64_t id, const assay::Candidate& built,
                                 const assay::Judged& judged, double seconds) const;
  Result<std::string> Profile(const assay::Judged& judged) const;
  Status EvaluateOne(int64_t id, const assay::Candidate& built);
  Result<assay::Judged> Judge(int64_t id, const assay::Candidate& built,
                              std::optional<Standing>* standing);
  Result<std::optional<Champion>> BestSoFar();
  assay::Question SearchQuestion() const;
  assay::Question FinalQuestion(int64_t candidate) const;
  std::filesystem::path SourcePath(int64_t candidate) const;

  RunParts parts_;
  assay::Question question_;
  EvaluatorOptions options_;
  RunScale scale_;
  int64_t noted_ = 0;                         // the last new best that was reported
  std::optional<assay::Candidate> champion_;  // the best so far, built
};

}  // namespace cupel::evolve
