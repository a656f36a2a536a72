// The built-in proposer, which needs no language model. It proposes the neighbours of the best
// assignment so far (one tunable moved to the next choice), then random points of the whole space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "base/random.h"
#include "evolve/tunables.h"

namespace cupel::evolve {

/// At most `count` different assignments for which `is_new` returns true. Assignments are
/// normalised: they omit values that equal those in the source. Returns fewer, or none, if the
/// space is exhausted or random draws find nothing new. Deterministic in all arguments.
std::vector<Assignment> Propose(const std::vector<Tunable>& tunables, const Assignment& best,
                                int count, Random random,
                                const std::function<bool(const Assignment&)>& is_new);

}  // namespace cupel::evolve
