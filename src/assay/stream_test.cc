// How jobs pass from compilers to lanes. The end-to-end tests cover how candidates are judged.
// SPDX-License-Identifier: Apache-2.0
#include "assay/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/device.h"

namespace cupel::assay {
namespace {

/// An engine that only has a name.
class NamedEngine final : public engine::Engine {
 public:
  explicit NamedEngine(std::string name) : name_(std::move(name)) {}
  std::string Name() const override { return name_; }
  const device::Description& Device() const override { return device_; }
  Result<std::unique_ptr<engine::Program>> Load(const build::Images&) override {
    return Fail(ErrorCode::kInternal, "not for this test");
  }

 private:
  std::string name_;
  device::Description device_ = *device::Find("h100");
};

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
    const auto done =
        RunStream(list, all, {.threads = builders}, [&](size_t job, Result<JobResult> result) {
          EXPECT_EQ(++active, 1) << "two calls at the same time";
          std::this_thread::sleep_for(
              std::chrono::microseconds(50));  // so that calls could overlap
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

TEST_F(StreamTest, TheEmulatorsRejectionsGetNoGpu) {
  NamedEngine emulator("emu"), gpu("gpu");
  Parts emulator_parts, gpu_parts;
  emulator_parts.engine = &emulator;
  gpu_parts.engine = &gpu;
  Assay on_emulator(emulator_parts), on_gpu(gpu_parts);
  const task::Task task;
  auto question = std::make_shared<EmulatorQuestion>();
  question->question.task = &question->task;
  std::vector<Job> list(20);
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].question.task = &task;
    list[i].question.emulator = question;
    list[i].build = [i] {
      build::BuildFailure failure;
      failure.code = i % 2 == 0 ? "compile_error" : "unsupported_api";
      failure.unsupported = i % 2 != 0;
      Candidate candidate;
      candidate.built = std::move(failure);
      return Result<Candidate>(std::move(candidate));
    };
  }
  Lane lane;
  lane.assay = &on_gpu;
  lane.parts = &gpu_parts;
  lane.name = "GPU 0";
  size_t results = 0;
  const Builders builders{.threads = 2, .emulators = {&on_emulator, &on_emulator}};
  ASSERT_TRUE(RunStream(list, std::span(&lane, 1), builders, [&](size_t job, const auto& result) {
                ++results;
                ASSERT_TRUE(result) << result.error().message;
                const records::Verdict& verdict = result->judged.verdict;
                EXPECT_EQ(verdict.device, job % 2 == 0 ? "emu (h100)" : "gpu (h100)");
                EXPECT_EQ(verdict.other_engines.size(), job % 2);
                EXPECT_EQ(result->lane, job % 2 == 0 ? "emulator" : "GPU 0");
              }).has_value());
  EXPECT_EQ(results, list.size());
}

}  // namespace
}  // namespace cupel::assay
