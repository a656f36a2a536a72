// Decides how much of a large plan is emulated: all blocks in one trial where that is affordable,
// random samples in the others. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::assay {

/// Of one setting; remembers between trials how much work a run is. Decides by counts and not by
/// time, so that a seed repeats a verdict.
class SampledRunner {
 public:
  using Arguments = std::span<const std::span<const std::byte>>;
  /// True when a run shows no fault.
  using IsRight = std::function<bool(const engine::Run&)>;

  /// Executes the plan once more. A sample that shows a fault is followed by a whole run where that
  /// is affordable, so that what is reported is about the whole output.
  Result<engine::Run> Execute(engine::Program& program, const plan::Plan& plan, Arguments arguments,
                              engine::RunOptions options, const IsRight& is_right);

 private:
  bool ran_all_ = false;  // in an earlier trial
  uint64_t work_ = 0;     // warp instructions of all blocks, the most seen
};

}  // namespace cupel::assay
