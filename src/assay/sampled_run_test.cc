// SPDX-License-Identifier: Apache-2.0
#include "assay/sampled_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cupel::assay {
namespace {

/// Runs everything and records how many blocks each run had.
class CountingProgram : public engine::Program {
 public:
  Result<engine::Run> Execute(const plan::Plan&, SampledRunner::Arguments,
                              const engine::RunOptions& options) override {
    engine::Run run;
    run.completed = true;
    run.all_blocks = blocks;
    run.emulated_blocks =
        options.max_blocks == 0 || !can_sample ? blocks : std::min(blocks, options.max_blocks);
    run.warp_instructions = instructions_per_block * blocks;
    asked.push_back(run.emulated_blocks);
    return run;
  }
  uint64_t blocks = 1 << 16;
  uint64_t instructions_per_block = 1000;
  bool can_sample = true;
  std::vector<uint64_t> asked;
};

class SampledRun : public ::testing::Test {
 protected:
  SampledRun() { SetGrid(1 << 16); }
  void SetGrid(uint32_t blocks) {
    plan::Launch launch;
    launch.grid = {blocks, 1, 1};
    launch.block = {256, 1, 1};
    plan_.nodes = {plan::Node{launch, {}}};
    program_.blocks = blocks;
  }
  engine::Run Trial(bool right = true) {
    auto run = runner_.Execute(program_, plan_, {}, {}, [&](const engine::Run&) { return right; });
    EXPECT_TRUE(run);
    return *run;
  }
  CountingProgram program_;
  plan::Plan plan_;
  SampledRunner runner_;
};

TEST_F(SampledRun, AlwaysRunsSmallGridsCompletely) {
  SetGrid(64);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Trial().emulated_blocks, 64u);
  EXPECT_EQ(program_.asked, (std::vector<uint64_t>{64, 64, 64}));
}

TEST_F(SampledRun, RunsAllBlocksOnceThenSamples) {
  EXPECT_EQ(Trial().emulated_blocks, 1u << 16);
  EXPECT_EQ(Trial().emulated_blocks, 256u);
  EXPECT_EQ(Trial().emulated_blocks, 256u);
}

TEST_F(SampledRun, AlwaysRunsCheapGridsCompletely) {
  program_.instructions_per_block = 100;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Trial().emulated_blocks, 1u << 16);
}

TEST_F(SampledRun, OnlySamplesExpensiveGrids) {
  program_.instructions_per_block = 1'000'000;
  EXPECT_EQ(Trial().emulated_blocks, 256u);
  EXPECT_EQ(Trial(false).emulated_blocks, 256u);
}

TEST_F(SampledRun, RunsAllBlocksAfterFaultInSample) {
  Trial();
  EXPECT_EQ(Trial(false).emulated_blocks, 1u << 16);
}

TEST_F(SampledRun, RunsDependentBlocksOncePerTrial) {
  program_.can_sample = false;
  Trial();
  Trial();
  EXPECT_EQ(program_.asked, (std::vector<uint64_t>{1 << 16, 1 << 16}));
}

}  // namespace
}  // namespace cupel::assay
