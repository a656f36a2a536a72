// The state that a generation passes to the next, in addition to the candidates: the number of
// generations, rewards of models and hints, members of islands, and whether reviews still
// save time. Stored in the archive as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "evolve/hints.h"
#include "evolve/islands.h"
#include "llm/ensemble.h"

namespace cupel::evolve {

struct SearchState {
  int generation = 0;  // the last complete one
  llm::Ensemble ensemble;
  Hints hints;
  std::vector<Island> islands;
  bool reads = false;  // reviewers read the next generation, with Reading::kAuto
};

Json ToJson(const SearchState& state);
/// Restores ToJson() of a state with the same models. Error kInvalidArgument.
Status Restore(const Json& json, SearchState& state);

}  // namespace cupel::evolve
