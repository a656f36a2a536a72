// SPDX-License-Identifier: Apache-2.0
#include "report/suite/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/temp_dir.h"
#include "report/suite/html.h"
#include "report/suite/tables.h"

namespace cupel::report {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><b>|`=1+1`\x1b[2J";

/// An output whose errors are `share` and half of it, as shares of the limits.
Json Output(const Json& share) {
  return {{"rms_error", 0.25}, {"rms_limit", 1}, {"max_error", share}, {"max_limit", 1}};
}

Json Verdict(const std::string& decision, const std::string& device) {
  return {{"verdict", decision},
          {"device", device},
          {"seed", "5"},
          {"reasons", Json::array()},
          {"timing", {{"build_seconds", 2.5}}},
          {"settings",
           Json::array({{{"id", "single-0"},
                         {"kind", "single"},
                         {"status", "passed"},
                         {"description", "n=64"},
                         {"derived", ""},
                         {"reduced", "n=64 (of 4096)"},
                         {"trials", Json::array({{{"outputs", Json::array({Output(0.5)})}}})},
                         {"counters",
                          {{"estimated_us", 11.5},
                           {"launches", Json::array({{{"floating_point_operations", 100},
                                                      {"global_load_sectors", 3},
                                                      {"global_store_sectors", 1}}})}}}}})}};
}

Json Interval(double estimate) {
  return {{"estimate", estimate},
          {"low", estimate * 0.9},
          {"high", estimate * 1.1},
          {"confidence", 0.99}};
}

/// The kernel takes 2 us, eager PyTorch 8.
Json Bench() {
  return {{"gpu", "NVIDIA H200"},
          {"ceilings", {{"read_bytes", 4e12}}},
          {"settings",
           Json::array(
               {{{"id", "single-0"},
                 {"read_bytes", 64},
                 {"written_bytes", 64},
                 {"timings", Json::array({{{"name", "eager"},
                                           {"baseline", true},
                                           {"us", Interval(8)},
                                           {"samples_us", {8.0, 8.1}}},
                                          {{"name", "k.cu"},
                                           {"baseline", false},
                                           {"us", Interval(2)},
                                           {"samples_us", {2.0, 2.1}},
                                           {"roofline", 0.5}}})},
                 {"comparisons",
                  Json::array({{{"a", "k.cu"}, {"b", "eager"}, {"ratio", Interval(0.25)}}})}}})}};
}

archive::SuiteItem Item(const std::string& task = "t") {
  return {task + "/forward/k.cu", task, "forward", "k.cu", "/t", "/k", "ta", "so"};
}

archive::SuiteOutcome Outcome(const std::string& decision) {
  archive::SuiteOutcome outcome;
  outcome.decision = decision;
  outcome.worker = "local 0";
  return outcome;
}

TEST(SuiteDocument, ComputesSpeedupsFromComparisons) {
  const Json item = SuiteItemJson(Item(), Outcome("accepted"), Verdict("accepted", "gpu"), Bench());
  const Json& setting = item["settings"][0];
  EXPECT_NEAR(setting["speedup"]["eager"]["estimate"].get<double>(), 4, 1e-12);
  EXPECT_NEAR(setting["speedup"]["eager"]["low"].get<double>(), 1 / 0.275, 1e-12);
  EXPECT_EQ(setting["us"]["estimate"], 2.0);
  EXPECT_EQ(setting["baselines"]["eager"]["us"]["estimate"], 8.0);
  EXPECT_EQ(setting["over_limit"], 0.5);
  EXPECT_EQ(setting["reduced"], "n=64 (of 4096)");
  EXPECT_FALSE(setting.contains("estimate_us"));
}

TEST(SuiteDocument, EmulatorGivesEstimatesAndNoSpeedups) {
  const Json item =
      SuiteItemJson(Item(), Outcome("accepted"), Verdict("accepted", "emu (h100)"), nullptr);
  const Json& setting = item["settings"][0];
  EXPECT_EQ(setting["estimate_us"], 11.5);
  EXPECT_EQ(setting["work"]["bytes"], 128.0);
  EXPECT_FALSE(setting.contains("us"));
  EXPECT_FALSE(setting.contains("speedup"));
}

TEST(SuiteDocument, KeepsInfiniteError) {
  Json verdict = Verdict("rejected", "emu (h100)");
  verdict["settings"][0]["trials"][0]["outputs"][0] = Output("inf");
  const Json item = SuiteItemJson(Item(), Outcome("rejected"), verdict, nullptr);
  EXPECT_EQ(item["settings"][0]["over_limit"], "inf");
}

TEST(SuiteDocument, RejectsKernelThatFailsWhileTimed) {
  Json bench = Bench();
  EXPECT_EQ(DecisionOf(Verdict("accepted", "gpu"), bench), "accepted");
  bench["settings"][0]["timings"][1] = {
      {"name", "k.cu"},
      {"baseline", false},
      {"refused", {{"code", "wrong_timed_result"}, {"message", "answers from memory"}}}};
  EXPECT_EQ(DecisionOf(Verdict("accepted", "gpu"), bench), "rejected");
  const Json item = SuiteItemJson(Item(), Outcome("rejected"), Verdict("accepted", "gpu"), bench);
  EXPECT_EQ(item["reasons"][0]["code"], "wrong_timed_result");
  EXPECT_EQ(item["reasons"][0]["where"], "single-0");
  bench["settings"][0]["timings"][1]["refused"]["code"] = "unsupported_task";
  EXPECT_EQ(DecisionOf(Verdict("accepted", "gpu"), bench), "accepted");
}

TEST(SuiteDocument, ReportsWhyABaselineHasNoTime) {
  Json bench = Bench();
  EXPECT_FALSE(
      SuiteItemJson(Item(), Outcome("accepted"), Verdict("accepted", "gpu"), bench)["settings"][0]
          .contains("oddities"));
  bench["settings"][0]["timings"].push_back(
      {{"name", "compile"},
       {"baseline", true},
       {"refused", {{"code", "baseline_failed"}, {"message", "out of memory"}}}});
  const Json item = SuiteItemJson(Item(), Outcome("accepted"), Verdict("accepted", "gpu"), bench);
  const Json& setting = item["settings"][0];
  EXPECT_FALSE(setting["baselines"].contains("compile"));
  EXPECT_EQ(setting["oddities"], Json::array({"compile was not timed: out of memory"}));
}

TEST(SuiteDocument, AcceptsJsonOfAnyShape) {
  for (const char* text : {"null", "[]", "{}", R"({"settings": 3})", R"({"settings": [1, null]})",
                           R"({"settings": [{"id": {}, "timings": [[]], "counters": []}]})"}) {
    const Json json = *ParseJson(text, "t");
    const Json item = SuiteItemJson(Item(), Outcome("error"), json, json);
    EXPECT_EQ(item["decision"], "error");
    EXPECT_NE(DecisionOf(json, json), "accepted");
  }
}

constexpr char kAsked[] = R"({"engine": "gpu", "input": "/home/me/tasks/", "kernels": "/home/me/k",
                              "include_roots": ["/home/me/headers"]})";

class SuiteForms : public testing::Test {
 protected:
  SuiteForms() : folder_(*os::TempDir::Create()) {
    store_.emplace(*archive::SuiteStore::Create(folder_.path() / "s", {kAsked, "0.1.0", 9}));
    const std::vector items = {Item("good"), Item(kHostile), Item("later")};
    EXPECT_TRUE(store_->SetItems(
        items, R"({"without_kernel": [{"task": "none", "direction": "backward"}], "notes": []})"));
    archive::SuiteOutcome good = Outcome("accepted");
    good.verdict = DumpJson(Verdict("accepted", "gpu"));
    good.bench = DumpJson(Bench());
    EXPECT_TRUE(store_->Record(items[0].id, good));
    archive::SuiteOutcome bad = Outcome("rejected");
    Json verdict = Verdict("rejected", "gpu");
    verdict["reasons"] = {{{"code", "wrong_result"}, {"message", kHostile}, {"where", ""}}};
    bad.verdict = DumpJson(verdict);
    EXPECT_TRUE(store_->Record(items[1].id, bad));
    document_ = *SuiteDocument(*store_);
    suite_ = *ReadSuite(document_, "s");
  }
  os::TempDir folder_;
  std::optional<archive::SuiteStore> store_;
  Json document_;
  Suite suite_;
};

TEST_F(SuiteForms, DocumentCanBeReadBack) {
  EXPECT_EQ(document_["schema"], kSuiteSchema);
  EXPECT_EQ(suite_.device, "gpu");
  ASSERT_EQ(suite_.items.size(), 3);
  EXPECT_NEAR(*MeanSpeedup(suite_.items[0], "eager"), 4, 1e-12);
  EXPECT_EQ(suite_.items[0].settings[0].time->samples.size(), 2);
  EXPECT_EQ(suite_.items[2].decision, "pending");
  EXPECT_EQ(document_["scores"]["correct_problems"], 1);
  EXPECT_EQ(document_["scores"]["problems"], 4);
  EXPECT_FALSE(ReadSuite(Json{{"schema", "cupel.suite/2"}}, "x"));
  EXPECT_FALSE(ReadSuite(Json::array(), "x"));
}

TEST_F(SuiteForms, ShowsJudgedItemsBeforeTheyAreFullyTimed) {
  const std::vector items = {Item("half"), Item("none")};
  ASSERT_TRUE(store_->SetItems(items, "{}"));
  Json verdict = Verdict("accepted", "gpu");
  Json other = verdict["settings"][0];
  other["id"] = "multi-0";
  verdict["settings"].push_back(other);
  other["derived"] = "multi-0";
  verdict["settings"].push_back(other);
  for (const archive::SuiteItem& item : items) {
    ASSERT_TRUE(store_->RecordVerdict(item.id, {DumpJson(verdict), "gpu", "worker", 10}));
  }
  ASSERT_TRUE(store_->RecordTimed(items[0].id, {"single-0", DumpJson(Bench()), 5}));
  const Json document = *SuiteDocument(*store_);
  const Suite suite = *ReadSuite(document, "s");
  for (const SuiteResult& item : suite.items) {
    EXPECT_EQ(item.decision, "accepted");
    EXPECT_TRUE(item.is_unfinished);
    EXPECT_FALSE(MeanSpeedup(item, "eager"));  // a mean over some settings would differ
  }
  EXPECT_EQ(document["items"][0]["unfinished"], (Json{{"timed", 1}, {"of", 2}}));
  EXPECT_EQ(document["items"][0]["timing"]["seconds"], 15);
  EXPECT_EQ(document["device"], "gpu");
  EXPECT_THAT(SuiteText(suite, Score(suite)), HasSubstr("not timed yet"));
  EXPECT_THAT(SuiteMarkdown(suite, Score(suite)), HasSubstr("| 2 of 2 | not timed yet |"));
  archive::SuiteOutcome failed = Outcome("error");
  failed.error = "3 attempts failed";
  ASSERT_TRUE(store_->Record(items[0].id, failed));
  const Json after = *SuiteDocument(*store_);
  EXPECT_EQ(after["items"][0]["decision"], "error");
  EXPECT_EQ(after["items"][0]["reasons"][0]["message"], "3 attempts failed");
  EXPECT_FALSE(after["items"][0].contains("unfinished"));
}

TEST_F(SuiteForms, OmitsLocalPaths) {
  const Json& asked = document_["asked"];
  EXPECT_EQ(asked["input"], "tasks");
  EXPECT_EQ(asked["kernels"], "k");
  EXPECT_EQ(asked["include_roots"], Json::array({"headers"}));
  EXPECT_THAT(DumpJson(document_), Not(HasSubstr("/home")));
}

TEST_F(SuiteForms, CsvHasEveryKernelAndNoFormula) {
  const std::string csv = SuiteCsv(suite_);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  EXPECT_THAT(csv, HasSubstr("good,forward,k.cu,accepted,,,2.5,single-0,single,n=64,,"));
  EXPECT_THAT(csv, Not(HasSubstr("\x1b")));
  Suite formula;
  formula.items.resize(1);
  formula.items[0].kernel = "=HYPERLINK(\"x\")";
  EXPECT_THAT(SuiteCsv(formula), HasSubstr("\"'=HYPERLINK(\"\"x\"\")\""));
}

TEST_F(SuiteForms, MarkdownEscapesTaskNames) {
  const std::string text = SuiteMarkdown(suite_, Score(suite_));
  EXPECT_THAT(text, HasSubstr("\\</script\\>\\<b\\>\\|\\`=1+1\\`"));
  EXPECT_THAT(text, HasSubstr("4.00 x"));
  EXPECT_THAT(text, HasSubstr("no kernel"));
}

TEST_F(SuiteForms, PageEscapesUntrustedTexts) {
  const std::string page = SuiteHtml(document_);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e\\u003cb\\u003e"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(page, Not(HasSubstr("samples_us\":")));
}

}  // namespace
}  // namespace cupel::report
