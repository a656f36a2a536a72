// SPDX-License-Identifier: Apache-2.0
#include "judge/remarks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "judge/launch_text.h"

namespace cupel::judge {
namespace {

/// A launch limited by `bound`, in which one line does all the work.
records::LaunchCounters Launch(const std::string& bound) {
  records::LaunchCounters launch;
  launch.kernel = "void work<64>(float*)";
  launch.grid = {100, 1, 1};
  launch.block = {256, 1, 1};
  launch.warp_instructions = 100 * 8 * 50;
  launch.critical_warp_instructions = 100 * 50;
  launch.bounds = {{bound, 10.0}, {"blocks", 0.5}};
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

const Remark* Find(const std::vector<Remark>& remarks, const std::string& code) {
  const auto found =
      std::find_if(remarks.begin(), remarks.end(), [&](const Remark& r) { return r.code == code; });
  return found == remarks.end() ? nullptr : &*found;
}

TEST(Remarks, EvenLaunchHasNoWaste) { EXPECT_TRUE(Wastes(Launch("issue")).empty()); }

TEST(Remarks, UnusedSectorsReportLaneStride) {
  records::LaunchCounters launch = Launch("dram");
  launch.lines[0].work.load_sectors = launch.work.load_sectors = 3200;
  launch.lines[0].work.touched_bytes = launch.work.touched_bytes = 3200 * 4;
  launch.lines[0].lane_stride = 128;
  const std::vector<Remark> wastes = Wastes(launch);
  const Remark* remark = Find(wastes, "unused_sectors");
  ASSERT_NE(remark, nullptr);
  EXPECT_EQ(remark->line, 2);
  EXPECT_NE(remark->message.find("88 %"), std::string::npos) << remark->message;
  EXPECT_NE(remark->message.find("128 bytes apart"), std::string::npos) << remark->message;
  EXPECT_EQ(FindBottleneckLines(launch).at(0).line, 2);
}

TEST(Remarks, IgnoresWasteThatDoesNotLimitSpeed) {
  records::LaunchCounters launch = Launch("fp32");
  launch.lines[0].work.load_sectors = launch.work.load_sectors = 32;
  launch.lines[0].work.touched_bytes = launch.work.touched_bytes = 128;
  EXPECT_EQ(Find(Wastes(launch), "unused_sectors"), nullptr);
}

TEST(Remarks, BankConflictsReportWays) {
  records::LaunchCounters launch = Launch("shared");
  launch.lines[0].work.shared_wavefronts = launch.work.shared_wavefronts = 800;
  launch.lines[0].work.shared_ideal_wavefronts = launch.work.shared_ideal_wavefronts = 100;
  const std::vector<Remark> wastes = Wastes(launch);
  const Remark* remark = Find(wastes, "bank_conflicts");
  ASSERT_NE(remark, nullptr);
  EXPECT_NE(remark->message.find("8-way"), std::string::npos) << remark->message;
  EXPECT_NE(remark->message.find("88 %"), std::string::npos) << remark->message;
}

TEST(Remarks, ReportsIdleLanesAtomicsAndImbalance) {
  records::LaunchCounters launch = Launch("issue");
  launch.bounds.insert(launch.bounds.begin() + 1, {"atomics", 9.0});
  launch.lines[0].work.lane_instructions = 12 * launch.warp_instructions;
  launch.lines[0].work.atomic_requests = launch.work.atomic_requests = 10;
  launch.lines[0].work.atomic_lanes = launch.work.atomic_lanes = launch.global_atomics = 320;
  launch.lines[0].work.atomic_turns = launch.work.atomic_turns = 320;
  launch.hottest_atomics = 320;
  launch.imbalance = 2;
  const std::vector<Remark> wastes = Wastes(launch);
  EXPECT_NE(Find(wastes, "idle_lanes"), nullptr);
  EXPECT_NE(Find(wastes, "idle_lanes")->message.find("12 of 32"), std::string::npos);
  EXPECT_NE(Find(wastes, "contended_atomics"), nullptr);
  EXPECT_NE(Find(wastes, "imbalance"), nullptr);
}

}  // namespace
}  // namespace cupel::judge
