// SPDX-License-Identifier: Apache-2.0
#include "evolve/islands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace cupel::evolve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> Ids(const std::vector<Scored>& members) {
  std::vector<int64_t> ids;
  for (const Scored& member : members) ids.push_back(member.id);
  return ids;
}

TEST(Islands, TakeTurns) {
  EXPECT_EQ(IslandOf(0, 3), 0u);
  EXPECT_EQ(IslandOf(4, 3), 1u);
}

TEST(Islands, KeepMembersBestFirst) {
  Island island;
  for (const Scored scored : {Scored{1, 5}, {2, 3}, {3, 5}, {4, 1}}) AddMember(island, scored);
  EXPECT_THAT(Ids(island.members), ElementsAre(4, 2, 1, 3));
  AddMember(island, {4, 9});
  EXPECT_THAT(Ids(island.members), ElementsAre(2, 1, 3, 4));
}

TEST(SelectParent, PrefersParentsWhoseOffspringGained) {
  EXPECT_DOUBLE_EQ(ParentWeight(0, 0), 1);
  EXPECT_GT(ParentWeight(4, 3), 1);
  EXPECT_LT(ParentWeight(4, 0), 0.5);
  const std::vector<Scored> members = {{1, 10}, {2, 11}};
  std::map<int64_t, int> count;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    ++count[*SelectParent(members, 1, {{1, ParentWeight(6, 0)}, {2, ParentWeight(2, 2)}},
                          Random(seed))];
  }
  EXPECT_GT(count[2], 1.5 * count[1]);
}

TEST(SelectParent, FollowsRankByTemperature) {
  const std::vector<Scored> members = {{10, 1}, {11, 2}, {12, 1000}};
  const auto counts = [&](double temperature) {
    std::map<int64_t, int> count;
    for (uint64_t seed = 0; seed < 6000; ++seed) {
      ++count[*SelectParent(members, temperature, {}, Random(seed))];
    }
    return count;
  };
  EXPECT_EQ(counts(0)[10], 6000);
  auto warm = counts(1 / std::log(2.0));  // each rank half as likely as the one before
  EXPECT_NEAR(warm[10], 6000 * 4 / 7, 150);
  EXPECT_NEAR(warm[11], 6000 * 2 / 7, 150);
  EXPECT_NEAR(warm[12], 6000 * 1 / 7, 150);
  EXPECT_NEAR(counts(1e9)[12], 2000, 150);
  EXPECT_EQ(SelectParent({}, 1, {}, Random(0)), std::nullopt);
}

TEST(SelectMate, PrefersOtherIslandsAndDistantLineages) {
  // 1 is the start; 2 and 3 descend from 1, and 4 from 2. The other island descends from 5.
  const Lineage lineage = {{2, {1}}, {3, {1}}, {4, {2}}, {6, {5}}};
  std::vector<Island> islands = MakeIslands(2);
  for (const int64_t id : {1, 2, 4}) AddMember(islands[0], {id, static_cast<double>(id)});
  for (const int64_t id : {1, 3, 6}) AddMember(islands[1], {id, static_cast<double>(id)});
  std::map<int64_t, int> mates;
  for (uint64_t seed = 0; seed < 50; ++seed)
    ++mates[*SelectMate(islands, 0, 4, lineage, 9, Random(seed))];
  EXPECT_EQ(mates[6], 50);  // 1 is also on the home island, 3 is related, 6 is unrelated
  // Only one island: the most distant half of its members, never the parent.
  islands.resize(1);
  EXPECT_EQ(SelectMate(islands, 0, 4, lineage, 9, Random(1)), 1);
  islands[0].members = {{4, 1}};
  EXPECT_EQ(SelectMate(islands, 0, 4, lineage, 9, Random(1)), std::nullopt);
}

TEST(SelectMate, AcceptsALineageWithALoop) {
  std::vector<Island> islands = MakeIslands(1);
  AddMember(islands[0], {1, 1});
  AddMember(islands[0], {2, 2});
  EXPECT_EQ(SelectMate(islands, 0, 1, {{1, {2}}, {2, {1}}}, 1, Random(0)), 2);
}

TEST(SelectExamples, OrdersFromSlowToFastAndAvoidsSimilarOnes) {
  const std::vector<Scored> members = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}};
  const auto unlike = [](int64_t, int64_t) { return 0.1; };
  EXPECT_THAT(SelectExamples(members, {}, 3, unlike), ElementsAre(3, 2, 1));
  const auto like = [](double likeness) {
    return [likeness](int64_t a, int64_t b) { return a <= 3 && b <= 3 ? likeness : 0.1; };
  };
  EXPECT_THAT(SelectExamples(members, {}, 3, like(0.85)), ElementsAre(5, 4, 1));
  EXPECT_THAT(SelectExamples(members, {}, 9, like(0.85)), ElementsAre(6, 5, 4, 3, 2, 1));
  // 1, 2 and 3 are almost copies of each other: only one of them is shown, and none beside 2.
  EXPECT_THAT(SelectExamples(members, {}, 9, like(0.95)), ElementsAre(6, 5, 4, 1));
  const std::vector<Scored> others = {{1, 1}, {3, 3}, {4, 4}, {5, 5}};
  EXPECT_THAT(SelectExamples(others, {2}, 9, like(0.95)), ElementsAre(5, 4));
  EXPECT_THAT(SelectExamples({}, {}, 3, unlike), IsEmpty());
}

TEST(Migrate, CopiesTheBestToTheNextIsland) {
  std::vector<Island> islands = MakeIslands(3);
  AddMember(islands[0], {1, 1});
  AddMember(islands[0], {2, 2});
  AddMember(islands[1], {3, 3});
  EXPECT_THAT(Migrate(islands, 3, 5), IsEmpty());
  EXPECT_THAT(Migrate(islands, 4, 0), IsEmpty());
  const std::vector<Move> moves = Migrate(islands, 4, 5);
  ASSERT_EQ(moves.size(), 2u);  // the third island is empty
  EXPECT_EQ(moves[1].candidate, 3);
  EXPECT_EQ(moves[1].from, 1);
  EXPECT_EQ(moves[1].to, 2);
  // 1 does not reach the third island in the same round.
  EXPECT_THAT(Ids(islands[1].members), ElementsAre(1, 3));
  EXPECT_THAT(Ids(islands[2].members), ElementsAre(3));
  EXPECT_THAT(Ids(AllMembers(islands)), ElementsAre(1, 2, 3));
  std::vector<Island> one = MakeIslands(1);
  AddMember(one[0], {1, 1});
  EXPECT_THAT(Migrate(one, 0, 1), IsEmpty());
}

TEST(IslandsState, SurvivesARoundTripAndRejectsInvalidJson) {
  std::vector<Island> islands = MakeIslands(2);
  AddMember(islands[1], {7, 0.125});
  AddMember(islands[1], {8, 1e-300});
  const auto restored = IslandsFromState(*ParseJson(DumpJson(StateOf(islands)), "state"));
  ASSERT_TRUE(restored) << restored.error().ToString();
  EXPECT_EQ(*restored, islands);
  for (const char* text :
       {"{}", R"({"islands": []})", R"({"islands": [1]})",
        R"({"islands": [{"id": 1, "members": []}]})",
        R"({"islands": [{"id": 0, "members": [{"id": 1, "value": "x"}]}]})",
        R"({"islands": [{"id": 0, "members": [{"id": 1, "value": 1}, {"id": 1, "value": 1}]}]})"}) {
    EXPECT_FALSE(IslandsFromState(*ParseJson(text, "state"))) << text;
  }
}

}  // namespace
}  // namespace cupel::evolve
