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
#include "device/device.h"
#include "evolve/objective.h"

namespace cupel::evolve {

struct RunProgress {
  std::string stage;
  archive::Counts counts;
  int budget = 0;                       // total candidates; 0: unknown
  std::string_view objective;           // its kind
  double start = 0, best_value = 0;     // of the objective; 0: unknown
  int64_t best = 0;                     // candidate id
  int generation = 0, generations = 0;  // 0: the run has none
  double usd = 0;                       // spent on models
  int64_t tokens = 0;
};

struct EvaluatorOptions {
  device::Description device;  // the target of the kernels
  int builds_ahead = 2;        // concurrent compilations
  uint64_t seed = 0;
  bool user_seed = false;  // draw cases from the seed, not from the pool
  std::stop_token stop;    // Build and Evaluate then end with kCancelled
  /// Folder for candidate sources, for the compiler and for users.
  std::filesystem::path source_folder;
  /// Linter remarks on an accepted kernel, as lines. If empty, no linter runs.
  std::function<std::string(const std::filesystem::path&)> remarks = {};
  /// The GPU profile of an accepted kernel, as a page; `plan` is the plan of `setting`. If empty,
  /// the page shows the judge's counts instead. Errors: kCancelled.
  std::function<Result<std::string>(const build::Image&, const plan::Plan&,
                                    const std::string& setting)>
      profile = {};
};

/// Borrowed.
struct RunParts {
  archive::Archive& archive;
  assay::Assay& assay;
  Objective& objective;
};

/// Not thread-safe.
class Evaluator {
 public:
  /// `question`: task, direction, setting kinds and trials of the final judgement.
  Evaluator(const RunParts& parts, assay::Question question, EvaluatorOptions options,
            std::function<void(const RunProgress&)> progress);

  /// Compiles these candidates, several at a time; earlier builds come from the cache. Calls `each`
  /// in the order of `ids`, while the next ones compile.
  Status Build(std::span<const int64_t> ids,
               const std::function<Status(int64_t id, const assay::Candidate& built)>& each);
  /// Judges the candidates of `ids`, in order. Skips those that have a verdict or were dropped.
  Status Evaluate(std::span<const int64_t> ids);

  /// Values that progress reports show in addition to those from the archive.
  RunProgress& shown() { return shown_; }
  Status Report(const std::string& stage);
  /// Repeats the last Report() with a new stage. Does not use the archive.
  void ShowAgain(const std::string& stage);

 private:
  Result<archive::Stage> StageOf(int64_t id, const assay::Candidate& built,
                                 const assay::Judged& judged, double seconds) const;
  Result<std::string> Profile(const assay::Candidate& built, const assay::Judged& judged) const;
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
  std::function<void(const RunProgress&)> progress_;
  RunProgress shown_, reported_;
  std::optional<assay::Candidate> champion_;  // the best so far, built
};

}  // namespace cupel::evolve
