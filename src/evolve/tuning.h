// Runs without a language model: in each generation, the built-in tuner proposes variants of the
// best kernel so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "evolve/evaluator.h"
#include "evolve/tunables.h"

namespace cupel::evolve {

struct TuningOptions {
  int candidates = 32;  // to try, without the starting kernel
  int batch = 8;        // proposals per generation
  uint64_t seed = 0;
  double stop_below = 0;  // an objective that is good enough; 0: none is
};

/// RunResult::end if the best is good enough.
inline constexpr const char* kGoodEnough = "the best kernel is as near to the floor as requested";

struct RunResult {
  bool start_accepted = false;
  std::string end;  // "all candidates tried", "no variants left to try"
};

/// Starts or resumes the run in the archive; `start` is the source of the starting kernel. The run
/// can be resumed after kCancelled.
Result<RunResult> Tune(archive::Archive& archive, Evaluator& evaluator, const std::string& start,
                       const TuningOptions& options);

/// Adds the starting kernel to the archive unless it is already there. Returns its id.
Result<int64_t> AddStart(archive::Archive& archive, const std::string& start);

/// Adds at most `count` variants of `base` as candidates of a generation; skips variants that the
/// run already has. Deterministic in its arguments and the archive. Returns the ids.
Result<std::vector<int64_t>> AddVariants(archive::Archive& archive, int64_t base, int count,
                                         int generation, Random random);

}  // namespace cupel::evolve
