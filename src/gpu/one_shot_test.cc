// One call in a separate process, and its times by CUPTI, on a real GPU. Skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/one_shot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/json.h"
#include "gpu/engine.h"
#include "gpu/testing.h"
#include "os/files.h"
#include "os/process.h"
#include "os/temp_dir.h"

namespace cupel::gpu {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class OneShotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::TempDir::Create();
    ASSERT_TRUE(folder.has_value());
    folder_.emplace(std::move(*folder));
    image_.ptx = std::string(kHead) + kKernels;
  }
  void Write(const plan::Plan& plan) {
    const std::span<const std::byte> arguments[] = {std::as_bytes(std::span(x_))};
    const auto written = WriteOneShot(folder_->path(), plan, build::OneImage(image_), arguments);
    ASSERT_TRUE(written.has_value()) << written.error().message;
  }
  os::RunResult Run(std::vector<std::string> more = {}) {
    os::SpawnOptions spawn;
    spawn.argv = *OneShotArgv(folder_->path(), {});
    spawn.argv.insert(spawn.argv.end(), more.begin(), more.end());
    spawn.env = os::CurrentEnvironment();
    return *os::Run(spawn, std::chrono::seconds(60));
  }
  static bool HasGpu() { return MakeGpuEngine({}).has_value(); }

  std::optional<os::TempDir> folder_;
  build::Image image_;
  std::vector<float> x_ = std::vector<float>(100, 2.5f);
};

TEST_F(OneShotTest, RunsTheWrittenPlan) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  Write(Launching("add_one"));
  const os::RunResult run = Run();
  EXPECT_EQ(run.status.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\"completed\":true"));
}

TEST_F(OneShotTest, ReportsKernelFaults) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  Write(Launching("nowhere"));
  const os::RunResult run = Run();
  EXPECT_EQ(run.status.code, 1) << run.err;
  EXPECT_THAT(run.out, HasSubstr("illegal_address"));
}

TEST_F(OneShotTest, CuptiTimesEachLaunch) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  plan::Plan plan = Launching("add_one");
  plan.nodes.push_back(plan.nodes[0]);
  Write(plan);
  const auto timed = TimeOneShot(folder_->path(), 5, {});
  if (!timed) GTEST_SKIP() << timed.error().message;
  ASSERT_EQ(timed->launches.size(), 2u);
  for (const LaunchTimes& launch : timed->launches) {
    EXPECT_EQ(launch.kernel, "add_one");
    ASSERT_EQ(launch.us.size(), 5u);
    for (const double us : launch.us) {
      EXPECT_GT(us, 0.3);
      EXPECT_LT(us, 1000);
    }
  }
}

TEST_F(OneShotTest, ReportsMissingGpu) {
  Write(Launching("add_one"));
  const os::RunResult run = Run({"--device", "4096"});
  EXPECT_EQ(run.status.code, 2);
  EXPECT_THAT(run.err, AnyOf(HasSubstr("--device emu"), HasSubstr("there is no GPU 4096")));
  EXPECT_THAT(run.out, "");
}

TEST_F(OneShotTest, RejectsFolderWithoutAValidPlan) {
  EXPECT_EQ(Run().status.code, 2);
  ASSERT_TRUE(os::WriteFileAtomically(folder_->path() / "plan.json", "{\"schema\": 1}"));
  const os::RunResult run = Run();
  EXPECT_EQ(run.status.code, 2);
  EXPECT_THAT(run.err, HasSubstr("plan.json"));
  for (const char* bad : {"--cupti", "--device", "--nonsense"}) {
    EXPECT_THAT(Run({bad, "x"}).err, HasSubstr("usage"));
  }
}

TEST_F(OneShotTest, DoesNotOverwriteFiles) {
  Write(Launching("add_one"));
  EXPECT_FALSE(
      WriteOneShot(folder_->path(), Launching("add_one"), build::OneImage(image_), {}).has_value());
}

}  // namespace
}  // namespace cupel::gpu
