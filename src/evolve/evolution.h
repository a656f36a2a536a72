// The paper's loop (arXiv 2509.14279, stage 2) with extensions; docs/evolve.md describes it. In
// each generation, language models propose kernels, which are screened as they arrive: copies are
// dropped, and the others are compiled and judged cheaply. The fastest are judged and measured.
// Earlier results decide which parents, examples, hints and models are used. The decisions of a
// generation depend only on the seed, the state after the generation before, and the answers and
// verdicts in the archive. An interrupted run therefore repeats its unfinished generation without
// asking anything twice. (Reading::kAuto also depends on seconds.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/hints.h"
#include "evolve/other_runs.h"
#include "evolve/tuning.h"
#include "llm/asker.h"
#include "review/review.h"

namespace cupel::evolve {

/// When reviewers read proposals before these are judged.
enum class Reading {
  kOff,
  kOn,
  kAuto,  // while reviews save more than they cost (cascade.h)
};

/// A number of 0 switches its feature off.
struct EvolutionOptions {
  int generations = 10;
  int proposals = 8;    // per generation
  int evaluations = 4;  // proposals per generation that are measured, the fastest first
  int examples = 3;     // accepted kernels in a prompt: the best with its source, others by idea
  int failures = 3;     // recent mistakes in a prompt
  int hints = 2;        // per prompt
  int repairs = 1;      // of a proposal that does not compile or is wrong
  int polish = 8;       // variants of each new best that the tuner tries
  int islands = 1;
  int migrate_every = 3;     // generations
  int new_hint_every = 5;    // generations
  double temperature = 0.7;  // of the choice of parents, in ranks
  bool sequential = false;   // proposals in one conversation, each different from those before
  bool crossover = true, edits = true, novelty = true;
  bool feedback = true, summary = true;  // the profile page, a model's three recommendations
  bool bandit = true;                    // if false, only the weights choose models
  Reading reading = Reading::kAuto;
  review::ReviewOptions review;
  uint64_t seed = 0;
  std::stop_token stop;

  std::string operation;           // the operation, as text (operation.h)
  HintFit fit;                     // of hints to the operation
  std::vector<ProvenIdea> proven;  // of other runs
  double stop_below = 0;           // an objective that is good enough; 0: none is
  std::string floor;               // PromptContext::floor
  int compared = 1;                // PromptContext::compared
  std::vector<double> weights;     // of the models
  /// For a replay: whether the recorded run reviewed before it judged, by generation.
  std::map<int, bool> recorded_reading;
};

struct EvolutionParts {  // borrowed
  archive::Archive& archive;
  Evaluator& evaluator;
  Conversations& conversations;
  std::vector<llm::Asker*> proposers;
  std::vector<llm::Asker*> reviewers;
};

/// Starts or resumes the run in the archive; `start` is the source of the starting kernel. Errors:
/// kCancelled, and errors of the models if none can be asked any more (budget, network). The run
/// can be resumed after an error.
Result<RunResult> Evolve(const EvolutionParts& parts, const std::string& start,
                         const EvolutionOptions& options);

}  // namespace cupel::evolve
