// Runs the loop of an optimization with language models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "app/search/optimize_config.h"
#include "app/search/references.h"
#include "app/search/run.h"
#include "evolve/evaluator.h"
#include "evolve/tuning.h"
#include "llm/sink.h"

namespace cupel::app {

/// What an earlier run recorded, for a replay.
struct Recording {
  std::vector<llm::Exchange> exchanges;
  std::map<int, bool> reading;  // whether reviewers were asked, by generation
};

/// `stop_below`: EvolutionOptions. If `stored` has no starting kernel, models write one first. If
/// `recording` is not null, it answers instead of the models, and the run ends where it ends.
/// Errors: those of Evolve.
Result<evolve::RunResult> EvolveRun(const OptimizeOptions& options, OpenRun& run,
                                    const StoredRun& stored, evolve::Evaluator& evaluator,
                                    const Recording* recording, const References& references,
                                    double stop_below);

}  // namespace cupel::app
