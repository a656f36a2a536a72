// SPDX-License-Identifier: Apache-2.0
#include "task/explored.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace cupel::task {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

Setting Of(const char* init, const char* inputs) {
  Setting setting;
  setting.init = Json::parse(init);
  setting.inputs = Json::parse(inputs);
  return setting;
}

std::vector<ExploredSize> Explored(const std::vector<Setting>& listed) {
  return ExploredSizes(listed, listed);
}

std::vector<std::string> Texts(const std::vector<ExploredSize>& sizes) {
  std::vector<std::string> texts;
  for (const ExploredSize& size : sizes) texts.push_back(size.setting.derived);
  return texts;
}

TEST(ExploredSizes, VariesEachSizeWhileTheOthersAreFew) {
  const auto sizes =
      Explored({Of(R"({"features": 4096, "eps": 1e-5})", R"({"rows": 20000, "features": 4096})")});
  const auto texts = Texts(sizes);
  for (const char* one : {"features=3584 rows=5", "features=1 rows=5", "features=262144 rows=5",
                          "rows=1", "rows=4099", "rows=151936"}) {
    EXPECT_THAT(texts, Contains(one));
  }
  for (const ExploredSize& size : sizes) {
    if (size.key != "features") continue;
    EXPECT_EQ(size.setting.init["features"], size.number);  // both places agree
    EXPECT_EQ(size.setting.inputs["features"], size.number);
  }
}

// An index of 16 bits is enough for 65535, and a grid's second axis may have no more blocks.
TEST(ExploredSizes, OneOfEachIsVeryWideWithHardlyAnythingElse) {
  const auto sizes = Explored({Of(R"({"words": 5000, "features": 96})", R"({"rows": 400})")});
  const auto texts = Texts(sizes);
  for (const char* one : {"rows=65537 words=8 features=8", "features=65537 rows=5 words=8",
                          "words=65537 rows=5 features=8"}) {
    EXPECT_THAT(texts, Contains(one));
  }
  for (const ExploredSize& size : sizes) {
    if (size.number == 65537) {
      EXPECT_TRUE(size.is_small);
    }
  }
}

TEST(ExploredSizes, OnlySizesWithFewElementsAreSmall) {
  for (const ExploredSize& size :
       Explored({Of(R"({"features": 4096})", R"({"rows": 20000, "features": 4096})")})) {
    const double work =
        size.setting.inputs["rows"].get<double>() * size.setting.inputs["features"].get<double>();
    if (size.is_small) {
      EXPECT_LE(work, 1 << 24) << size.setting.derived;
    }
    if (size.setting.derived == "rows=14336") {
      EXPECT_FALSE(size.is_small);
    }
  }
}

TEST(ExploredSizes, ExploresOtherTypesToo) {
  const auto sizes = Explored({Of(R"({"dtype": "float16"})", R"({"rows": 64})"),
                               Of(R"({"dtype": "bfloat16"})", R"({"rows": 64})"),
                               Of(R"({"dtype": "float16"})", R"({"rows": 32})")});
  std::set<std::string> types;
  for (const ExploredSize& size : sizes) types.insert(size.setting.init["dtype"]);
  EXPECT_EQ(types.size(), 2u);
  std::set<std::pair<std::string, int64_t>> distinct;
  for (const ExploredSize& size : sizes) {
    distinct.emplace(size.setting.init["dtype"], size.number);
  }
  EXPECT_EQ(distinct.size(), sizes.size());  // the third setting has no type of its own
}

TEST(ExploredSizes, NumbersThatAreNoSizesStay) {
  const auto texts = Texts(Explored({Of(R"({"kernel_size": 3, "stride": 2})", R"({"rows": 8})")}));
  EXPECT_THAT(texts, Not(Contains(::testing::HasSubstr("kernel_size"))));
  EXPECT_THAT(Explored({Of("{}", "{}")}), IsEmpty());
}

TEST(ExploredSizes, SmallSizesThatMustAgreeStay) {
  const Setting listed = Of("{}", R"({"batch": 4, "heads": 32, "groups": 8, "tokens": 4096})");
  const Setting judged = Of("{}", R"({"batch": 2, "heads": 4, "groups": 2, "tokens": 4000})");
  const auto texts = Texts(ExploredSizes({judged}, {listed}));
  EXPECT_THAT(texts, Contains("heads=3 tokens=5"));
  EXPECT_THAT(texts, Contains("heads=3584"));
  EXPECT_THAT(texts, Contains("tokens=3584"));
}

TEST(ExploredSizes, LargeSizesAreTheFirstBeyondPowersOfTwo) {
  const auto sizes = LargeSizes(Of(R"({"n": 1024})", R"({"rows": 8, "n": 1024})"), 8 * 1024);
  std::vector<std::string> texts = Texts(sizes);
  EXPECT_THAT(texts,
              ::testing::ElementsAre("rows=2097153", "rows=4194305", "n=268435457", "n=536870913"));
  EXPECT_THAT(LargeSizes(Of("{}", R"({"rows": 8})"), 0), IsEmpty());
}

TEST(ExploredSizes, JointSizesHaveManyRemaindersOfEachKeyword) {
  const std::vector<Setting> judged = {
      Of(R"({"features": 4096})", R"({"rows": 20000, "features": 4096})")};
  const auto sizes = JointSizes(judged, judged, 12, Random(7));
  ASSERT_EQ(sizes.size(), 12u);
  std::map<std::string, std::set<int64_t>> of_five, of_eight;
  for (const ExploredSize& size : sizes) {
    EXPECT_TRUE(size.is_small);
    EXPECT_EQ(size.setting.init["features"], size.setting.inputs["features"]);
    for (const char* key : {"rows", "features"}) {
      const int64_t number = size.setting.inputs[key];
      if (size.setting.derived.find(std::string(key) + "=") != std::string::npos) {
        EXPECT_THAT(size.setting.derived, ::testing::HasSubstr(fmt::format("{}={}", key, number)));
      }
      of_five[key].insert(number % 5);
      of_eight[key].insert(number % 8);
    }
  }
  for (const char* key : {"rows", "features"}) {
    EXPECT_EQ(of_five[key].size(), 5u) << key;
    EXPECT_GE(of_eight[key].size(), 6u) << key;
  }
  EXPECT_NE(Texts(JointSizes(judged, judged, 12, Random(8))), Texts(sizes));
}

TEST(ExploredSizes, JointSizesNeedSeveralSizes) {
  const std::vector<Setting> judged = {Of("{}", R"({"rows": 20000})")};
  EXPECT_THAT(JointSizes(judged, judged, 12, Random(7)), IsEmpty());
}

TEST(ExploredSizes, SomeJointSizesKeepOthers) {
  const std::vector<Setting> judged = {Of("{}", R"({"batch": 2, "heads": 6, "groups": 3})")};
  size_t kept = 0;
  for (const ExploredSize& size : JointSizes(judged, judged, 60, Random(7))) {
    kept += size.setting.inputs["heads"] == 6 && size.setting.inputs["groups"] == 3;
  }
  EXPECT_GT(kept, 0u);
}

TEST(ExploredSizes, OptionsGetValuesThatNoSettingHas) {
  const auto texts =
      Texts(OtherOptions({Of(R"({"dilation": 1, "channels": 64})", R"({"rows": 8})"),
                          Of(R"({"dilation": 2, "channels": 64})", R"({"rows": 8})")}));
  EXPECT_THAT(texts, ::testing::ElementsAre("", "dilation=3"));
  EXPECT_THAT(Texts(OtherOptions({Of(R"({"padding": 0})", R"({"rows": 8})")})),
              ::testing::ElementsAre("", "padding=1", "padding=2"));
  EXPECT_THAT(OtherOptions({Of(R"({"channels": 64})", R"({"rows": 8, "kernel": 3})")}), IsEmpty());
}

TEST(ExploredSizes, AtNumberChangesTheNumberAndItsText) {
  const auto sizes = Explored({Of(R"({"n": 1024})", R"({"rows": 64000, "n": 1024})")});
  const auto found = std::ranges::find_if(
      sizes, [](const ExploredSize& size) { return size.setting.derived == "n=3584 rows=5"; });
  ASSERT_NE(found, sizes.end());
  const ExploredSize other = AtNumber(*found, 3585);
  EXPECT_EQ(other.setting.derived, "n=3585 rows=5");
  EXPECT_EQ(other.setting.init["n"], 3585);
  EXPECT_EQ(other.setting.inputs["n"], 3585);
  EXPECT_EQ(other.setting.inputs["rows"], 5);
}

}  // namespace
}  // namespace cupel::task
