// Known values: the published tables of the sign and signed-rank tests, and hand-computed examples.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "stats/paired.h"
#include "stats/robust.h"

namespace cupel::stats {
namespace {

using Samples = std::vector<double>;

Samples OneTo(int n) {
  Samples samples;
  for (int i = n; i >= 1; --i) samples.push_back(i);
  return samples;
}

TEST(Robust, LocationAndSpreadMatchKnownValues) {
  EXPECT_EQ(Median(Samples{3, 1, 2}), 2);
  EXPECT_EQ(Median(Samples{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(Median(Samples{7}), 7);
  EXPECT_DOUBLE_EQ(Quantile(Samples{1, 2, 3, 4}, 0.25), 1.75);
  EXPECT_EQ(Quantile(OneTo(9), 1), 9);
  EXPECT_DOUBLE_EQ(Mad(Samples{1, 1, 2, 2, 4, 6, 9}), 1.4826);
  EXPECT_NEAR(GeometricMean(Samples{1e-200, 1e200, 8}), 2, 1e-9);
}

TEST(Robust, MedianIntervalFromTheBinomial) {
  const Interval ten = MedianInterval(OneTo(10));
  EXPECT_EQ(ten.low, 2);
  EXPECT_EQ(ten.high, 9);
  EXPECT_NEAR(ten.confidence, 0.9785, 1e-4);
  const Interval twenty = MedianInterval(OneTo(20));
  EXPECT_EQ(twenty.low, 6);
  EXPECT_EQ(twenty.high, 15);
  const Interval four = MedianInterval(OneTo(4));  // 95 % is not possible
  EXPECT_EQ(four.low, 1);
  EXPECT_EQ(four.high, 4);
  EXPECT_NEAR(four.confidence, 0.875, 1e-12);
  EXPECT_EQ(MedianInterval(Samples{5}).confidence, 0);
}

TEST(Robust, MedianIntervalHasItsStatedCoverage) {
  Random random(1);
  int covered = 0;
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    Samples samples(15);
    for (double& s : samples) s = -std::log(1 - random.Unit());  // skewed; median ln 2
    const Interval interval = MedianInterval(samples);
    covered += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
  }
  EXPECT_GT(covered, 0.95 * kRuns);
}

TEST(Robust, SpearmanMatchesKnownValues) {
  EXPECT_DOUBLE_EQ(SpearmanRho(Samples{1, 2, 3, 4}, Samples{10, 100, 1000, 10000}), 1);
  EXPECT_DOUBLE_EQ(SpearmanRho(Samples{1, 2, 3, 4}, Samples{4, 3, 2, 1}), -1);
  // The IQ and television example: rho = -29/165.
  EXPECT_NEAR(SpearmanRho(Samples{106, 100, 86, 101, 99, 103, 97, 113, 112, 110},
                          Samples{7, 27, 2, 50, 28, 29, 20, 12, 6, 17}),
              -29.0 / 165, 1e-12);
  EXPECT_EQ(SpearmanRho(Samples{1, 1, 1}, Samples{1, 2, 3}), 0);
  Samples ranks(4);
  Ranks(Samples{5, 1, 5, 0}, ranks);
  EXPECT_EQ(ranks, (Samples{3.5, 2, 3.5, 1}));
}

TEST(Paired, SignedRankMatchesTheTable) {
  EXPECT_NEAR(SignedRankCdf(8, 10), 0.0244140625, 1e-12);
  EXPECT_NEAR(SignedRankCdf(0, 5), 0.03125, 1e-12);
  EXPECT_NEAR(SignedRankCdf(3, 6), 0.078125, 1e-12);
  EXPECT_NEAR(SignedRankCdf(1000, 6), 1, 1e-12);
}

TEST(Paired, ExactRatioHasNoWidth) {
  const Interval ratio = PairedRatio(Samples{2, 4, 6, 8, 10, 12}, Samples{1, 2, 3, 4, 5, 6});
  EXPECT_NEAR(ratio.estimate, 2, 1e-12);
  EXPECT_NEAR(ratio.low, 2, 1e-12);
  EXPECT_NEAR(ratio.high, 2, 1e-12);
  EXPECT_NEAR(ratio.confidence, 1 - 2 / 64.0, 1e-12);
}

TEST(Paired, IntervalCoversTheTruthAndCancelsDrift) {
  Random random(2);
  int covered = 0, narrow = 0;
  constexpr int kRuns = 1000;
  for (int run = 0; run < kRuns; ++run) {
    Samples a, b;
    for (int i = 0; i < 20; ++i) {
      const double drift = 1 + 0.5 * i;  // far larger than the difference
      a.push_back(drift * 1.1 * std::exp(0.02 * (random.Unit() - 0.5)));
      b.push_back(drift * std::exp(0.02 * (random.Unit() - 0.5)));
    }
    const Interval ratio = PairedRatio(a, b);
    covered += ratio.low <= 1.1 && 1.1 <= ratio.high;
    narrow += ratio.high - ratio.low < 0.02;
  }
  EXPECT_GT(covered, 0.93 * kRuns);
  EXPECT_EQ(narrow, kRuns);
}

TEST(Paired, PValuesMatchKnownValues) {
  EXPECT_EQ(WilcoxonP(Samples{1, 2}, Samples{1, 2}), 1);
  // Ten pairs, all in one direction and of different sizes: 2 / 2^10.
  Samples a, b;
  for (int i = 1; i <= 10; ++i) {
    a.push_back(1 + 0.01 * i);
    b.push_back(1);
  }
  EXPECT_NEAR(WilcoxonP(a, b), 2.0 / 1024, 1e-12);
  EXPECT_NEAR(WilcoxonP(b, a), 2.0 / 1024, 1e-12);
  Samples c, d;
  for (int i = 1; i <= 100; ++i) {
    c.push_back(1 + (i % 2 ? 0.001 : -0.001) * i);
    d.push_back(1);
  }
  EXPECT_GT(WilcoxonP(c, d), 0.5);
  c.assign(100, 1.01);
  EXPECT_LT(WilcoxonP(c, d), 1e-12);  // all tied
}

TEST(Paired, SignIntervalCoversTheExtremes) {
  const Samples a{1.1, 1.2, 1.3, 1.4, 1.5, 9}, b(6, 1.0);
  const Interval signs = PairedRatioBySigns(a, b);
  EXPECT_NEAR(signs.low, 1.1, 1e-12);
  EXPECT_NEAR(signs.high, 9, 1e-12);
  EXPECT_NEAR(signs.estimate, std::sqrt(1.3 * 1.4), 1e-12);
}

}  // namespace
}  // namespace cupel::stats
