// Decides how much of a large plan is emulated: all blocks in one trial if that is affordable, and
// random samples in the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::assay {

/// For one setting. Remembers between trials how much work a run is. Decides by counts instead of
/// time, so that a seed repeats a verdict.
class SampledRunner {
 public:
  using Arguments = std::span<const std::span<const std::byte>>;
  /// True when a run shows no fault.
  using IsRight = std::function<bool(const engine::Run&)>;

  /// Executes the plan once more. If a sample shows a fault, runs all blocks if that is affordable,
  /// so that the report covers the whole output.
  Result<engine::Run> Execute(engine::Program& program, const plan::Plan& plan, Arguments arguments,
                              engine::RunOptions options, const IsRight& is_right);

 private:
  bool ran_all_ = false;  // in an earlier trial
  uint64_t work_ = 0;     // warp instructions of all blocks, the maximum so far
};

}  // namespace cupel::assay
