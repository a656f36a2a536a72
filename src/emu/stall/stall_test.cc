// Kernels that wait. Correct ones end with correct results. Those that can never end are reported
// at the line that waits.
// SPDX-License-Identifier: Apache-2.0

#include "emu/stall/stall.h"

#include <numeric>
#include <string>
#include <vector>

#include "emu/check/report.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

class StallTest : public testing::Test {
 protected:
  uint64_t Zeros(size_t count) { return emu.Buffer(std::vector<int>(count)); }
  static std::vector<int> Count(size_t count) {
    std::vector<int> values(count);
    std::iota(values.begin(), values.end(), 1);
    return values;
  }
  static void ExpectNoFindings(const LaunchOutcome& outcome) {
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    EXPECT_EQ(Summary(outcome), "");
  }
  /// Expects one finding at the marked line, after a limited number of instructions.
  static void ExpectStall(const LaunchOutcome& outcome, const std::string& name,
                          const std::string& code = "deadlock") {
    EXPECT_FALSE(outcome.completed);
    ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
    const records::Finding& finding = outcome.findings[0];
    EXPECT_EQ(finding.code, code) << Summary(outcome);
    EXPECT_EQ(finding.severity, records::Severity::kError);
    EXPECT_EQ(finding.file, "spins.cu");
    EXPECT_EQ(finding.line, MarkedLine("spins.cu", name)) << Summary(outcome);
    EXPECT_LT(outcome.counters.warp_instructions, 100'000'000u);
    RecordProperty("message", finding.message);
  }
  Interpreter emu{TestData("spins.ptx")};
};

TEST_F(StallTest, GridBarriersComplete) {
  for (const uint32_t blocks : {4u, 300u}) {
    const uint64_t count = Zeros(1), parts = Zeros(blocks), out = Zeros(blocks);
    ExpectNoFindings(emu.Launch("grid_barrier_good", {blocks}, {64}, count, parts, out));
    const int sum = static_cast<int>(blocks * (blocks - 1) / 2 + 3 * blocks);
    EXPECT_EQ(emu.Read<int>(out, blocks), std::vector<int>(blocks, sum));
  }
}

TEST_F(StallTest, ReportsMissingArrival) {
  for (const uint32_t blocks : {4u, 300u}) {
    const uint64_t count = Zeros(1);
    const auto outcome =
        emu.Launch("grid_barrier_bad", {blocks}, {64}, count, Zeros(blocks), Zeros(blocks));
    ExpectStall(outcome, "grid_barrier");
    EXPECT_NE(outcome.findings[0].message.find("finds " + std::to_string(blocks - 1)),
              std::string::npos)
        << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].where, emu.memory().Describe(count));
  }
}

TEST_F(StallTest, ReportsGridBarrierThatExceedsTheDevice) {
  constexpr uint32_t kBlocks = 300;
  emu.resident_blocks = 100;
  const auto outcome =
      emu.Launch("grid_barrier_good", {kBlocks}, {64}, Zeros(1), Zeros(kBlocks), Zeros(kBlocks));
  ExpectStall(outcome, "grid_barrier");
  EXPECT_NE(outcome.findings[0].message.find("holds 100 blocks"), std::string::npos);
  EXPECT_NE(outcome.findings[0].message.find("200 more can never start"), std::string::npos);
  // Blocks that only wait for earlier ones need not all be resident.
  const uint64_t out = Zeros(kBlocks);
  ExpectNoFindings(emu.Launch("look_back_good", {kBlocks}, {32}, Zeros(kBlocks), Zeros(kBlocks),
                              emu.Buffer(Count(kBlocks)), out));
  EXPECT_EQ(emu.Read<int>(out, kBlocks).back(), kBlocks * (kBlocks + 1) / 2);
}

TEST_F(StallTest, CooperativeGridsSynchronise) {
  emu.cooperative = true;
  const uint64_t out = Zeros(64);
  ExpectNoFindings(emu.Launch("grid_sync", {64}, {32}, Zeros(64), out, -1));
  EXPECT_EQ(emu.Read<int>(out, 64)[63], 0);
  EXPECT_EQ(emu.Read<int>(out, 64)[0], 1);
  const auto outcome = emu.Launch("grid_sync", {64}, {32}, Zeros(64), out, 7);
  EXPECT_FALSE(outcome.completed);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "deadlock") << Summary(outcome);
}

TEST_F(StallTest, LookBackScansFinishInEveryOrder) {
  constexpr uint32_t kBlocks = 200;
  for (const uint64_t schedule : {0u, 1u, 2u}) {
    emu.options.schedule = schedule;
    const uint64_t out = Zeros(kBlocks);
    ExpectNoFindings(emu.Launch("look_back_good", {kBlocks}, {64}, Zeros(kBlocks), Zeros(kBlocks),
                                emu.Buffer(Count(kBlocks)), out));
    EXPECT_EQ(emu.Read<int>(out, kBlocks).back(), kBlocks * (kBlocks + 1) / 2);
    const uint64_t flags = Zeros(kBlocks);
    const auto outcome = emu.Launch("look_back_bad", {kBlocks}, {64}, Zeros(kBlocks), flags,
                                    emu.Buffer(Count(kBlocks)), out);
    ExpectStall(outcome, "look_back");
    EXPECT_NE(outcome.findings[0].where.find("bytes"), std::string::npos);
  }
}

TEST_F(StallTest, BlocksMayStartOutOfOrder) {
  constexpr uint32_t kBlocks = 100;
  emu.resident_blocks = 64;
  for (const uint64_t schedule : {0u, 1u, 2u}) {
    emu.options.schedule = schedule;
    const uint64_t out = Zeros(kBlocks);
    ExpectNoFindings(emu.Launch("look_back_atomic", {kBlocks}, {64}, Zeros(kBlocks),
                                emu.Buffer(Count(kBlocks)), out));
    EXPECT_EQ(emu.Read<int>(out, kBlocks).back(), kBlocks * (kBlocks + 1) / 2);
    ExpectNoFindings(emu.Launch("look_back_good", {kBlocks}, {64}, Zeros(kBlocks), Zeros(kBlocks),
                                emu.Buffer(Count(kBlocks)), out));
  }
}

TEST_F(StallTest, LocksArePassedOn) {
  const uint64_t total = Zeros(1);
  ExpectNoFindings(emu.Launch("ticket_lock_good", {20}, {64}, Zeros(1), Zeros(1), total, 50));
  EXPECT_EQ(emu.Read<int>(total, 1)[0], 1000);
  ExpectStall(emu.Launch("ticket_lock_bad", {20}, {64}, Zeros(1), Zeros(1), total, 5),
              "ticket_lock");
  const uint64_t sum = Zeros(1);
  ExpectNoFindings(emu.Launch("swap_lock_good", {20}, {256}, Zeros(1), sum));
  EXPECT_EQ(emu.Read<int>(sum, 1)[0], 160);
  // Within one block, and across blocks.
  ExpectStall(emu.Launch("swap_lock_bad", {1}, {64}, Zeros(1), sum), "swap_lock");
  ExpectStall(emu.Launch("swap_lock_bad", {20}, {256}, Zeros(1), sum), "swap_lock");
}

TEST_F(StallTest, LastBlockReductionFinishes) {
  const uint64_t out = Zeros(1);
  ExpectNoFindings(emu.Launch("last_block", {100}, {64}, Zeros(1), Zeros(100), out));
  EXPECT_EQ(emu.Read<int>(out, 1)[0], 4950);
}

TEST_F(StallTest, ConsumersWaitForProducers) {
  for (const bool checked : {false, true}) {
    emu.options.full_checks = checked;
    const uint64_t out = Zeros(1);
    ExpectNoFindings(emu.Launch("pipe", {1}, {64}, out, 10, 10));
    EXPECT_EQ(emu.Read<int>(out, 1)[0], 45);
    const auto outcome = emu.Launch("pipe", {1}, {64}, out, 10, 11);
    ExpectStall(outcome, "pipe");
    EXPECT_EQ(outcome.findings[0].thread.x, 32u);
    EXPECT_EQ(outcome.findings[0].where.substr(0, 13), "shared memory");
  }
}

TEST_F(StallTest, ReportsWaitsForMbarrierPhases) {
  ExpectNoFindings(emu.Launch("parity", {1}, {128}, Zeros(128), 0));
  const auto outcome = emu.Launch("parity", {1}, {128}, Zeros(128), 1);
  // The other parity is that of the previous phase until the current phase completes. The last warp
  // to arrive therefore waits for the next phase.
  ExpectStall(outcome, "parity");
  EXPECT_NE(outcome.findings[0].message.find("mbarrier"), std::string::npos) << Summary(outcome);
}

TEST_F(StallTest, LoopsThatCountTheirTriesMayGiveUp) {
  const uint64_t out = Zeros(64);
  ExpectNoFindings(emu.Launch("bounded", {1}, {64}, Zeros(1), out, 500'000));
  EXPECT_EQ(emu.Read<int>(out, 64), std::vector<int>(64, 500'000));
  ExpectNoFindings(emu.Launch("timed", {1}, {64}, Zeros(1), out, int64_t{20'000'000}));
  ExpectStall(emu.Launch("bounded", {1}, {64}, Zeros(1), out, 1'000'000'000), "bounded",
              "instruction_budget");
}

TEST_F(StallTest, DetectsStallsDespiteUnusedCounters) {
  for (const uint32_t blocks : {1u, 30u}) {
    const uint64_t out = Zeros(blocks * 64);
    ExpectStall(emu.Launch("counted", {blocks}, {64}, Zeros(1), out), "counted");
  }
  // A loop that reads the clock might give up.
  ExpectStall(emu.Launch("relaxed", {30}, {64}, Zeros(1), Zeros(30 * 64)), "relaxed",
              "instruction_budget");
}

TEST_F(StallTest, ReportsPollingByPlainReads) {
  const uint64_t flag = emu.Buffer(std::vector<int>{-1});
  const auto outcome = emu.Launch("plain", {2}, {64}, flag, Zeros(2));
  ExpectStall(outcome, "plain");
  EXPECT_NE(outcome.findings[0].message.find("finds -1"), std::string::npos) << Summary(outcome);
  EXPECT_NE(outcome.findings[0].message.find("through volatile"), std::string::npos);
}

TEST_F(StallTest, ReportsLoopsWithBarriersAndVotes) {
  const uint64_t out = Zeros(128);
  ExpectStall(emu.Launch("together", {1}, {128}, Zeros(1), out), "together");
  ExpectNoFindings(emu.Launch("together", {1}, {128}, emu.Buffer(std::vector<int>{1}), out));
  ExpectStall(emu.Launch("voted", {1}, {64}, Zeros(1), out), "voted");
}

TEST_F(StallTest, ALoopMayReleaseABarrier) {
  const uint64_t out = Zeros(64);
  ExpectNoFindings(emu.Launch("escorted", {1}, {64}, Zeros(1), out, 300'000));
  EXPECT_EQ(emu.Read<int>(out, 64), std::vector<int>(64, 1));
}

TEST_F(StallTest, DivergedLanesOfAWarpTakeTurns) {
  const uint64_t out = Zeros(64);
  ExpectNoFindings(emu.Launch("lanes", {1}, {64}, out, 1));
  EXPECT_EQ(emu.Read<int>(out, 64), std::vector<int>(64, 1));
  ExpectStall(emu.Launch("lanes", {1}, {64}, out, 0), "lanes");
}

TEST_F(StallTest, DoesNotReportLongWork) {
  const uint64_t out = Zeros(256);
  std::vector<int> next(64), chain(20'000);
  for (int i = 0; i < 64; ++i) next[static_cast<size_t>(i)] = (i * 5 + 3) % 64;
  for (size_t i = 0; i + 1 < chain.size(); ++i) chain[i] = static_cast<int>(i) + 1;
  emu.stall_check_interval = 1000;
  ExpectNoFindings(
      emu.Launch("long_sum", {1}, {64}, emu.Buffer(std::vector<float>(64, 2)), out, 100'000));
  ExpectNoFindings(emu.Launch("long_walk", {1}, {64}, emu.Buffer(next), out, 50'000));
  ExpectNoFindings(emu.Launch("long_chase", {1}, {1}, emu.Buffer(chain), out));
  EXPECT_EQ(emu.Read<int>(out, 1)[0], 19'999);
  for (const uint32_t blocks : {2u, 40u}) {
    const uint64_t flag = Zeros(1);
    ExpectNoFindings(emu.Launch("patient", {blocks}, {64}, flag, out, 100'000));
    const auto values = emu.Read<int>(out, blocks);
    EXPECT_EQ(values, std::vector<int>(blocks, values[0]));
  }
  // More work than the limit for warps that only wait.
  emu.stall_check_interval = 0;
  ExpectNoFindings(emu.Launch("long_work", {1}, {32}, Zeros(1), out, 11'000'000));
}

TEST_F(StallTest, DoesNotReportWaitsWhileOthersWork) {
  const uint64_t out = Zeros(1024);
  // Waits longer than the limit for loops without changes, but other threads' values change.
  ExpectNoFindings(emu.Launch("rounds", {1}, {32}, Zeros(1), out, 2500, 5000));
  emu.options.schedule = 1;
  ExpectNoFindings(emu.Launch("specialised", {1}, {1024}, out, 400'000));
}

TEST_F(StallTest, ReadsThroughTheL2MayPoll) {
  std::vector<std::vector<int>> seen;
  for (const int threads : {1, 2}) {
    emu.threads = threads;
    emu.in_order = false;
    const uint64_t out = Zeros(2);
    LaunchOutcome outcome = emu.Launch("through_l2", {2}, {64}, Zeros(1), out, 3'000'000);
    if (outcome.wants_order) {
      emu.in_order = true;
      outcome = emu.Launch("through_l2", {2}, {64}, Zeros(1), out, 3'000'000);
    }
    ExpectNoFindings(outcome);
    seen.push_back(emu.Read<int>(out, 2));
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0][1], 1);
}

/// Correct kernels that are checked very often.
TEST_F(StallTest, ChecksDoNotChangeResults) {
  emu.stall_check_interval = 50;
  for (const bool checked : {false, true}) {
    emu.options.full_checks = checked;
    constexpr uint32_t kBlocks = 40;
    const uint64_t out = Zeros(256), total = Zeros(1);
    ExpectNoFindings(
        emu.Launch("grid_barrier_good", {kBlocks}, {128}, Zeros(1), Zeros(kBlocks), out));
    EXPECT_EQ(emu.Read<int>(out, kBlocks), std::vector<int>(kBlocks, 900));
    ExpectNoFindings(emu.Launch("look_back_good", {kBlocks}, {64}, Zeros(kBlocks), Zeros(kBlocks),
                                emu.Buffer(Count(kBlocks)), out));
    EXPECT_EQ(emu.Read<int>(out, kBlocks)[39], 820);
    ExpectNoFindings(emu.Launch("ticket_lock_good", {20}, {64}, Zeros(1), Zeros(1), total, 10));
    EXPECT_EQ(emu.Read<int>(total, 1)[0], 200);
    ExpectNoFindings(emu.Launch("swap_lock_good", {20}, {256}, Zeros(1), total));
    EXPECT_EQ(emu.Read<int>(total, 1)[0], 360);
    ExpectNoFindings(emu.Launch("last_block", {100}, {64}, Zeros(1), Zeros(100), out));
    EXPECT_EQ(emu.Read<int>(out, 1)[0], 4950);
    ExpectNoFindings(emu.Launch("pipe", {1}, {64}, out, 5, 5));
    EXPECT_EQ(emu.Read<int>(out, 1)[0], 10);
    ExpectNoFindings(emu.Launch("parity", {1}, {128}, out, 0));
    ExpectNoFindings(emu.Launch("escorted", {1}, {64}, Zeros(1), out, 1000));
    ExpectNoFindings(emu.Launch("bounded", {4}, {64}, Zeros(1), out, 10'000));
    EXPECT_EQ(emu.Read<int>(out, 256), std::vector<int>(256, 10'000));
  }
}

TEST_F(StallTest, DetectsStallsWithShadows) {
  auto shadows = ShadowRun::Create(emu.memory().base());
  ASSERT_TRUE(shadows);
  emu.shadows = shadows->get();
  ExpectStall(emu.Launch("counted", {3}, {64}, Zeros(1), Zeros(3 * 64)), "counted");
  ExpectStall(emu.Launch("endless", {3}, {64}, Zeros(64), 0), "endless", "instruction_budget");
}

TEST_F(StallTest, FindingsDoNotDependOnThreads) {
  std::vector<std::string> summaries;
  for (const int threads : {1, 2, 4}) {
    emu.threads = threads;
    const auto outcome = emu.Launch("endless", {16}, {64}, Zeros(64), 0);
    ASSERT_EQ(outcome.findings.size(), 1u);
    EXPECT_EQ(outcome.findings[0].block.x, 0u);
    summaries.push_back(Summary(outcome));
  }
  EXPECT_EQ(summaries[0], summaries[1]);
  EXPECT_EQ(summaries[0], summaries[2]);
}

TEST_F(StallTest, ReportsEndlessLoops) {
  ExpectStall(emu.Launch("endless", {1}, {64}, Zeros(64), 0), "endless", "instruction_budget");
  ExpectStall(emu.Launch("endless", {8}, {64}, Zeros(64), 0), "endless", "instruction_budget");
}

}  // namespace
}  // namespace cupel::emu
