// SPDX-License-Identifier: Apache-2.0
#include "app/measure/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/measure/bench_testing.h"
#include "records/json.h"

namespace cupel::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchJson, HasTheTableAndTheSamples) {
  records::Bench report = TestBench();
  report.settings[0].timings[3].refused = {"below_roofline", "too fast", "single-0"};
  const Json json = records::ToJson(report);
  EXPECT_EQ(json["schema"], "cupel.bench/1");
  EXPECT_EQ(json["task"], "mnist_linear");
  EXPECT_EQ(json["torch"], "2.11.0");
  EXPECT_EQ(json["ceilings"]["read_bytes"], 4e12);
  ASSERT_EQ(json["kernels"].size(), 2u);
  EXPECT_EQ(json["kernels"][0]["name"], "fast.cu");
  EXPECT_TRUE(json["kernels"][0]["verdict"].is_object());
  ASSERT_EQ(json["settings"].size(), 2u);
  const Json& setting = json["settings"][0];
  EXPECT_EQ(setting["id"], "single-0");
  EXPECT_EQ(setting["input_sets"], 3);
  EXPECT_EQ(setting["clock_overhead_us"], 1.25);
  EXPECT_EQ(setting["after"]["throttled_by"], Json::array({"power cap"}));
  const Json& eager = setting["timings"][0];
  EXPECT_EQ(eager["baseline"], true);
  EXPECT_FALSE(eager.contains("verified_replays"));
  const Json& fast = setting["timings"][2];
  EXPECT_EQ(fast["us"]["estimate"], 4);
  EXPECT_EQ(fast["samples"], 40);
  EXPECT_EQ(fast["samples_us"].size(), 40u);
  EXPECT_EQ(fast["verified_replays"], 9);
  EXPECT_EQ(fast["visible_secrets"], 5);
  EXPECT_FALSE(fast.contains("refused"));
  EXPECT_EQ(setting["timings"][3]["refused"]["code"], "below_roofline");
  EXPECT_EQ(setting["comparisons"][0]["a"], "fast.cu");
  EXPECT_EQ(setting["comparisons"][0]["b"], "eager");
  EXPECT_EQ(setting["comparisons"][0]["a_is"], "faster");
  const Json& mean = json["geometric_means"][1];
  EXPECT_EQ(mean["a"], "fast.cu");
  EXPECT_EQ(mean["b"], "eager");
  EXPECT_NEAR(mean["ratio"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(mean["settings"], 2);
}

TEST(BaselinesOf, ParsesNamesSeparatedByCommas) {
  using oracle::BaselineKind;
  const auto of = [](const std::string& names) {
    const auto kinds = BaselinesOf(names);
    EXPECT_TRUE(kinds.has_value()) << names;
    return kinds.value_or(std::vector<BaselineKind>());
  };
  EXPECT_THAT(of("eager,max-autotune"),
              ElementsAre(BaselineKind::kEager, BaselineKind::kMaxAutotune));
  EXPECT_THAT(of("compile"), ElementsAre(BaselineKind::kCompile));
  EXPECT_TRUE(of("none").empty());
  EXPECT_THAT(of("eager,eager"), ElementsAre(BaselineKind::kEager)) << "timed twice";
  for (const char* bad : {"fast", "eager,none", "Eager", "eager compile", ",eager"}) {
    const auto kinds = BaselinesOf(bad);
    ASSERT_FALSE(kinds.has_value()) << bad;
    EXPECT_EQ(kinds.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(kinds.error().remedy, HasSubstr("eager, compile, max-autotune"));
  }
}

}  // namespace
}  // namespace cupel::app
