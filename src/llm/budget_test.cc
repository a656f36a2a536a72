// SPDX-License-Identifier: Apache-2.0
#include "llm/budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>
#include <thread>

#include "llm/limiter.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::llm {
namespace {

TEST(BudgetTest, IsNeverExceededOnManyThreads) {
  Budget budget({NanoUsd{1000}, std::nullopt});
  std::atomic<NanoUsd> real{0}, most{0};
  std::atomic<NanoUsd> used{0};  // spent or reserved, and at no time more than the budget counts
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        auto reservation = budget.Reserve({100, 0}, {});
        if (!reservation) {
          ++refused;
          continue;
        }
        const NanoUsd now = used += 100;
        NanoUsd seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // lets other threads run
        real += 30;
        used -= 70;
        reservation->Settle({30, 0});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 1000);
  EXPECT_EQ(budget.Spent().money, real);
  EXPECT_LE(real, 1000);
  EXPECT_GT(real, 900 - 30);  // no question was refused that would have fitted
  EXPECT_GT(refused, 0);
}

TEST(BudgetTest, ChargesUnsettledReservationsInFull) {
  Budget budget({std::nullopt, 100});
  {
    const auto reservation = budget.Reserve({0, 60}, {}).value();
  }
  EXPECT_EQ(budget.Spent().tokens, 60);
  const auto refused = budget.Reserve({0, 60}, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("token budget"), std::string::npos);
  EXPECT_FALSE(refused.error().remedy.empty());
}

TEST(BudgetTest, WaitsForOtherReservationsAndCanBeStopped) {
  Budget budget({NanoUsd{100}, std::nullopt});
  auto held = std::make_unique<Reservation>(budget.Reserve({80, 0}, {}).value());
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = budget.Reserve({50, 0}, {{}, {}, stop.get_token()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  std::thread other([&] { held->Settle({10, 0}); });
  EXPECT_TRUE(budget.Reserve({50, 0}, {}));
  other.join();
}

TEST(PriceTest, FindsTheBestMatchAndPricesCachedTokens) {
  const Json json = ParseJson(R"({"models": {"openai:*": {"input": 9, "output": 9},
      "openai:m": {"input": 2, "cached": 0.5, "output": 8}}})",
                              "p")
                        .value();
  const Prices prices = Prices::Parse(json, "p").value();
  EXPECT_EQ(prices.Find("openai:m")->Of({1000, 400, 10}), 1200000 + 200000 + 80000);
  EXPECT_EQ(prices.Find("openai:other")->output, 9);
  EXPECT_FALSE(prices.Find("anthropic:m"));
  for (const char* bad : {R"({"models": {"x": {"input": -1, "output": 1}}})",
                          R"({"models": {"x": {"input": 1}}})", R"({"models": []})", "{}"}) {
    EXPECT_FALSE(Prices::Parse(ParseJson(bad, "p").value(), "p")) << bad;
  }
}

TEST(PriceTest, PrefersTheUsersTable) {
  const auto folder = os::TempDir::Create().value();
  const auto own = folder.path() / "prices.json";
  ASSERT_TRUE(os::WriteFileAtomically(
      own,
      R"({"models": {"ollama:*": {"input": 1, "output": 2}, "a:b": {"input": 1, "output": 3}}})"));
  const std::filesystem::path shipped = CUPEL_SOURCE_DIR "/share/prices.json";
  const auto absent = folder.path() / "absent.json";
  EXPECT_EQ(Prices::Load({shipped, absent})->Find("ollama:m")->output, 0);
  EXPECT_EQ(Prices::Load({shipped, own})->Find("ollama:m")->output, 2);
  EXPECT_EQ(Prices::Load({shipped, own})->Find("a:b")->output, 3);
  ASSERT_TRUE(os::WriteFileAtomically(own, "{"));
  EXPECT_FALSE(Prices::Load({shipped, own}));
}

TEST(BucketTest, FillsEvenlyAndAdmitsLargeAmounts) {
  Bucket bucket(60);
  const Bucket::Time start{};
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(bucket.Wait(1, start).count(), 0);
    bucket.Take(1, start);
  }
  EXPECT_EQ(bucket.Wait(1, start).count(), 1000);
  EXPECT_EQ(bucket.Wait(1, start + std::chrono::seconds(1)).count(), 0);
  // An amount above one minute's worth waits for a full bucket. After that, others wait longer.
  const auto full = start + std::chrono::minutes(2);
  EXPECT_EQ(bucket.Wait(600, full).count(), 0);
  bucket.Take(600, full);
  EXPECT_EQ(bucket.Wait(1, full).count(), 541000);
}

TEST(LimiterTest, LimitsConcurrentQuestions) {
  Limiter limiter({std::nullopt, std::nullopt, 2});
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      const auto permit = limiter.Acquire(1, {}).value();
      const int now = ++inside;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --inside;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 2);
}

}  // namespace
}  // namespace cupel::llm
