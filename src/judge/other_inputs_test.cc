// SPDX-License-Identifier: Apache-2.0
#include "judge/other_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "judge/verdict.h"
#include "records/json.h"

namespace cupel::judge {
namespace {

using task::Distribution;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OtherInputs, LimitTextsDescribeTheFailure) {
  records::Comparison wrong;
  wrong.code = "wrong_result";
  wrong.first_wrong.push_back({{0}, 0.0, NAN});
  const auto of = [&](Distribution kind) {
    return LimitOf(kind, {false, "wrong_result", "seen", &wrong}).message;
  };
  EXPECT_EQ(of(Distribution::kNan), "drops NaN");
  EXPECT_EQ(of(Distribution::kStrided), "reads non-contiguous tensors as if they were contiguous");
  EXPECT_EQ(of(Distribution::kHugeOffset),
            "loses accuracy when the mean is 1000 times the deviation");
  wrong.first_wrong[0] = {{0}, NAN, 1.0};
  EXPECT_EQ(of(Distribution::kNan), "is wrong on inputs with a NaN");
  EXPECT_EQ(LimitOf(Distribution::kStrided, {true, "host_exception", "", nullptr}).message,
            "refuses non-contiguous tensors");
  EXPECT_THAT(LimitOf(Distribution::kShifted, {false, "misaligned", "", nullptr}).message,
              HasSubstr("fails (misaligned) on tensors that begin one element after"));
}

records::Verdict TwoSettings() {
  records::Verdict verdict;
  for (const char* id : {"single-0", "multi-0"}) {
    records::SettingReport setting;
    setting.id = id;
    setting.status = records::SettingStatus::kPassed;
    records::TrialReport usual, extremes;
    usual.ok = extremes.ok = true;
    extremes.kind = "extremes";
    setting.trials = {usual, extremes};
    setting.other_inputs.tried = {"extremes", "nan"};
    setting.other_inputs.limits = {{"nan", "wrong_result", "drops NaN", "seen"}};
    setting.other_inputs.not_tried = {{"zeros", "the correct result is not finite"}};
    setting.cases = {{"usual", 1, ""}, {"extremes", UINT64_MAX, "batch=2"}};
    verdict.settings.push_back(std::move(setting));
  }
  return verdict;
}

TEST(OtherInputs, LimitsAreNotesAndDoNotReject) {
  const records::Verdict verdict = Decide(TwoSettings());
  EXPECT_EQ(verdict.decision, records::Decision::kAccepted);
  EXPECT_THAT(verdict.notes, Contains("limit: drops NaN (single-0, multi-0)"));
  const Json json = records::ToJson(verdict);
  ASSERT_EQ(json["limits"].size(), 1u);
  EXPECT_EQ(json["limits"][0]["settings"], Json::array({"single-0", "multi-0"}));
  const Json& setting = json["settings"][0];
  EXPECT_EQ(setting["distributions"]["tried"], Json::array({"extremes", "nan"}));
  EXPECT_EQ(setting["distributions"]["not_tried"][0]["kind"], "zeros");
  EXPECT_EQ(setting["cases"][1]["seed"], "18446744073709551615");
  EXPECT_EQ(setting["cases"][1]["at"], "batch=2");
}

TEST(OtherInputs, RejectsWrongTrialAndNamesItsKind) {
  records::Verdict verdict = TwoSettings();
  records::TrialReport& trial = verdict.settings[1].trials[1];
  trial.ok = false;
  trial.outputs.resize(1);
  trial.outputs[0].code = "not_finite";
  verdict = Decide(std::move(verdict));
  EXPECT_EQ(verdict.decision, records::Decision::kRejected);
  ASSERT_EQ(verdict.reasons.size(), 1u);
  EXPECT_EQ(verdict.reasons[0].where, "multi-0 trial 1 (extremes) output 0");
}

TEST(OtherInputs, TextsCountSettingsAndOmitLimits) {
  const records::Verdict verdict = TwoSettings();
  EXPECT_THAT(
      OtherInputsTexts({&verdict.settings[0].other_inputs, &verdict.settings[1].other_inputs}),
      ElementsAre("correct on other inputs, tried at 2 of 2 settings: extremes",
                  "not tried: zeros (the correct result is not finite)"));
  records::Verdict once = TwoSettings();
  once.settings[0].other_inputs.limits.clear();
  EXPECT_THAT(OtherInputsTexts({&once.settings[0].other_inputs, &once.settings[1].other_inputs}),
              ElementsAre("correct on other inputs, tried at 2 of 2 settings: extremes",
                          "correct at 1 of the 2 settings where these were tried: nan",
                          "not tried: zeros (the correct result is not finite)"));
}

}  // namespace
}  // namespace cupel::judge
