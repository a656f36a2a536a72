// SPDX-License-Identifier: Apache-2.0
#include "gpu/patience.h"

#include <gtest/gtest.h>

namespace cupel::gpu {
namespace {

constexpr Patience kShort{std::chrono::milliseconds(40), std::chrono::milliseconds(1)};

Result<int> Failing(ErrorCode code) { return Fail(code, "no memory"); }

TEST(AskPatiently, AsksAgainUntilTheOthersAreDone) {
  int asked = 0;
  const auto answer = AskPatiently(kShort, [&]() -> Result<int> {
    if (++asked < 3) return Failing(ErrorCode::kBusy);
    return asked;
  });
  EXPECT_EQ(answer.value_or(0), 3);
}

TEST(AskPatiently, GivesUpInTheEnd) {
  int asked = 0;
  const auto answer = AskPatiently(kShort, [&] {
    ++asked;
    return Failing(ErrorCode::kBusy);
  });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBusy);
  EXPECT_GT(asked, 1);
}

TEST(AskPatiently, DoesNotAskAgainForWhatTimeDoesNotMend) {
  int asked = 0;
  const auto answer = AskPatiently(kShort, [&] {
    ++asked;
    return Failing(ErrorCode::kEnvironment);
  });
  EXPECT_FALSE(answer);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace cupel::gpu
