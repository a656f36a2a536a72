// KernelClock with a fake CUPTI library. one_shot_test.cc uses the real one.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/cupti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace cupel::gpu {
namespace {

using ::testing::HasSubstr;

class CuptiTest : public ::testing::Test {
 protected:
  static std::unique_ptr<KernelClock> Start(const char* mode) {
    setenv("CUPEL_CUPTI", CUPEL_TEST_CUPTI_LIBRARY, 1);
    setenv("CUPEL_TEST_CUPTI", mode, 1);
    auto clock = KernelClock::Start();
    EXPECT_TRUE(clock.has_value()) << clock.error().ToString();
    return clock ? std::move(*clock) : nullptr;
  }
  void TearDown() override {
    unsetenv("CUPEL_CUPTI");
    unsetenv("CUPEL_TEST_CUPTI");
  }
};

TEST_F(CuptiTest, SortsKernelsByStartTime) {
  const auto clock = Start("late");
  ASSERT_NE(clock, nullptr);
  EXPECT_EQ(clock->version(), 130001u);
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(clock->Begin().has_value());
    const auto kernels = clock->End();
    ASSERT_TRUE(kernels.has_value()) << kernels.error().message;
    ASSERT_EQ(kernels->size(), 2u);
    EXPECT_EQ((*kernels)[0].name, "first");
    EXPECT_EQ((*kernels)[0].end_ns - (*kernels)[0].start_ns, 500u);
    EXPECT_EQ((*kernels)[1].name, "second");
    EXPECT_EQ((*kernels)[1].start_ns, 2000u);
  }
}

TEST_F(CuptiTest, LostRecordsAreAnError) {
  const auto clock = Start("lost");
  ASSERT_NE(clock, nullptr);
  ASSERT_TRUE(clock->Begin().has_value());
  const auto kernels = clock->End();
  ASSERT_FALSE(kernels.has_value());
  EXPECT_THAT(kernels.error().message, HasSubstr("lost 3 records"));
}

TEST_F(CuptiTest, AllowsOneClockAtATime) {
  {
    const auto clock = Start("late");
    EXPECT_FALSE(KernelClock::Start().has_value());
  }
  EXPECT_NE(Start("late"), nullptr);
}

TEST_F(CuptiTest, ReportsMissingPrivilegesWithARemedy) {
  setenv("CUPEL_CUPTI", CUPEL_TEST_CUPTI_LIBRARY, 1);
  setenv("CUPEL_TEST_CUPTI", "denied", 1);
  const auto clock = KernelClock::Start();
  ASSERT_FALSE(clock.has_value());
  EXPECT_THAT(clock.error().message, HasSubstr("CUPTI_ERROR_MADE_UP (35)"));
  EXPECT_THAT(clock.error().remedy, HasSubstr("root"));
}

TEST_F(CuptiTest, NamesAMissingOrWrongLibrary) {
  setenv("CUPEL_CUPTI", "/nowhere/libcupti.so", 1);
  for (int i = 0; i < 2; ++i) {  // the first failure does not block the second attempt
    const auto clock = KernelClock::Start();
    ASSERT_FALSE(clock.has_value());
    EXPECT_THAT(clock.error().message, HasSubstr("/nowhere/libcupti.so"));
  }
  setenv("CUPEL_CUPTI", "libdl.so.2", 1);
  EXPECT_THAT(KernelClock::Start().error().message, HasSubstr("cuptiGetVersion"));
}

}  // namespace
}  // namespace cupel::gpu
