// SPDX-License-Identifier: Apache-2.0
#include "oracle/shelf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "os/fd.h"

namespace cupel::oracle {
namespace {

os::Memory Plenty() { return {2, 2}; }

class ShelfTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name, size_t bytes = 100) {
    const auto path = folder_.path() / name;
    EXPECT_TRUE(os::WriteFileAtomically(path, std::string(bytes, name[0])));
    return path;
  }
  void Keep(Shelf& shelf, const std::string& name, const std::string& tag = "",
            size_t bytes = 100) {
    shelf.Keep("k", Write(name, bytes), bytes, "digest " + name, tag);
  }
  bool Exists(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / name);
  }

  os::TempDir folder_ = *os::TempDir::Create();
};

TEST_F(ShelfTest, GivesDifferentCasesThoseUsedLeastFirst) {
  Shelf shelf(1 << 20, Plenty);
  for (const char* name : {"a", "b", "c"}) Keep(shelf, name);
  EXPECT_TRUE(shelf.Take("other", 3).empty());
  std::set<std::string> digests;
  for (int i = 0; i < 3; ++i) {
    const auto taken = shelf.Take("k", 1);
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].digest.back(), std::to_integer<char>(taken[0].mapping.bytes()[99]));
    digests.insert(taken[0].digest);
  }
  EXPECT_EQ(digests.size(), 3u);
}

TEST_F(ShelfTest, ACaseWearsOut) {
  Shelf shelf(1 << 20, Plenty);
  Keep(shelf, "a");
  std::vector<PooledCase> last;
  for (int i = 1; i < kMaxUses; ++i) {
    last = shelf.Take("k", 1);
    ASSERT_EQ(last.size(), 1u) << i;
  }
  EXPECT_FALSE(Exists("a"));
  EXPECT_EQ(std::to_integer<char>(last[0].mapping.bytes()[0]), 'a');  // for this last use
  EXPECT_TRUE(shelf.Take("k", 1).empty());
}

TEST_F(ShelfTest, SeededCasesServeTheirSeedAloneAndForEver) {
  Shelf shelf(1 << 20, Plenty);
  Keep(shelf, "a", "7:0");
  EXPECT_TRUE(shelf.Take("k", 1).empty());
  EXPECT_FALSE(shelf.TakeSeeded("k", "7:1"));
  for (int i = 0; i < 2 * kMaxUses; ++i) EXPECT_TRUE(shelf.TakeSeeded("k", "7:0")) << i;
}

TEST_F(ShelfTest, StaysWithinItsBoundAndLeavesNothingBehind) {
  {
    Shelf shelf(250, Plenty);
    Keep(shelf, "a", "7:0");
    Keep(shelf, "b", "7:1");
    EXPECT_TRUE(shelf.TakeSeeded("k", "7:0"));
    Keep(shelf, "c", "7:2");
    EXPECT_FALSE(Exists("b"));  // it has waited longest
    EXPECT_TRUE(Exists("a"));
    Keep(shelf, "d", "7:3", 300);
    EXPECT_FALSE(Exists("d"));
    Keep(shelf, "e", "7:4");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ShelfTest, LeavesHalfOfTheMemoryToOthers) {
  uint64_t others = 0;
  Shelf shelf(1 << 20, [&] {
    uint64_t kept = 0;
    for (const char* name : {"a", "b", "c"}) kept += Exists(name) ? 100 : 0;
    return os::Memory{600, 600 - std::min<uint64_t>(600, kept + others)};
  });
  Keep(shelf, "a");
  Keep(shelf, "b");
  EXPECT_TRUE(Exists("a"));
  others = 100;  // another cupel keeps one
  Keep(shelf, "c");
  EXPECT_FALSE(Exists("a"));
  EXPECT_TRUE(Exists("b") && Exists("c"));
  others = 500;  // its PyTorch grows
  Keep(shelf, "a");
  EXPECT_FALSE(Exists("a") || Exists("b") || Exists("c"));
}

TEST_F(ShelfTest, WhatHasGoneIsForgotten) {
  Shelf shelf(1 << 20, Plenty);
  Keep(shelf, "a");
  std::filesystem::remove(folder_.path() / "a");
  EXPECT_TRUE(shelf.Take("k", 1).empty());
}

}  // namespace
}  // namespace cupel::oracle
