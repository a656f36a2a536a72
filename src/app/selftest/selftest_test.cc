// SPDX-License-Identifier: Apache-2.0
#include "app/selftest/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "records/json.h"

namespace cupel::app {
namespace {

using records::Decision;
using testing::HasSubstr;

Json Verdict(records::Decision decision, const char* code,
             std::optional<records::Severity> severity = std::nullopt) {
  records::Verdict verdict;
  verdict.decision = decision;
  verdict.provenance.asked.trials = 1;
  if (code != nullptr) verdict.reasons = {{code, "because", ""}};
  if (severity) {
    verdict.settings.resize(1);
    verdict.settings[0].findings.resize(1);
    verdict.settings[0].findings[0].severity = *severity;
  }
  return records::ToJson(verdict);
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
  EXPECT_EQ(OutcomeOf(1, Verdict(Decision::kRejected, "impure")).decision, "rejected");
  EXPECT_EQ(OutcomeOf(0, Verdict(Decision::kRejected, "impure")).decision, "crashed");
  EXPECT_EQ(OutcomeOf(1, Verdict(Decision::kAccepted, nullptr)).decision, "crashed");
  EXPECT_EQ(OutcomeOf(0, Json::object()).decision, "crashed");
  EXPECT_TRUE(
      OutcomeOf(0, Verdict(Decision::kAccepted, nullptr, records::Severity::kError)).error_finding);
  EXPECT_FALSE(OutcomeOf(0, Verdict(Decision::kAccepted, nullptr, records::Severity::kWarning))
                   .error_finding);
}

TEST(Selftest, ReportsCheatsThatAreAcceptedOrFailForAnotherReason) {
  const Specimen cheat = Cheat();
  EXPECT_EQ(SurpriseIn({&cheat, OutcomeOf(1, Verdict(Decision::kRejected, "impure"))}), "");
  EXPECT_THAT(SurpriseIn({&cheat, OutcomeOf(1, Verdict(Decision::kRejected, "compile_error"))}),
              HasSubstr("expected rejected impure|wrong_return, got rejected compile_error"));
  EXPECT_NE(SurpriseIn({&cheat, OutcomeOf(0, Verdict(Decision::kAccepted, nullptr))}), "");
  EXPECT_NE(SurpriseIn({&cheat, OutcomeOf(3, Verdict(Decision::kUnsupported, "impure"))}), "");
}

TEST(Selftest, ReportsHonestKernelsThatAreNotAccepted) {
  const Specimen honest = Honest();
  EXPECT_EQ(SurpriseIn({&honest, OutcomeOf(0, Verdict(Decision::kAccepted, nullptr,
                                                      records::Severity::kWarning))}),
            "");
  EXPECT_NE(SurpriseIn({&honest, OutcomeOf(0, Verdict(Decision::kAccepted, nullptr,
                                                      records::Severity::kError))}),
            "");
  EXPECT_NE(SurpriseIn({&honest, OutcomeOf(3, Verdict(Decision::kUnsupported, "unsupported_api"))}),
            "");
}

TEST(Selftest, RatesCountOnlyVerdicts) {
  const Specimen cheat = Cheat(), honest = Honest();
  const std::vector<Examined> all = {
      {&cheat, OutcomeOf(1, Verdict(Decision::kRejected, "impure"))},
      {&cheat, OutcomeOf(1, Verdict(Decision::kRejected, "wrong_result"))},
      {&cheat, OutcomeOf(0, Verdict(Decision::kAccepted, nullptr))},
      {&cheat, OutcomeOf(139, Json::object())},
      {&honest, OutcomeOf(0, Verdict(Decision::kAccepted, nullptr))},
      {&honest, OutcomeOf(1, Verdict(Decision::kRejected, "wrong_result"))},
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
