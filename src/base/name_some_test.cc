// SPDX-License-Identifier: Apache-2.0
#include "base/name_some.h"

#include <gtest/gtest.h>

#include <vector>

namespace cupel {
namespace {

TEST(NameSome, CountsNamesItLeavesOut) {
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(NameSome(names, 2), "a, b and 1 more");
  EXPECT_EQ(NameSome(names, 3), "a, b, c");
  EXPECT_EQ(NameSome(std::span(names).first(1), 2), "a");
  EXPECT_EQ(NameSome({}, 2), "");
}

}  // namespace
}  // namespace cupel
