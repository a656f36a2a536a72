// SPDX-License-Identifier: Apache-2.0
#include "app/lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

namespace cupel::app {
namespace {

TEST(Lanes, RunsEveryItemOnceInParallel) {
  std::mutex mutex;
  std::multiset<size_t> done;
  std::atomic<int> inside{0};
  bool together = false;
  const auto status = ForEachOnLanes(3, 20, [&](size_t lane, size_t item) -> Status {
    EXPECT_LT(lane, 3u);
    // The first item waits until another lane has started.
    ++inside;
    while (item == 0 && inside < 2) {
    }
    const std::lock_guard lock(mutex);
    together = together || inside > 1;
    done.insert(item);
    return {};
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_TRUE(together);
  EXPECT_EQ(done.size(), 20u);
  EXPECT_EQ(std::set<size_t>(done.begin(), done.end()).size(), 20u);
}

TEST(Lanes, ErrorStopsNewItems) {
  std::atomic<int> started{0};
  const auto status = ForEachOnLanes(1, 1000, [&](size_t, size_t item) -> Status {
    ++started;
    if (item == 5) return Fail(ErrorCode::kIo, "the sixth");
    return {};
  });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "the sixth");
  EXPECT_EQ(started, 6);
}

}  // namespace
}  // namespace cupel::app
