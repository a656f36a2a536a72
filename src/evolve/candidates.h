// Looking back over a run's candidates. A generation decides by what earlier generations left: what
// it has itself added before a kill must not change what it does when it is done again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"

namespace cupel::evolve {

/// All of earlier generations, by id.
Result<std::vector<archive::Candidate>> CandidatesBefore(const archive::Archive& archive,
                                                         int generation);

/// The accepted one with the smallest objective, the oldest among equals; null when there is none.
const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates);

}  // namespace cupel::evolve
