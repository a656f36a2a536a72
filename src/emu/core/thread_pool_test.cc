// SPDX-License-Identifier: Apache-2.0
#include "emu/core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace cupel::emu {
namespace {

TEST(ThreadPool, RunsEveryWorkerOnceAndWaits) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.size(), 4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> seen[4] = {};
    pool.Run([&](int worker) { seen[worker].fetch_add(1); });
    for (std::atomic<int>& count : seen) ASSERT_EQ(count.load(), 1);
  }
}

TEST(ThreadPool, ParallelForCoversEachIndexOnce) {
  ThreadPool pool(3);
  for (uint64_t count : {0, 1, 7, 64, 1000}) {
    std::vector<std::atomic<int>> hits(count);
    pool.ParallelFor(count, 7, [&](uint64_t begin, uint64_t end) {
      EXPECT_LE(end - begin, 7u);
      for (uint64_t i = begin; i < end; ++i) hits[i].fetch_add(1);
    });
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(hits[i].load(), 1) << i;
  }
}

TEST(ThreadPool, SingleThreadRunsInTheCaller) {
  ThreadPool pool(1);
  const std::thread::id caller = std::this_thread::get_id();
  std::thread::id ran;
  pool.Run([&](int) { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, caller);
}

}  // namespace
}  // namespace cupel::emu
