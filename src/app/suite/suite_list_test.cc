// SPDX-License-Identifier: Apache-2.0
#include "app/suite/suite_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "os/temp_dir.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class SuiteListTest : public testing::Test {
 protected:
  SuiteListTest() : folder_(*os::TempDir::Create()), tasks_(folder_.path() / "tasks") {
    const fs::path from = fs::path(CUPEL_SOURCE_DIR) / "tasks" / "mnist_linear";
    fs::create_directories(tasks_ / "level1");
    fs::copy(from, tasks_ / "both", fs::copy_options::recursive);
    fs::copy(from, tasks_ / "level1" / "nested", fs::copy_options::recursive);
    fs::remove(tasks_ / "level1" / "nested" / "func_backward.py");
  }

  void Kernel(const std::string& name, const std::string& text = "k") {
    const fs::path path = folder_.path() / "kernels" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Result<SuiteList> List(const std::string& direction = "both",
                         const std::string& settings = "all") {
    return ListSuite({tasks_, folder_.path() / "kernels", direction, settings}, tasks_);
  }
  static std::vector<std::string> Ids(const Result<SuiteList>& list) {
    std::vector<std::string> ids;
    if (!list) return {list.error().ToString()};
    for (const archive::SuiteItem& item : list->items) ids.push_back(item.id);
    return ids;
  }

  os::TempDir folder_;
  fs::path tasks_;
};

TEST_F(SuiteListTest, FindsKernelsByFolderAndName) {
  Kernel("both/forward.cu");
  Kernel("both/fast.cu");
  Kernel("both/fast_backward.cu");
  Kernel("both/backward/kernel.cu");
  Kernel("both/forward/answer.py");
  Kernel("both/func_forward.py");  // of a task's own folder
  Kernel("both/notes.txt");
  Kernel("level1/nested.cu");
  EXPECT_THAT(Ids(List()),
              ElementsAre("both/forward/fast.cu", "both/forward/forward.cu",
                          "both/forward/forward/answer.py", "both/backward/fast_backward.cu",
                          "both/backward/backward/kernel.cu", "level1/nested/forward/nested.cu"));
  EXPECT_THAT(Ids(List("backward")),
              ElementsAre("both/backward/fast_backward.cu", "both/backward/backward/kernel.cu"));
  EXPECT_THAT(List()->without_kernel, IsEmpty());
}

TEST_F(SuiteListTest, ListsTasksWithoutKernelAndKernelsWithoutTask) {
  Kernel("both/forward.cu");
  Kernel("bothh/forward.cu");
  Kernel("other.cu");
  const auto list = List();
  ASSERT_TRUE(list) << list.error().ToString();
  EXPECT_THAT(list->without_kernel,
              ElementsAre(Pair("both", "backward"), Pair("level1/nested", "forward")));
  EXPECT_THAT(list->notes, ElementsAre(HasSubstr("name: bothh, other.cu")));
}

TEST_F(SuiteListTest, NotesKernelsForADirectionThatTheTaskLacks) {
  Kernel("level1/nested.cu");
  Kernel("level1/nested/backward/kernel.cu");
  const auto list = List();
  ASSERT_TRUE(list) << list.error().ToString();
  EXPECT_THAT(Ids(list), ElementsAre("level1/nested/forward/nested.cu"));
  EXPECT_THAT(list->notes,
              ElementsAre(AllOf(HasSubstr("the task level1/nested has no backward direction"),
                                HasSubstr("level1/nested/backward/kernel.cu"))));
}

TEST_F(SuiteListTest, NotesTasksThatDoNotLoadAndContinues) {
  Kernel("both/forward.cu");
  fs::create_directories(tasks_ / "broken");
  std::ofstream(tasks_ / "broken" / "func_forward.py") << "x";
  std::ofstream(tasks_ / "broken" / "config_forward.json") << "{";
  const auto list = List();
  ASSERT_TRUE(list) << list.error().ToString();
  EXPECT_EQ(list->items.size(), 1);
  EXPECT_THAT(list->notes, ElementsAre(HasSubstr("broken is not a valid task")));
}

TEST_F(SuiteListTest, HashesFollowKernelTaskAndDirection) {
  Kernel("both/forward.cu");
  Kernel("both/backward.cu");
  const auto before = List();
  ASSERT_EQ(before->items.size(), 2);
  std::ofstream(tasks_ / "both" / "func_backward.py", std::ios::app) << "\n# more\n";
  Kernel("both/forward.cu", "other");
  const auto after = List();
  EXPECT_EQ(before->items[0].task_sha256, after->items[0].task_sha256);
  EXPECT_NE(before->items[0].source_sha256, after->items[0].source_sha256);
  EXPECT_NE(before->items[1].task_sha256, after->items[1].task_sha256);
  EXPECT_EQ(before->items[1].source_sha256, after->items[1].source_sha256);
  std::ofstream(tasks_ / "both" / "task.json") << R"({"title": "another"})";
  EXPECT_NE(List()->items[0].task_sha256, after->items[0].task_sha256);
}

TEST_F(SuiteListTest, TakesOneTaskWithItsOwnKernels) {
  const auto list = ListSuite({tasks_ / "both" / "", {}, "both"}, tasks_);
  EXPECT_THAT(Ids(list), ElementsAre("both/forward/forward.cu", "both/backward/backward.cu"));
}

TEST_F(SuiteListTest, TakesTheNameOfATask) {
  const auto by_name = ListSuite({"both", {}, "both"}, tasks_);
  EXPECT_EQ(Ids(by_name), Ids(ListSuite({tasks_ / "both", {}, "both"}, tasks_)));
  EXPECT_FALSE(ListSuite({"neither", {}, "both"}, tasks_));
}

TEST_F(SuiteListTest, ReadsListsAndNamesTheirLines) {
  Kernel("a.cu");
  const fs::path file = folder_.path() / "list.jsonl";
  const std::string kernel = (folder_.path() / "kernels" / "a.cu").string();
  const auto write = [&](const std::string& second) {
    std::ofstream(file) << R"({"kernel": ")" << kernel << R"(", "task": "both"})"
                        << "\n\n"
                        << second << "\n";
  };
  write(R"({"kernel": ")" + kernel + R"(", "task": "both", "backward": true})");
  const auto list = ListSuite({file, {}, "both"}, tasks_);
  ASSERT_TRUE(list) << list.error().ToString();
  EXPECT_EQ(list->items[0].direction, "forward");
  EXPECT_EQ(list->items[1].direction, "backward");
  write(R"({"kernel": 3})");
  const auto broken = ListSuite({file, {}, "both"}, tasks_);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("list.jsonl:3"));
  write(R"({"kernel": "k.cu", "task": "nowhere"})");
  EXPECT_THAT(ListSuite({file, {}, "both"}, tasks_).error().message, HasSubstr("list.jsonl:3"));
}

TEST_F(SuiteListTest, FolderWithoutAnyKernelIsAnError) {
  fs::create_directories(folder_.path() / "kernels");
  const auto list = List();
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().message, HasSubstr("no kernel"));
  EXPECT_FALSE(ListSuite({folder_.path() / "nowhere", {}, "both"}, tasks_));
}

TEST_F(SuiteListTest, TakesPythonOutsideTaskFolders) {
  Kernel("both/answer.py");
  Kernel("both/answer_backward.py");
  EXPECT_THAT(Ids(List()),
              ElementsAre("both/forward/answer.py", "both/backward/answer_backward.py"));
}

TEST_F(SuiteListTest, SkipsTasksWithoutSuchSettings) {
  Kernel("both/forward.cu");
  EXPECT_EQ(Ids(List("both", "multi")).size(), 1u);
  std::ofstream(tasks_ / "both" / "config_forward.json")
      << R"({"single_input_configs": [{"batch_size": 4}], "single_init_configs": [{}],
             "single_shared_configs": [{}]})";
  const auto list = List("forward", "multi");
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().message, HasSubstr("both forward has no multi settings"));
}

TEST_F(SuiteListTest, ErrorNamesAMissingFolder) {
  const auto list = ListSuite({tasks_, folder_.path() / "nowhere", "both"}, tasks_);
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().message, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace cupel::app
