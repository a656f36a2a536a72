// SPDX-License-Identifier: Apache-2.0
#include "report/suite/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/suite/suite_testing.h"

namespace cupel::report {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

Suite Gpu(std::vector<SuiteResult> items) {
  Suite suite;
  suite.engine = "gpu";
  suite.status = "finished";
  suite.items = std::move(items);
  return suite;
}

SuiteSetting Sampled(uint64_t seed, double us, double eager_us = 10) {
  SuiteSetting setting = TestSetting("single-0", us, eager_us);
  setting.time->samples = TestSamples(seed, us);
  return setting;
}

Change ChangeOf(const Suite& a, const Suite& b) { return Compare(a, b).items.at(0).change; }

TEST(SuiteCompare, DistinguishesFasterSlowerAndNoise) {
  const Suite before = Gpu({TestItem("t", "accepted", {Sampled(1, 10)})});
  EXPECT_EQ(ChangeOf(before, Gpu({TestItem("t", "accepted", {Sampled(2, 12)})})), Change::kSlower);
  EXPECT_EQ(ChangeOf(before, Gpu({TestItem("t", "accepted", {Sampled(3, 8)})})), Change::kFaster);
  // One per cent is significant with so many samples, but clocks vary as much between runs.
  EXPECT_EQ(ChangeOf(before, Gpu({TestItem("t", "accepted", {Sampled(4, 10.1)})})), Change::kSame);
  const Comparison slower = Compare(before, Gpu({TestItem("t", "accepted", {Sampled(2, 12)})}));
  EXPECT_TRUE(slower.worse());
  EXPECT_NEAR(slower.items[0].settings[0].ratio->estimate, 1.2, 0.01);
  EXPECT_LT(*slower.items[0].settings[0].p, 0.01);
}

TEST(SuiteCompare, IgnoresChangesWithinThoseOfPyTorch) {
  std::vector<SuiteResult> before, after;
  for (int i = 0; i < 8; ++i) {
    const std::string task = "t" + std::to_string(i);
    before.push_back(TestItem(task, "accepted", {Sampled(10 + i, 10)}));
    after.push_back(TestItem(task, "accepted", {Sampled(30 + i, 10.8, 10.9)}));
  }
  const Comparison comparison = Compare(Gpu(before), Gpu(after));
  EXPECT_NEAR(comparison.margin, 0.09, 0.001);
  EXPECT_EQ(comparison.Count(Change::kSame), 8);
  EXPECT_FALSE(comparison.worse());
}

TEST(SuiteCompare, ManyComparisonsAtTheMarginReportNoChange) {
  std::vector<SuiteResult> before, after;
  for (int i = 0; i < 300; ++i) {
    SuiteSetting a = Sampled(1000 + i, 10), b = Sampled(5000 + i, 10 * 1.02);
    a.time->samples = TestSamples(1000 + i, 10, 0.2);
    b.time->samples = TestSamples(5000 + i, 10 * 1.02, 0.2);  // exactly at the margin
    before.push_back(TestItem("t" + std::to_string(i), "accepted", {a}));
    after.push_back(TestItem("t" + std::to_string(i), "accepted", {b}));
  }
  const Comparison comparison = Compare(Gpu(before), Gpu(after));
  EXPECT_EQ(comparison.tests, 300);
  EXPECT_EQ(comparison.Count(Change::kSlower), 0);
}

TEST(SuiteCompare, PairsKernelsAndDecisions) {
  SuiteResult broken = TestItem("broken", "rejected");
  broken.code = "wrong_result";
  broken.reason = "3 of 4 elements are wrong";
  const Suite a = Gpu({TestItem("broken", "accepted"), TestItem("fixed", "rejected"),
                       TestItem("gone", "accepted"), TestItem("still", "rejected")});
  const Suite b = Gpu({broken, TestItem("fixed", "accepted"), TestItem("new", "rejected"),
                       TestItem("still", "rejected")});
  const Comparison comparison = Compare(a, b);
  std::map<std::string, Change> changes;
  for (const ItemChange& item : comparison.items) changes[item.task] = item.change;
  EXPECT_EQ(changes["broken"], Change::kBroken);
  EXPECT_EQ(changes["fixed"], Change::kFixed);
  EXPECT_EQ(changes["gone"], Change::kGone);
  EXPECT_EQ(changes["new"], Change::kNew);
  EXPECT_EQ(changes["still"], Change::kSame);
  EXPECT_TRUE(comparison.worse());
  EXPECT_THAT(CompareText(comparison), HasSubstr("wrong_result: 3 of 4 elements are wrong"));
  EXPECT_FALSE(Compare(b, b).worse());
  const Suite less = Gpu({TestItem("still", "rejected")});
  EXPECT_TRUE(Compare(a, less).worse());  // an accepted kernel is missing
  EXPECT_FALSE(
      Compare(Gpu({TestItem("x", "rejected"), TestItem("still", "rejected")}), less).worse());
}

TEST(SuiteCompare, ComparesEstimatesOnlyWithEstimates) {
  const auto estimated = [](double us) {
    SuiteSetting setting;
    setting.id = "single-0";
    setting.status = "passed";
    setting.estimate_us = us;
    Suite suite = Gpu({TestItem("t", "accepted", {setting})});
    suite.engine = "emu";
    return suite;
  };
  const Comparison slower = Compare(estimated(10), estimated(11));
  EXPECT_EQ(slower.items[0].change, Change::kSlower);
  EXPECT_TRUE(slower.items[0].settings[0].estimate);
  EXPECT_THAT(CompareText(slower), HasSubstr("1.100 (estimates)"));
  EXPECT_EQ(ChangeOf(estimated(10), estimated(10)), Change::kSame);
  // Estimates depend on the inputs.
  Suite other_inputs = estimated(10.2);
  EXPECT_EQ(ChangeOf(estimated(10), other_inputs), Change::kSlower);
  other_inputs.seed = "7";
  EXPECT_EQ(ChangeOf(estimated(10), other_inputs), Change::kSame);
  EXPECT_THAT(Compare(estimated(10), other_inputs).notes, testing::Contains(HasSubstr("seed")));
  // Estimates are never compared with measurements.
  const Suite measured = Gpu({TestItem("t", "accepted", {Sampled(1, 100)})});
  EXPECT_FALSE(Compare(estimated(10), measured).worse());
  EXPECT_FALSE(Compare(estimated(10), measured).items[0].settings[0].ratio);
}

TEST(SuiteCompare, NotesSettingsOfOnlyOneRun) {
  SuiteSetting other = Sampled(3, 10);
  other.id = "multi-0";
  const Suite both = Gpu({TestItem("t", "accepted", {Sampled(1, 10), other})});
  const Suite one = Gpu({TestItem("t", "accepted", {Sampled(2, 10)})});
  const Comparison comparison = Compare(both, one);
  EXPECT_EQ(comparison.items[0].change, Change::kSame);
  EXPECT_THAT(comparison.notes,
              Contains(HasSubstr("1 are only in the first run, 0 only in the second")));
  EXPECT_THAT(Compare(both, both).notes, IsEmpty());
}

TEST(SuiteCompare, DoesNotCompareDifferentSizes) {
  const Suite a = Gpu({TestItem("t", "accepted", {Sampled(1, 10)})});
  Suite b = Gpu({TestItem("t", "accepted", {Sampled(2, 20)})});
  b.items[0].settings[0].description = "n=2";
  EXPECT_EQ(Compare(a, b).items[0].settings[0].change, Change::kNotCompared);
  EXPECT_FALSE(Compare(a, b).worse());
}

}  // namespace
}  // namespace cupel::report
