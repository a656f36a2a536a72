// SPDX-License-Identifier: Apache-2.0
#include "evolve/candidates.h"

#include <utility>

namespace cupel::evolve {

Result<std::vector<archive::Candidate>> CandidatesBefore(const archive::Archive& archive,
                                                         int generation) {
  TRY_ASSIGN(auto candidates, archive.List());
  std::erase_if(candidates,
                [&](const archive::Candidate& one) { return one.generation >= generation; });
  return candidates;
}

const archive::Candidate* BestOf(const std::vector<archive::Candidate>& candidates) {
  const archive::Candidate* best = nullptr;
  for (const archive::Candidate& one : candidates) {
    if (one.objective && (best == nullptr || *one.objective < *best->objective)) best = &one;
  }
  return best;
}

}  // namespace cupel::evolve
