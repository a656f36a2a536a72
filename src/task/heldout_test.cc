// SPDX-License-Identifier: Apache-2.0
#include "task/heldout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::task {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Derived(const char* init, const char* inputs) {
  Setting first;
  first.init = Json::parse(init);
  first.inputs = Json::parse(inputs);
  std::vector<std::string> texts;
  for (const Setting& setting : DeriveHeldout(first)) texts.push_back(setting.derived);
  return texts;
}

TEST(Heldout, DerivesOneOddPastPowerOfTwoAndMoreRows) {
  EXPECT_THAT(
      Derived(R"({"features": 128, "outputs": 10})", R"({"batch_size": 64, "features": 128})"),
      ElementsAre("batch_size=1", "batch_size=43", "batch_size=65", "batch_size=97", "features=127",
                  "outputs=7", "features=13"));
}

TEST(Heldout, OnlyTheBatchBecomesOneAndGrows) {
  EXPECT_THAT(
      Derived(R"({"kernel_size": 3})", R"({"height": 28, "batch_size": 8})"),
      ElementsAre("batch_size=1", "batch_size=5 height=19", "batch_size=9", "batch_size=13"));
}

TEST(Heldout, ChangesFeaturesOneAtATimeWithoutRows) {
  EXPECT_THAT(Derived(R"({"dim": 64, "wide": 256, "stride": 2})", R"({"dim": 64})"),
              ElementsAre("dim=61", "wide=251", "wide=97", "dim=13", "wide=13"));
}

TEST(Heldout, ChangesSharedNumberInInitAndInputs) {
  Setting first;
  first.init = Json::parse(R"({"dim": 64})");
  first.inputs = Json::parse(R"({"dim": 64})");
  const auto settings = DeriveHeldout(first);
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[1].inputs["dim"], 13);
  EXPECT_EQ(settings[0].init["dim"], 61);
  EXPECT_EQ(settings[0].inputs["dim"], 61);
  EXPECT_EQ(settings[0].id, "heldout-0");
  EXPECT_EQ(settings[0].kind, SettingKind::kHeldout);
}

TEST(Heldout, GrowsAtMostTwofold) {
  // Three rows would be three times one row.
  EXPECT_THAT(Derived("{}", R"({"batch_size": 1})"), ElementsAre("batch_size=2"));
  // Changing 2 to 3 in three arguments would more than double the elements.
  EXPECT_THAT(Derived("{}", R"({"batch_size": 2, "a": 2, "b": 2})"),
              ElementsAre("batch_size=1", "batch_size=3"));
}

TEST(Heldout, ReducesRowsIfAllSizesAreLarge) {
  EXPECT_THAT(
      Derived(R"({"eps": 1e-6, "features": 4096})",
              R"({"batch_size": 16, "tokens": 1024, "features": 4096})"),
      ElementsAre("batch_size=1", "batch_size=11 tokens=179", "batch_size=17", "batch_size=25",
                  "tokens=256 features=4093", "tokens=256 features=97", "tokens=256 features=13"));
}

TEST(Heldout, KeepsArgumentsThatAreNotSizes) {
  EXPECT_THAT(Derived(R"({"eps": 1e-5, "init_method": "xavier", "bias": true, "padding": 1})",
                      R"({"seed": -3, "huge": 99999999999, "text": "batch"})"),
              IsEmpty());
  EXPECT_THAT(Derived("{}", "{}"), IsEmpty());
  EXPECT_THAT(Derived(R"({"n": 64})", R"({"n": "many"})"), IsEmpty());
}

}  // namespace
}  // namespace cupel::task
