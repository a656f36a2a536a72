// SPDX-License-Identifier: Apache-2.0
#include "report/suite/scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/eta.h"
#include "report/suite/suite_testing.h"
#include "report/suite/tables.h"

namespace cupel::report {
namespace {

using testing::HasSubstr;

double At(const SuiteScores& scores, const std::string& baseline, double p) {
  const auto place = std::find(kFastP.begin(), kFastP.end(), p);
  return ScoreAgainst(scores, baseline)->fast[static_cast<size_t>(place - kFastP.begin())];
}

/// Four problems: speed-ups 4 and 1 (mean 2), exactly 1, wrong, and one without a kernel.
Suite FourProblems() {
  Suite suite;
  suite.engine = "gpu";
  suite.items.push_back(
      TestItem("fast", "accepted", {TestSetting("a", 1, 4), TestSetting("b", 2, 2)}));
  suite.items.push_back(TestItem("even", "accepted", {TestSetting("a", 5, 5)}));
  suite.items.push_back(TestItem("wrong", "rejected", {TestSetting("a", 1, 100)}));
  suite.without_kernel.emplace_back("none", "forward");
  return suite;
}

TEST(SuiteScores, FastPCountsSolvedProblemsAboveP) {
  const SuiteScores scores = Score(FourProblems());
  EXPECT_EQ(scores.problems.size(), 4);
  EXPECT_EQ(scores.correct_problems, 2);
  EXPECT_DOUBLE_EQ(At(scores, "eager", 0), 0.5);
  EXPECT_DOUBLE_EQ(At(scores, "eager", 0.8), 0.5);
  EXPECT_DOUBLE_EQ(At(scores, "eager", 1), 0.25);  // a speed-up of 1 is not more than 1
  EXPECT_DOUBLE_EQ(At(scores, "eager", 1.5), 0.25);
  EXPECT_DOUBLE_EQ(At(scores, "eager", 2), 0);  // a speed-up of 2 is not more than 2
  EXPECT_EQ(ScoreAgainst(scores, "compile"), nullptr);
}

TEST(SuiteScores, UsesGeometricMeansOfAcceptedKernels) {
  const SuiteScores scores = Score(FourProblems());
  const BaselineScore& eager = *ScoreAgainst(scores, "eager");
  EXPECT_NEAR(*eager.over_problems, std::sqrt(2.0), 1e-12);  // of 2 and 1
  EXPECT_EQ(eager.timed_problems, 2);
  EXPECT_NEAR(*eager.over_settings, std::cbrt(4.0), 1e-12);  // of 4, 1 and 1
  EXPECT_EQ(eager.timed_settings, 3);
}

/// A document with one kernel and its times and baselines.
Json OneKernel(const char* setting) {
  return Json{{"schema", kSuiteSchema},
              {"engine", "gpu"},
              {"items", Json::array({{{"id", "t/forward/a.cu"},
                                      {"task", "t"},
                                      {"direction", "forward"},
                                      {"kernel", "a.cu"},
                                      {"decision", "accepted"},
                                      {"settings", Json::array({Json::parse(setting)})}}})}};
}

TEST(SuiteScores, ComparesWithTheFastestBaselineOfEachSetting) {
  const auto suite = ReadSuite(OneKernel(R"({
    "id": "single-0", "kind": "single", "status": "passed",
    "us": {"estimate": 10, "low": 10, "high": 10, "confidence": 0.95}, "millijoules": 2.5,
    "baselines": {"eager": {"us": {"estimate": 40, "low": 40, "high": 40, "confidence": 0.95}},
                  "library": {"us": {"estimate": 5, "low": 5, "high": 5, "confidence": 0.95},
                              "millijoules": 7.25},
                  "untimed": {}},
    "speedup": {"eager": {"estimate": 4, "low": 4, "high": 4, "confidence": 0.99},
                "library": {"estimate": 0.5, "low": 0.5, "high": 0.5, "confidence": 0.99}}})"),
                               "test");
  ASSERT_TRUE(suite.has_value()) << suite.error().ToString();
  const SuiteSetting& setting = suite->items.at(0).settings.at(0);
  EXPECT_EQ(MeanEnergy(suite->items.at(0)), 2.5);
  EXPECT_EQ(MeanEnergyOfBest(suite->items.at(0)), 7.25);
  EXPECT_THAT(SuiteMarkdown(*suite, Score(*suite)), HasSubstr("| energy | energy of best |"));
  EXPECT_THAT(SuiteMarkdown(*suite, Score(*suite)), HasSubstr("| 2.5 mJ | 7.25 mJ |"));
  EXPECT_THAT(SuiteText(*suite, Score(*suite), 200), HasSubstr("7.25 mJ"));
  EXPECT_THAT(SuiteCsv(*suite), HasSubstr(",2.5,7.25\r\n"));
  EXPECT_EQ(setting.best_baseline, "library");
  EXPECT_EQ(setting.baselines.count("untimed"), 0u);
  const SuiteScores scores = Score(*suite);
  EXPECT_DOUBLE_EQ(*ScoreAgainst(scores, "eager")->over_problems, 4);
  EXPECT_DOUBLE_EQ(*ScoreAgainst(scores, kBest)->over_problems, 0.5);
  EXPECT_EQ(ScoreAgainst(scores, "library"), nullptr) << "other tasks have no such baseline";
}

TEST(SuiteScores, UsesTheBestKernelOfAProblem) {
  Suite suite;
  suite.engine = "gpu";
  suite.items.push_back(TestItem("t", "accepted", {TestSetting("a", 4, 8)}, "slow.cu"));
  suite.items.push_back(TestItem("t", "accepted", {TestSetting("a", 2, 8)}, "fast.cu"));
  suite.items.push_back(TestItem("t", "rejected", {TestSetting("a", 1, 8)}, "wrong.cu"));
  const SuiteScores scores = Score(suite);
  ASSERT_EQ(scores.problems.size(), 1);
  EXPECT_EQ(scores.problems[0].kernel.at("eager"), "t/forward/fast.cu");
  EXPECT_EQ(scores.problems[0].speedup.at("eager"), 4);
  EXPECT_EQ(scores.kernels, 3);
  EXPECT_EQ(scores.accepted_kernels, 2);
}

TEST(SuiteScores, EstimatesGiveNoSpeedup) {
  Suite suite;
  suite.engine = "emu";
  SuiteSetting setting;
  setting.id = "a";
  setting.status = "passed";
  setting.estimate_us = 3;
  suite.items.push_back(TestItem("t", "accepted", {setting}));
  const SuiteScores scores = Score(suite);
  EXPECT_EQ(scores.correct_problems, 1);
  EXPECT_TRUE(scores.baselines.empty());
  EXPECT_THAT(scores.why_no_times, HasSubstr("estimates"));
  EXPECT_NEAR(*MeanTime(suite.items[0]), 3, 1e-12);
}

TEST(SuiteScores, IgnoresDerivedAndUnpassableSettings) {
  Suite suite;
  suite.engine = "gpu";
  SuiteSetting derived = TestSetting("heldout-1", 1, 100), broken = TestSetting("multi-1", 1, 1);
  derived.derived = "batch_size=1";
  broken.status = "no_reference";
  suite.items.push_back(TestItem("t", "accepted", {TestSetting("a", 1, 2), derived, broken}));
  suite.items.push_back(TestItem("u", "pending"));
  const SuiteScores scores = Score(suite);
  EXPECT_EQ(scores.settings, 1);
  EXPECT_EQ(scores.problems[0].speedup.at("eager"), 2);
  EXPECT_EQ(scores.kernels, 1);
  EXPECT_EQ(scores.problems.size(), 2);
}

TEST(SuiteScores, UsesMultiSettingsForSpeedIfThereAreAny) {
  SuiteSetting single = TestSetting("single-0", 1, 3), multi = TestSetting("multi-0", 1, 2),
               heldout = TestSetting("heldout-0", 8, 1);
  single.kind = "single";
  multi.kind = "multi";
  heldout.kind = "heldout";
  EXPECT_DOUBLE_EQ(*MeanSpeedup(TestItem("t", "accepted", {single, multi, heldout}), "eager"), 2);
  EXPECT_DOUBLE_EQ(*MeanSpeedup(TestItem("t", "accepted", {single, heldout}), "eager"), 3);
  EXPECT_DOUBLE_EQ(*MeanTime(TestItem("t", "accepted", {single, heldout})), 1);
  EXPECT_DOUBLE_EQ(*MeanTime(TestItem("t", "accepted", {heldout})), 8);
  // If the multi setting failed, other settings do not replace it.
  multi.status = "failed";
  EXPECT_FALSE(MeanTime(TestItem("t", "rejected", {single, multi, heldout})));
}

TEST(Eta, EstimatesByOtherKernelsOfTheProblem) {
  Eta eta;
  EXPECT_FALSE(eta.Left({"a"}, 1));
  eta.Finished("a", 10);
  eta.Finished("a", 20);
  EXPECT_EQ(*eta.Left({"a", "a"}, 1), 30);
  EXPECT_EQ(*eta.Left({"a", "a"}, 2), 15);
  EXPECT_EQ(*eta.Left({"a"}, 8), 15);  // one item is not shared
  EXPECT_EQ(*eta.Left({}, 1), 0);
}

TEST(Eta, LimitsTheInfluenceOfAVeryLongGroup) {
  Eta eta;
  for (const char* group : {"a", "b", "c"}) eta.Finished(group, 1);
  eta.Finished("giant", 1000);
  EXPECT_LT(*eta.Left({"unknown"}, 1), 5);
  EXPECT_EQ(*eta.Left({"giant"}, 1), 1000);
}

}  // namespace
}  // namespace cupel::report
