// SPDX-License-Identifier: Apache-2.0
#include "base/schedule.h"

#include <gtest/gtest.h>

namespace cupel {
namespace {

TEST(Schedule, LostItemGoesFirstToAnotherWorker) {
  Schedule schedule(3, 3);
  EXPECT_EQ(schedule.Take(0, {0, 1}), 0u);
  EXPECT_TRUE(schedule.Lose(0, 0, "died"));
  EXPECT_EQ(schedule.Take(0, {0, 1}), 1u);
  EXPECT_EQ(schedule.Take(1, {0, 1}), 0u);
  EXPECT_EQ(schedule.attempts(0), 2);
}

TEST(Schedule, LostItemGoesToTheSameWorkerIfThereIsNoOther) {
  Schedule schedule(1, 3);
  EXPECT_EQ(schedule.Take(0, {0, 1}), 0u);
  EXPECT_TRUE(schedule.Lose(0, 0, "died"));
  EXPECT_EQ(schedule.Take(0, {0, 1}), std::nullopt);
  EXPECT_EQ(schedule.Take(0, {0}), 0u);
}

TEST(Schedule, ItemIsFinishedAfterTheLastAttempt) {
  Schedule schedule(1, 2);
  EXPECT_EQ(schedule.Take(0, {0}), 0u);
  EXPECT_TRUE(schedule.Lose(0, 0, "died"));
  EXPECT_EQ(schedule.Take(0, {0}), 0u);
  EXPECT_FALSE(schedule.Lose(0, 0, "died again"));
  EXPECT_EQ(schedule.why(0), "died again");
  EXPECT_TRUE(schedule.IsDone());
  EXPECT_EQ(schedule.Take(0, {0}), std::nullopt);
}

TEST(Schedule, ReturnedItemDoesNotCountAsAttempt) {
  Schedule schedule(2, 1);
  EXPECT_EQ(schedule.Take(0, {0, 1}), 0u);
  schedule.Return(0);
  EXPECT_EQ(schedule.Take(0, {0, 1}), 0u);
  EXPECT_EQ(schedule.attempts(0), 1);
  schedule.Hold(1);
  EXPECT_EQ(schedule.Take(0, {0, 1}), std::nullopt);
  schedule.Return(1);
  EXPECT_EQ(schedule.Take(0, {0, 1}), 1u);
  EXPECT_EQ(schedule.attempts(1), 1);
}

TEST(Schedule, FinishingTwiceCountsOnce) {
  Schedule schedule(2, 2);
  schedule.Finish(0);
  schedule.Finish(0);
  EXPECT_FALSE(schedule.IsDone());
  schedule.Finish(1);
  EXPECT_TRUE(schedule.IsDone());
}

}  // namespace
}  // namespace cupel
