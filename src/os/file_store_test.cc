// SPDX-License-Identifier: Apache-2.0
#include "os/file_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "os/file_lock.h"
#include "os/temp_dir.h"
#include "os/trim.h"

namespace cupel::os {
namespace {

namespace fs = std::filesystem;

class FileStoreTest : public ::testing::Test {
 protected:
  fs::path Root() const { return folder_.path() / "store"; }
  static mode_t ModeOf(const fs::path& path) {
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  TempDir folder_ = *TempDir::Create();
};

TEST_F(FileStoreTest, WritesPrivateFiles) {
  const FileStore store(Root(), 1000);
  const auto lock = store.Lock("a/lock");
  ASSERT_TRUE(lock);
  ASSERT_TRUE(store.Write("a/b", "old"));
  ASSERT_TRUE(store.Write("a/b", "new"));
  const auto file = store.Open("a/b");
  ASSERT_TRUE(file);
  store.Remove("a/b");
  EXPECT_EQ(file->text(), "new");
  EXPECT_FALSE(store.Open("a/b"));
  EXPECT_EQ(ModeOf(Root()), 0700u);
  EXPECT_EQ(ModeOf(Root() / "a"), 0700u);
  EXPECT_EQ(ModeOf(Root() / "a/lock"), 0600u);
}

TEST_F(FileStoreTest, AFailedWriteChangesNothing) {
  const FileStore store(Root(), 1000);
  ASSERT_TRUE(store.Lock("lock"));
  ASSERT_TRUE(store.Write("b", "old"));
  const auto failed = store.Write("b", [](int fd) -> Status {
    TRY(WriteAll(fd, "ne"));
    return Fail(ErrorCode::kIo, "no more");
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no more");
  EXPECT_EQ(store.Open("b")->text(), "old");
  EXPECT_FALSE(fs::exists(Root() / "b.new"));
}

TEST_F(FileStoreTest, OnlyOneHolderHasTheLock) {
  const FileStore store(Root(), 1000);
  auto lock = store.Lock("lock");
  ASSERT_TRUE(lock);
  const auto other = OpenLockFile(Root() / "lock");
  ASSERT_TRUE(other);
  const auto got = Acquire(*other, Lock::kExclusive, std::chrono::steady_clock::now());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kTimeout);
  lock->Close();
  EXPECT_TRUE(Acquire(*other, Lock::kShared));
}

TEST_F(FileStoreTest, TrimRemovesTheLeastRecentlyUsedFiles) {
  const FileStore store(Root(), 350);
  const auto now = fs::file_time_type::clock::now();
  for (const std::string name : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(store.Lock(name + ".lock"));
    ASSERT_TRUE(store.Write(name, std::string(100, name[0])));
    fs::last_write_time(Root() / name, now - std::chrono::hours(9 - (name[0] - 'a')));
  }
  ASSERT_TRUE(store.Write("index.json", std::string(1000, ' ')));
  ASSERT_TRUE(store.Open("a"));
  store.Trim();
  EXPECT_FALSE(fs::exists(Root() / "b"));
  EXPECT_FALSE(fs::exists(Root() / "b.lock"));
  for (const char* name : {"a", "c", "d", "a.lock", "index.json"}) {
    EXPECT_TRUE(fs::exists(Root() / name)) << name;
  }
}

TEST_F(FileStoreTest, TrimRemovesFoldersThatAreLeftEmpty) {
  const FileStore store(Root(), 150);
  const auto now = fs::file_time_type::clock::now();
  for (const std::string name : {"a", "b"}) {
    ASSERT_TRUE(store.Lock(name + "/lock"));
    for (const char* file : {"index.json", "case"}) {
      const std::string path = name + "/" + file;
      ASSERT_TRUE(store.Write(path, std::string(60, ' ')));
      fs::last_write_time(Root() / path, now - std::chrono::hours(name == "a" ? 2 : 1));
    }
  }
  store.Trim();
  EXPECT_FALSE(fs::exists(Root() / "a"));
  EXPECT_TRUE(fs::exists(Root() / "b/index.json"));
}

TEST_F(FileStoreTest, TrimsOnlyAfterManyBytes) {
  const FileStore store(Root(), 64'000);
  ASSERT_TRUE(store.Lock("lock"));
  ASSERT_TRUE(store.Write("large", std::string(70'000, ' ')));
  store.TrimAfter(0);
  EXPECT_TRUE(fs::exists(Root() / "large"));
  store.TrimAfter(1000);  // a 64th of the limit
  EXPECT_FALSE(fs::exists(Root() / "large"));
}

TEST(TrimTest, LimitsTheNumberOfEntries) {
  std::vector<TrimEntry> entries;
  const fs::file_time_type start{};
  for (int i = 0; i < 30; ++i) entries.push_back({start + std::chrono::hours(i), 1, ""});
  size_t removed = 0;
  Trim(std::move(entries), {.bytes = 1000, .entries = 20}, [&](const TrimEntry& entry) {
    EXPECT_LT(entry.used, start + std::chrono::hours(12));
    return ++removed > 0;
  });
  EXPECT_EQ(removed, 12u);  // 90 % of the limit stay
}

TEST_F(FileStoreTest, LocksNothingWithoutAFolder) { EXPECT_FALSE(FileStore({}, 1).Lock("lock")); }

}  // namespace
}  // namespace cupel::os
