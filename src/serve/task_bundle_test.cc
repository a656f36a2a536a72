// SPDX-License-Identifier: Apache-2.0
#include "serve/task_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "os/temp_dir.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const TaskBundle& bundle) {
  std::vector<std::string> names;
  for (const BundleFile& file : bundle.files) names.push_back(file.name);
  return names;
}

TEST(Bundle, BringsATaskWithItsNamedBaselines) {
  const auto folder = os::TempDir::Create(), other = os::TempDir::Create();
  ASSERT_TRUE(folder.has_value() && other.has_value());
  const fs::path path = folder->path() / "one";
  fs::create_directories(path / "baselines" / "deeper");
  fs::create_directories(path / "more");
  for (const char* name : {"func_forward.py", "config_forward.json", "forward.cu", ".hidden",
                           "baselines/library.py", "baselines/deeper/no.py", "more/no.py"}) {
    std::ofstream(path / name) << "# " << name << "\n";
  }
  task::Task task;
  task.path = path;
  const auto packed = PackTask(task);
  ASSERT_TRUE(packed.has_value()) << packed.error().ToString();
  EXPECT_THAT(NamesOf(*packed),
              ElementsAre("baselines/library.py", "config_forward.json", "func_forward.py"));
  const auto received = ReadTaskBundle(ToJson(*packed));
  ASSERT_TRUE(received.has_value()) << received.error().ToString();
  const auto unpacked = Unpack(*received, other->path());
  ASSERT_TRUE(unpacked.has_value()) << unpacked.error().ToString();
  EXPECT_TRUE(fs::exists(*unpacked / "baselines/library.py"));
  EXPECT_TRUE(fs::exists(*unpacked / "func_forward.py"));
}

TEST(Bundle, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"../x.py", "baselines/../x.py", "baselines/", "other/x.py", "/x.py",
                           "baselines/a/b.py", "baselines/.."}) {
    TaskBundle bundle{"one", true, {{name, "text"}}};
    EXPECT_FALSE(ReadTaskBundle(ToJson(bundle)).has_value()) << name;
  }
}

}  // namespace
}  // namespace cupel::serve
