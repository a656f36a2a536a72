// SPDX-License-Identifier: Apache-2.0
#include "base/beta.h"

#include <gtest/gtest.h>

namespace cupel {
namespace {

TEST(DrawBeta, HasMeanAndVarianceOfTheDistribution) {
  constexpr int kDraws = 20000;
  for (const auto& [a, b] : {std::pair{1.0, 1.0}, {0.5, 2.0}, {8.0, 3.0}}) {
    Random random(5);
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double draw = DrawBeta(random, a, b);
      ASSERT_GT(draw, 0);
      ASSERT_LT(draw, 1);
      sum += draw;
      squares += draw * draw;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, a / (a + b), 0.01);
    EXPECT_NEAR(squares / kDraws - mean * mean, a * b / ((a + b) * (a + b) * (a + b + 1)), 0.005);
  }
}

}  // namespace
}  // namespace cupel
