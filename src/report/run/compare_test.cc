// SPDX-License-Identifier: Apache-2.0
#include "report/run/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/temp_dir.h"
#include "report/run/compare_svg.h"
#include "report/run/run_testing.h"

namespace cupel::report {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RunCompareTest : public testing::Test {
 protected:
  RunCompareTest() : folder_(TestFolder()) {}
  void Add(const TestRunOptions& options) {
    names_.push_back(fmt::format("run-{}", names_.size()));
    const archive::Archive archive =
        MakeTestRun(folder_.path() / (names_.back() + ".cupel"), options);
    runs_.push_back(*ReadRun(archive));
  }
  RunComparison Compare() { return CompareRuns(runs_, names_); }

  os::TempDir folder_;
  std::vector<report::Run> runs_;
  std::vector<std::string> names_;
};

TEST_F(RunCompareTest, RunsThatOnlyDifferInTheirSeedShareAConfiguration) {
  for (const uint64_t seed : {7, 8, 9}) {
    TestRunOptions options;
    options.seed = seed;
    options.step = seed == 7 ? 0.8 : seed == 8 ? 0.5 : 0.9;
    Add(options);
  }
  TestRunOptions without;
  without.review = false;
  without.step = 0.9;
  without.generations = 3;
  Add(without);
  const RunComparison comparison = Compare();
  EXPECT_THAT(comparison.differences, ElementsAre("loop.review"));
  ASSERT_EQ(comparison.configurations.size(), 2u);
  EXPECT_THAT(comparison.configurations[0].runs, ElementsAre(0, 1, 2));
  EXPECT_THAT(comparison.configurations[0].values, ElementsAre("true"));
  EXPECT_THAT(comparison.configurations[1].values, ElementsAre("false"));
  const auto best = comparison.SpreadOf(comparison.configurations[0],
                                        [](const ComparedRun& run) { return run.best; });
  EXPECT_NEAR(best->median, 10 * 0.32768, 1e-6);
  EXPECT_NEAR(best->low, 10 * 0.03125, 1e-6);
  EXPECT_NEAR(best->high, 10 * 0.59049, 1e-6);
  EXPECT_EQ(best->runs, 3u);
}

TEST_F(RunCompareTest, ReportsGainOverTimeAndCostUntilTheBest) {
  Add({});
  const ComparedRun run = Compare().runs[0];
  ASSERT_EQ(run.by_generation.size(), 6u);
  EXPECT_NEAR(run.by_generation[2].second, 1 / 0.64, 1e-9);
  // Six of eight have a verdict in each generation, and the first of them is the new best.
  ASSERT_EQ(run.by_judged.size(), 7u);
  EXPECT_EQ(run.by_judged[0].first, 1);
  EXPECT_EQ(run.by_judged[1].first, 2);
  EXPECT_EQ(run.by_judged[2].first, 8);
  EXPECT_EQ(run.by_judged.back().first, 31);
  EXPECT_NEAR(*run.accepted_share(), 11.0 / 31, 1e-9);
  EXPECT_EQ(run.best_generation, 5);
  ASSERT_TRUE(run.to_best);
  EXPECT_GE(run.to_best->judged, 26);
}

TEST_F(RunCompareTest, NotesWhatMustNotBeCompared) {
  Add({});
  TestRunOptions measured;
  measured.kind = "median_us";
  Add(measured);
  const RunComparison comparison = Compare();
  EXPECT_THAT(comparison.differences, ElementsAre("run.objective"));
  EXPECT_EQ(comparison.configurations.size(), 2u);
  EXPECT_THAT(comparison.notes, Contains(HasSubstr("estimates are not measurements")));
}

TEST_F(RunCompareTest, AcceptsRunWithoutABest) {
  Add({});
  archive::NewRun fresh;
  fresh.id = "run";
  fresh.task = "mnist_linear";
  fresh.direction = "forward";
  const auto archive = archive::Archive::Create(folder_.path() / "empty.cupel", fresh);
  runs_.push_back(*ReadRun(*archive));
  names_.push_back("empty");
  const std::string text = ComparisonText(Compare());
  EXPECT_THAT(text, HasSubstr("–"));
  EXPECT_THAT(text, HasSubstr("empty is not finished (running)."));
}

TEST_F(RunCompareTest, TextJsonAndPageAgree) {
  Add({});
  TestRunOptions other;
  other.review = false;
  other.step = 0.5;
  Add(other);
  other.seed = 8;
  Add(other);
  const RunComparison comparison = Compare();
  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("loop.review"));
  EXPECT_THAT(text, HasSubstr("3.05x"));
  EXPECT_THAT(text, HasSubstr("32.00x [32.00x, 32.00x]"));
  const Json json = ToJson(comparison);
  EXPECT_EQ(json["schema"], "cupel.run-comparison/1");
  EXPECT_NEAR(json["configurations"][1]["gain"]["median"], 32, 1e-6);
  EXPECT_EQ(json["runs"][2]["seed"], "8");
  const std::string html = ComparisonHtml(comparison);
  EXPECT_THAT(html, HasSubstr("32.00x [32.00x, 32.00x]"));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
}

TEST_F(RunCompareTest, ComparesTheBestWithPyTorchAndTheFloor) {
  Add({});
  runs_[0].references = {{"eager_us", 32.768}, {"floor_us", 1.6384}};  // the best takes 3.2768 us
  const ComparedRun run = Compare().runs[0];
  EXPECT_NEAR(*run.over_eager, 10, 1e-9);
  EXPECT_NEAR(*run.floor_share, 0.5, 1e-9);
  EXPECT_FALSE(run.over_compile);
  EXPECT_THAT(ComparisonText(Compare()), HasSubstr("10.00x"));
}

TEST_F(RunCompareTest, DrawsEachRunOnce) {
  Add({});
  TestRunOptions other;
  other.step = 0.5;
  Add(other);
  names_ = {"runs/first <run>", "runs/second/"};
  const std::string svg = ComparisonSvg(Compare());
  EXPECT_THAT(svg, HasSubstr(">first &lt;run&gt; 3.05×<"));
  EXPECT_THAT(svg, HasSubstr(">second 32.00×<"));
  size_t curves = 0;
  for (size_t at = svg.find("<path"); at != std::string::npos; at = svg.find("<path", at + 1)) {
    ++curves;
  }
  EXPECT_EQ(curves, 2u);
  EXPECT_THAT(ComparisonSvg({}), HasSubstr("no run has an accepted kernel"));
}

TEST_F(RunCompareTest, NamesOfManyRunsFitIntoThePicture) {
  Add({});
  runs_.resize(40, runs_[0]);
  names_.assign(40, "elsewhere/run");
  const std::string svg = ComparisonSvg(Compare());
  EXPECT_THAT(svg, HasSubstr(">run (40) 3.05×<"));
  EXPECT_THAT(svg, Not(HasSubstr("y=\"-")));
}

}  // namespace
}  // namespace cupel::report
