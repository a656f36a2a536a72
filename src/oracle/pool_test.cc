// SPDX-License-Identifier: Apache-2.0
#include "oracle/pool.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <thread>

#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;

class PoolTest : public ::testing::Test {
 protected:
  PoolTest() : folder_(*os::TempDir::Create()), pool_(root(), 1 << 20) {}
  fs::path root() const { return folder_.path() / "cases"; }
  static std::vector<std::byte> Bytes(int value, size_t size = 1000) {
    return std::vector<std::byte>(size, static_cast<std::byte>(value));
  }
  void Put(Pool& pool, int value, const std::string& seed = "", int uses = 0, size_t size = 1000) {
    pool.Insert("k", Bytes(value, size), "digest" + std::to_string(value), seed, uses);
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      if (entry.path().extension() == ".case") files.push_back(entry.path());
    }
    return files;
  }

  os::TempDir folder_;
  Pool pool_;
};

TEST_F(PoolTest, ReturnsDifferentCasesWithTheirBytes) {
  for (int i = 0; i < 5; ++i) Put(pool_, i);
  EXPECT_EQ(pool_.Available("k"), 5);
  EXPECT_TRUE(pool_.Take("other", 3).empty());
  const auto taken = pool_.Take("k", 3);
  ASSERT_EQ(taken.size(), 3u);
  std::set<std::string> digests;
  for (const PooledCase& c : taken) {
    digests.insert(c.digest);
    EXPECT_EQ("digest" + std::to_string(std::to_integer<int>(c.mapping.bytes()[7])), c.digest);
  }
  EXPECT_EQ(digests.size(), 3u);
  EXPECT_EQ(pool_.Take("k", 9).size(), 5u);
}

TEST_F(PoolTest, DropsCaseAfterMaxUses) {
  Put(pool_, 1, "", 1);
  for (int i = 1; i < kMaxUses; ++i) EXPECT_EQ(pool_.Take("k", 1).size(), 1u) << i;
  EXPECT_TRUE(pool_.Take("k", 1).empty());
  EXPECT_TRUE(Files().empty());
}

TEST_F(PoolTest, KeepsSeededCasesSeparate) {
  Put(pool_, 1, "42:0");
  EXPECT_TRUE(pool_.Take("k", 1).empty());
  for (int i = 0; i < 2 * kMaxUses; ++i) ASSERT_TRUE(pool_.TakeSeeded("k", "42:0"));
  EXPECT_FALSE(pool_.TakeSeeded("k", "42:1"));
}

TEST_F(PoolTest, DropsDamagedFiles) {
  Put(pool_, 1);
  Put(pool_, 2, "7:0");
  for (const fs::path& file : Files()) fs::resize_file(file, 999);
  EXPECT_TRUE(pool_.Take("k", 1).empty());
  EXPECT_FALSE(pool_.TakeSeeded("k", "7:0"));
  EXPECT_TRUE(Files().empty());
  Put(pool_, 3);
  std::fstream(Files().at(0), std::ios::in | std::ios::out | std::ios::binary).seekp(500).put('x');
  EXPECT_TRUE(pool_.Take("k", 1).empty());
  Put(pool_, 4);
  std::ofstream(root() / "k" / "index.json") << "{\"entries\": [";
  EXPECT_TRUE(pool_.Take("k", 1).empty());
  Put(pool_, 5);  // the pool still works
  EXPECT_EQ(pool_.Take("k", 1).size(), 1u);
}

TEST_F(PoolTest, StaysWithinLimit) {
  for (int i = 0; i < 30; ++i) Put(pool_, i, "", 0, 100'000);
  uint64_t total = 0;
  for (const fs::path& file : Files()) total += fs::file_size(file);
  EXPECT_LE(total, 1u << 20);
  EXPECT_GE(total, 500'000u);
  EXPECT_GE(pool_.Take("k", 5).size(), 5u);  // skips entries whose file was trimmed
}

TEST_F(PoolTest, FilesArePrivate) {
  Put(pool_, 1);
  struct stat info = {};
  ASSERT_EQ(::stat(root().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(Files().at(0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(PoolTest, StoresScales) {
  EXPECT_FALSE(pool_.Scales("k"));
  pool_.SetScales("k", {0.1, 2e-7});
  Put(pool_, 1);
  ASSERT_TRUE(pool_.Scales("k"));
  EXPECT_EQ(*pool_.Scales("k"), (std::vector<double>{0.1, 2e-7}));
}

TEST_F(PoolTest, CountsConcurrentUses) {
  Put(pool_, 1);
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Pool mine(root(), 1 << 20);
      for (int i = 0; i < 8; ++i) served += static_cast<int>(mine.Take("k", 1).size());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kMaxUses);
}

TEST_F(PoolTest, StoresNothingWithoutFolder) {
  Pool none({}, 1 << 20);
  Put(none, 1);
  EXPECT_TRUE(none.Take("k", 1).empty());
  EXPECT_FALSE(none.Scales("k"));
}

}  // namespace
}  // namespace cupel::oracle
