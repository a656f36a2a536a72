// The way of every candidate of a run from source to verdict: build, judge, measure, archive. A
// candidate is first judged on the search settings; one that would be the new best is judged again
// on all settings with fresh cases before it is believed. All state is in the archive, so that a
// run goes on after a kill at any instant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
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
  int budget = 0;                       // candidates in all; 0 while unknown
  std::string_view objective;           // its kind
  double start = 0, best_value = 0;     // of the objective; 0 while unknown
  int64_t best = 0;                     // candidate id
  int generation = 0, generations = 0;  // 0: the run has none
  double usd = 0;                       // spent on models
  int64_t tokens = 0;
};

struct EvaluatorOptions {
  device::Description device;  // that kernels are made for
  int builds_ahead = 2;        // compilations at a time
  uint64_t seed = 0;
  bool user_seed = false;  // cases from the seed rather than from the pool
  /// Where candidates are written for the compiler and for people.
  std::filesystem::path source_folder;
  /// What a linter says of an accepted kernel, as lines; empty: none is asked.
  std::function<std::string(const std::filesystem::path&)> remarks = {};
  /// What a GPU's profile says of an accepted kernel, as a page; `plan` is of `setting`.
  /// Empty: what judging counted is told instead. Errors: kCancelled.
  std::function<Result<std::string>(const build::Image&, const plan::Plan&,
                                    const std::string& setting)>
      profile = {};
};

/// Of a run: what is asked, and by what it is measured. Borrowed.
struct RunParts {
  archive::Archive& archive;
  assay::Assay& assay;
  Objective& objective;
};

/// Not thread-safe.
class Evaluator {
 public:
  /// `question` names task, direction, kinds and trials of the final word.
  Evaluator(const RunParts& parts, assay::Question question, EvaluatorOptions options,
            std::function<void(const RunProgress&)> progress);

  /// Compiles these, several at a time; what was compiled before comes from the cache. In their
  /// order; `each` may look at one while the next are compiled.
  Status Build(std::span<const int64_t> ids,
               const std::function<Status(int64_t id, const assay::Candidate& built)>& each);
  /// Judges those of these that have no verdict yet and were not dropped, in their order.
  Status Evaluate(std::span<const int64_t> ids);

  /// What progress reports show beside the archive's own facts.
  RunProgress& shown() { return shown_; }
  Status Report(const std::string& stage);
  /// The facts of the last Report() beside a new stage: does not touch the archive.
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
  std::optional<assay::Candidate> champion_;  // built; of the best so far
};

}  // namespace cupel::evolve
