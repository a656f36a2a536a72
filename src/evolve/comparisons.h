// Comparisons on a GPU that a run's archive keeps, so that an interrupted run does not measure a
// candidate twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "archive/archive.h"
#include "evolve/objective.h"
#include "records/verdict.h"

namespace cupel::evolve {

/// A candidate that is better than the best of its time, and waits for the final judgement.
struct KeptComparison {
  records::Verdict verdict;  // of the cheap judgement
  Standing standing;
};

/// With which candidate (0: none), and on which GPU.
struct ComparedWith {
  int64_t best = 0;
  std::string device;
  bool operator==(const ComparedWith&) const = default;
};

/// Adds the stage "measure".
Status KeepComparison(archive::Archive& archive, int64_t candidate, const ComparedWith& with,
                      const KeptComparison& kept, double seconds);

/// What was kept for this candidate, if it was compared with the same best one on such a GPU. A
/// damaged record does not count: the candidate is then compared again.
Result<std::optional<KeptComparison>> FindComparison(const archive::Archive& archive,
                                                     int64_t candidate, const ComparedWith& with);

}  // namespace cupel::evolve
