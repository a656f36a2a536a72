// SPDX-License-Identifier: Apache-2.0
#include "report/bench_parts.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/json.h"

namespace cupel::report {
namespace {

Json Setting(const std::string& id, double ratio) {
  return {{"id", id},
          {"comparisons",
           Json::array({{{"a", "k.cu"}, {"b", "eager"}, {"ratio", {{"estimate", ratio}}}},
                        {{"a", "eager"}, {"b", "probe"}, {"ratio", {{"estimate", 3}}}}})}};
}

Json Part(const std::string& id, double ratio) {
  return {{"schema", "cupel.bench/1"},
          {"gpu", "of " + id},
          {"kernels", Json::array()},
          {"settings", Json::array({Setting(id, ratio)})},
          {"geometric_means", "its own"}};
}

TEST(BenchParts, ReturnsEachPassedSettingOnce) {
  const auto setting = [](const Json& id, const char* status, const char* derived) {
    return Json{{"id", id}, {"status", status}, {"derived", derived}};
  };
  Json verdict{{"verdict", "accepted"},
               {"settings",
                Json::array({setting("single-0", "passed", ""), setting("multi-0", "skipped", ""),
                             setting("multi-1", "passed", ""), setting("multi-1", "passed", ""),
                             setting("multi-2", "passed", "single-0"), setting("", "passed", ""),
                             setting(std::string(257, 'x'), "passed", ""), setting(5, "passed", ""),
                             "nothing"})}};
  EXPECT_EQ(SettingsToTime(verdict), (std::vector<std::string>{"single-0", "multi-1"}));
  verdict["verdict"] = "rejected";
  EXPECT_TRUE(SettingsToTime(verdict).empty());
  EXPECT_TRUE(SettingsToTime(Json()).empty());
}

TEST(BenchParts, JoinsPartsIntoOneBench) {
  const Json a = Part("single-0", 0.5), b = Part("multi-0", 2), c = Part("multi-1", 8);
  const std::vector<const Json*> parts{&a, &b, &c};
  const Json whole = JoinBenches(parts, "k.cu", {{"verdict", "accepted"}});
  EXPECT_EQ(whole["schema"], "cupel.bench/1");
  EXPECT_EQ(whole["gpu"], "of single-0");
  EXPECT_EQ(whole["kernels"],
            Json::array({{{"name", "k.cu"}, {"verdict", {{"verdict", "accepted"}}}}}));
  ASSERT_EQ(whole["settings"].size(), 3u);
  EXPECT_EQ(whole["settings"][2], c["settings"][0]);
  ASSERT_EQ(whole["geometric_means"].size(), 2u);
  const Json& mean = whole["geometric_means"][1];
  EXPECT_EQ(mean["a"], "k.cu");
  EXPECT_EQ(mean["b"], "eager");
  EXPECT_NEAR(mean["ratio"].get<double>(), 2, 1e-12);
  EXPECT_EQ(mean["settings"], 3);
  EXPECT_TRUE(JoinBenches({}, "k.cu", {}).is_null());
}

TEST(BenchParts, SkipsMalformedEntries) {
  Json odd = Setting("a", 2);
  for (const Json& ratio :
       {Json("inf"), Json(0), Json(-1), Json(), Json(std::numeric_limits<double>::quiet_NaN())}) {
    odd["comparisons"].push_back({{"a", "k.cu"}, {"b", "eager"}, {"ratio", {{"estimate", ratio}}}});
  }
  odd["comparisons"].push_back({{"a", 1}, {"b", "eager"}, {"ratio", {{"estimate", 9}}}});
  odd["comparisons"].push_back({{"a", "k.cu"}, {"b", "eager"}, {"ratio", 9}});
  odd["comparisons"].push_back("nothing");
  const Json part{{"settings", Json::array({odd, 5, {{"comparisons", 7}}, nullptr})}};
  const std::vector<const Json*> one{&part};
  const Json means = JoinBenches(one, "k.cu", {})["geometric_means"];
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[1]["ratio"], 2);
  EXPECT_EQ(means[1]["settings"], 1);
  const Json none = {{"settings", 3}}, list = Json::array();
  const std::vector<const Json*> parts{&list, &none};
  EXPECT_TRUE(JoinBenches(parts, "k.cu", {})["settings"].empty());
}

}  // namespace
}  // namespace cupel::report
