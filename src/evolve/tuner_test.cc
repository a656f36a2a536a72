// SPDX-License-Identifier: Apache-2.0
#include "evolve/tuner.h"

#include <gtest/gtest.h>

#include <set>

namespace cupel::evolve {
namespace {

std::vector<Tunable> Space() {
  return *FindTunables(
      "constexpr int kA = 2;  // tune: kA in 1, 2, 4\nconstexpr int kB = 8;  // tune: kB in 8, "
      "16\n");
}

TEST(Propose, TriesNeighboursOfTheBestFirst) {
  const auto proposals = Propose(Space(), {}, 3, Random(1), [](const auto&) { return true; });
  const std::set<Assignment> got(proposals.begin(), proposals.end());
  EXPECT_EQ(got, (std::set<Assignment>{{{"kA", 1}}, {{"kA", 4}}, {{"kB", 16}}}));
}

TEST(Propose, CoversTheSpaceOnceAndThenStops) {
  std::set<Assignment> seen = {{}};
  const auto is_new = [&](const Assignment& a) { return !seen.contains(a); };
  for (int generation = 0; generation < 20; ++generation) {
    for (const Assignment& a : Propose(Space(), {}, 2, Random(generation), is_new)) {
      EXPECT_TRUE(seen.insert(a).second);
    }
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_TRUE(Propose(Space(), {}, 2, Random(9), is_new).empty());
}

TEST(Propose, IsDeterministicBySeed) {
  const auto any = [](const auto&) { return true; };
  EXPECT_EQ(Propose(Space(), {{"kA", 4}}, 5, Random(7), any),
            Propose(Space(), {{"kA", 4}}, 5, Random(7), any));
}

TEST(Propose, ReturnsNothingWithoutTunables) {
  EXPECT_TRUE(Propose({}, {}, 4, Random(1), [](const auto&) { return true; }).empty());
}

}  // namespace
}  // namespace cupel::evolve
