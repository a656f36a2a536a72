// SPDX-License-Identifier: Apache-2.0
#include "cli/task_filter_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/tasks/task_filter_testing.h"

namespace cupel::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FilterReports, SummaryListsFlagsAndUnexaminedTasks) {
  const std::string text = FilterSummary(app::TwoTasks());
  EXPECT_THAT(text, HasSubstr("range, copy"));
  EXPECT_THAT(text, HasSubstr("it has no config_forward.json"));
  EXPECT_THAT(text, HasSubstr("4 tasks: 2 clean, 1 flagged, 1 not examined"));
}

TEST(FilterReports, PageShowsReasonsWithoutEscapeSequences) {
  const std::string text = FilterText(app::TwoTasks().tasks[1]);
  EXPECT_THAT(text, HasSubstr("1. range of the output: because ?[31m of this"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(FilterReports, SummaryMarksUnfinishedTasks) {
  app::FilterReport report = app::TwoTasks();
  report.tasks[0].settings[0].measures.emplace();
  report.tasks[0].settings[0].measures->unfinished = "leaving out aten.mm";
  EXPECT_THAT(FilterSummary(report), HasSubstr("(unfinished)"));
}

}  // namespace
}  // namespace cupel::cli
