// SPDX-License-Identifier: Apache-2.0
#include "evolve/objective.h"

#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

records::SettingReport Passed(double us) {
  records::SettingReport report;
  report.status = records::SettingStatus::kPassed;
  report.counters.estimated_us = us;
  return report;
}

TEST(Objective, EstimateIsTheGeometricMeanOverSettings) {
  records::Verdict verdict;
  EXPECT_FALSE(EstimateOf(verdict));
  verdict.settings = {Passed(2), Passed(8)};
  EXPECT_DOUBLE_EQ(*EstimateOf(verdict), 4);
  verdict.settings.push_back(Passed(0));
  EXPECT_FALSE(EstimateOf(verdict)) << "a setting without an estimate must not count as fast";
}

TEST(Objective, OnlyALowerEstimateIsBetter) {
  const auto objective = MakeEstimate();
  records::Verdict verdict;
  verdict.settings = {Passed(4)};
  const auto better = [&](double champion) {
    return (*objective->Measure({}, verdict, {}, Champion{nullptr, champion}))->is_better;
  };
  EXPECT_TRUE((*objective->Measure({}, verdict, {}, {}))->is_better);
  EXPECT_TRUE(better(4.1));
  EXPECT_FALSE(better(4));
}

TEST(Objective, AllRoundsMustDifferByMoreThanTheMargin) {
  EXPECT_TRUE(CompareRounds({1.0, 1.1, 1.0}, {2.0, 2.0, 2.1}, 0.01).all_less);
  EXPECT_FALSE(CompareRounds({1.0, 2.1, 1.0}, {2.0, 2.0, 2.1}, 0.01).all_less);
  EXPECT_FALSE(CompareRounds({1.0, 1.995}, {2.0, 2.0}, 0.01).all_less) << "within the margin";
  EXPECT_TRUE(CompareRounds({2.0, 2.2}, {1.0, 1.1}, 0.01).all_more);
  EXPECT_DOUBLE_EQ(CompareRounds({1.0, 1.0}, {2.0, 2.0}, 0.01).ratio, 0.5);
}

TEST(Objective, NoRoundsMeanNoDifference) {
  for (const auto& none : {CompareRounds({}, {1.0}, 0.01), CompareRounds({0.0}, {1.0}, 0.01)}) {
    EXPECT_FALSE(none.all_less || none.all_more);
    EXPECT_EQ(none.ratio, 1);
  }
}

}  // namespace
}  // namespace cupel::evolve
