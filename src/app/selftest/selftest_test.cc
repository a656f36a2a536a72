// SPDX-License-Identifier: Apache-2.0
#include "app/selftest/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::app {
namespace {

using testing::HasSubstr;

Json Verdict(const char* decision, const char* code, const char* severity = nullptr) {
  Json json{{"verdict", decision}, {"reasons", Json::array()}, {"settings", Json::array()}};
  if (code != nullptr) json["reasons"].push_back({{"code", code}, {"message", "because"}});
  if (severity != nullptr) {
    json["settings"].push_back({{"findings", Json::array({Json{{"severity", severity}}})}});
  }
  return json;
}

Specimen Cheat() {
  Specimen specimen;
  specimen.name = "mustfail/cheat";
  specimen.exploit = "3.1 caching";
  specimen.decisions = {"rejected"};
  specimen.codes = {"impure", "wrong_return"};
  return specimen;
}

Specimen Honest() {
  Specimen specimen;
  specimen.corpus = Corpus::kMustPass;
  specimen.name = "mustpass/honest";
  return specimen;
}

TEST(Selftest, VerdictAndExitStatusMustAgree) {
  EXPECT_EQ(OutcomeOf(1, Verdict("rejected", "impure")).decision, "rejected");
  EXPECT_EQ(OutcomeOf(0, Verdict("rejected", "impure")).decision, "crashed");
  EXPECT_EQ(OutcomeOf(1, Verdict("accepted", nullptr)).decision, "crashed");
  EXPECT_EQ(OutcomeOf(0, Json::object()).decision, "crashed");
  EXPECT_TRUE(OutcomeOf(0, Verdict("accepted", nullptr, "error")).error_finding);
  EXPECT_FALSE(OutcomeOf(0, Verdict("accepted", nullptr, "warning")).error_finding);
}

TEST(Selftest, ReportsCheatsThatAreAcceptedOrFailForAnotherReason) {
  const Specimen cheat = Cheat();
  EXPECT_EQ(SurpriseIn({&cheat, OutcomeOf(1, Verdict("rejected", "impure"))}), "");
  EXPECT_THAT(SurpriseIn({&cheat, OutcomeOf(1, Verdict("rejected", "compile_error"))}),
              HasSubstr("expected rejected impure|wrong_return, got rejected compile_error"));
  EXPECT_NE(SurpriseIn({&cheat, OutcomeOf(0, Verdict("accepted", nullptr))}), "");
  EXPECT_NE(SurpriseIn({&cheat, OutcomeOf(3, Verdict("unsupported", "impure"))}), "");
}

TEST(Selftest, ReportsHonestKernelsThatAreNotAccepted) {
  const Specimen honest = Honest();
  EXPECT_EQ(SurpriseIn({&honest, OutcomeOf(0, Verdict("accepted", nullptr, "warning"))}), "");
  EXPECT_NE(SurpriseIn({&honest, OutcomeOf(0, Verdict("accepted", nullptr, "error"))}), "");
  EXPECT_NE(SurpriseIn({&honest, OutcomeOf(3, Verdict("unsupported", "unsupported_api"))}), "");
}

TEST(Selftest, RatesCountOnlyVerdicts) {
  const Specimen cheat = Cheat(), honest = Honest();
  const std::vector<Examined> all = {
      {&cheat, OutcomeOf(1, Verdict("rejected", "impure"))},
      {&cheat, OutcomeOf(1, Verdict("rejected", "wrong_result"))},
      {&cheat, OutcomeOf(0, Verdict("accepted", nullptr))},
      {&cheat, OutcomeOf(139, Json::object())},
      {&honest, OutcomeOf(0, Verdict("accepted", nullptr))},
      {&honest, OutcomeOf(1, Verdict("rejected", "wrong_result"))},
  };
  const Rates rates = RatesOf(all);
  EXPECT_EQ(rates.must_fail, 4);
  EXPECT_EQ(rates.not_accepted, 2);
  EXPECT_EQ(rates.expected_reason, 1);
  EXPECT_EQ(rates.must_pass, 2);
  EXPECT_EQ(rates.false_alarms, 1);
  EXPECT_EQ(rates.surprises, 4);
  SelftestReport report;
  report.all = all;
  EXPECT_EQ(ToJson(report)["kernels"].size(), 6u);
}

}  // namespace
}  // namespace cupel::app
