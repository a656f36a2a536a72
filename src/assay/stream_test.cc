// How jobs pass from compilers to lanes. The end-to-end tests cover how candidates are judged.
// SPDX-License-Identifier: Apache-2.0
#include "assay/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace cupel::assay {
namespace {

class StreamTest : public ::testing::Test {
 protected:
  /// Runs jobs whose kernels do not exist on `lanes` lanes. Returns the number of calls per job.
  std::vector<int> Run(int jobs, size_t lanes, size_t builders) {
    std::vector<Job> list;
    for (int i = 0; i < jobs; ++i) {
      Job job;
      job.kernel = "/nonexistent/kernel" + std::to_string(i) + ".cu";
      job.build = [this, kernel = job.kernel] { return assay_.Build(kernel); };
      list.push_back(std::move(job));
    }
    Lane lane;
    lane.assay = &assay_;
    lane.parts = &parts_;
    const std::vector<Lane> all(lanes, lane);
    std::vector<int> calls(list.size());
    std::atomic<int> active{0};
    const auto done = RunStream(list, all, {.threads = builders}, [&](size_t job, Result<JobResult> result) {
      EXPECT_EQ(++active, 1) << "two calls at the same time";
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // so that calls could overlap
      ASSERT_LT(job, calls.size());
      ++calls[job];
      ASSERT_FALSE(result.has_value());
      EXPECT_NE(result.error().message.find(list[job].kernel.filename().string()),
                std::string::npos)
          << result.error().message;
      --active;
    });
    EXPECT_TRUE(done.has_value());
    return calls;
  }
  Parts parts_;
  Assay assay_{Parts{}};
};

TEST_F(StreamTest, ReportsEveryJobOnceIfAllFail) {
  // More jobs than the queue holds; as many lanes as a host has GPUs.
  EXPECT_EQ(Run(300, 8, 4), std::vector<int>(300, 1));
  EXPECT_EQ(Run(300, 1, 8), std::vector<int>(300, 1));
}

TEST_F(StreamTest, RunsJobsOfATaskTogether) {
  const task::Task a, b;
  std::vector<Job> list(6);
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].build = [] { return Result<Candidate>(Fail(ErrorCode::kNotFound, "no kernel")); };
    list[i].question.task = i % 2 == 0 ? &b : &a;
  }
  list[4].question.direction = task::Direction::kBackward;
  Lane lane;
  lane.assay = &assay_;
  lane.parts = &parts_;
  std::vector<size_t> order;
  ASSERT_TRUE(RunStream(list, std::span(&lane, 1), {.threads = 1}, [&](size_t job, const auto&) {
                order.push_back(job);
              }).has_value());
  EXPECT_EQ(order, (std::vector<size_t>{0, 2, 1, 3, 5, 4}));
}

TEST_F(StreamTest, EndsWithFewerJobsThanLanesOrBuilders) {
  EXPECT_EQ(Run(1, 8, 8), std::vector<int>(1, 1));
  EXPECT_EQ(Run(2, 3, 0), std::vector<int>(2, 1));
  EXPECT_EQ(Run(0, 3, 4), std::vector<int>());
}

}  // namespace
}  // namespace cupel::assay
