// SPDX-License-Identifier: Apache-2.0
#include "app/measure/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "app/measure/bench_testing.h"
#include "os/temp_dir.h"
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

/// A task that names one baseline.
task::Task WithLibrary() {
  task::Task task;
  task.named_baselines.push_back({"library", "/tasks/one/baselines/library.py", "library"});
  return task;
}

std::vector<std::string> NamesOf(const std::vector<oracle::Baseline>& baselines) {
  std::vector<std::string> names;
  for (const oracle::Baseline& one : baselines) names.push_back(one.Name());
  return names;
}

TEST(BaselinesOf, ParsesNamesSeparatedByCommas) {
  const auto of = [](const std::string& names) {
    const auto chosen = BaselinesOf(names, {}, WithLibrary());
    EXPECT_TRUE(chosen.has_value()) << names;
    return chosen ? NamesOf(*chosen) : std::vector<std::string>();
  };
  EXPECT_THAT(of("eager,max-autotune"), ElementsAre("eager", "max-autotune"));
  EXPECT_THAT(of("compile"), ElementsAre("compile"));
  EXPECT_TRUE(of("none").empty());
  EXPECT_THAT(of("eager,eager"), ElementsAre("eager")) << "timed twice";
  EXPECT_THAT(of("eager,named"), ElementsAre("eager", "library"));
  EXPECT_THAT(of("library,named"), ElementsAre("library")) << "timed twice";
  for (const char* bad : {"fast", "eager,none", "Eager", "eager compile", ",eager"}) {
    const auto chosen = BaselinesOf(bad, {}, WithLibrary());
    ASSERT_FALSE(chosen.has_value()) << bad;
    EXPECT_EQ(chosen.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(chosen.error().remedy, HasSubstr("eager, compile, max-autotune, named, library"));
  }
  const auto none = BaselinesOf("named", {}, task::Task());
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->empty()) << "a task that names no baseline has none";
}

TEST(BaselinesOf, AddsFunctionsOfFiles) {
  const auto folder = os::TempDir::Create();
  ASSERT_TRUE(folder.has_value());
  const std::string file = (folder->path() / "mine.py").string();
  std::ofstream(file) << "def fused(x): return x\n";
  const auto added = BaselinesOf("eager", {file + ":fused"}, WithLibrary());
  ASSERT_TRUE(added.has_value()) << added.error().ToString();
  EXPECT_THAT(NamesOf(*added), ElementsAre("eager", "fused"));
  EXPECT_EQ(added->back().named.file, file);
  for (const std::string& bad : {file, file + ":two words", file + ":eager", file + ":",
                                 folder->path().string() + "/none.py:fused", std::string(":f")}) {
    EXPECT_FALSE(BaselinesOf("none", {bad}, WithLibrary()).has_value()) << bad;
  }
  const auto twice = BaselinesOf("named", {file + ":library"}, WithLibrary());
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().message, HasSubstr("two baselines called library"));
}

}  // namespace
}  // namespace cupel::app
