// Comparisons on a GPU that a run's archive keeps, so that an interrupted run does not measure a
// candidate twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "archive/archive.h"
#include "evolve/objective.h"
#include "records/verdict.h"

namespace cupel::evolve {

/// A candidate that is better than the best of its time, and waits for the final judgement.
struct KeptComparison {
  records::Verdict verdict;  // of the cheap judgement
  Standing standing;
};

/// Adds the stage "measure". `best`: the candidate that it was compared with, 0 if there was none.
Status KeepComparison(archive::Archive& archive, int64_t candidate, int64_t best,
                      const KeptComparison& kept, double seconds);

/// What was kept for this candidate, if it was compared with the same best one. A damaged record
/// does not count: the candidate is then compared again.
Result<std::optional<KeptComparison>> FindComparison(const archive::Archive& archive,
                                                     int64_t candidate, int64_t best);

}  // namespace cupel::evolve
