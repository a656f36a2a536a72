// SPDX-License-Identifier: Apache-2.0
#include "stats/unpaired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace cupel::stats {
namespace {

/// Times around `middle` with skewed noise of relative size `spread`, as in real measurements.
std::vector<double> Times(Random& random, size_t count, double middle, double spread) {
  std::vector<double> times;
  for (size_t i = 0; i < count; ++i) {
    times.push_back(middle * (1 + spread * -std::log(1 - random.Unit())));
  }
  return times;
}

TEST(Unpaired, PValuesMatchTheDefinition) {
  // Expected values: pairs counted one by one, then the normal tail.
  const std::vector<double> a = {1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
  const std::vector<double> b = {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
  EXPECT_NEAR(GreaterP(a, b), 0.06646, 1e-5);
  EXPECT_NEAR(GreaterP(b, a), 0.94420, 1e-5);
  const std::vector<double> same(10, 2.0);
  EXPECT_EQ(GreaterP(same, same), 1);
}

TEST(Unpaired, IntervalHasItsStatedCoverage) {
  Random random(1);
  int covered = 0;
  constexpr int kRuns = 600;
  for (int run = 0; run < kRuns; ++run) {
    const auto a = Times(random, 40, 3.0, 0.1), b = Times(random, 60, 2.0, 0.1);
    const Interval ratio = UnpairedRatio(a, b, 0.9);
    EXPECT_LE(ratio.low, ratio.estimate);
    EXPECT_LE(ratio.estimate, ratio.high);
    covered += ratio.low <= 1.5 && 1.5 <= ratio.high ? 1 : 0;
  }
  EXPECT_GT(covered, 0.86 * kRuns);
  EXPECT_LT(covered, 0.94 * kRuns);
}

TEST(Unpaired, RarelyReportsADifferenceForEqualSpeed) {
  Random random(2);
  int claimed = 0;
  for (int run = 0; run < 1000; ++run) {
    const auto a = Times(random, 50, 1.0, 0.2), b = Times(random, 50, 1.0, 0.2);
    claimed += GreaterP(a, b) < 0.05 ? 1 : 0;
  }
  EXPECT_GT(claimed, 25);
  EXPECT_LT(claimed, 80);
}

TEST(Holm, MatchesTheDefinition) {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  EXPECT_THAT(HolmAdjusted(p), testing::Pointwise(testing::DoubleNear(1e-12),
                                                  std::vector<double>{0.03, 0.06, 0.06, 0.02}));
  EXPECT_TRUE(HolmAdjusted({}).empty());
}

}  // namespace
}  // namespace cupel::stats
