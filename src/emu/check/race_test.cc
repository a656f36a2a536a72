// Tests data races, and reads of unwritten memory. Each kernel of testdata/races.cu is reported at
// the correct line with its bug, and causes no finding without it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>

#include "emu/check/global_race.h"
#include "emu/core/launch_request.h"
#include "emu/core/op.h"
#include "emu/core/race_clock.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// The line of races.cu that is marked "BUG name".
int LineOfBug(const std::string& name) {
  std::istringstream text(TestData("races.cu"));
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    if (line.ends_with("// BUG " + name)) return number;
  }
  ADD_FAILURE() << "no BUG " << name;
  return 0;
}

std::vector<int> Ascending(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

/// Runs each test with the code for the newest processor and with the plain code.
class RaceTest : public testing::TestWithParam<int> {
 protected:
  RaceTest() : emu(TestData("races.ptx"), GetParam()) { emu.CheckEverything(); }

  void ExpectNoFindings(const LaunchOutcome& outcome) {
    EXPECT_TRUE(outcome.completed && outcome.findings.empty()) << Summary(outcome);
  }
  void ExpectFound(const LaunchOutcome& outcome, const std::string& code, const std::string& bug,
                   records::Severity severity = records::Severity::kError) {
    ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].code, code) << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].severity, severity) << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].line, LineOfBug(bug)) << Summary(outcome);
    EXPECT_EQ(outcome.completed, severity == records::Severity::kWarning);
  }

  Interpreter emu;
};

INSTANTIATE_TEST_SUITE_P(Levels, RaceTest, testing::Values(0, 2));

TEST_P(RaceTest, FencesStayValidAfterABarrier) {
  const uint64_t x = emu.Buffer(Ascending(64 * 8));
  const auto launch = [&](const char* kernel) {
    return emu.Launch(kernel, {8}, {64}, x, emu.Empty<int>(64 * 8), emu.Buffer(std::vector<int>(1)),
                      emu.Empty<int>(64));
  };
  ExpectNoFindings(launch("fenced_by_all_good"));
  const LaunchOutcome bad = launch("fenced_by_all_bad");
  ASSERT_EQ(bad.findings.size(), 1u) << Summary(bad);
  EXPECT_EQ(bad.findings[0].code, "global_race");
  EXPECT_EQ(bad.findings[0].line, LineOfBug("fenced_by_all"));
}

TEST_P(RaceTest, DetectsMissingBarriers) {
  const uint64_t x = emu.Buffer(Ascending(64 * 8)), y = emu.Buffer(Ascending(64 * 8));
  ExpectNoFindings(emu.Launch("neighbour_good", {1}, {64}, x, emu.Empty<int>(64)));
  ExpectNoFindings(emu.Launch("tile_loop_good", {1}, {64}, x, y, 8));
  ExpectFound(emu.Launch("neighbour_bad", {1}, {64}, x, y), "shared_race", "neighbour");
  ExpectFound(emu.Launch("tile_loop_bad", {1}, {64}, x, y, 8), "shared_race", "tile_loop");
}

TEST_P(RaceTest, DoesNotReportReadersWithAnAdvancedClock) {
  ExpectNoFindings(emu.Launch("busy_warp_good", {1}, {96}, emu.Empty<int>(96), 4));
  const auto bad = emu.Launch("busy_warp_bad", {1}, {96}, emu.Empty<int>(96), 4);
  ASSERT_FALSE(bad.findings.empty());
  EXPECT_EQ(bad.findings.back().code, "shared_race") << Summary(bad);
  EXPECT_EQ(bad.findings.back().line, LineOfBug("busy_warp")) << Summary(bad);
}

TEST_P(RaceTest, MessageNamesBothAccesses) {
  const uint64_t x = emu.Buffer(Ascending(64)), y = emu.Buffer(Ascending(64));
  const auto outcome = emu.Launch("neighbour_bad", {1}, {64}, x, y);
  ASSERT_EQ(outcome.findings.size(), 1u);
  const int other = LineOfBug("neighbour") - 2;
  EXPECT_EQ(outcome.findings[0].message,
            "Thread 0 reads byte 128 of shared memory, which thread 32 writes at line " +
                std::to_string(other) +
                ", and nothing orders the two accesses: a __syncthreads is missing.");
}

TEST_P(RaceTest, DetectsRacesWithinAWarp) {
  const uint64_t x = emu.Buffer(Ascending(64)), y = emu.Buffer(Ascending(64));
  ExpectNoFindings(emu.Launch("warp_exchange_good", {1}, {64}, x, y));
  ExpectFound(emu.Launch("warp_exchange_bad", {1}, {64}, x, y), "shared_race", "warp_exchange");
  ExpectNoFindings(emu.Launch("warp_reuse_good", {1}, {32}, x, y));
  ExpectFound(emu.Launch("warp_reuse_bad", {1}, {32}, x, y), "shared_race", "warp_reuse");
  ExpectFound(emu.Launch("volatile_reduction", {1}, {32}, x, y), "missing_syncwarp",
              "volatile_reduction", records::Severity::kWarning);
}

TEST_P(RaceTest, NamedBarriersOrderTheirParticipants) {
  const uint64_t x = emu.Buffer(Ascending(32 * 8)), y = emu.Buffer(Ascending(32 * 8));
  ExpectNoFindings(emu.Launch("producer_good", {1}, {96}, x, y, 8));
  ExpectFound(emu.Launch("producer_bad", {1}, {96}, x, y, 8), "shared_race", "producer");
}

TEST_P(RaceTest, DistinguishesNeighboursWithinAWord) {
  const uint64_t x = emu.Buffer(std::vector<uint16_t>(128, 0x3c00)),
                 y = emu.Buffer(std::vector<uint16_t>(128));
  ExpectNoFindings(emu.Launch("halves", {1}, {64}, x, y));
  ExpectNoFindings(emu.Launch("own_halves", {2}, {64}, x, y));
}

TEST_P(RaceTest, AtomicsAndFlagsOrderAccesses) {
  const uint64_t x = emu.Buffer(Ascending(64)), y = emu.Buffer(Ascending(64));
  ExpectNoFindings(emu.Launch("count_good", {1}, {64}, x, y));
  ExpectFound(emu.Launch("count_bad", {1}, {64}, x, y), "shared_race", "count",
              records::Severity::kWarning);
  ExpectNoFindings(emu.Launch("flagged_good", {1}, {64}, x, y));
  ExpectFound(emu.Launch("flagged_bad", {1}, {64}, x, y), "shared_race", "flagged");
  ExpectNoFindings(emu.Launch("histogram", {1}, {64}, x, y));
}

TEST_P(RaceTest, AcquirerOfAFlagMayResetIt) {
  const uint64_t x = emu.Buffer(Ascending(64)), y = emu.Buffer(Ascending(64));
  ExpectNoFindings(emu.Launch("mailbox", {1}, {64}, x, y));
}

TEST_P(RaceTest, WarnsAboutABarrierReachedFromTwoPlaces) {
  const uint64_t x = emu.Buffer(Ascending(64)), y = emu.Buffer(Ascending(64));
  const auto outcome = emu.Launch("two_barriers", {1}, {64}, x, y);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "barrier_divergence");
  EXPECT_EQ(outcome.findings[0].severity, records::Severity::kWarning);
  EXPECT_TRUE(outcome.completed);
}

TEST_P(RaceTest, HarmlessRacesAreWarnings) {
  const uint64_t x = emu.Buffer(Ascending(64)), y = emu.Buffer(Ascending(64));
  ExpectFound(emu.Launch("same_value", {1}, {64}, x, y), "shared_race", "same_value",
              records::Severity::kWarning);
  ExpectFound(emu.Launch("conflicting_lanes", {1}, {32}, x, y), "store_conflict",
              "conflicting_lanes", records::Severity::kWarning);
}

TEST_P(RaceTest, VolatileDataNeedAFence) {
  const uint64_t x = emu.Buffer(Ascending(64));
  const auto launch = [&](const char* name) {
    return emu.Launch(name, {2}, {64}, x, emu.Buffer(std::vector<int>(64)),
                      emu.Buffer(std::vector<int>(1)), emu.Buffer(std::vector<int>(64)));
  };
  ExpectNoFindings(launch("pass_volatile_good"));
  ExpectNoFindings(launch("pass_marked_good"));
  ExpectFound(launch("pass_volatile_bad"), "outdated_read", "pass_volatile");
}

TEST_P(RaceTest, DetectsRacesBetweenBlocks) {
  const uint64_t x = emu.Buffer(Ascending(64 * 4));
  emu.threads = 1;
  ExpectFound(emu.Launch("everyone_writes", {4}, {64}, x, emu.Empty<int>(64)), "global_race",
              "everyone_writes");
  ExpectFound(emu.Launch("overlapping", {4}, {64}, x, emu.Empty<int>(64 * 4)), "global_race",
              "overlapping");
  ExpectFound(emu.Launch("reads_neighbour_block", {4}, {64}, x), "global_race",
              "reads_neighbour_block");
  // A single block has no other block to race with, and launches run one after the other.
  const uint64_t y = emu.Empty<int>(64);
  ExpectNoFindings(emu.Launch("everyone_writes", {1}, {64}, x, y));
  ExpectNoFindings(emu.Launch("everyone_writes", {1}, {64}, x, y));
  ExpectNoFindings(emu.Launch("add_one", {4}, {64}, x));
  ExpectNoFindings(emu.Launch("add_one", {2}, {128}, x));
}

TEST_P(RaceTest, DetectsRacesInGlobalMemoryWithinABlock) {
  const uint64_t x = emu.Buffer(Ascending(256)), s = emu.Empty<int>(256), y = emu.Empty<int>(256);
  ExpectNoFindings(emu.Launch("scratch_good", {4}, {64}, x, s, y));
  emu.threads = 1;
  ExpectFound(emu.Launch("scratch_bad", {4}, {64}, x, emu.Empty<int>(256), y), "global_race",
              "scratch");
}

TEST_P(RaceTest, LastBlockReductionNeedsAFence) {
  const uint64_t x = emu.Buffer(Ascending(64 * 8));
  const std::vector<int> zero(1);
  const uint64_t y = emu.Buffer(zero);
  ExpectNoFindings(
      emu.Launch("last_block_good", {8}, {64}, x, emu.Empty<int>(8), emu.Buffer(zero), y));
  EXPECT_EQ(emu.Read<int>(y, 1)[0], 512 * 513 / 2);
  ExpectFound(emu.Launch("last_block_bad", {8}, {64}, x, emu.Empty<int>(8), emu.Buffer(zero), y),
              "global_race", "last_block");
}

TEST_P(RaceTest, WarnsIfNothingAcquires) {
  const uint64_t x = emu.Buffer(Ascending(64 * 8));
  const std::vector<int> zero(1);
  const auto warned = [&](const LaunchOutcome& outcome) {
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].code, "missing_acquire");
    EXPECT_EQ(outcome.findings[0].severity, records::Severity::kWarning);
  };
  warned(emu.Launch("last_block_sample", {8}, {64}, x, emu.Empty<int>(8), emu.Buffer(zero),
                    emu.Buffer(zero)));
  ExpectNoFindings(emu.Launch("pass_on_good", {2}, {64}, x, emu.Empty<int>(64), emu.Buffer(zero),
                              emu.Buffer(std::vector<int>(64))));
  warned(emu.Launch("pass_on_relaxed", {2}, {64}, x, emu.Empty<int>(64), emu.Buffer(zero),
                    emu.Buffer(std::vector<int>(64))));
}

TEST_P(RaceTest, AtomicsOfBlockScopeRaceBetweenBlocks) {
  const uint64_t x = emu.Buffer(Ascending(64 * 8));
  ExpectNoFindings(emu.Launch("add_all_good", {8}, {64}, x, emu.Buffer(std::vector<int>(1))));
  ExpectNoFindings(emu.Launch("add_all_bad", {1}, {64}, x, emu.Buffer(std::vector<int>(1))));
  ExpectNoFindings(emu.Launch("add_own_good", {8}, {64}, x, emu.Buffer(std::vector<int>(8))));
  ExpectFound(emu.Launch("add_all_bad", {8}, {64}, x, emu.Buffer(std::vector<int>(1))),
              "global_race", "add_all");
}

TEST_P(RaceTest, GridBarriersOrderBlocks) {
  const uint64_t x = emu.Buffer(Ascending(64 * 5)), s = emu.Empty<int>(64 * 5),
                 y = emu.Empty<int>(64 * 5);
  emu.cooperative = true;
  ExpectNoFindings(emu.Launch("grid_exchange_good", {5}, {64}, x, s, y));
  ExpectFound(emu.Launch("grid_exchange_bad", {5}, {64}, x, s, y), "global_race", "grid_exchange");
}

TEST_P(RaceTest, DetectsReadsOfUnwrittenGlobalMemory) {
  ExpectFound(emu.Launch("reads_unwritten", {1}, {64}, emu.Empty<int>(64), emu.Empty<int>(64)),
              "uninitialized_global", "reads_unwritten", records::Severity::kWarning);
  const auto outcome =
      emu.Launch("reads_unwritten", {1}, {64}, emu.Empty<int>(64), emu.Empty<int>(64));
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings[0].thread, (plan::Dim3{5, 0, 0}));
}

TEST_P(RaceTest, DetectsReadOnlyLoadsOfWrittenData) {
  const uint64_t s = emu.Buffer(Ascending(128)), x = emu.Buffer(Ascending(64));
  ExpectNoFindings(emu.Launch("stale", {1}, {64}, x, s));
  ExpectFound(emu.Launch("stale", {1}, {64}, s, s), "noncoherent_read", "stale");
}

TEST(BlockClocks, OrdersAccessesByBarriersAndWarpSync) {
  BlockClocks clocks(64);
  EXPECT_FALSE(clocks.Before(1, clocks.of(1).now, 0, 0));
  clocks.Arrive(0, 0);
  clocks.Arrive(1, 0);
  const uint32_t before = clocks.of(1).now - 1;
  clocks.Leave(0, kFullMask, 0);
  EXPECT_TRUE(clocks.Before(1, before, 0, 0));
  EXPECT_FALSE(clocks.Before(0, clocks.of(0).now, 1, 0));
  // Warp 1 has arrived but not left, so it has not seen warp 0 yet.
  EXPECT_FALSE(clocks.Before(0, before, 1, 0));
  clocks.Sync(0, 0x0000ffff);
  EXPECT_TRUE(clocks.Before(0, clocks.of(0).now - 1, 0, 3));
  EXPECT_FALSE(clocks.Before(0, clocks.of(0).now - 1, 0, 20));
}

/// `several` warps store the rows of one 8x8 matrix by stmatrix; each adds `step` times its index.
std::string SameRows(const char* step) {
  return std::string(R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry rows(.param .u64 out) {
  .reg .b32 %r<10>;
  .reg .b64 %rd<4>;
  .shared .align 16 .b8 tile[128];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  mul.lo.u32 %r3, %r2, )") +
         step + R"(;
  and.b32 %r4, %r1, 31;
  add.u32 %r5, %r3, %r4;
  and.b32 %r6, %r4, 7;
  shl.b32 %r6, %r6, 4;
  mov.u32 %r7, tile;
  add.u32 %r8, %r7, %r6;
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r8], {%r5};
  bar.sync 0;
  shl.b32 %r6, %r4, 2;
  add.u32 %r8, %r7, %r6;
  ld.shared.u32 %r9, [%r8];
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r9;
  ret;
}
)";
}

// Triton's warps store copies of a small tile.
TEST_P(RaceTest, RowsOfMatricesMayBeStoredTwiceIfTheyAreEqual) {
  const auto launch = [](const char* step) {
    Interpreter own(SameRows(step), GetParam());
    own.CheckEverything();
    return own.Launch("rows", {1}, {64}, own.Empty<int>(64));
  };
  const LaunchOutcome equal = launch("0");
  EXPECT_TRUE(equal.completed) << Summary(equal);
  for (const records::Finding& finding : equal.findings) {
    EXPECT_EQ(finding.severity, records::Severity::kWarning) << Summary(equal);
  }
  const LaunchOutcome different = launch("1");
  EXPECT_FALSE(different.completed);
  ASSERT_EQ(different.findings.size(), 1u) << Summary(different);
  EXPECT_EQ(different.findings[0].code, "shared_race");
}

}  // namespace
}  // namespace cupel::emu
