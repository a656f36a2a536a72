// One generation: ask, drop copies, compile, review, judge, tune, reward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "evolve/evolution.h"
#include "evolve/run_memory.h"
#include "evolve/search_state.h"

namespace cupel::evolve {

/// Runs generation state.generation + 1, or resumes it, and updates `state`. Returns its facts for
/// the archive's log. Errors: those of Evolve; `state` is then unspecified.
Result<Json> RunGeneration(const EvolutionParts& parts, const EvolutionOptions& options,
                           SearchState& state, RunMemory& memory);

}  // namespace cupel::evolve
