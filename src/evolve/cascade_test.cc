// SPDX-License-Identifier: Apache-2.0
#include "evolve/cascade.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

std::string Costs(double usd, int64_t tokens) {
  return fmt::format(R"({{"usd": {}, "opinions": [{{"input_tokens": {}, "output_tokens": 0}}]}})",
                     usd, tokens);
}

/// `judged` candidates without a review, of which `wrong` are wrong.
std::vector<archive::Stage> Judged(int judged, int wrong, double judge_s) {
  std::vector<archive::Stage> stages;
  for (int i = 1; i <= judged; ++i) {
    stages.push_back({i, "screen", i > wrong, "{}", judge_s / 2});
    if (i > wrong) stages.push_back({i, "judge", true, "{}", judge_s / 2});
  }
  return stages;
}

/// `reviewed` candidates, of which `stopped` were stopped; the others were judged.
std::vector<archive::Stage> Reviewed(int reviewed, int stopped, double review_s, double judge_s,
                                     double usd = 0, int64_t tokens = 1000) {
  std::vector<archive::Stage> stages;
  for (int i = 1; i <= reviewed; ++i) {
    stages.push_back({i, "review", i > stopped, Costs(usd, tokens), review_s});
    if (i > stopped) stages.push_back({i, "judge", true, "{}", judge_s});
  }
  return stages;
}

TEST(Cascade, CountsSeenAndStoppedCandidates) {
  auto stages = Reviewed(10, 4, 2, 5, 0.5, 300);
  stages.push_back({1, "judge", true, "{}", 5});   // audited: reviewers were wrong
  stages.push_back({2, "judge", false, "{}", 5});  // audited: they were right
  stages.push_back({11, "build", false, "{}", 1});
  stages.push_back({11, "judge", false, "{}", 0});  // the compiler rejected it, not the judge
  const CascadeTally tally = *TallyOf(stages);
  EXPECT_EQ(tally.review.seen, 10);
  EXPECT_EQ(tally.review.stopped, 4);
  EXPECT_DOUBLE_EQ(tally.review.each(), 2);
  EXPECT_DOUBLE_EQ(tally.review_usd, 5);
  EXPECT_EQ(tally.review_tokens, 3000);
  EXPECT_EQ(tally.judge.seen, 8);
  EXPECT_DOUBLE_EQ(tally.judge.each(), 5);
  EXPECT_EQ(tally.audited, 2);
  EXPECT_EQ(tally.good_among_audited, 1);
}

TEST(Cascade, JudgesFirstAndAsksOnlyIfJudgingIsExpensive) {
  EXPECT_FALSE(ReviewPays(*TallyOf({})));
  EXPECT_FALSE(ReviewPays(*TallyOf(Judged(8, 4, 5))));    // an evaluation is cheaper than a review
  EXPECT_FALSE(ReviewPays(*TallyOf(Judged(8, 0, 600))));  // nothing to find
  EXPECT_TRUE(ReviewPays(*TallyOf(Judged(8, 4, 600))));
}

TEST(Cascade, WeighsSeconds) {
  EXPECT_FALSE(ReviewPays(*TallyOf(Reviewed(8, 4, 10, 3))));    // saves at most 1.5 s each
  EXPECT_TRUE(ReviewPays(*TallyOf(Reviewed(8, 4, 10, 120))));   // saves about 36 s each
  EXPECT_FALSE(ReviewPays(*TallyOf(Reviewed(8, 0, 10, 120))));  // stops nothing
}

TEST(Cascade, WeighsDollarsAndTokens) {
  EXPECT_FALSE(ReviewPays(*TallyOf(Reviewed(8, 4, 10, 120, 1.0))));         // a dollar each
  EXPECT_TRUE(ReviewPays(*TallyOf(Reviewed(8, 4, 10, 120, 0.001))));        // a known, low price
  EXPECT_FALSE(ReviewPays(*TallyOf(Reviewed(8, 4, 10, 120, 0, 100'000))));  // an unknown price
}

TEST(Cascade, ReviewersThatStopGoodKernelsSaveNothing) {
  auto stages = Reviewed(12, 6, 1, 60);
  EXPECT_TRUE(ReviewPays(*TallyOf(stages)));
  for (int i = 1; i <= 6; ++i) stages.push_back({i, "judge", true, "{}", 60});
  EXPECT_LT(ExpectedSaving(*TallyOf(stages)), 0);
  EXPECT_FALSE(ReviewPays(*TallyOf(stages)));
}

}  // namespace
}  // namespace cupel::evolve
