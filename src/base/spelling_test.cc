// SPDX-License-Identifier: Apache-2.0
#include "base/spelling.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cupel {
namespace {

TEST(SpellingTest, CountsEdits) {
  EXPECT_EQ(EditDistance("check", "check"), 0u);
  EXPECT_EQ(EditDistance("chekc", "check"), 1u);   // neighbours
  EXPECT_EQ(EditDistance("chck", "check"), 1u);    // one is missing
  EXPECT_EQ(EditDistance("cheeck", "check"), 1u);  // one too many
  EXPECT_EQ(EditDistance("chack", "check"), 1u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(SpellingTest, SuggestsOnlyNearNames) {
  const std::vector<std::string> known = {"mnist_linear", "mnist_linear_relu", "softmax", "check"};
  EXPECT_EQ(ClosestName("mnist_linaer", known), "mnist_linear");
  EXPECT_EQ(ClosestName("mnist_linear_relo", known), "mnist_linear_relu");
  EXPECT_EQ(ClosestName("sofmtax", known), "softmax");
  EXPECT_EQ(ClosestName("rope", known), "");
  EXPECT_EQ(ClosestName("", known), "");
  EXPECT_EQ(ClosestName(std::string(100'000, 'c'), known), "");
  EXPECT_EQ(DidYouMean("chekc", known), "did you mean check? ");
  EXPECT_EQ(DidYouMean("rope", known), "");
}

}  // namespace
}  // namespace cupel
