// SPDX-License-Identifier: Apache-2.0
#include "oracle/scripts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

TEST(ScriptsHash, ChangesWithNameAndContentOfEachModule) {
  const os::TempDir folder = *os::TempDir::Create();
  EXPECT_FALSE(ScriptsHash(folder.path()));
  EXPECT_FALSE(ScriptsHash(folder.path() / "missing"));
  std::set<std::string> seen;
  const auto is_new = [&] {
    const auto hash = ScriptsHash(folder.path());
    return hash && seen.insert(*hash).second;
  };
  std::ofstream(folder.path() / "b.py") << "1";
  EXPECT_TRUE(is_new());
  EXPECT_FALSE(is_new());
  std::ofstream(folder.path() / "a.py") << "2";
  EXPECT_TRUE(is_new());
  std::ofstream(folder.path() / "a.py") << "3";
  EXPECT_TRUE(is_new());
  std::filesystem::rename(folder.path() / "a.py", folder.path() / "c.py");
  EXPECT_TRUE(is_new());
  std::ofstream(folder.path() / "notes.txt") << "4";
  EXPECT_FALSE(is_new());
}

}  // namespace
}  // namespace cupel::oracle
