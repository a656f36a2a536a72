// SPDX-License-Identifier: Apache-2.0
#include "oracle/case_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::oracle {
namespace {

os::Memory Plenty() { return {2, 2}; }

class CaseCacheTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name, size_t bytes = 100) {
    const auto path = folder_.path() / name;
    EXPECT_TRUE(os::WriteFileAtomically(path, std::string(bytes, name[0])));
    return path;
  }
  void Keep(CaseCache& cache, const std::string& name, const std::string& tag = "",
            size_t bytes = 100) {
    cache.Keep("k", Write(name, bytes), bytes, "digest " + name, tag);
  }
  bool Exists(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / name);
  }

  os::TempDir folder_ = *os::TempDir::Create();
};

TEST_F(CaseCacheTest, ReturnsDifferentCasesWithTheirBytes) {
  CaseCache cache(1 << 20, Plenty);
  for (const char* name : {"a", "b", "c"}) Keep(cache, name);
  EXPECT_TRUE(cache.Take("other", 3).empty());
  std::set<std::string> digests;
  for (const PooledCase& taken : cache.Take("k", 5)) {
    EXPECT_EQ(taken.digest.back(), std::to_integer<char>(taken.mapping.bytes()[99]));
    digests.insert(taken.digest);
  }
  EXPECT_EQ(digests.size(), 3u);
}

TEST_F(CaseCacheTest, DropsCaseAfterMaxUses) {
  CaseCache cache(1 << 20, Plenty);
  Keep(cache, "a");
  std::vector<PooledCase> last;
  for (int i = 1; i < kMaxUses; ++i) {
    last = cache.Take("k", 1);
    ASSERT_EQ(last.size(), 1u) << i;
  }
  EXPECT_FALSE(Exists("a"));
  EXPECT_EQ(std::to_integer<char>(last[0].mapping.bytes()[0]), 'a');  // for this last use
  EXPECT_TRUE(cache.Take("k", 1).empty());
}

TEST_F(CaseCacheTest, SeededCasesServeOnlyTheirSeedAndNeverExpire) {
  CaseCache cache(1 << 20, Plenty);
  Keep(cache, "a", "7:0");
  EXPECT_TRUE(cache.Take("k", 1).empty());
  EXPECT_FALSE(cache.TakeSeeded("k", "7:1"));
  for (int i = 0; i < 2 * kMaxUses; ++i) EXPECT_TRUE(cache.TakeSeeded("k", "7:0")) << i;
}

TEST_F(CaseCacheTest, StaysWithinLimitAndDeletesFilesAtExit) {
  {
    CaseCache cache(250, Plenty);
    Keep(cache, "a", "7:0");
    Keep(cache, "b", "7:1");
    EXPECT_TRUE(cache.TakeSeeded("k", "7:0"));
    Keep(cache, "c", "7:2");
    EXPECT_FALSE(Exists("b"));  // the least recently used
    EXPECT_TRUE(Exists("a"));
    Keep(cache, "d", "7:3", 300);
    EXPECT_FALSE(Exists("d"));
    Keep(cache, "e", "7:4");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(CaseCacheTest, DeletesTheLeastRecentlyUsedCase) {
  CaseCache cache(250, Plenty);
  Keep(cache, "a");
  EXPECT_EQ(cache.Take("k", 1).size(), 1u);
  Keep(cache, "b");
  Keep(cache, "c");
  EXPECT_FALSE(Exists("a"));  // it was used more often, but earlier
  EXPECT_TRUE(Exists("b") && Exists("c"));
}

TEST_F(CaseCacheTest, KeepsHalfOfTheMemoryAvailable) {
  uint64_t others = 0;
  CaseCache cache(1 << 20, [&] {
    uint64_t kept = 0;
    for (const char* name : {"a", "b", "c"}) kept += Exists(name) ? 100 : 0;
    return os::Memory{600, 600 - std::min<uint64_t>(600, kept + others)};
  });
  Keep(cache, "a");
  Keep(cache, "b");
  EXPECT_TRUE(Exists("a"));
  others = 100;  // another cupel process caches a case
  Keep(cache, "c");
  EXPECT_FALSE(Exists("a"));
  EXPECT_TRUE(Exists("b") && Exists("c"));
  others = 500;  // the other process's PyTorch grows
  Keep(cache, "a");
  EXPECT_FALSE(Exists("a") || Exists("b") || Exists("c"));
}

TEST_F(CaseCacheTest, ForgetsDeletedFiles) {
  CaseCache cache(1 << 20, Plenty);
  Keep(cache, "a");
  std::filesystem::remove(folder_.path() / "a");
  EXPECT_TRUE(cache.Take("k", 1).empty());
}

}  // namespace
}  // namespace cupel::oracle
