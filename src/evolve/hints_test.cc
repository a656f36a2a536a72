// SPDX-License-Identifier: Apache-2.0
#include "evolve/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace cupel::evolve {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

Hint Make(int64_t id, const char* topic) {
  Hint hint;
  hint.id = id;
  hint.topic = topic;
  hint.bound = "memory";
  hint.text = "hint " + std::to_string(id);
  hint.origin = "built-in";
  return hint;
}

std::vector<int64_t> Ids(const std::vector<const Hint*>& sample) {
  std::vector<int64_t> ids;
  for (const Hint* hint : sample) ids.push_back(hint->id);
  return ids;
}

TEST(Hints, HasBuiltInHintsOfAllBounds) {
  const Hints hints = Hints::BuiltIn();
  EXPECT_THAT(hints.all(), SizeIs(28));
  std::map<std::string, int> bounds;
  std::set<std::string> texts;
  for (const Hint& hint : hints.all()) {
    ++bounds[hint.bound];
    texts.insert(hint.text);
    EXPECT_LE(hint.text.size(), Hints::kMaxTextBytes);
    EXPECT_EQ(hint.origin, "built-in");
  }
  EXPECT_THAT(texts, SizeIs(28));
  EXPECT_THAT(bounds, SizeIs(3));
  for (const char* bound : {"memory", "compute", "latency"}) EXPECT_GE(bounds[bound], 5) << bound;
}

TEST(Hints, SpeaksOfWgmmaOnlyWhereItHelps) {
  const Hints hints = Hints::BuiltIn();
  const auto has_one = [&](bool has_wgmma, bool has_products) {
    HintFit fit;
    fit.has_wgmma = has_wgmma;
    fit.has_products = has_products;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      for (const Hint* hint : hints.Sample(4, fit, Random(seed))) {
        if (hint->needs == "wgmma") return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(has_one(true, true));
  EXPECT_FALSE(has_one(true, false));
  EXPECT_FALSE(has_one(false, true));
}

TEST(Hints, DoesNotAskForANewKernelInAFewEdits) {
  HintFit fit;
  fit.has_wgmma = true;
  EXPECT_FALSE(ForEdits(fit, "for (int k = 0; k < n; ++k) sum += a[k] * b[k];").has_wgmma);
  EXPECT_TRUE(ForEdits(fit, "asm volatile(\"wgmma.mma_async …\");").has_wgmma);
  fit.has_wgmma = false;
  EXPECT_FALSE(ForEdits(fit, "asm volatile(\"wgmma.mma_async …\");").has_wgmma);
}

// A hint about gradients misleads a forward kernel, and one about float32 a kernel of bfloat16.
TEST(Hints, SamplesHintsThatFit) {
  const Hints hints = Hints::BuiltIn();
  int of_bound = 0, backward = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    HintFit forward;
    forward.has_float32 = forward.has_products = false;
    forward.bound = "memory";
    for (const Hint* hint : hints.Sample(4, forward, Random(seed))) {
      EXPECT_NE(hint->direction, "backward");
      EXPECT_NE(hint->dtype, "float32");
      EXPECT_NE(hint->needs, "products") << hint->text;
      EXPECT_NE(hint->needs, "latency") << hint->text;
      of_bound += hint->bound == "memory" ? 1 : 0;
    }
    HintFit gradient;
    gradient.backward = true;
    for (const Hint* hint : hints.Sample(20, gradient, Random(seed))) {
      backward += hint->direction == "backward" ? 1 : 0;
    }
  }
  EXPECT_GE(of_bound, 200);
  EXPECT_GT(backward, 0);
}

TEST(Hints, SamplesOnePerTopicDeterministically) {
  const Hints hints = Hints::BuiltIn();
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto sample = hints.Sample(3, {}, Random(seed));
    ASSERT_THAT(sample, SizeIs(3));
    std::set<std::string> topics;
    for (const Hint* hint : sample) topics.insert(hint->topic);
    EXPECT_THAT(topics, SizeIs(3));
    EXPECT_EQ(Ids(sample), Ids(hints.Sample(3, {}, Random(seed))));
    for (const int64_t id : Ids(sample)) seen.insert(id);
    for (const int64_t id : Ids(hints.Sample(3, {.backward = true}, Random(seed)))) seen.insert(id);
  }
  EXPECT_THAT(seen, SizeIs(24));  // every hint is sampled
  EXPECT_THAT(Hints({Make(0, "a"), Make(1, "a"), Make(2, "b")}).Sample(3, {}, Random(1)),
              SizeIs(2));
  EXPECT_THAT(hints.Sample(0, {}, Random(1)), SizeIs(0));
}

TEST(Hints, PrefersHighRewardsButStillSamplesOthers) {
  Hints hints({Make(0, "a"), Make(1, "b"), Make(2, "c")});
  for (int i = 0; i < 12; ++i) {
    hints.Reward(0, 0);
    hints.Reward(1, 0.8);
    hints.Reward(2, i % 3 == 0 ? 1 : 0);
  }
  std::map<int64_t, int> first;
  for (uint64_t seed = 0; seed < 2000; ++seed) ++first[hints.Sample(1, {}, Random(seed))[0]->id];
  EXPECT_GT(first[1], 1600);
  EXPECT_GT(first[2], first[0]);
  EXPECT_GT(first[2], 10);
}

TEST(Hints, PrefersProvenHintsToNewOnes) {
  Hints hints({Make(0, "a"), Make(1, "b")});
  for (int i = 0; i < 20; ++i) hints.Reward(1, 1);
  int first = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed)
    first += hints.Sample(1, {}, Random(seed))[0]->id == 1;
  EXPECT_NEAR(first, 955, 25);  // 21 of 22: the mean of Beta(21, 1)
}

TEST(Hints, ClampsRewards) {
  Hints hints({Make(0, "a")});
  hints.Reward(0, 5);
  hints.Reward(0, -1);
  hints.Reward(0, std::nan(""));
  hints.Reward(9, 1);  // does not exist
  EXPECT_EQ(hints.Find(0)->tried, 3);
  EXPECT_EQ(hints.Find(0)->earned, 1);
}

TEST(Hints, EvolvedHintsInheritTheTopicOfTheFirstParent) {
  Hints hints({Make(3, "a"), Make(7, "b")});
  const auto id = hints.Add("  new\n advice\x01 ", {5, 7, 3});
  ASSERT_TRUE(id) << id.error().ToString();
  EXPECT_EQ(*id, 8);
  EXPECT_EQ(hints.Find(8)->text, "new advice");
  EXPECT_EQ(hints.Find(8)->topic, "b");
  EXPECT_EQ(hints.Find(8)->origin, "evolved");
  EXPECT_THAT(hints.Add("new advice", {7}).error().message, HasSubstr("hint 8 has the same text"));
  EXPECT_THAT(hints.Add(" \n", {7}).error().message, HasSubstr("0 characters"));
  EXPECT_THAT(hints.Add(std::string(1001, 'a'), {7}).error().message, HasSubstr("1001"));
  EXPECT_THAT(hints.Add("other", {99}).error().message, HasSubstr("none of the parents"));
}

TEST(Hints, RetiresTheWorstButKeepsTopicsAndDoesNotReuseIds) {
  Hints hints({Make(0, "a"), Make(1, "b"), Make(2, "b"), Make(3, "b")});
  for (int i = 0; i < 5; ++i) hints.Reward(0, 0);  // the worst, but the only one of its topic
  hints.Reward(1, 0);
  hints.Reward(2, 0);
  hints.Reward(3, 1);
  hints.Retire(3);
  EXPECT_EQ(hints.Find(2), nullptr);
  hints.Retire(2);
  EXPECT_EQ(hints.Find(1), nullptr);
  hints.Retire(1);
  EXPECT_EQ(hints.Find(0), nullptr);
  EXPECT_EQ(*hints.Add("next", {3}), 4);
  hints.Retire(0);
  EXPECT_THAT(hints.all(), SizeIs(0));
  EXPECT_THAT(hints.Sample(2, {}, Random(0)), SizeIs(0));
}

TEST(Hints, StateSurvivesARoundTripAndIsValidated) {
  Hints hints = Hints::BuiltIn();
  hints.Reward(4, 0.25);
  ASSERT_TRUE(hints.Add("a new one", {4, 2}));
  hints.Retire(20);
  const auto restored = Hints::FromState(*ParseJson(DumpJson(hints.State()), "state"));
  ASSERT_TRUE(restored) << restored.error().ToString();
  EXPECT_EQ(restored->State(), hints.State());
  EXPECT_EQ(Ids(restored->Sample(5, {}, Random(3))), Ids(hints.Sample(5, {}, Random(3))));

  const auto broken = [&](const char* key, const Json& value) {
    Json state = hints.State();
    state["hints"][0][key] = value;
    return Hints::FromState(state).has_value();
  };
  EXPECT_FALSE(broken("id", -1));
  EXPECT_FALSE(broken("id", 3));  // twice
  EXPECT_FALSE(broken("earned", 2));
  EXPECT_FALSE(broken("text", 7));
  EXPECT_TRUE(broken("text", "fine"));
  Json state = hints.State();
  state["next_id"] = 3;
  EXPECT_FALSE(Hints::FromState(state));
  EXPECT_FALSE(Hints::FromState(Json::array()));
}

}  // namespace
}  // namespace cupel::evolve
