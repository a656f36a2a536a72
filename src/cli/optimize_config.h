// What a run of `cupel optimize` was asked, as its archive keeps it: all that a resume or a replay
// must know. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/options.h"
#include "evolve/evolution.h"
#include "review/review.h"

namespace cupel::cli {

/// Names of ingredients that --without takes, for help and messages.
std::string IngredientNames();

/// Those of the command. Errors: an ingredient that is none.
Result<evolve::EvolutionOptions> EvolutionOptionsOf(const OptimizeCommand& command);

struct StoredRun {
  std::string start;      // source of the starting kernel
  std::string operation;  // what models are told; empty without models
  review::ReviewOptions review;
};

Json ToJson(const OptimizeCommand& command, const StoredRun& stored);

/// Fills `command` with what the run was started with. A budget that `command` has already stays.
Result<StoredRun> FromJson(const Json& json, OptimizeCommand& command);

}  // namespace cupel::cli
