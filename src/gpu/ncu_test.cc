// SPDX-License-Identifier: Apache-2.0
#include "gpu/ncu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "gpu/ncu_testing.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::gpu {
namespace {

using ::testing::HasSubstr;

class NcuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tools = os::TempDir::Create(), call = os::TempDir::Create();
    ASSERT_TRUE(tools.has_value() && call.has_value());
    tools_.emplace(std::move(*tools));
    call_.emplace(std::move(*call));
  }
  void TearDown() override { unsetenv("CUPEL_NCU"); }

  std::optional<os::TempDir> tools_, call_;
};

TEST_F(NcuTest, ProfilesOneCallAndReadsTheReport) {
  const auto ncu = FakeNcu(tools_->path());
  const auto report = ProfileWithNcu(ncu, call_->path(), {.ordinal = 3});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->version, "2025.9.9.1");
  ASSERT_EQ(report->kernels.size(), 1u);  // without cupel's own copy
  EXPECT_EQ(report->kernels[0].name, "add_one");
  EXPECT_EQ(report->kernels[0].rules.size(), 5u);
  const std::string calls = *os::ReadFile(tools_->path() / "calls", 1 << 20);
  EXPECT_THAT(calls, HasSubstr("--clock-control none"));
  EXPECT_THAT(calls, HasSubstr(" gpu-replay " + call_->path().string() + " --device 3"));
}

TEST_F(NcuTest, ReportsErrorsWithARemedy) {
  const auto ncu = FakeNcu(tools_->path(), "==ERROR== ERR_NVGPUCTRPERM - The user does not");
  const auto report = ProfileWithNcu(ncu, call_->path(), {});
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("reserved for administrators"));
  EXPECT_THAT(report.error().remedy, HasSubstr("root"));
  EXPECT_THAT(NcuErrorIn("==PROF== x\n==ERROR==  Some thing.\nmore").message,
              HasSubstr("reported: Some thing."));
  EXPECT_EQ(NcuErrorIn("all is well").message, "");
}

TEST_F(NcuTest, RetriesWithoutUnknownMetrics) {
  // A fake ncu that fails if metrics are requested.
  const auto ncu = FakeNcu(tools_->path());
  std::ofstream(tools_->path() / "picky") << "#!/bin/sh\n"
                                             "case \"$*\" in *--metrics*) echo '==ERROR== What?'; "
                                             "exit 1 ;; esac\nexec "
                                          << ncu.string() << " \"$@\"\n";
  std::filesystem::permissions(tools_->path() / "picky", std::filesystem::perms::owner_all);
  const auto report = ProfileWithNcu(tools_->path() / "picky", call_->path(), {});
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->kernels.size(), 1u);
}

TEST_F(NcuTest, TimesOut) {
  std::ofstream(tools_->path() / "ncu")
      << "#!/bin/sh\ncase $1 in --version) ;; *) sleep 60 ;; esac\n";
  std::filesystem::permissions(tools_->path() / "ncu", std::filesystem::perms::owner_all);
  const auto report =
      ProfileWithNcu(tools_->path() / "ncu", call_->path(), {.deadline = std::chrono::seconds(1)});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kTimeout);
}

TEST_F(NcuTest, FindsNcuByTheEnvironmentVariable) {
  const auto ncu = FakeNcu(tools_->path());
  setenv("CUPEL_NCU", ncu.c_str(), 1);
  EXPECT_EQ(*FindNcu(), ncu);
  setenv("CUPEL_NCU", "/nowhere/ncu", 1);
  ASSERT_FALSE(FindNcu().has_value());
  EXPECT_THAT(FindNcu().error().message, HasSubstr("/nowhere/ncu"));
}

}  // namespace
}  // namespace cupel::gpu
