// Tests finding the tasks of a folder, and the reports about them.
// SPDX-License-Identifier: Apache-2.0
#include "cli/task_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "app/tasks/task_files.h"
#include "os/fd.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TaskFiles : public ::testing::Test {
 protected:
  TaskFiles() : folder_(*os::TempDir::Create()) {}
  void Make(const std::string& path) {
    fs::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path) << "#";
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto found = app::FindTaskFiles(folder_.path());
    if (!found) return {found.error().message};
    for (const app::TaskFile& file : *found) names.push_back(file.name);
    return names;
  }
  os::TempDir folder_;
};

TEST_F(TaskFiles, FindsFoldersAndProblemsOneLevelDeepInNaturalOrder) {
  Make("task_10/func_forward.py");
  Make("task_10/problem.py");  // part of the task
  Make("task_9/func_backward.py");
  Make("level1/100_Loss.py");
  Make("level1/20_Conv.py");
  Make("level1/notes.txt");
  Make("level1/__init__.py");
  Make("level1/deeper/task_1/func_forward.py");  // two levels down
  EXPECT_THAT(Names(), ElementsAre("level1/20_Conv", "level1/100_Loss", "task_9", "task_10"));
}

TEST_F(TaskFiles, SingleTaskOrNoneIsAnError) {
  EXPECT_THAT(Names().at(0), HasSubstr("no task in"));
  Make("func_forward.py");
  EXPECT_THAT(Names().at(0), HasSubstr("is one task"));
  fs::remove_all(folder_.path());
  EXPECT_THAT(Names().at(0), HasSubstr("cannot list"));
}

FilteredTask TaskOf(const std::string& name, std::vector<oracle::QualityCheck> checks) {
  FilteredTask task{name, "/" + name, "", {}};
  FilteredSetting setting;
  setting.setting.id = "single-0";
  setting.checks = std::move(checks);
  if (oracle::IsFlagged(setting.checks)) setting.verdict = FilterVerdict::kFlagged;
  task.settings.push_back(setting);
  return task;
}

oracle::QualityCheck CheckOf(const std::string& name, bool cupel, std::optional<bool> published) {
  oracle::QualityCheck check;
  check.name = name;
  check.status = cupel ? oracle::CheckStatus::kFlagged : oracle::CheckStatus::kOk;
  check.published = published;
  check.reason = cupel ? "because \x1b[31m of this" : "";
  return check;
}

FilterReport TwoTasks() {
  FilterReport report;
  report.tasks.push_back(TaskOf("good", {CheckOf("range", false, false)}));
  report.tasks.push_back(
      TaskOf("bad", {CheckOf("range", true, true), CheckOf("copy", true, std::nullopt)}));
  report.tasks.push_back(TaskOf("small", {CheckOf("range", false, true)}));
  report.tasks.push_back(FilteredTask{"broken", "/broken", "it has no config_forward.json", {}});
  return report;
}

TEST(FilterReports, CountsTasksByCheck) {
  const auto counts = CountChecks(TwoTasks());
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[0].check, "range");
  EXPECT_EQ(counts[0].cupel, 1);
  EXPECT_EQ(counts[0].published, 2);
  EXPECT_EQ(counts[1].check, "copy");
  EXPECT_FALSE(counts[1].has_published);
}

TEST(FilterReports, SummaryListsFlagsAndUnexaminedTasks) {
  const std::string text = FilterSummary(TwoTasks());
  EXPECT_THAT(text, HasSubstr("range, copy"));
  EXPECT_THAT(text, HasSubstr("it has no config_forward.json"));
  EXPECT_THAT(text, HasSubstr("4 tasks: 2 clean, 1 flagged, 1 not examined"));
}

TEST(FilterReports, PageShowsReasonsWithoutEscapeSequences) {
  const std::string text = FilterText(TwoTasks().tasks[1]);
  EXPECT_THAT(text, HasSubstr("1. range of the output: because ?[31m of this"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(FilterReports, JsonHasTheSameFacts) {
  const Json json = FilterJson(TwoTasks());
  EXPECT_EQ(json["schema"], "cupel.filter/1");
  EXPECT_EQ(json["counts"]["flagged"], 1);
  EXPECT_EQ(json["counts"]["not_examined"], 1);
  EXPECT_EQ(json["counts"]["checks"]["range"]["published"], 2);
  EXPECT_TRUE(json["counts"]["checks"]["copy"]["published"].is_null());
  EXPECT_EQ(json["tasks"][3]["message"], "it has no config_forward.json");
  EXPECT_EQ(json["tasks"][1]["settings"][0]["checks"][0]["cupel"], "flagged");
}

TEST(FilterReports, SummaryMarksUnfinishedTasks) {
  FilterReport report = TwoTasks();
  report.tasks[0].settings[0].measures.emplace();
  report.tasks[0].settings[0].measures->unfinished = "leaving out aten.mm";
  EXPECT_THAT(FilterSummary(report), HasSubstr("(unfinished)"));
}

}  // namespace
}  // namespace cupel::cli
