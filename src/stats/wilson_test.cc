// SPDX-License-Identifier: Apache-2.0
#include "stats/wilson.h"

#include <gtest/gtest.h>

namespace cupel::stats {
namespace {

TEST(Wilson, MatchesKnownValues) {
  // R: prop.test(8, 10, correct = FALSE)
  const Interval eight = Wilson(8, 10);
  EXPECT_DOUBLE_EQ(eight.estimate, 0.8);
  EXPECT_NEAR(eight.low, 0.4901625, 1e-6);
  EXPECT_NEAR(eight.high, 0.9433178, 1e-6);
}

TEST(Wilson, HasWidthAtTheEdges) {
  EXPECT_GT(Wilson(0, 10).high, 0.2);
  EXPECT_NEAR(Wilson(0, 10).low, 0, 1e-12);
  EXPECT_LT(Wilson(10, 10).low, 0.8);
  EXPECT_EQ(Wilson(0, 0).low, 0);
  EXPECT_EQ(Wilson(0, 0).high, 1);
}

}  // namespace
}  // namespace cupel::stats
