// Runs without a language model: the built-in tuner proposes, generation by generation, variants of
// the best so far. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "evolve/evaluator.h"
#include "evolve/tunables.h"

namespace cupel::evolve {

struct TuningOptions {
  int candidates = 32;  // to try, the starting kernel not counted
  int batch = 8;        // proposals a generation
  uint64_t seed = 0;
};

struct RunResult {
  bool start_accepted = false;
  std::string end;  // "all candidates tried", "no variants left to try"
};

/// Goes on from what the archive holds; `start` is the source of the starting kernel. kCancelled
/// leaves the archive ready to go on.
Result<RunResult> Tune(archive::Archive& archive, Evaluator& evaluator, const std::string& start,
                       const TuningOptions& options);

/// Puts the starting kernel into the archive, where it is not there yet.
Result<int64_t> AddStart(archive::Archive& archive, const std::string& start);

/// Variants of `base` as new candidates of a generation: at most `count`, none that the run has.
/// Deterministic in its arguments and the archive. Returns their ids.
Result<std::vector<int64_t>> AddVariants(archive::Archive& archive, int64_t base, int count,
                                         int generation, Random random);

}  // namespace cupel::evolve
