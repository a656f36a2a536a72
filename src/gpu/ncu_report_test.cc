// SPDX-License-Identifier: Apache-2.0
#include "gpu/ncu_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "gpu/kernel_facts.h"
#include "gpu/ncu_testing.h"

namespace cupel::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<NcuKernel> Parsed() {
  auto kernels = ParseNcuRaw(std::string("==PROF== Connected\n") + kRawPage);
  EXPECT_TRUE(kernels.has_value()) << kernels.error().message;
  const auto rules = AddNcuRules(kDetailsPage, &*kernels);
  EXPECT_TRUE(rules.has_value());
  return *kernels;
}

TEST(NcuReport, MetricsHaveTheirValuesAndUnits) {
  const auto kernels = Parsed();
  ASSERT_EQ(kernels.size(), 2u);
  const NcuKernel& kernel = kernels[1];
  EXPECT_EQ(kernel.name, "add_one");
  EXPECT_EQ(kernel.grid, (plan::Dim3{4, 1, 1}));
  EXPECT_EQ(kernel.block, (plan::Dim3{64, 1, 1}));
  EXPECT_EQ(kernel.Get("gpu__time_duration.sum"), 12345.5);
  EXPECT_EQ(kernel.metrics.at("dram__bytes_read.sum").unit, "byte");
  EXPECT_FALSE(kernel.Get("device__attribute_display_name"));
  EXPECT_FALSE(kernel.Get("Process ID"));
}

TEST(NcuReport, AddsRulesToTheirLaunch) {
  const auto kernels = Parsed();
  EXPECT_TRUE(kernels[0].rules.empty());
  ASSERT_EQ(kernels[1].rules.size(), 5u);
  EXPECT_EQ(kernels[1].rules[0].type, "WRN");
  EXPECT_THAT(kernels[1].rules[0].text, HasSubstr("\"4\" blocks,\nis small"));
  EXPECT_EQ(kernels[1].rules[3].scope, "global");
  EXPECT_EQ(kernels[1].rules[3].speedup_percent, 50);
}

TEST(NcuReport, RejectsTextWithoutATable) {
  for (const char* text : {"", "==PROF== nothing\n", "Kernel Name,ID\n", "\"ID\",\"never ends\n"}) {
    EXPECT_FALSE(ParseNcuRaw(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseNcuRaw("\"ID\",\"Kernel Name\"\n")->empty());
  // Missing columns are allowed, and rows of another length are skipped.
  const auto kernels =
      ParseNcuRaw("\"ID\",\"a__b.sum\"\n\"\",\"Kbyte\"\n\"7\",\"1e3\"\n\"8\"\n==END==\n");
  ASSERT_EQ(kernels->size(), 1u);
  EXPECT_EQ((*kernels)[0].Get("a__b.sum"), 1000);
  EXPECT_EQ((*kernels)[0].name, "");
}

TEST(KernelFacts, AreReadFromTheMetrics) {
  const KernelFacts facts = FactsOf(Parsed()[1]);
  EXPECT_EQ(facts.duration_us, 12.3455);
  EXPECT_EQ(facts.dram_percent, 71.25);
  EXPECT_EQ(facts.registers, 32);
  EXPECT_EQ(facts.sectors_per_load, 8);
  EXPECT_EQ(facts.bank_conflict_percent, 75);
  EXPECT_FALSE(facts.sectors_per_store);
  EXPECT_FALSE(facts.tensor_percent);
  EXPECT_THAT(facts.limited_by, ElementsAre("shared memory", "the block size"));
  ASSERT_EQ(facts.stalls.size(), 2u);
  EXPECT_EQ(facts.stalls[0].reason, "long_scoreboard");
  EXPECT_DOUBLE_EQ(facts.stalls[0].share, 0.6);
  EXPECT_DOUBLE_EQ(facts.stalls[1].share, 0.3);
  const Json json = ToJson(facts);
  EXPECT_EQ(json["dram_read_bytes"], 1048576);
  EXPECT_FALSE(json.contains("tensor_percent"));
}

TEST(KernelFacts, AdviceIsRankedWithoutRepetitions) {
  const KernelFacts facts = FactsOf(Parsed()[1]);
  ASSERT_EQ(facts.advice.size(), 3u);
  EXPECT_EQ(facts.advice[0].rule, "TheoreticalOccupancy");
  EXPECT_EQ(facts.advice[1].rule, "AccessPattern");
  EXPECT_EQ(facts.advice[2].text,
            "The grid, with \"4\" blocks, is small. See Occupancy or the guide.");
}

TEST(KernelFacts, ConvertsOtherUnits) {
  NcuKernel kernel;
  kernel.metrics["gpu__time_duration.sum"] = {2.5, "ms"};
  kernel.metrics["dram__bytes_read.sum"] = {3, "Mbyte"};
  kernel.metrics["launch__shared_mem_per_block_static"] = {1.5, "Kbyte/block"};
  kernel.metrics["smsp__pcsamp_warps_issue_stalled_barrier"] = {30, ""};
  kernel.metrics["smsp__pcsamp_warps_issue_stalled_barrier_not_issued"] = {20, ""};
  kernel.metrics["smsp__pcsamp_warps_issue_stalled_selected"] = {10, ""};
  const KernelFacts facts = FactsOf(kernel);
  EXPECT_EQ(facts.duration_us, 2500);
  EXPECT_EQ(facts.dram_read_bytes, 3e6);
  EXPECT_EQ(facts.static_shared_bytes, 1500);
  ASSERT_EQ(facts.stalls.size(), 1u);
  EXPECT_EQ(facts.stalls[0].share, 0.75);
}

}  // namespace
}  // namespace cupel::gpu
