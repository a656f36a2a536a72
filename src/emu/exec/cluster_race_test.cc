// Tests data races between the blocks of a cluster. Each kernel of testdata/cluster_races.cu is
// reported at the marked line with its bugs, and causes no finding without them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

struct RacyKernel {
  std::string name;
  uint32_t blocks, threads;  // of a cluster, of a block
  int bugs;
};

std::vector<RacyKernel> RacyKernels() {
  return {{"remote_read", 4, 64, 1}, {"rewrite", 3, 64, 1},     {"remote_rewrite", 3, 64, 1},
          {"relaxed", 4, 64, 3},     {"split", 4, 64, 0},       {"flag", 2, 64, 2},
          {"produce", 2, 64, 2},     {"multicast", 2, 96, 1},   {"multicast", 4, 96, 1},
          {"halo", 4, 32, 2},        {"two_writers", 3, 32, 1}, {"sums", 4, 96, 1},
          {"copies", 3, 64, 2}};
}

/// True if the line of cluster_races.cu is marked as that of the kernel's bug.
bool IsMarked(int line, const std::string& kernel, int bug) {
  std::istringstream text(TestData("cluster_races.cu"));
  std::string at;
  for (int number = 0; number < line; ++number) std::getline(text, at);
  const size_t mark = at.find("// BUG " + kernel + " ");
  return mark != std::string::npos && at.find(std::to_string(bug), mark) != std::string::npos;
}

/// Runs each test with the code for the newest processor and with the plain code.
class ClusterRaceTest : public testing::TestWithParam<int> {
 protected:
  ClusterRaceTest() : emu(TestData("cluster_races.ptx"), GetParam()) { emu.CheckEverything(); }

  LaunchOutcome Launch(const RacyKernel& kernel, int bug) {
    emu.cluster = {kernel.blocks};
    const uint32_t blocks = 2 * kernel.blocks;
    const uint64_t out = emu.Buffer(std::vector<int>(blocks * kernel.threads));
    return emu.Launch(kernel.name, {blocks}, {kernel.threads}, out, 6, bug);
  }

  Interpreter emu;
};

INSTANTIATE_TEST_SUITE_P(Levels, ClusterRaceTest, testing::Values(0, 2));

TEST_P(ClusterRaceTest, DoesNotReportCorrectKernels) {
  for (const RacyKernel& kernel : RacyKernels()) {
    for (const uint64_t schedule : {0u, 1u, 2u, 3u}) {
      emu.options.schedule = schedule;
      const LaunchOutcome outcome = Launch(kernel, 0);
      EXPECT_TRUE(outcome.completed && Summary(outcome).empty())
          << kernel.name << " " << Summary(outcome);
    }
  }
}

TEST_P(ClusterRaceTest, ReportsRacesBetweenBlocks) {
  for (const RacyKernel& kernel : RacyKernels()) {
    for (int bug = 1; bug <= kernel.bugs; ++bug) {
      SCOPED_TRACE(kernel.name + " " + std::to_string(bug));
      const LaunchOutcome outcome = Launch(kernel, bug);
      EXPECT_FALSE(outcome.completed);
      ASSERT_FALSE(outcome.findings.empty());
      const records::Finding& finding = outcome.findings.back();  // the others are warnings
      EXPECT_EQ(finding.code, "shared_race") << Summary(outcome);
      EXPECT_TRUE(IsMarked(finding.line, kernel.name, bug)) << Summary(outcome);
    }
  }
}

TEST_P(ClusterRaceTest, NamesBothBlocks) {
  const RacyKernel kernel{"rewrite", 2, 64, 1};
  const std::string summary = Summary(Launch(kernel, 1));
  EXPECT_NE(summary.find("a cluster barrier (cluster.sync) is missing"), std::string::npos)
      << summary;
}

TEST_P(ClusterRaceTest, PlainReadsOfUpdatedMemoryAreWarnings) {
  const LaunchOutcome outcome = Launch({"sums", 4, 96, 2}, 2);
  EXPECT_TRUE(outcome.completed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings[0].code, "shared_race");
  EXPECT_TRUE(IsMarked(outcome.findings[0].line, "sums", 2)) << Summary(outcome);
}

TEST_P(ClusterRaceTest, WarnsAboutUnwrittenMemory) {
  const RacyKernel kernel{"unwritten", 2, 32, 1};
  EXPECT_EQ(Summary(Launch(kernel, 0)), "");
  const LaunchOutcome outcome = Launch(kernel, 1);
  EXPECT_TRUE(outcome.completed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings[0].code, "uninitialized_shared");
  EXPECT_TRUE(IsMarked(outcome.findings[0].line, "unwritten", 1)) << Summary(outcome);
}

}  // namespace
}  // namespace cupel::emu
