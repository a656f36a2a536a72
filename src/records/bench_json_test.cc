// The JSON form of benches.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "records/json.h"

namespace cupel::records {
namespace {

using testing::HasSubstr;

Bench FullBench() {
  Bench bench;
  bench.cupel = "1.2";
  bench.task = "softmax";
  bench.direction = task::Direction::kBackward;
  bench.gpu = "NVIDIA H200";
  bench.torch = "2.13";
  bench.ceilings = {"NVIDIA H200", 4e12, 3.9e12, 60e12, 400e12, 700e12, 1.25};
  SettingTimes times;
  times.id = "multi-0";
  times.kind = task::SettingKind::kMulti;
  times.description = "n=64";
  Timing eager;
  eager.name = "eager";
  eager.is_baseline = true;
  eager.samples.cold = {8, 8.5};
  eager.median = {8.25, 8, 8.5, 0.95};
  eager.how = "graph";
  Timing mine;
  mine.name = "k.cu";
  mine.samples.cold = {2, 2.5};
  mine.median = {2.25, 2, 2.5, 0.95};
  mine.host_us = 9;
  mine.energy = EnergyUse{0.25, 500, 2000};
  mine.flops = 5e9;
  mine.verified = 9;
  mine.visible = 5;
  mine.oddities = {"slow once"};
  Timing refused;
  refused.name = "compile";
  refused.is_baseline = true;
  refused.refused = Reason{"baseline_failed", "no compiler", ""};
  times.timings = {eager, mine, refused};
  times.comparisons = {{"k.cu", "eager", {{0.25, 0.24, 0.26, 0.99}, stats::Difference::kFaster}}};
  times.sets = 3;
  times.floor_us = 1;
  times.after = {1980, 2619, 55, 431.5, {"power cap"}, 0};
  times.worker = "local 0";
  bench.settings = {times};
  bench.remembered_baselines = {{"multi-0", "max-autotune", 7.5, 1'700'000'000}};
  return bench;
}

TEST(BenchJson, IsReadBackAsWritten) {
  const Json written = ToJson(FullBench());
  const auto read = ReadBench(written, "b.json", {});
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(DumpJson(ToJson(*read), 1), DumpJson(written, 1));
  EXPECT_FALSE(written["settings"][0]["timings"][2].contains("us"));
  EXPECT_TRUE(written["settings"][0]["timings"][0]["host_us"].is_null());
  EXPECT_EQ(written["geometric_means"][0]["ratio"], 0.25);
}

TEST(BenchJson, RejectsImpossibleEnergy) {
  Json json = ToJson(FullBench());
  json["settings"][0]["timings"][1]["energy"]["joules"] = -1;
  const auto read = ReadBench(json, "b.json", {});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message,
              HasSubstr("settings[0].timings[1].energy is not a possible energy"));
}

}  // namespace
}  // namespace cupel::records
