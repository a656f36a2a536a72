// SPDX-License-Identifier: Apache-2.0
#include "app/rough_work.h"

#include <gtest/gtest.h>

#include <vector>

namespace cupel::app {
namespace {

task::Setting SettingOf(Json init, Json inputs) {
  task::Setting setting;
  setting.init = std::move(init);
  setting.inputs = std::move(inputs);
  return setting;
}

TEST(RoughWork, OneLargeSettingIsMoreWorkThanManySmallOnes) {
  const task::Setting small = SettingOf({{"features", 10}}, {{"batch_size", 64}});
  const task::Setting large = SettingOf({{"features", 4096}}, {{"batch_size", 65536}});
  EXPECT_GT(RoughWork(std::vector{large}), RoughWork(std::vector(13, small)));
  EXPECT_GT(RoughWork(std::vector(13, small)), RoughWork(std::vector(12, small)));
}

TEST(RoughWork, CountsSharedArgumentsOnceAndIgnoresTextsAndFlags) {
  const task::Setting shared =
      SettingOf({{"features", 1 << 20}, {"dtype", "float32"}, {"bias", true}},
                {{"features", 1 << 20}, {"eps", 1e-5}, {"offset", 0}});
  const task::Setting alone = SettingOf({{"features", 1 << 20}}, Json::object());
  EXPECT_EQ(RoughWork(std::vector{shared}), RoughWork(std::vector{alone}));
  EXPECT_EQ(RoughWork({}), 0);
  const task::Setting list = SettingOf({{"layers", {16, 1 << 16}}}, Json::object());
  EXPECT_EQ(RoughWork(std::vector{list}), RoughWork(std::vector{alone}));
}

}  // namespace
}  // namespace cupel::app
