// SPDX-License-Identifier: Apache-2.0
#include "report/suite/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/suite/suite_testing.h"

namespace cupel::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Picture(const Suite& suite) { return SuiteSvg(suite, Score(suite)); }

TEST(SuiteSvg, ShowsTimedAcceptedKernelsByGain) {
  Suite suite;
  suite.engine = "gpu";
  suite.device = "NVIDIA H200";
  SuiteSetting fast = TestSetting("multi-0", 1, 300);
  fast.speedups["compile"] = {2.5, 2.4, 2.6, 0.99};
  suite.items.push_back(TestItem("slow", "accepted", {TestSetting("multi-0", 2, 1)}));
  suite.items.push_back(TestItem("fast", "accepted", {fast}));
  suite.items.push_back(TestItem("wrong", "rejected", {TestSetting("multi-0", 1, 9)}));
  const std::string svg = Picture(suite);
  EXPECT_THAT(svg, HasSubstr("on NVIDIA H200"));
  EXPECT_LT(svg.find(">fast<"), svg.find(">slow<"));
  EXPECT_THAT(svg, HasSubstr(">2.50×<"));  // over the faster baseline
  EXPECT_THAT(svg, HasSubstr("300.00 times as fast as eager"));
  EXPECT_THAT(svg, HasSubstr("class=\"loss\""));
  EXPECT_THAT(svg, HasSubstr(">0.50×<"));
  EXPECT_THAT(svg, Not(HasSubstr("wrong")));
}

TEST(SuiteSvg, EscapesNames) {
  Suite suite;
  suite.engine = "gpu";
  suite.device = "a \"GPU\"";
  suite.items.push_back(TestItem("<script>&\x01", "accepted", {TestSetting("multi-0", 1, 2)}));
  const std::string svg = Picture(suite);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;?"));
  EXPECT_THAT(svg, HasSubstr("a &quot;GPU&quot;"));
}

TEST(SuiteSvg, StatesWhyThereIsNothingToShow) {
  Suite suite;
  suite.engine = "emu";
  EXPECT_THAT(Picture(suite), HasSubstr("estimates"));
}

}  // namespace
}  // namespace cupel::report
