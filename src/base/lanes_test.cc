// SPDX-License-Identifier: Apache-2.0
#include "base/lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/schedule.h"

namespace cupel {
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

TEST(Lanes, HasAtMostOneLanePerItem) {
  const auto status = ForEachOnLanes(8, 1, [](size_t lane, size_t) -> Status {
    EXPECT_EQ(lane, 0u);
    return {};
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_TRUE(ForEachOnLanes(0, 0, [](size_t, size_t) -> Status { return {}; }).has_value());
}

/// Runs items on lanes that may break, and records who tried what.
struct FragileLanes {
  void Run(size_t lanes, size_t items,
           const std::function<Status(size_t lane, size_t item)>& work) {
    TryOnLanes(
        lanes, items,
        [&](size_t lane, size_t item) -> Status {
          {
            const std::lock_guard lock(mutex);
            attempts[item].push_back(lane);
          }
          return work(lane, item);
        },
        [&](size_t item, const Error& error) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(failed.emplace(item, error.message).second) << item << " failed twice";
        });
    EXPECT_EQ(attempts.size(), items);
  }

  std::mutex mutex;
  std::map<size_t, std::vector<size_t>> attempts;  // the lanes that tried an item
  std::map<size_t, std::string> failed;
};

TEST(FragileLanes, AnotherLaneTriesWhatABrokenLaneCannotDo) {
  FragileLanes run;
  std::atomic<int> on_broken{0};
  run.Run(3, 50, [&](size_t lane, size_t) -> Status {
    // The others wait, so that the broken lane, which is fast, gets items.
    while (lane != 1 && on_broken < kMostErrorsInARow) {
    }
    if (lane != 1) return {};
    ++on_broken;
    return Fail(ErrorCode::kEnvironment, "the GPU is gone");
  });
  EXPECT_TRUE(run.failed.empty());
  EXPECT_EQ(on_broken, kMostErrorsInARow);
  for (const auto& [item, lanes] : run.attempts) {
    EXPECT_NE(lanes.back(), 1u) << item;
    EXPECT_EQ(lanes.size(), lanes.front() == 1 ? 2u : 1u) << item;
  }
}

TEST(FragileLanes, AnItemIsTriedTwiceAtMost) {
  FragileLanes run;
  run.Run(3, 20, [&](size_t, size_t item) -> Status {
    if (item % 7 == 3) return Fail(ErrorCode::kInternal, "item " + std::to_string(item));
    return {};
  });
  EXPECT_EQ(run.failed,
            (std::map<size_t, std::string>{{3, "item 3"}, {10, "item 10"}, {17, "item 17"}}));
  for (const size_t item : {3, 10, 17}) {
    ASSERT_EQ(run.attempts[item].size(), 2u);
    EXPECT_NE(run.attempts[item][0], run.attempts[item][1]);
  }
}

TEST(FragileLanes, FaultsOfTheItemAreNotRetried) {
  FragileLanes run;
  run.Run(2, 10, [](size_t, size_t) { return Fail(ErrorCode::kInvalidArgument, "bad task"); });
  EXPECT_EQ(run.failed.size(), 10u);
  for (const auto& [item, lanes] : run.attempts) EXPECT_EQ(lanes.size(), 1u) << item;
}

TEST(FragileLanes, TheLastLaneDoesEverything) {
  for (const size_t lanes : {1, 4}) {
    FragileLanes run;
    run.Run(lanes, 40, [](size_t, size_t) { return Fail(ErrorCode::kEnvironment, "broken"); });
    EXPECT_EQ(run.failed.size(), 40u);
    EXPECT_LE(run.attempts[0].size(), lanes == 1 ? 1u : 2u);
  }
}

}  // namespace
}  // namespace cupel
