// The loop of `cupel optimize`: propose, build, judge, select, archive. Every candidate goes down
// the one path. A candidate is first judged on the search settings; one that would be the new best
// is judged again on all settings with fresh cases before it is believed. All state is in the
// archive, so that a run goes on after a kill at any instant. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "archive/archive.h"
#include "assay/assay.h"
#include "evolve/objective.h"
#include "evolve/tunables.h"

namespace cupel::evolve {

struct OptimizeOptions {
  int candidates = 32;   // to try, the starting kernel not counted
  int batch = 8;         // proposals a generation
  int builds_ahead = 2;  // compilations at a time
  uint64_t seed = 0;
  bool user_seed = false;  // cases from the seed rather than from the pool
  std::filesystem::path
      source_folder;  // where candidates are written for the compiler and for people
};

struct OptimizeProgress {
  std::string stage;
  archive::Counts counts;
  int budget = 0;
  std::string_view objective;        // its kind
  double start = 0, best_value = 0;  // of the objective; 0 while unknown
  int64_t best = 0;                  // candidate id
};

struct OptimizeResult {
  bool start_accepted = false;
  judge::Verdict start_verdict;  // of the starting kernel, when it was judged in this process
  std::string end;               // "all candidates tried", "no variants left to try"
};

class Optimizer {
 public:
  /// `question` names task, direction, kinds and trials of the final word. Borrows all arguments.
  Optimizer(archive::Archive& archive, assay::Assay& assay, Objective& objective,
            assay::Question question, OptimizeOptions options,
            std::function<void(const OptimizeProgress&)> progress);

  /// Goes on from what the archive holds; `start` is the source of the starting kernel.
  /// kCancelled leaves the archive ready for another Run().
  Result<OptimizeResult> Run(const std::string& start);

 private:
  Status AddStart(const std::string& start);
  Result<bool> ProposeGeneration(const std::string& start);
  Status EvaluateQueue();
  Status Evaluate(const archive::Candidate& candidate, const assay::Candidate& built);
  Result<assay::Judged> JudgeCandidate(const archive::Candidate& candidate,
                                       const assay::Candidate& built,
                                       std::optional<Standing>* standing);
  Result<std::optional<Champion>> BestSoFar();
  assay::Question SearchQuestion() const;
  assay::Question FinalQuestion(int64_t candidate) const;
  std::filesystem::path SourcePath(int64_t candidate) const;
  Status Report(const std::string& stage);

  archive::Archive& archive_;
  assay::Assay& assay_;
  Objective& objective_;
  assay::Question question_;
  OptimizeOptions options_;
  std::function<void(const OptimizeProgress&)> progress_;
  OptimizeResult result_;
  std::optional<assay::Candidate> champion_;  // built; of the best so far
};

}  // namespace cupel::evolve
