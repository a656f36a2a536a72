// SPDX-License-Identifier: Apache-2.0
#include "llm/retry.h"

#include <gtest/gtest.h>

namespace cupel::llm {
namespace {

using std::chrono::milliseconds;

TEST(RetryAfterTest, ReadsSecondsAndDates) {
  const std::time_t now = 784111777;  // Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(ParseRetryAfter("7", now), milliseconds(7000));
  EXPECT_EQ(ParseRetryAfter("0.25", now), milliseconds(250));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:50:37 GMT", now), milliseconds(60000));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:00:00 GMT", now), milliseconds(0));
  EXPECT_GT(ParseRetryAfter("1e300", now).value(), milliseconds(0));
  for (const char* text : {"", "-1", "soon", "Sun, 06 Foo 1994 08:49:37 GMT", "nan",
                           "Sunday, 06-Nov-94 08:49:37 GMT"}) {
    EXPECT_FALSE(ParseRetryAfter(text, now)) << text;
  }
}

TEST(BackoffTest, DoublesWithJitterAndRespectsTheServer) {
  RetryPolicy policy;
  policy.first = milliseconds(1000);
  policy.longest = milliseconds(5000);
  EXPECT_EQ(Backoff(policy, 2, 0, {}), milliseconds(500));
  EXPECT_EQ(Backoff(policy, 3, 0.5, {}), milliseconds(1500));
  EXPECT_EQ(Backoff(policy, 60, 0, {}), milliseconds(2500));
  EXPECT_EQ(Backoff(policy, 2, 0, milliseconds(9000)), milliseconds(9000));
}

TEST(ClassifyTest, RetriesTransientErrors) {
  struct Case {
    int status;
    const char* type;
    const char* message;
    bool retry;
    const char* remedy;
  };
  const Case cases[] = {
      {429, "rate_limit_error", "slow down", true, "ask fewer"},
      {408, "", "", true, ""},
      {409, "", "", true, ""},
      {500, "", "", true, ""},
      {529, "overloaded_error", "", true, ""},
      {0, "overloaded_error", "Overloaded", true, ""},
      {0, "invalid_request_error", "no", false, ""},
      {429, "insufficient_quota", "check your plan", false, "credit"},
      {402, "", "", false, "credit"},
      {400, "invalid_request_error", "prompt is too long: 9 > 8", false, "shorten"},
      {400, "context_length_exceeded", "", false, "shorten"},
      {400, "", "temperature is not supported", false, "change the option"},
      {401, "", "", false, "K_E_Y"},
      {403, "", "", false, "K_E_Y"},
      {404, "", "", false, "name"},
      {501, "", "", false, ""},
      {302, "", "", false, "redirects"},
  };
  for (const Case& c : cases) {
    const Failure failure = Classify({c.status, c.type, c.message, {}}, "svc", "K_E_Y");
    EXPECT_EQ(failure.retry, c.retry) << c.status << c.type;
    EXPECT_NE(failure.error.remedy.find(c.remedy), std::string::npos)
        << c.status << ": " << failure.error.remedy;
    EXPECT_FALSE(failure.error.remedy.empty());
  }
}

TEST(ClassifyTest, LimitsUntrustedText) {
  const std::string hostile = "a\x1b[31m\r\n" + std::string(100000, 'x');
  const Failure failure = Classify({400, hostile, hostile, {}}, "svc", "");
  EXPECT_LT(failure.error.message.size(), 600u);
  EXPECT_EQ(failure.error.message.find('\x1b'), std::string::npos);
  EXPECT_EQ(failure.error.message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace cupel::llm
