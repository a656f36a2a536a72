// SPDX-License-Identifier: Apache-2.0
#include "os/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "os/temp_dir.h"

namespace cupel::os {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProgramsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TempDir::Create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
  }
  /// Creates a file in a sub-folder.
  fs::path Make(const std::string& folder, const std::string& name, bool is_program) {
    const fs::path path = folder_->path() / folder / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, is_program ? fs::perms::owner_all : fs::perms::owner_read);
    return path;
  }
  std::optional<TempDir> folder_;
};

TEST(FoldersOfTest, LeavesOutRelativeFolders) {
  EXPECT_THAT(FoldersOf("/a:b::/c d:."), ElementsAre("/a", "/c d"));
  EXPECT_TRUE(FoldersOf("").empty());
}

TEST_F(ProgramsTest, TakesTheFirstFileThatCanRun) {
  Make("one", "tool", false);
  fs::create_directories(folder_->path() / "two" / "tool");
  const fs::path right = Make("three", "tool", true);
  Make("four", "tool", true);
  std::vector<fs::path> folders;
  for (const char* name : {"one", "two", "three", "four"})
    folders.push_back(folder_->path() / name);
  EXPECT_EQ(FindProgram("tool", folders), right);
  EXPECT_EQ(FindProgram("other", folders), std::nullopt);
  EXPECT_EQ(FindProgram("", folders), std::nullopt);
  EXPECT_EQ(FindProgram(right.string(), {}), right);
}

TEST_F(ProgramsTest, AToolThatTheUserNamesMustExist) {
  const fs::path right = Make("bin", "tool", true);
  const Tool tool{"CUPEL_TEST_TOOL",
                  "tool",
                  {right.parent_path()},
                  {ErrorCode::kEnvironment, "tool was not found", "install it"}};
  EXPECT_EQ(*FindTool(tool), right);
  setenv("CUPEL_TEST_TOOL", "/nowhere/tool", 1);
  const auto named = FindTool(tool);
  unsetenv("CUPEL_TEST_TOOL");
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().ToString(), HasSubstr("/nowhere/tool"));
}

}  // namespace
}  // namespace cupel::os
