// SPDX-License-Identifier: Apache-2.0
#include "evolve/cascade.h"

#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

/// `reviewed` candidates, of which `stopped` were stopped; the others were judged.
std::vector<archive::Stage> Stages(int reviewed, int stopped, double review_s, double judge_s) {
  std::vector<archive::Stage> stages;
  for (int i = 1; i <= reviewed; ++i) {
    stages.push_back({i, "review", i > stopped, "{}", review_s});
    if (i > stopped) stages.push_back({i, "judge", true, "{}", judge_s});
  }
  return stages;
}

TEST(Cascade, CountsSeenAndStoppedCandidates) {
  auto stages = Stages(10, 4, 2, 5);
  stages.push_back({1, "judge", true, "{}", 5});   // audited: reviewers were wrong
  stages.push_back({2, "judge", false, "{}", 5});  // audited: they were right
  const CascadeTally tally = TallyOf(stages);
  EXPECT_EQ(tally.review.seen, 10);
  EXPECT_EQ(tally.review.stopped, 4);
  EXPECT_DOUBLE_EQ(tally.review.each(), 2);
  EXPECT_EQ(tally.judge.seen, 8);
  EXPECT_EQ(tally.audited, 2);
  EXPECT_EQ(tally.good_among_audited, 1);
}

TEST(Cascade, ReviewsPayIfJudgingIsExpensive) {
  EXPECT_TRUE(ReviewPays(TallyOf(Stages(7, 0, 100, 1))));    // too few reviews so far
  EXPECT_FALSE(ReviewPays(TallyOf(Stages(8, 4, 10, 3))));    // saves at most 1.5 s each
  EXPECT_TRUE(ReviewPays(TallyOf(Stages(8, 4, 10, 120))));   // saves about 36 s each
  EXPECT_FALSE(ReviewPays(TallyOf(Stages(8, 0, 10, 120))));  // stops nothing
}

TEST(Cascade, ReviewersThatStopGoodKernelsSaveNothing) {
  auto stages = Stages(12, 6, 1, 60);
  EXPECT_TRUE(ReviewPays(TallyOf(stages)));
  for (int i = 1; i <= 6; ++i) stages.push_back({i, "judge", true, "{}", 60});
  EXPECT_LT(ExpectedSaving(TallyOf(stages)), 0);
  EXPECT_FALSE(ReviewPays(TallyOf(stages)));
}

}  // namespace
}  // namespace cupel::evolve
