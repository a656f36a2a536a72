// SPDX-License-Identifier: Apache-2.0
#include "judge/rounding_counter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cupel::judge {
namespace {

TEST(RoundingCounter, CountsDirectionsAndDistances) {
  RoundingCounter counter(DType::kBF16);  // a unit is 2^-7 between 1 and 2
  counter.Add(1, 1 + 0x1p-9);             // down, a quarter of a unit
  counter.Add(1, 1 + 0x1.8p-8);           // down, three quarters
  counter.Add(-1, -1 - 0x1.8p-8);         // toward zero, but up
  counter.Add(1.5, 1 + 0x1p-9);           // far too large
  counter.Add(1, 1 + 0x1p-14);            // nearly a number of the type
  counter.Add(1, 1);
  const records::RoundedResults r = counter.Results(0);
  EXPECT_EQ(r.count, 4);
  EXPECT_EQ(r.above, 2);
  EXPECT_EQ(r.outward, 1);
  EXPECT_EQ(r.beyond_half, 2);
  EXPECT_EQ(r.beyond_one, 1);
  EXPECT_EQ(r.roundoff, 0x1p-8);
}

TEST(RoundingCounter, UnitsFollowTheTypeAndTheNumber) {
  RoundingCounter halves(DType::kF16);  // a unit is 2^-8 between 4 and 8
  halves.Add(4, 4 + 0x1.8p-9);
  halves.Add(4, 4 + 0x1.8p-10);
  EXPECT_EQ(halves.Results(0).count, 2);
  EXPECT_EQ(halves.Results(0).beyond_half, 1);
}

TEST(RoundingCounter, CountsSubnormalHalvesThatBecomeZero) {
  RoundingCounter counter(DType::kF16);
  counter.Add(0, 0x1p-15);
  counter.Add(0x1p-15, 0x1p-15);
  counter.Add(0, 0x1p-24);  // so close to zero that rounding may do it
  counter.Add(0, 0);
  counter.Add(0x1p-13, 0x1p-13);
  counter.Add(0, 0x1p-13);
  const records::RoundedResults r = counter.Results(0);
  EXPECT_EQ(r.subnormal, 2);
  EXPECT_EQ(r.flushed, 1);
  EXPECT_EQ(r.least_normal, 2);
  EXPECT_EQ(r.least_right, 1);
  EXPECT_EQ(r.count, 0);
}

TEST(RoundingCounter, GpusMayFlushSubnormalBFloat16) {
  RoundingCounter counter(DType::kBF16);
  counter.Add(0, 0x1p-128);
  EXPECT_EQ(counter.Results(0).subnormal, 0);
}

TEST(RoundingCounter, BiasLeavesOutCorrectRounding) {
  RoundingCounter counter(DType::kBF16);  // all elements are rounded down by a third of a unit
  for (int i = 0; i < 100; ++i) counter.Add(1, 1 + 0x1p-7 / 3);
  EXPECT_EQ(counter.Results(0).bias, 0);
}

TEST(RoundingCounter, LeavesOutDirectionsIfPyTorchItselfRoundsOften) {
  RoundingCounter counter(DType::kBF16);
  counter.Add(1, 1 + 0x1.8p-8);
  EXPECT_EQ(counter.Results(0x1p-9).count, 1);
  EXPECT_EQ(counter.Results(0x1p-8).count, 0);
}

TEST(RoundingCounter, MeasuresTheErrorAlongTheTruth) {
  RoundingCounter counter(DType::kBF16);
  for (const double truth : {1.0, -2.0, 3.0}) counter.Add(0.99 * truth, truth);
  EXPECT_NEAR(counter.Results(0).bias, -0.01, 1e-9);
}

TEST(RoundingCounter, AddsWhatOthersCounted) {
  RoundingCounter all, a(DType::kF16), b(DType::kF16);
  a.Add(1, 1 + 0x1p-12);
  b.Add(2, 1 + 0x1p-12);
  all.Add(a);
  all.Add(b);
  EXPECT_EQ(all.Results(0).count, 2);
  EXPECT_EQ(all.Results(0).above, 1);
  EXPECT_EQ(all.Results(0).roundoff, 0x1p-11);
  EXPECT_GT(all.Results(0).bias, 0);
}

TEST(RoundingCounter, IgnoresOtherTypes) {
  RoundingCounter counter(DType::kF32);
  EXPECT_FALSE(counter.counts());
  EXPECT_TRUE(RoundingCounter().Results(0).is_empty());
}

}  // namespace
}  // namespace cupel::judge
