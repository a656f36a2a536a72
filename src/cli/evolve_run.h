// The loop of `cupel optimize` with language models, put together from what the command says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "cli/optimize_config.h"
#include "cli/run.h"
#include "evolve/evaluator.h"
#include "evolve/tuning.h"
#include "llm/sink.h"

namespace cupel::cli {

/// What an earlier run recorded, for a replay of it.
struct Recording {
  std::vector<llm::Exchange> exchanges;
  std::map<int, bool> reading;  // whether reviewers were asked, by generation
};

/// Where `stored` has no starting kernel, models write one first. `recording`, if there is one,
/// answers in place of the models, and where it ends the run ends. Errors: those of Evolve.
Result<evolve::RunResult> EvolveRun(const OptimizeCommand& command, OpenRun& run,
                                    const StoredRun& stored, evolve::Evaluator& evaluator,
                                    std::string_view objective, const Recording* recording);

}  // namespace cupel::cli
