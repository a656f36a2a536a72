// Plans a generation: the operator, parents, hints, model and prompt context of each proposal.
// SPDX-License-Identifier: Apache-2.0
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

/// `before`: the candidates of earlier generations, at least one of them accepted. Chooses models
/// and counts the choices in `state`. Deterministic except for new answers of the summariser.
/// Errors: of the archive.
Result<Plan> MakePlan(const EvolutionParts& parts, const EvolutionOptions& options, int generation,
                      const std::vector<archive::Candidate>& before, SearchState& state,
                      RunMemory& memory, const Random& random);

}  // namespace cupel::evolve
