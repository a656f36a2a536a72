// Plans a generation: for each proposal the way in which it is made, its parents, hints, model and
// all that the model is shown. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/random.h"
#include "evolve/evolution.h"
#include "evolve/proposing.h"
#include "evolve/run_memory.h"
#include "evolve/search_state.h"

namespace cupel::evolve {

struct Plan {
  size_t island = 0;
  std::vector<Slot> slots;
};

/// `before`: the candidates of earlier generations, one of them accepted. Chooses models, which
/// `state` counts. Deterministic, but for what the summariser says where it is asked. Errors: of
/// the archive.
Result<Plan> MakePlan(const EvolutionParts& parts, const EvolutionOptions& options, int generation,
                      const std::vector<archive::Candidate>& before, SearchState& state,
                      RunMemory& memory, const Random& random);

}  // namespace cupel::evolve
