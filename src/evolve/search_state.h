// What one generation leaves to the next, beside the candidates: how many there were, what models
// and hints have earned, who lives on which island, whether reading first still pays. Kept as JSON
// in the archive. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "evolve/hints.h"
#include "evolve/islands.h"
#include "llm/ensemble.h"

namespace cupel::evolve {

struct SearchState {
  int generation = 0;  // the last one that came to its end
  llm::Ensemble ensemble;
  Hints hints;
  std::vector<Island> islands;
  bool reads = true;
};

Json ToJson(const SearchState& state);
/// Goes on from ToJson() of a state with the same models. Error kInvalidArgument.
Status Restore(const Json& json, SearchState& state);

}  // namespace cupel::evolve
