// SPDX-License-Identifier: Apache-2.0
#include "task/reduced.h"

#include <gtest/gtest.h>

namespace cupel::task {
namespace {

Setting Of(const char* id, SettingKind kind, int batch, int features) {
  Setting setting;
  setting.id = id;
  setting.kind = kind;
  setting.inputs = {{"batch_size", batch}, {"features", features}};
  setting.init = {{"features", features}};
  return setting;
}

TEST(Reduced, CapsNumbersAndRecordsOriginals) {
  Task task;
  task.caps[0] = {{"batch_size", 2}, {"features", 100}};
  task.settings[0] = {
      Of("single-0", SettingKind::kSingle, 64, 4096), Of("multi-0", SettingKind::kMulti, 64, 4096),
      Of("multi-1", SettingKind::kMulti, 32, 4096), Of("multi-2", SettingKind::kMulti, 1, 64)};
  const Task smaller = Reduced(task);
  EXPECT_TRUE(smaller.reduced);
  const auto& settings = smaller.settings[0];
  ASSERT_EQ(settings.size(), 3u);  // multi-1 has become multi-0
  EXPECT_EQ(settings[0].inputs["batch_size"], 2);
  EXPECT_EQ(settings[0].inputs["features"], 100);
  EXPECT_EQ(settings[0].init["features"], 100);
  EXPECT_EQ(settings[0].reduced, "batch_size=2 (of 64) features=100 (of 4096)");
  EXPECT_EQ(settings[1].id, "multi-0");
  EXPECT_EQ(settings[2].id, "multi-2");
  EXPECT_EQ(settings[2].reduced, "");
  EXPECT_EQ(settings[2].inputs["batch_size"], 1);
}

TEST(Reduced, CapsTheNumbersOfAList) {
  Task task;
  task.caps[0] = {{"layers", 256}};
  Setting setting = Of("single-0", SettingKind::kSingle, 64, 64);
  setting.init["layers"] = {16384, 128, 512};
  task.settings[0] = {setting};
  const Task smaller = Reduced(task);
  EXPECT_EQ(smaller.settings[0][0].init["layers"], Json({256, 128, 256}));
  EXPECT_EQ(smaller.settings[0][0].reduced, "layers=[256,128,256] (of [16384,128,512])");
}

TEST(Reduced, DerivesHeldOutSizesFromTheSmallerFirstSetting) {
  Task task;
  task.caps[0] = {{"batch_size", 8}, {"features", 32}};
  Setting derived = Of("heldout-0", SettingKind::kHeldout, 65, 64);
  derived.derived = "batch_size=65";
  task.settings[0] = {Of("single-0", SettingKind::kSingle, 64, 64), derived};
  const Task smaller = Reduced(task);
  ASSERT_GT(smaller.settings[0].size(), 2u);
  for (const Setting& setting : smaller.settings[0]) {
    EXPECT_LE(setting.inputs["batch_size"], 16) << setting.id;
    // `reduced` lists capped numbers, not numbers derived for the setting.
    const bool has_first_batch = setting.inputs["batch_size"] == 8;
    const bool has_first_features = setting.inputs["features"] == 32;
    EXPECT_EQ(setting.reduced.find("batch_size=8 (of 64)") != std::string::npos, has_first_batch);
    EXPECT_EQ(setting.reduced.find("features=32 (of 64)") != std::string::npos, has_first_features);
    EXPECT_EQ(setting.reduced.empty(), !has_first_batch && !has_first_features) << setting.reduced;
  }
}

TEST(Reduced, LeavesTaskWithoutCapsUnchanged) {
  Task task;
  task.settings[0] = {Of("single-0", SettingKind::kSingle, 64, 4096)};
  EXPECT_FALSE(Reduced(task).reduced);
  EXPECT_EQ(Reduced(task).settings[0][0].inputs["batch_size"], 64);
}

TEST(ReadCaps, RejectsUnknownKeywordsAndInvalidCaps) {
  const std::vector<Setting> settings = {Of("single-0", SettingKind::kSingle, 64, 64)};
  EXPECT_TRUE(ReadCaps(Json{{"at_most", {{"batch_size", 2}}}}, settings, "t"));
  for (const Json& bad : {Json{{"at_most", {{"batch", 2}}}}, Json{{"at_most", {{"batch_size", 0}}}},
                          Json{{"at_most", {{"batch_size", "2"}}}}, Json{{"at_most", 3}},
                          Json{{"atmost", Json::object()}}, Json::array()}) {
    const auto caps = ReadCaps(bad, settings, "task.json: emulator_forward");
    ASSERT_FALSE(caps) << DumpJson(bad);
    EXPECT_NE(caps.error().message.find("emulator_forward"), std::string::npos);
  }
}

}  // namespace
}  // namespace cupel::task
