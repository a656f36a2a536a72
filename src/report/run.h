// One run of `cupel optimize` as data, gathered from its archive alone: what was tried, what became
// of it and why, what it cost. Texts, JSON, pages and comparisons of runs are made of this. What an
// archive lacks (a run of the tuner alone has no models) is empty here.
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

/// A stage that a candidate went through: as recorded, or of a run that recorded none, what its
/// verdict tells. What is recorded of the judge holds measuring, too.
struct RunStage {
  std::string name;
  bool passed = false;
  double seconds = 0;
  std::vector<RunReason> reasons;  // why not
  std::string note;                // "ratio 0.93"; may be empty
  std::string told;                // what later proposals are told of it; may be empty
  std::vector<RunVote> votes;
};

struct RunCandidate {
  int64_t id = 0;
  int generation = 0;
  std::vector<int64_t> parents;  // the first: what it was made from
  std::string source_hash, proposer, description;
  // What its proposer said and how it was asked; empty where unknown.
  std::string how, name, thought, model, exchange;
  std::optional<int64_t> island, proposal;
  std::vector<std::string> hints;
  /// "best", "accepted", "rejected", "unsupported", "error", "dropped" (fell before the judge),
  /// "waiting".
  std::string outcome;
  std::string fell_at;             // name of a stage; empty: it did not fall
  std::vector<RunReason> reasons;  // why; the first is the one to show
  std::vector<RunStage> stages;
  std::optional<double> objective;
  bool judged = false;    // it has a verdict
  bool new_best = false;  // it was the best when it came
  std::optional<int64_t> judged_ms;

  bool accepted() const { return outcome == "best" || outcome == "accepted"; }
};

struct RunGeneration {
  int generation = 0;
  int64_t candidates = 0, judged = 0, accepted = 0;
  // As the loop counted them; nothing where it did not.
  std::optional<int64_t> asked, unusable, copies, reviewed;
  std::optional<double> seconds;
  // Up to its end.
  std::optional<double> best;
  std::optional<int64_t> best_candidate;
};

/// Questions to one model in one role.
struct RunQuestions {
  std::string role, model;
  int64_t asked = 0, answered = 0,
          failed = 0;  // attempts; the others are under way or were cut off
  int64_t input_tokens = 0, output_tokens = 0, charged_tokens = 0;
  double usd = 0, seconds = 0;
  int64_t candidates = 0, accepted = 0;  // that came of them
};

/// What a model or a strategy hint has earned.
struct RunEarner {
  std::string name;  // the model; the hint's id
  std::string text;  // of the hint
  int64_t candidates = 0, judged = 0, accepted = 0, new_bests = 0;
  std::optional<double> best;
  // As the ensemble or the hints' book had it last.
  std::optional<double> asked, rewarded, expected;
};

/// A stage over all candidates.
struct RunCascade {
  std::string stage;
  int64_t in = 0, passed = 0;
  double seconds = 0;
  /// Of judging and measuring that the candidates which fell here would have cost at the mean of
  /// those that passed; nothing where that is not known.
  std::optional<double> saved_seconds;
  /// Of those that fell here, how many were judged all the same, and how many of these were right.
  int64_t judged_anyway = 0, good = 0;

  int64_t fell() const { return in - passed; }
};

struct RunUnusable {
  std::optional<int64_t> generation;
  std::string model, exchange, reason;
};

/// Spent until a moment.
struct RunSpent {
  int64_t questions = 0, tokens = 0, judged = 0;  // charged tokens
  double usd = 0, seconds = 0;                    // seconds in which the run was driven
};

struct Run {
  archive::RunInfo info;
  archive::Counts counts;
  ObjectiveKind kind;
  Json config;                                 // without the starting kernel's source: its hash
  std::vector<RunCandidate> candidates;        // by id
  std::map<std::string, int64_t> asked_about;  // candidates by the hash of a question
  std::optional<int64_t> best;                 // ids
  std::vector<int64_t> lineage;                // of the best, the oldest first
  std::vector<RunGeneration> generations;
  std::vector<RunQuestions> questions;
  std::vector<RunEarner> models, hints;
  std::vector<RunCascade> cascade;
  std::vector<RunUnusable> unusable;       // the first 200
  std::vector<archive::Cost> other_costs;  // by kind, without the models'
  RunSpent spent;
  std::optional<RunSpent> to_best;  // until the best was judged
  /// Evidence for the best, and profiles (run_winner.h); null where there is no best.
  Json evidence, profile;

  const RunCandidate* Find(int64_t id) const;
  /// That came of the question or that it was about.
  const RunCandidate* CandidateOf(const archive::Exchange& exchange) const;
  /// Objective of the first of the best's line that has one; nothing without a best.
  std::optional<double> Start() const;
  /// Start over best, above 1 is faster; nothing without a best.
  std::optional<double> Gain() const;
};

Result<Run> ReadRun(const archive::Archive& archive);

}  // namespace cupel::report
