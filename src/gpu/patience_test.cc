// SPDX-License-Identifier: Apache-2.0
#include "gpu/patience.h"

#include <gtest/gtest.h>

namespace cupel::gpu {
namespace {

constexpr Patience kShort{std::chrono::milliseconds(40), std::chrono::milliseconds(1)};

Result<int> Failing(ErrorCode code) { return Fail(code, "no memory"); }

TEST(RetryWhileBusy, RetriesUntilSuccess) {
  int calls = 0;
  const auto answer = RetryWhileBusy(kShort, {}, [&]() -> Result<int> {
    if (++calls < 3) return Failing(ErrorCode::kBusy);
    return calls;
  });
  EXPECT_EQ(answer.value_or(0), 3);
}

TEST(RetryWhileBusy, GivesUpAfterTheTimeLimit) {
  int calls = 0;
  const auto answer = RetryWhileBusy(kShort, {}, [&] {
    ++calls;
    return Failing(ErrorCode::kBusy);
  });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBusy);
  EXPECT_GT(calls, 1);
}

TEST(RetryWhileBusy, DoesNotRetryOtherErrors) {
  int calls = 0;
  const auto answer = RetryWhileBusy(kShort, {}, [&] {
    ++calls;
    return Failing(ErrorCode::kEnvironment);
  });
  EXPECT_FALSE(answer);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace cupel::gpu
