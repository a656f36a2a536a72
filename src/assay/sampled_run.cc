// Tested by sampled_run_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "assay/sampled_run.h"

#include <algorithm>

namespace cupel::assay {
namespace {

/// Blocks of a grid that are emulated when not all are.
constexpr uint64_t kSample = 256;
/// Below so many threads all blocks run without further thought.
constexpr uint64_t kManyThreads = uint64_t{1} << 20;
/// What running all blocks may take: in the one trial that does, and in each.
constexpr double kAffordableOnce = 30, kAffordableAlways = 0.25;

uint64_t Threads(const plan::Plan& plan) {
  uint64_t threads = 0;
  for (const plan::Node& node : plan.nodes) {
    if (const auto* launch = std::get_if<plan::Launch>(&node.work)) {
      threads += launch->grid.Count() * launch->block.Count();
    }
  }
  return threads;
}

bool IsSampled(const engine::Run& run) { return run.emulated_blocks < run.all_blocks; }

}  // namespace

Result<engine::Run> SampledRunner::RunAll(engine::Program& program, const plan::Plan& plan,
                                          Arguments arguments, engine::RunOptions options) {
  options.max_blocks = 0;
  TRY_ASSIGN(engine::Run run, program.Execute(plan, arguments, options));
  ran_all_ = run.completed;
  all_seconds_ = std::max(all_seconds_, run.launch_seconds);
  return run;
}

Result<engine::Run> SampledRunner::Execute(engine::Program& program, const plan::Plan& plan,
                                           Arguments arguments, engine::RunOptions options,
                                           const IsRight& is_right) {
  const bool small = ran_all_ ? all_seconds_ < kAffordableAlways : Threads(plan) < kManyThreads;
  if (small) return RunAll(program, plan, arguments, options);
  options.max_blocks = kSample;
  TRY_ASSIGN(engine::Run run, program.Execute(plan, arguments, options));
  if (!IsSampled(run)) return run;
  all_seconds_ = std::max(all_seconds_, run.launch_seconds * static_cast<double>(run.all_blocks) /
                                            static_cast<double>(run.emulated_blocks));
  const bool enough = ran_all_ && is_right(run);
  if (enough || all_seconds_ > kAffordableOnce) return run;
  return RunAll(program, plan, arguments, options);
}

}  // namespace cupel::assay
