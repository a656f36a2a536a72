// SPDX-License-Identifier: Apache-2.0
#include "assay/twin.h"

#include <gtest/gtest.h>

namespace cupel::assay {
namespace {

TEST(Twin, HalvesNumbersThatOnlyInputsTake) {
  task::Setting setting;
  setting.init = Json{{"num_features", 4096}, {"eps", 1e-8}};
  setting.inputs = Json{{"batch_size", 16}, {"num_tokens", 1024}, {"num_features", 4096}};
  const auto twin = SmallerTwin(setting, 100);
  ASSERT_TRUE(twin);
  EXPECT_EQ(twin->init, setting.init);
  EXPECT_EQ(twin->inputs["num_features"], 4096);
  EXPECT_EQ(twin->inputs["batch_size"].get<int>() * twin->inputs["num_tokens"].get<int>(),
            16 * 1024 / 128);
}

TEST(Twin, StopsAtOddNumbers) {
  task::Setting setting;
  setting.inputs = Json{{"rows", 12}, {"name", "x"}};
  EXPECT_EQ(SmallerTwin(setting, 1e9)->inputs["rows"], 3);
  setting.inputs = Json{{"rows", 3}};
  EXPECT_FALSE(SmallerTwin(setting, 10));
  EXPECT_FALSE(SmallerTwin(task::Setting{}, 10));
}

}  // namespace
}  // namespace cupel::assay
