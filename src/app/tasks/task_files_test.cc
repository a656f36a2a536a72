// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "os/temp_dir.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TaskFiles : public ::testing::Test {
 protected:
  TaskFiles() : folder_(*os::TempDir::Create()) {}
  void Make(const std::string& path) {
    fs::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path) << "#";
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto found = FindTaskFiles(folder_.path());
    if (!found) return {found.error().message};
    for (const TaskFile& file : *found) names.push_back(file.name);
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

}  // namespace
}  // namespace cupel::app
