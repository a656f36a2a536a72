// The configuration of an optimization as its archive stores it: everything that a resume
// or a replay needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/options.h"
#include "base/json.h"
#include "base/result.h"
#include "evolve/evolution.h"
#include "review/review.h"

namespace cupel::app {

/// The names that --without accepts, for help and messages.
std::string IngredientNames();

/// The options for the evolution. Error: an unknown name in --without.
Result<evolve::EvolutionOptions> EvolutionOptionsOf(const OptimizeOptions& options);

struct StoredRun {
  evolve::Form form = evolve::Form::kCuda;  // of the candidates
  std::string start;                        // source of the starting kernel
  std::string operation;                    // description for the models; empty without models
  evolve::HintFit fit;                      // of the operation
  std::vector<evolve::ProvenIdea> proven;   // of other runs
  review::ReviewOptions review;
};

Json ToJson(const OptimizeOptions& options, const StoredRun& stored);

/// Fills `options` with the configuration of the run. A budget in `options` is kept.
Result<StoredRun> FromJson(const Json& json, OptimizeOptions& options);

}  // namespace cupel::app
