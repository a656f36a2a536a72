// Tested by sampled_run_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "assay/sampled_run.h"

#include <algorithm>

namespace cupel::assay {
namespace {

/// The number of blocks to emulate if a grid is sampled.
constexpr uint64_t kSample = 256;
/// Grids with fewer threads are always run completely.
constexpr uint64_t kManyThreads = uint64_t{1} << 20;
/// Limits in warp instructions for running all blocks: in one trial (about 20 s on two cores, with
/// all checks), and in every trial (0.2 s).
constexpr uint64_t kAffordableOnce = 2'000'000'000, kAffordableAlways = 30'000'000;

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

Result<engine::Run> SampledRunner::Execute(engine::Program& program, const plan::Plan& plan,
                                           Arguments arguments, engine::RunOptions options,
                                           const IsRight& is_right) {
  const auto run_all = [&]() -> Result<engine::Run> {
    options.max_blocks = 0;
    TRY_ASSIGN(engine::Run run, program.Execute(plan, arguments, options));
    ran_all_ = ran_all_ || run.completed;
    work_ = std::max(work_, run.warp_instructions);
    return run;
  };
  const bool small = ran_all_ ? work_ <= kAffordableAlways : Threads(plan) < kManyThreads;
  if (small) return run_all();
  options.max_blocks = kSample;
  TRY_ASSIGN(engine::Run run, program.Execute(plan, arguments, options));
  if (!IsSampled(run)) return run;
  work_ = std::max(work_, run.warp_instructions);
  const bool enough = ran_all_ && is_right(run);
  if (enough || work_ > kAffordableOnce) return run;
  return run_all();
}

}  // namespace cupel::assay
