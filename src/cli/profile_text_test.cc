// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_text.h"

#include <gtest/gtest.h>

namespace cupel::cli {
namespace {

/// A launch whose bottleneck is `bound`. One source line does all the work.
records::LaunchCounters Launch(const std::string& bound) {
  records::LaunchCounters launch;
  launch.kernel = "void work<64>(float*)";
  launch.grid = {100, 1, 1};
  launch.block = {256, 1, 1};
  launch.warp_instructions = 40000;
  launch.bounds = {{bound, 10.0}};
  launch.estimated_us = 10.5;
  launch.limited_by = "registers";
  launch.blocks_counted = 100;
  records::LineCounters line;
  line.file = "/somewhere/kernel.cu";
  line.line = 2;
  line.work.warp_instructions = launch.warp_instructions;
  line.work.lane_instructions = 32 * launch.warp_instructions;
  launch.lines = {line};
  launch.work = line.work;
  return launch;
}

TEST(ProfileText, PutsTheBottleneckFirstAndQuotesTheSource) {
  records::Counters counters;
  counters.launches = {Launch("latency")};
  const SourceText source("kernel.cu", "int a;\n  sum += x[i] * y[i]; \x1b[31m\n");
  const std::string text = ProfileText(counters, *device::Find("h100"), source);
  EXPECT_LT(text.find("bottleneck: latency"), text.find("occupancy"));
  EXPECT_NE(text.find("kernel.cu:2  100 % of the warp instructions"), std::string::npos) << text;
  EXPECT_NE(text.find("| sum += x[i] * y[i];"), std::string::npos) << text;
  EXPECT_NE(text.find("limited by registers"), std::string::npos) << text;
  EXPECT_NE(text.find("work<64><<<100, 256>>>"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ProfileText, SaysThatASmallGridLimitsTheOccupancy) {
  records::Counters counters;
  counters.launches = {Launch("latency")};
  counters.launches[0].occupancy = 0.75;
  counters.launches[0].grid = {128, 1, 1};
  counters.launches[0].block = {128, 1, 1};
  const SourceText source("kernel.cu", "");
  EXPECT_NE(ProfileText(counters, *device::Find("h100"), source)
                .find("occupancy 6 % of 64 warps per SM: the grid has no more (75 % would fit, "
                      "limited by registers)"),
            std::string::npos);
  counters.launches[0].grid = {5000, 1, 1};
  EXPECT_NE(ProfileText(counters, *device::Find("h100"), source)
                .find("occupancy 75 % of 64 warps per SM, limited by registers"),
            std::string::npos);
}

}  // namespace
}  // namespace cupel::cli
