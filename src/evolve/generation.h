// One generation: ask, drop copies, compile, let reviewers read, judge, polish, reward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "evolve/evolution.h"
#include "evolve/run_memory.h"
#include "evolve/search_state.h"

namespace cupel::evolve {

/// Does generation state.generation + 1, or what is left of it; then `state` is that after it.
/// Returns what there is to tell of it, for the archive's log. Errors leave `state` of no use:
/// those of Evolve.
Result<Json> RunGeneration(const EvolutionParts& parts, const EvolutionOptions& options,
                           SearchState& state, RunMemory& memory);

}  // namespace cupel::evolve
