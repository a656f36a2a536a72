// Tests when a table may say "faster".
// SPDX-License-Identifier: Apache-2.0
#include "stats/difference.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace cupel::stats {
namespace {

constexpr double kAbsolute = 0.05;

/// Times around `center` that scatter by one percent. All calls share the same drift.
std::vector<double> Times(double center, int count, uint64_t seed) {
  Random random(seed), drift(99);
  std::vector<double> times(static_cast<size_t>(count));
  for (double& us : times) {
    us = center * (1 + 0.2 * drift.Unit()) * (1 + 0.01 * (random.Unit() - 0.5));
  }
  return times;
}

TEST(Difference, IsNoneForEqualSamples) {
  const auto a = Times(100, 40, 1);
  const Compared compared = CompareTimes(a, a, kAbsolute);
  EXPECT_EQ(compared.difference, Difference::kNone);
  EXPECT_DOUBLE_EQ(compared.ratio.estimate, 1);
}

TEST(Difference, IsNoneForTwoRunsOfTheSameKernel) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto a = Times(100, 40, 2 * seed), b = Times(100, 40, 2 * seed + 1);
    EXPECT_EQ(CompareTimes(a, b, kAbsolute).difference, Difference::kNone) << seed;
  }
}

TEST(Difference, DetectsThreePercentDespiteTwentyPercentDrift) {
  const auto a = Times(103, 40, 1), b = Times(100, 40, 2);
  EXPECT_EQ(CompareTimes(a, b, kAbsolute).difference, Difference::kSlower);
  EXPECT_EQ(CompareTimes(b, a, kAbsolute).difference, Difference::kFaster);
  EXPECT_NEAR(CompareTimes(a, b, kAbsolute).ratio.estimate, 1.03, 0.005);
}

TEST(Difference, IsNoneBelowHalfAPercent) {
  const std::vector<double> a(40, 1004), b(40, 1000);
  EXPECT_EQ(CompareTimes(a, b, 0).difference, Difference::kNone);
  EXPECT_EQ(CompareTimes(b, a, 0).difference, Difference::kNone);
  EXPECT_EQ(CompareTimes(std::vector<double>(40, 1006), b, 0).difference, Difference::kSlower);
}

TEST(Difference, IsNoneWithinTheAbsoluteMargin) {
  // For a short kernel, two copies of the same code can differ by more than three percent.
  const std::vector<double> a(40, 1.03), b(40, 1);
  EXPECT_EQ(CompareTimes(a, b, kAbsolute).difference, Difference::kNone);
  EXPECT_EQ(CompareTimes(b, a, kAbsolute).difference, Difference::kNone);
  EXPECT_EQ(CompareTimes(a, b, 0).difference, Difference::kSlower);
}

TEST(Difference, IsNoneForTooFewPairs) {
  // Seven pairs give an interval of at most 98.4 % confidence, eight pairs 99.2 %.
  const std::vector<double> seven(7, 200), other(7, 100), eight(8, 200), another(8, 100);
  EXPECT_EQ(CompareTimes(seven, other, kAbsolute).difference, Difference::kNone);
  EXPECT_EQ(CompareTimes(eight, another, kAbsolute).difference, Difference::kSlower);
}

}  // namespace
}  // namespace cupel::stats
