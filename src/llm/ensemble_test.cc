// SPDX-License-Identifier: Apache-2.0
#include "llm/ensemble.h"

#include <gtest/gtest.h>

#include <array>

#include "base/random.h"

namespace cupel::llm {
namespace {

Ensemble Three(uint64_t seed, double floor = 0.15) {
  return Ensemble({{"a"}, {"b"}, {"c"}}, {floor, 0.98, seed});
}

/// Plays `rounds` in which members earn rewards with the given probabilities. Returns how often
/// each was asked.
std::array<int, 3> Play(Ensemble& ensemble, const std::array<double, 3>& chances, int rounds) {
  Random world(5);
  std::array<int, 3> asked{};
  for (int i = 0; i < rounds; ++i) {
    const size_t member = ensemble.Choose();
    ++asked[member];
    ensemble.Reward(member, world.Unit() < chances[member] ? 1 : 0);
  }
  return asked;
}

TEST(EnsembleTest, PrefersEarnersButAsksEveryModel) {
  for (const uint64_t seed : {1, 2, 3}) {
    Ensemble ensemble = Three(seed);
    const auto asked = Play(ensemble, {0.05, 0.6, 0.1}, 600);
    EXPECT_GT(asked[1], 360);
    EXPECT_GT(asked[0], 15);  // the floor gives each 5 %
    EXPECT_GT(asked[2], 15);
    EXPECT_GT(ensemble.Expected(1), ensemble.Expected(0));
  }
}

TEST(EnsembleTest, AdaptsToChangedRewards) {
  Ensemble ensemble = Three(1);
  Play(ensemble, {0.6, 0.1, 0.1}, 400);
  Play(ensemble, {0.05, 0.05, 0.6}, 100);
  EXPECT_GT(Play(ensemble, {0.05, 0.05, 0.6}, 200)[2], 110);
}

TEST(EnsembleTest, StartsWithTheWeights) {
  Ensemble ensemble({{"a", 8}, {"b", 1}}, {1.0, 0.98, 1});
  int first = 0;
  for (int i = 0; i < 900; ++i) first += ensemble.Choose() == 0 ? 1 : 0;
  EXPECT_NEAR(first, 800, 40);
}

TEST(EnsembleTest, ContinuesFromItsState) {
  Ensemble one = Three(7);
  Play(one, {0.2, 0.4, 0.6}, 50);
  Ensemble two = Three(7);
  const Json state = ParseJson(DumpJson(one.State()), "state").value();
  ASSERT_TRUE(two.Restore(state));
  for (int i = 0; i < 50; ++i) {
    const size_t member = one.Choose();
    EXPECT_EQ(two.Choose(), member);
    one.Reward(member, 0.3);
    two.Reward(member, 0.3);
  }
  EXPECT_EQ(DumpJson(one.State()), DumpJson(two.State()));
  Ensemble other({{"a"}, {"x"}, {"c"}}, {});
  EXPECT_FALSE(other.Restore(state));
  EXPECT_FALSE(other.Restore(Json::object()));
}

TEST(EnsembleTest, ClampsRewards) {
  Ensemble ensemble = Three(1);
  for (const double reward : {-1.0, 5.0, std::nan(""), 1e300}) ensemble.Reward(0, reward);
  EXPECT_LE(ensemble.members()[0].total, 2.0);
  EXPECT_LT(ensemble.Choose(), 3u);
}

}  // namespace
}  // namespace cupel::llm
