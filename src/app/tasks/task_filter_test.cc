// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_filter.h"

#include <gtest/gtest.h>

#include "app/tasks/task_filter_testing.h"

namespace cupel::app {
namespace {

TEST(FilterReports, CountsTasksByCheck) {
  const auto counts = CountChecks(TwoTasks());
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].check, "range");
  EXPECT_EQ(counts[0].cupel, 1);
  EXPECT_EQ(counts[0].published, 2);
  EXPECT_EQ(counts[1].check, "copy");
  EXPECT_FALSE(counts[1].has_published);
}

TEST(FilterReports, JsonHasTheSameFacts) {
  const Json json = ToJson(TwoTasks());
  EXPECT_EQ(json["schema"], "cupel.filter/1");
  EXPECT_EQ(json["counts"]["flagged"], 1);
  EXPECT_EQ(json["counts"]["not_examined"], 1);
  EXPECT_EQ(json["counts"]["checks"]["range"]["published"], 2);
  EXPECT_TRUE(json["counts"]["checks"]["copy"]["published"].is_null());
  EXPECT_EQ(json["tasks"][3]["message"], "it has no config_forward.json");
  EXPECT_EQ(json["tasks"][1]["settings"][0]["checks"][0]["cupel"], "flagged");
}

}  // namespace
}  // namespace cupel::app
