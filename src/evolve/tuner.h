// The built-in proposer: needs no language model. From the best assignment so far it proposes
// neighbours (one tunable moved to the next choice), then random points of the whole space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "base/random.h"
#include "evolve/tunables.h"

namespace cupel::evolve {

/// At most `count` assignments for which `is_new` holds, none twice. Assignments are normalised:
/// they hold no value that equals the source's own. Fewer, or none, when the space is exhausted or
/// chance finds nothing new in it. Deterministic in all arguments.
std::vector<Assignment> Propose(const std::vector<Tunable>& tunables, const Assignment& best,
                                int count, Random random,
                                const std::function<bool(const Assignment&)>& is_new);

}  // namespace cupel::evolve
