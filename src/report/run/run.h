// One run of `cupel optimize` as data, read from its archive: what was tried, the outcomes with
// reasons, and the cost. Texts, JSON, pages and comparisons of runs are made from it. Members are
// empty if the archive lacks the data; a run with only the tuner has no models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/json.h"
#include "base/result.h"
#include "report/objective_kind.h"

namespace cupel::report {

struct RunReason {
  std::string code, message, where;
};

/// One reviewer's opinion.
struct RunVote {
  std::string aspect, model, line, reason;
  std::string exchange;  // the question's hash
  std::optional<bool> fine;
  std::optional<double> confidence;
};

/// A stage that a candidate went through, as recorded. For a run that recorded no stages, it is
/// derived from the verdict. The recorded judge stage includes measuring.
struct RunStage {
  std::string name;
  bool passed = false;
  double seconds = 0;
  std::vector<RunReason> reasons;  // why it did not pass
  std::string note;                // "ratio 0.93"; may be empty
  std::string feedback;            // shown to the models in later prompts; may be empty
  std::vector<RunVote> votes;
};

struct RunCandidate {
  int64_t id = 0;
  int generation = 0;
  std::vector<int64_t> parents;  // the first is the one it was made from
  std::string source_hash, proposer, description;
  // The operator, the proposer's answer, and the question; empty if unknown.
  std::string how, name, thought, model, exchange;
  std::optional<int64_t> island, proposal;
  std::vector<std::string> hints;
  /// "best", "accepted", "rejected", "unsupported", "error", "dropped" (failed before the judge),
  /// "waiting".
  std::string outcome;
  std::string fell_at;             // the stage at which it failed; empty: it did not fail
  std::vector<RunReason> reasons;  // why it failed; the first is the one to show
  std::vector<RunStage> stages;
  std::optional<double> objective;
  bool judged = false;    // it has a verdict
  bool new_best = false;  // it was the best when it was judged
  std::optional<int64_t> judged_ms;

  bool accepted() const { return outcome == "best" || outcome == "accepted"; }
};

struct RunGeneration {
  int generation = 0;
  int64_t candidates = 0, judged = 0, accepted = 0;
  // As counted by the loop; none if it did not count them.
  std::optional<int64_t> asked, unusable, copies, reviewed;
  std::optional<double> seconds;
  // The best until the end of the generation.
  std::optional<double> best;
  std::optional<int64_t> best_candidate;
};

/// Questions to one model in one role.
struct RunQuestions {
  std::string role, model;
  int64_t asked = 0, answered = 0,
          failed = 0;  // attempts; the remaining ones are still waiting or were interrupted
  int64_t input_tokens = 0, output_tokens = 0, charged_tokens = 0;
  /// The model does not count tokens: those above are a quarter of the bytes.
  bool tokens_are_estimates = false;
  double usd = 0, seconds = 0;
  int64_t candidates = 0, accepted = 0;  // made from the answers
};

/// The results of a model or a strategy hint.
struct RunContributor {
  std::string name;  // the model; the hint's id
  std::string text;  // of the hint
  int64_t candidates = 0, judged = 0, accepted = 0, new_bests = 0;
  std::optional<double> best;
  // The last values of the ensemble or of the hints.
  std::optional<double> asked, rewarded, expected;
};

/// A stage, summed over all candidates.
struct RunCascade {
  std::string stage;
  int64_t in = 0, passed = 0;
  double seconds = 0;
  /// The time that judging and measuring the candidates that failed here would have taken,
  /// estimated by the mean of those that passed; none if unknown.
  std::optional<double> saved_seconds;
  /// How many candidates that failed here were judged nevertheless, and how many were accepted.
  int64_t judged_anyway = 0, good = 0;

  int64_t fell() const { return in - passed; }
};

struct RunUnusable {
  std::optional<int64_t> generation;
  std::string model, exchange, reason;
};

/// The cost until a point in time.
struct RunSpent {
  int64_t questions = 0, tokens = 0, judged = 0;  // charged tokens
  int64_t input_tokens = 0, output_tokens = 0;
  bool tokens_are_estimates = false;  // of at least one model (RunQuestions)
  double usd = 0, seconds = 0;        // seconds: without interruptions
};

struct Run {
  archive::RunInfo info;
  archive::Counts counts;
  ObjectiveKind kind;
  Json config;                                 // the starting kernel's source as a hash
  std::vector<RunCandidate> candidates;        // by id
  std::map<std::string, int64_t> asked_about;  // candidates by the hash of a question
  std::optional<int64_t> best;                 // ids
  std::vector<int64_t> lineage;                // of the best, oldest first
  std::vector<RunGeneration> generations;
  std::vector<RunQuestions> questions;
  std::vector<RunContributor> models, hints;
  std::vector<RunCascade> cascade;
  std::vector<RunUnusable> unusable;       // the first 200
  std::vector<archive::Cost> other_costs;  // by kind, without the models' costs
  RunSpent spent;
  std::optional<RunSpent> to_best;  // until the best was judged
  /// What times are compared with: "floor_us", "eager_us", "compile_us", each if known.
  std::map<std::string, double> references;
  std::map<std::string, double> named_us;  // times of the task's named baselines
  /// Evidence for the best, and profiles (run_winner.h); null if there is no best.
  Json evidence, profile;

  const RunCandidate* Find(int64_t id) const;
  /// The candidate that was made from the answer, or that the question was about; null if none.
  const RunCandidate* CandidateOf(const archive::Exchange& exchange) const;
  /// The objective of the first candidate in the best's lineage that has one; none without a best.
  std::optional<double> Start() const;
  /// Start over best, above 1 is faster; none without a best.
  std::optional<double> Gain() const;
};

Result<Run> ReadRun(const archive::Archive& archive);

}  // namespace cupel::report
