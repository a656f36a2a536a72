// The paper's loop (arXiv 2509.14279, stage 2) and what goes beyond it: generations of proposals by
// language models, filtered by novelty, the compiler and reviewers, judged and measured; parents,
// examples, hints and models are chosen by what earlier ones earned. Everything that a generation
// decides follows from the seed, the state that the one before left, and the answers and verdicts
// in the archive: a run that was cut off does its unfinished generation again, and asks and judges
// nothing twice. docs/evolve.md describes the whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/tuning.h"
#include "llm/asker.h"
#include "review/review.h"

namespace cupel::evolve {

enum class Reading {
  kOff,   // the first `evaluations` that compile are judged
  kOn,    // the best `evaluations` by the reviewers' score are judged
  kAuto,  // as kOn while it pays (cascade.h); then all that compile are judged
};

/// The defaults are the paper's where it says what it did. 0 switches a number's ingredient off.
struct EvolutionOptions {
  int generations = 10;
  int proposals = 8;    // a generation
  int evaluations = 4;  // of them
  int examples = 5;     // accepted kernels in a prompt, slowest first
  int failures = 3;     // recent mistakes in a prompt
  int hints = 2;        // in a prompt
  int reflections = 1;  // rounds
  int polish = 8;       // variants that the tuner tries of each new best
  int islands = 1;
  int migrate_every = 3;     // generations
  int new_hint_every = 5;    // generations
  double temperature = 0.7;  // of the choice of parents, in ranks
  bool sequential = false;   // proposals in one conversation, each different from those before
  bool crossover = true, edits = true, novelty = true;
  bool feedback = true, summary = true;  // the profile page, a model's three recommendations
  bool bandit = true;                    // else models are chosen by their weights alone
  Reading reading = Reading::kAuto;
  review::ReviewOptions review;
  uint64_t seed = 0;

  std::string operation;  // what is asked, as text
  /// "8.27 us (estimate)".
  std::function<std::string(double)> objective_text;
  std::vector<double> weights;  // of the models
  /// Of a replay: whether the recorded run read before it judged, by generation.
  std::map<int, bool> recorded_reading;
};

struct EvolutionParts {  // borrowed
  archive::Archive& archive;
  Evaluator& evaluator;
  Conversations& conversations;
  std::vector<llm::Asker*> proposers;
  std::vector<llm::Asker*> reviewers;
};

/// Goes on from what the archive holds; `start` is the source of the starting kernel. Errors:
/// kCancelled; that no model can be asked any more (budget, network): the archive is ready to go
/// on.
Result<RunResult> Evolve(const EvolutionParts& parts, const std::string& start,
                         const EvolutionOptions& options);

}  // namespace cupel::evolve
