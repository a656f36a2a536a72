// Reports of a run match its archive.
// SPDX-License-Identifier: Apache-2.0
#include "report/run/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/temp_dir.h"
#include "report/run/document.h"
#include "report/run/run_testing.h"
#include "report/run/spending.h"
#include "report/run/stages.h"
#include "report/run/text.h"

namespace cupel::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class RunTest : public testing::Test {
 protected:
  RunTest() : folder_(TestFolder()) {}
  archive::Archive Make(const TestRunOptions& options = {}) {
    return MakeTestRun(folder_.path() / fmt::format("{}.cupel", ++runs_), options);
  }
  report::Run Read(const TestRunOptions& options = {}) { return *ReadRun(Make(options)); }

  os::TempDir folder_;
  int runs_ = 0;
};

const RunCascade& StageOf(const report::Run& run, const std::string& name) {
  for (const RunCascade& row : run.cascade) {
    if (row.stage == name) return row;
  }
  ADD_FAILURE() << "no stage " << name;
  return run.cascade.front();
}

TEST_F(RunTest, EveryCandidateHasItsFailedStageAndReason) {
  const report::Run run = Read();
  ASSERT_EQ(run.candidates.size(), 41u);
  const auto of = [&](int j) -> const RunCandidate& { return run.candidates[1 + 8 + j]; };
  EXPECT_EQ(of(0).outcome, "accepted");  // no longer the best: a later one was better
  EXPECT_TRUE(of(0).new_best);
  EXPECT_EQ(of(0).fell_at, "");
  EXPECT_EQ(of(2).outcome, "dropped");
  EXPECT_EQ(of(2).fell_at, "novelty");
  EXPECT_EQ(of(2).reasons[0].message, "nearly a copy of candidate 1 (similarity 0.970)");
  EXPECT_EQ(of(3).outcome, "rejected");
  EXPECT_EQ(of(3).fell_at, "build");
  EXPECT_EQ(of(3).reasons[0].code, "build_failed");
  EXPECT_EQ(of(3).stages.back().feedback, "a ';' is missing");
  EXPECT_EQ(of(4).fell_at, "review");
  EXPECT_THAT(of(4).reasons[0].message, StartsWith("memory: reads beyond"));
  EXPECT_EQ(of(4).reasons[0].where, "int line_3 = 0;");
  EXPECT_EQ(of(5).fell_at, "judge");
  EXPECT_EQ(of(5).reasons[0].code, "wrong_result");
  EXPECT_EQ(of(6).fell_at, "measure");
  EXPECT_EQ(of(7).outcome, "unsupported");
  EXPECT_EQ(of(0).how, "rewrite");
  EXPECT_EQ(of(0).model, "mock:a");
  EXPECT_THAT(of(0).hints, ElementsAre("3"));
}

TEST_F(RunTest, ReportsTheBestWithGainEvidenceAndProfile) {
  const report::Run run = Read();
  EXPECT_EQ(run.best, 1 + 4 * 8 + 1);
  EXPECT_THAT(run.lineage, ElementsAre(1, 2, 10, 18, 26, 34));
  EXPECT_NEAR(*run.Gain(), 1 / (0.8 * 0.8 * 0.8 * 0.8 * 0.8), 1e-9);
  EXPECT_EQ(run.evidence["digest"], "d1ge57");
  EXPECT_EQ(run.evidence["settings"][0]["trials_ok"], 2);
  EXPECT_EQ(run.evidence["settings"][0]["max_over_limit"], "nan");
  EXPECT_EQ(run.evidence["times"][0]["median_us"], 2.0);
  EXPECT_EQ(run.profile["best"]["settings"][0]["launches"][0]["shared_wavefronts"], 200);
  EXPECT_EQ(run.profile["start"]["resources"][0]["registers"], 22);
}

TEST_F(RunTest, CascadeCountsFailuresSavingsAndLosses) {
  const report::Run run = Read();
  std::vector<std::string> order;
  for (const RunCascade& row : run.cascade) order.push_back(row.stage);
  EXPECT_THAT(order, ElementsAre("novelty", "build", "review", "judge", "measure"));
  EXPECT_EQ(StageOf(run, "novelty").in, 40);
  EXPECT_EQ(StageOf(run, "novelty").fell(), 5);
  // The start was judged too. It recorded no stages, so two are derived from its verdict.
  EXPECT_EQ(StageOf(run, "judge").in, 1 + 5 * 5);
  const RunCascade& review = StageOf(run, "review");
  EXPECT_EQ(review.in, 30);
  EXPECT_EQ(review.fell(), 6);
  EXPECT_EQ(review.judged_anyway, 1);
  EXPECT_EQ(review.good, 1);
  // 25 candidates were judged in 4 s each (and the start in 0.25 s), 15 measured in 2 s each. 24
  // had passed the review, and 5 never reached the engine.
  EXPECT_NEAR(*review.saved_seconds, 5 * (25 * 4 + 0.25 + 15 * 2) / 24, 1e-6);
  EXPECT_FALSE(StageOf(run, "measure").saved_seconds);
}

TEST_F(RunTest, SumsQuestionsByRoleAndModel) {
  const report::Run run = Read();
  ASSERT_FALSE(run.questions.empty());
  const RunQuestions& first = run.questions[0];
  EXPECT_EQ(first.role, "proposer");
  EXPECT_EQ(first.model, "mock:a");
  EXPECT_EQ(first.asked, 20);
  EXPECT_EQ(first.candidates, 20);
  EXPECT_EQ(first.accepted, 5);
  EXPECT_NEAR(first.usd, 0.2, 1e-12);
  int64_t asked = 0, failed = 0, tokens = 0;
  for (const RunQuestions& row : run.questions) {
    asked += row.asked;
    failed += row.failed;
    tokens += row.charged_tokens;
  }
  EXPECT_EQ(asked, 40 + 30 + 5 + 5 + 1);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(tokens, 80 * 1200 + 5000);  // an interrupted question counts with its largest cost
  EXPECT_EQ(run.spent.tokens, tokens);
  ASSERT_TRUE(run.to_best);
  EXPECT_LE(run.to_best->tokens, run.spent.tokens);
}

TEST_F(RunTest, ReportsResultsOfGenerationsModelsAndHints) {
  const report::Run run = Read();
  ASSERT_EQ(run.generations.size(), 6u);
  EXPECT_EQ(run.generations[3].candidates, 8);
  EXPECT_EQ(run.generations[3].accepted, 2);
  EXPECT_EQ(run.generations[3].asked, 10);
  EXPECT_NEAR(*run.generations[3].best, 10 * 0.8 * 0.8 * 0.8, 1e-9);
  EXPECT_EQ(run.generations[3].best_candidate, 18);
  ASSERT_EQ(run.models.size(), 2u);
  EXPECT_EQ(run.models[0].name, "mock:a");
  EXPECT_EQ(run.models[0].new_bests, 5);
  EXPECT_EQ(run.models[0].asked, 20);  // the value of the last generation
  EXPECT_EQ(run.models[1].accepted, 5);
  EXPECT_EQ(run.hints[0].name, "3");
  EXPECT_EQ(run.hints[0].rewarded, 1.5);
  EXPECT_EQ(run.hints[0].candidates, 20);
  EXPECT_EQ(run.unusable.size(), 5u);
}

TEST_F(RunTest, InterruptionsDoNotCountAsTime) {
  report::Run run;
  run.info.created_ms = 1000;
  archive::Archive archive = Make();
  std::vector<archive::Event> events(3);
  events[0].kind = "started";
  events[0].created_ms = 1000;
  events[1].kind = "generation";
  events[1].created_ms = 3000;
  events[2].kind = "resumed";
  events[2].created_ms = 90000;
  EXPECT_DOUBLE_EQ(SpentUntil(3000, run, {}, events).seconds, 2);
  EXPECT_DOUBLE_EQ(SpentUntil(91000, run, {}, events).seconds, 3);
}

TEST_F(RunTest, ReportsRunWithOnlyTheTuner) {
  TestRunOptions options;
  options.models = false;
  const report::Run run = Read(options);
  EXPECT_TRUE(run.questions.empty());
  EXPECT_TRUE(run.models.empty());
  EXPECT_EQ(run.candidates[1].how, "tune");
  EXPECT_EQ(run.candidates[1 + 5].fell_at, "judge");
  EXPECT_EQ(run.candidates[1 + 3].fell_at, "build");
  EXPECT_EQ(StageOf(run, "build").in, 41);
  const std::string text = RunText(run, "runs/x", "best.cu");
  EXPECT_THAT(text, HasSubstr("Best kernel: runs/x/best.cu"));
  EXPECT_THAT(text, Not(HasSubstr("Questions to models")));
}

TEST_F(RunTest, IgnoresMalformedJsonInTheArchive) {
  archive::Archive archive = Make();
  const auto add = [&](const std::string& source, const std::string& meta) {
    archive::NewCandidate candidate;
    candidate.source = source;
    candidate.proposer = "llm:odd";
    candidate.meta = meta;
    return archive.AddCandidate(candidate)->id;
  };
  const int64_t odd = add("odd", R"({"operator": 7, "name": [1], "island": "x", "hints": {"a": 1},
                                     "thought": null, "model": {}})");
  const int64_t later = add("later", "{}");
  ASSERT_TRUE(archive.Drop({odd, "build", false, R"({"reason": ["no text"], "votes": 3})", 1}));
  archive::NewVerdict verdict;
  verdict.decision = "rejected";
  verdict.json = R"({"reasons": "none", "settings": [7, {"status": 1}], "timing": []})";
  ASSERT_TRUE(archive.RecordVerdict(later, verdict));
  ASSERT_TRUE(
      archive.AddEvent("generation", R"({"generation": "two", "models": [3, {"name": 4}]})"));
  ASSERT_TRUE(archive.AddEvent("generation", R"({"generation": -5, "asked": 1})"));
  ASSERT_TRUE(archive.AddEvent("new_best", R"({"candidate": "x"})"));
  const auto run = ReadRun(archive);
  ASSERT_TRUE(run);
  const RunCandidate* shown = run->Find(odd);
  EXPECT_EQ(shown->how, "");
  EXPECT_EQ(shown->model, "odd");
  EXPECT_EQ(shown->fell_at, "build");
  EXPECT_EQ(shown->reasons[0].message, "no reason given");
  EXPECT_EQ(run->Find(later)->fell_at, "judge");
  EXPECT_EQ(run->generations.front().generation, 0);
}

TEST_F(RunTest, DerivesReasonsFromEachKindOfStage) {
  const auto why = [](const char* name, const char* detail) {
    return StageFrom({1, name, false, detail, 1}).reasons.at(0).message;
  };
  EXPECT_EQ(why("selection", R"({"score": 0.6, "rank": 6, "places": 4})"),
            "rank 6, but only 4 candidates are measured");
  EXPECT_EQ(why("build", R"({"reason": "expected ';'"})"), "expected ';'");
  EXPECT_EQ(why("review", R"({"score": 0.31})"), "the reviewers' score is 0.31");
  EXPECT_EQ(why("measure", R"({"ratio": 1.02, "refused": false})"), "not better: ratio 1.020");
  EXPECT_EQ(why("measure", R"({"refused": {"code": "c", "message": "its clocks lie"}})"),
            "its clocks lie");
  EXPECT_EQ(why("effect", R"({"same_work_as": 3})"), "requests the same work as candidate 3");
  const RunStage fine = StageFrom({1, "judge", true, R"({"feedback": "fast"})", 1});
  EXPECT_TRUE(fine.reasons.empty());
  EXPECT_EQ(fine.feedback, "fast");
}

TEST_F(RunTest, TextIsShortAndWithoutControlCharacters) {
  const std::string text = RunText(Read(), "runs/x", "best.cu");
  EXPECT_THAT(text, HasSubstr("41 candidates"));
  EXPECT_THAT(text, HasSubstr("10 dropped before the judge"));
  EXPECT_THAT(text, HasSubstr("5 wrong_result"));
  EXPECT_THAT(text, HasSubstr("reviewer:memory"));
  EXPECT_THAT(text, HasSubstr("81 questions, 80000 tokens in, 16000 out; cost $0.80"));
  EXPECT_THAT(text, HasSubstr("Gained: 3.05x"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(RunTest, DocumentMatchesTheRun) {
  const Json json = RunDocument(Read());
  EXPECT_EQ(json["schema"], "cupel.run/1");
  EXPECT_EQ(json["counts"]["dropped"], 10);
  EXPECT_EQ(json["candidates"].size(), 41u);
  EXPECT_EQ(json["candidates"][13]["fell_at"], "review");
  EXPECT_EQ(json["candidates"][13]["stages"][2]["votes"][0]["confidence"], 0.9);
  EXPECT_EQ(json["best"]["candidate"], 34);
  EXPECT_EQ(json["lineage"].size(), 6u);
  EXPECT_EQ(json["cascade"][2]["good"], 1);
  EXPECT_EQ(json["config"]["loop"]["review"], true);
  EXPECT_THAT(json["config"]["start"].get<std::string>(), StartsWith("sha256 "));
}

TEST_F(RunTest, ReportsAnEmptyRun) {
  archive::NewRun fresh;
  fresh.id = "run";
  fresh.task = "t";
  fresh.direction = "forward";
  const auto archive = archive::Archive::Create(folder_.path() / "empty.cupel", fresh);
  ASSERT_TRUE(archive);
  const auto run = ReadRun(*archive);
  ASSERT_TRUE(run);
  EXPECT_THAT(RunText(*run, "x", "best.cu"), HasSubstr("0 candidates"));
  EXPECT_FALSE(RunDocument(*run).contains("best"));
}

}  // namespace
}  // namespace cupel::report
