// The configuration of a run of `cupel optimize` as its archive stores it: everything that a resume
// or a replay needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/options.h"
#include "evolve/evolution.h"
#include "review/review.h"

namespace cupel::cli {

/// The names that --without accepts, for help and messages.
std::string IngredientNames();

/// The command's options for the search. Error: an unknown name in --without.
Result<evolve::EvolutionOptions> EvolutionOptionsOf(const OptimizeCommand& command);

struct StoredRun {
  std::string start;      // source of the starting kernel
  std::string operation;  // description for the models; empty without models
  review::ReviewOptions review;
};

Json ToJson(const OptimizeCommand& command, const StoredRun& stored);

/// Fills `command` with the configuration of the run. A budget in `command` is kept.
Result<StoredRun> FromJson(const Json& json, OptimizeCommand& command);

}  // namespace cupel::cli
