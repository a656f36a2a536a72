// SPDX-License-Identifier: Apache-2.0
#include "emu/core/near_cache.h"

#include <gtest/gtest.h>

namespace cupel::emu {
namespace {

uint64_t Misses(NearCache& cache, uint64_t block, uint64_t sectors, uint64_t step) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < sectors; ++i) sum += !cache.Touch(block, i * step);
  return sum;
}

TEST(NearCache, HitsRecentlyLoadedSectors) {
  NearCache cache;
  cache.Start(0, 16 << 10);
  EXPECT_EQ(Misses(cache, 0, 256, 1), 256u);
  EXPECT_EQ(Misses(cache, 0, 256, 1), 0u);
  EXPECT_EQ(Misses(cache, 0, 1 << 16, 1), (1u << 16) - 256u);
  EXPECT_EQ(Misses(cache, 0, 1 << 16, 1), 1u << 16) << "2 MiB exceed the cache";
}

TEST(NearCache, LoadsSectorsOfALineSeparately) {
  NearCache cache;
  cache.Start(0, 32 << 10);
  EXPECT_FALSE(cache.Touch(0, 5));
  EXPECT_FALSE(cache.Touch(0, 6));
  EXPECT_TRUE(cache.Touch(0, 5));
}

TEST(NearCache, BlocksDoNotShareLines) {
  NearCache cache;
  cache.Start(7, 16 << 10);
  EXPECT_FALSE(cache.Touch(7, 1));
  EXPECT_FALSE(cache.Touch(8, 1));
  EXPECT_TRUE(cache.Touch(7, 1));
  cache.Start(7, 16 << 10);
  EXPECT_FALSE(cache.Touch(7, 1));
  EXPECT_TRUE(cache.Touch(8, 1));
}

TEST(NearCache, KeepsLinesOfLanesThatAreRowsApart) {
  // 32 rows of 16 KiB: each lane's line must survive until its next sector is loaded.
  NearCache cache;
  cache.Start(0, 16 << 10);
  EXPECT_EQ(Misses(cache, 0, 32, 512), 32u);
  EXPECT_EQ(Misses(cache, 0, 32, 512), 0u);
}

}  // namespace
}  // namespace cupel::emu
