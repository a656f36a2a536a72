// SPDX-License-Identifier: Apache-2.0
#include "judge/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "records/json.h"

namespace cupel::judge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

records::Comparison Right() {
  records::Comparison c;
  c.ok = true;
  c.count = 8;
  c.rms_error = 1;
  c.rms_limit = 4;
  c.max_limit = 4;
  return c;
}

records::Comparison Wrong(const char* code = "wrong_result", const char* pattern = "tail") {
  records::Comparison c;
  c.code = code;
  c.pattern = pattern;
  c.message = "3 of 8 elements are wrong";
  c.wrong_count = 3;
  c.first_wrong = {{{0, 1}, INFINITY, 2}};
  return c;
}

records::SettingReport Setting(const char* id, std::vector<records::Comparison> trials) {
  records::SettingReport setting;
  setting.id = id;
  setting.status = records::SettingStatus::kPassed;
  for (records::Comparison& c : trials)
    setting.trials.push_back({~uint64_t{0}, c.ok, {std::move(c)}});
  return setting;
}

records::Verdict With(std::vector<records::SettingReport> settings) {
  records::Verdict verdict;
  verdict.settings = std::move(settings);
  return Decide(std::move(verdict));
}

TEST(Decide, AcceptsIfAllSettingsPassed) {
  const records::Verdict v =
      With({Setting("single-0", {Right(), Right()}), Setting("multi-0", {Right()})});
  EXPECT_EQ(v.decision, records::Decision::kAccepted);
  EXPECT_TRUE(v.reasons.empty());
  EXPECT_EQ(ExitStatus(v.decision), 0);
}

TEST(Decide, RejectsFailedTrialDespitePassedStatus) {
  const records::Verdict v = With({Setting("single-0", {Right(), Wrong()})});
  EXPECT_EQ(v.decision, records::Decision::kRejected);
  EXPECT_EQ(v.settings[0].status, records::SettingStatus::kFailed);
  ASSERT_EQ(v.reasons.size(), 1u);
  EXPECT_EQ(v.reasons[0].where, "single-0 trial 1 output 0");
  EXPECT_EQ(ExitStatus(v.decision), 1);
}

TEST(Decide, MergesRecurringReasons) {
  const records::Verdict v =
      With({Setting("single-0", {Wrong(), Wrong(), Wrong()}), Setting("multi-0", {Right()}),
            Setting("multi-1", {Wrong(), Wrong()}),
            Setting("multi-2", {Wrong("not_finite", "some_nan")})});
  ASSERT_EQ(v.reasons.size(), 2u);
  EXPECT_EQ(v.reasons[0].Text(),
            "3 of 8 elements are wrong; also in 2 more trials of single-0, multi-1");
  EXPECT_EQ(v.reasons[1].code, "not_finite");
}

TEST(Decide, ListsFindingsFirstAndWarningsAsNotes) {
  records::SettingReport setting = Setting("single-0", {Wrong()});
  records::Finding finding;
  finding.code = "out_of_bounds";
  finding.file = "/tmp/x/kernel.cu";
  finding.line = 31;
  finding.message = "reads 4 bytes past argument 1";
  setting.findings = {finding, finding};
  finding.severity = records::Severity::kWarning;
  finding.message = "odd";
  setting.findings.push_back(finding);
  records::SettingReport other = setting;
  other.id = "multi-3";
  const records::Verdict v = With({setting, other});
  ASSERT_EQ(v.reasons.size(), 2u);
  EXPECT_EQ(v.reasons[0].code, "out_of_bounds");
  EXPECT_EQ(v.reasons[0].where, "kernel.cu:31");
  EXPECT_EQ(v.reasons[0].Text(),
            "reads 4 bytes past argument 1; block (0, 0, 0), thread (0, 0, 0); also in multi-3");
  EXPECT_THAT(v.notes, ElementsAre("kernel.cu:31: odd, first at single-0"));
}

TEST(Decide, RejectsCorrectNumbersWithFinding) {
  records::SettingReport setting = Setting("single-0", {Right()});
  setting.findings.emplace_back().code = "out_of_bounds";
  EXPECT_EQ(With({setting}).decision, records::Decision::kRejected);
}

TEST(Decide, NotesFailingReferencesAndNeedsOneThatWorks) {
  records::SettingReport broken;
  broken.id = "multi-0";
  broken.status = records::SettingStatus::kNoReference;
  const records::Verdict v = With({Setting("single-0", {Right()}), broken});
  EXPECT_EQ(v.decision, records::Decision::kAccepted);
  EXPECT_THAT(v.notes, ElementsAre(HasSubstr("multi-0")));
  EXPECT_EQ(With({broken}).decision, records::Decision::kError);
  broken.note = "func_forward.py:7: it raises";
  EXPECT_EQ(With({broken}).reasons[0].code, "nothing_judged");
  EXPECT_THAT(With({broken}).reasons[0].message,
              HasSubstr("multi-0 (func_forward.py:7: it raises)"));
}

TEST(Decide, NotesFailuresOnlyAtReducedSizes) {
  records::SettingReport small = Setting("single-0", {Wrong()}),
                         whole = Setting("multi-0", {Right()});
  small.description = "length=16";
  small.reduced = "length=64";
  const records::Verdict alone = With({small, whole});
  EXPECT_EQ(alone.decision, records::Decision::kRejected);
  ASSERT_FALSE(alone.notes.empty());
  EXPECT_THAT(alone.notes[0], HasSubstr("single-0: length=16 instead of length=64"));
  whole = Setting("multi-0", {Wrong()});
  EXPECT_THAT(With({small, whole}).notes,
              testing::Not(testing::Contains(HasSubstr("--full-size"))));
}

TEST(Decide, NeverAcceptsSettingsThatWereNotRun) {
  EXPECT_EQ(With({}).decision, records::Decision::kError);
  EXPECT_EQ(With({Setting("single-0", {})}).decision,
            records::Decision::kError);  // "passed" with no trial
  records::SettingReport open;
  open.id = "multi-0";
  const records::Verdict v = With({Setting("single-0", {Right()}), open});
  EXPECT_EQ(v.decision, records::Decision::kError);
  ASSERT_EQ(v.reasons.size(), 1u);
  EXPECT_EQ(v.reasons[0].code, "not_judged");
  const records::Verdict rejected = With({Setting("single-0", {Wrong()}), open});
  EXPECT_EQ(rejected.decision, records::Decision::kRejected);
  EXPECT_THAT(rejected.notes, ElementsAre("not run: multi-0"));
}

TEST(Decide, RejectedOverridesUnsupportedAndBrokenCaseIsError) {
  records::SettingReport unsupported;
  unsupported.id = "multi-0";
  unsupported.unsupported = true;
  unsupported.problems = {{"unsupported_opcode", "mbarrier.init", "kernel.cu:31"}};
  const records::Verdict v = With({Setting("single-0", {Right()}), unsupported});
  EXPECT_EQ(v.decision, records::Decision::kUnsupported);
  EXPECT_EQ(ExitStatus(v.decision), 3);
  EXPECT_EQ(With({Setting("single-0", {Wrong()}), unsupported}).decision,
            records::Decision::kRejected);
  EXPECT_EQ(With({Setting("single-0", {Wrong("broken_case", "")})}).decision,
            records::Decision::kError);
}

TEST(Decide, CallersReasonsPreventAcceptance) {
  records::Verdict verdict;
  verdict.reasons = {{"compile_error", "expected ';'", "kernel.cu:3"}};
  EXPECT_EQ(Decide(verdict).decision, records::Decision::kRejected);
  verdict.decision = records::Decision::kUnsupported;
  EXPECT_EQ(Decide(verdict).decision, records::Decision::kUnsupported);
  verdict.decision = records::Decision::kRejected;
  verdict.settings = {Setting("single-0", {Right()})};  // passed, but the caller found it impure
  EXPECT_EQ(Decide(verdict).decision, records::Decision::kRejected);
  verdict.decision = records::Decision::kUnsupported;
  EXPECT_EQ(Decide(verdict).decision, records::Decision::kUnsupported);
  verdict.settings = {Setting("single-0", {Wrong()})};
  EXPECT_EQ(Decide(verdict).decision, records::Decision::kRejected);
}

TEST(VerdictJson, HasTimesOnlyInTiming) {
  records::Verdict a = With({Setting("single-0", {Right(), Wrong()})});
  records::Verdict b = a;
  b.build_seconds = b.total_seconds = 3;
  b.settings[0].seconds = {5, 5, 5, 5, 5};
  Json ja = records::ToJson(a), jb = records::ToJson(b);
  EXPECT_NE(DumpJson(ja), DumpJson(jb));
  EXPECT_EQ(jb["timing"]["settings"]["single-0"]["host_us"], 5.0);
  ja.erase("timing");
  jb.erase("timing");
  EXPECT_EQ(DumpJson(ja), DumpJson(jb));
}

TEST(VerdictJson, HasDocumentedMembers) {
  const Json json = records::ToJson(With({Setting("single-0", {Right(), Wrong()})}));
  EXPECT_EQ(json["schema"], "cupel.verdict/1");
  EXPECT_EQ(json["verdict"], "rejected");
  EXPECT_EQ(json["reasons"][0]["code"], "wrong_result");
  EXPECT_EQ(json["reasons"][0]["where"], "single-0 trial 1 output 0");
  const Json& setting = json["settings"][0];
  EXPECT_EQ(setting["trials"][0]["seed"], "18446744073709551615");
  EXPECT_EQ(setting["largest_error"]["rms_over_limit"], 0.25);
  EXPECT_EQ(setting["trials"][1]["outputs"][0]["first_wrong"][0]["got"], "inf");
  EXPECT_TRUE(ParseJson(DumpJson(json, 2), "verdict"));
}

/// A setting at which a negative control passes.
records::SettingReport CannotJudge(const char* id) {
  records::SettingReport setting = Setting(id, {});
  setting.status = records::SettingStatus::kCannotJudge;
  setting.controls = {{"zeros", 0, "", 0.3, 8}};
  return setting;
}

records::SettingReport AtDerivedSize(records::SettingReport setting) {
  setting.derived = "batch_size=1";
  return setting;
}

TEST(Decide, IgnoresSettingsThatCannotJudge) {
  const records::Verdict v = With({CannotJudge("single-0"), Setting("multi-0", {Right()})});
  EXPECT_EQ(v.decision, records::Decision::kAccepted);
  EXPECT_EQ(v.settings[0].status, records::SettingStatus::kCannotJudge);
  ASSERT_EQ(v.notes.size(), 1u);
  EXPECT_THAT(v.notes[0], HasSubstr("single-0 (zeros passes at output 0 (0.3 of the limit))"));
  EXPECT_EQ(records::ToJson(v)["settings"][0]["controls"][0]["ok"], false);
}

TEST(Decide, IsErrorIfNoListedSettingCanJudge) {
  const records::Verdict v =
      With({CannotJudge("single-0"), AtDerivedSize(Setting("heldout-0", {Right()}))});
  EXPECT_EQ(v.decision, records::Decision::kError);
  ASSERT_EQ(v.reasons.size(), 1u);
  EXPECT_EQ(v.reasons[0].code, "cannot_judge");
  EXPECT_THAT(v.reasons[0].message, HasSubstr("zeros passes"));
}

TEST(Decide, RejectsWrongResultAtDerivedSize) {
  const records::Verdict v =
      With({Setting("single-0", {Right()}), AtDerivedSize(Setting("heldout-0", {Wrong()}))});
  EXPECT_EQ(v.decision, records::Decision::kRejected);
  EXPECT_THAT(v.reasons[0].Text(),
              HasSubstr("derived from the task's first setting (batch_size=1)"));
}

TEST(Decide, RefusedDerivedSizeIsALimit) {
  records::SettingReport refused = AtDerivedSize(Setting("heldout-0", {}));
  refused.status = records::SettingStatus::kRefused;
  refused.note = "refuses batch_size=1: rows must be even";
  const records::Verdict v = With({Setting("single-0", {Right()}), refused});
  EXPECT_EQ(v.decision, records::Decision::kAccepted);
  EXPECT_THAT(v.notes, ElementsAre("limit: refuses batch_size=1: rows must be even"));
  EXPECT_THAT(With({refused}).reasons.at(0).Text(), HasSubstr("derived sizes of heldout-0"));
  // A size that the task lists must not be refused.
  refused.derived.clear();
  EXPECT_EQ(With({Setting("single-0", {Right()}), refused}).decision, records::Decision::kError);
}

TEST(Decide, SkipsUndeclaredSettingsOnlyWithDeclaration) {
  records::SettingReport other = Setting("multi-0", {});
  other.status = records::SettingStatus::kNotDeclared;
  records::Verdict v;
  v.settings = {Setting("single-0", {Right()}), other};
  EXPECT_EQ(Decide(v).decision, records::Decision::kError);
  v.declared = "judged only for rows=64: 1 of 2 settings";
  EXPECT_EQ(Decide(v).decision, records::Decision::kAccepted);
  EXPECT_EQ(records::ToJson(v)["declared"], v.declared);
}

}  // namespace
}  // namespace cupel::judge
