// Compares each kernel's result with its expectation. Tested by selftest_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "app/selftest/selftest.h"
#include "base/version.h"
#include "judge/verdict.h"
#include "records/json.h"

namespace cupel::app {
namespace {

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool HasExpectedReason(const Examined& examined) {
  return Contains(examined.specimen->decisions, examined.outcome.decision) &&
         std::any_of(
             examined.outcome.codes.begin(), examined.outcome.codes.end(),
             [&](const std::string& code) { return Contains(examined.specimen->codes, code); });
}

/// "rejected wrong_result: 640 of 640 elements are wrong …"
std::string OutcomeText(const CheckOutcome& outcome) {
  std::string text = outcome.decision;
  if (!outcome.codes.empty()) text += fmt::format(" {}", fmt::join(outcome.codes, ", "));
  if (!outcome.message.empty()) text += ": " + outcome.message.substr(0, 300);
  return text;
}

}  // namespace

CheckOutcome OutcomeOf(int exit_status, const Json& json) {
  CheckOutcome outcome;
  outcome.decision = "crashed";
  const auto verdict = records::ReadVerdict(json, "verdict", {});
  if (!verdict) {
    outcome.message = "cupel check wrote no verdict";
    return outcome;
  }
  const std::string decision(records::Name(verdict->decision));
  if (exit_status == judge::ExitStatus(verdict->decision)) {
    outcome.decision = decision;
  } else {
    outcome.message =
        fmt::format("the verdict is {}, but the exit status is {}", decision, exit_status);
  }
  for (const records::Reason& reason : verdict->reasons) {
    outcome.codes.push_back(reason.code);
    if (outcome.message.empty()) outcome.message = reason.message;
  }
  for (const records::SettingReport& setting : verdict->settings) {
    for (const records::Finding& finding : setting.findings) {
      outcome.error_finding |= finding.severity == records::Severity::kError;
    }
  }
  return outcome;
}

std::string Expectation(const Specimen& specimen) {
  return specimen.codes.empty() ? fmt::format("{}", fmt::join(specimen.decisions, "|"))
                                : fmt::format("{} {}", fmt::join(specimen.decisions, "|"),
                                              fmt::join(specimen.codes, "|"));
}

std::string SurpriseIn(const Examined& examined) {
  const Specimen& specimen = *examined.specimen;
  const bool as_expected =
      specimen.corpus == Corpus::kMustPass
          ? examined.outcome.decision == "accepted" && !examined.outcome.error_finding
          : HasExpectedReason(examined);
  if (as_expected) return "";
  return fmt::format("expected {}, got {}", Expectation(specimen), OutcomeText(examined.outcome));
}

Rates RatesOf(const std::vector<Examined>& all) {
  Rates rates;
  for (const Examined& one : all) {
    if (!SurpriseIn(one).empty()) ++rates.surprises;
    if (one.specimen->corpus == Corpus::kMustPass) {
      ++rates.must_pass;
      if (!SurpriseIn(one).empty()) ++rates.false_alarms;
      continue;
    }
    ++rates.must_fail;
    // Only a verdict counts as detection. A crash of cupel does not.
    if (one.outcome.decision == "rejected" || one.outcome.decision == "unsupported" ||
        one.outcome.decision == "error") {
      ++rates.not_accepted;
    }
    if (HasExpectedReason(one)) ++rates.expected_reason;
  }
  return rates;
}

Json ToJson(const SelftestReport& report) {
  const Rates rates = RatesOf(report.all);
  Json json{{"schema", "cupel.selftest/1"},
            {"cupel", kVersion},
            {"device", report.device},
            {"must_fail",
             {{"kernels", rates.must_fail},
              {"not_accepted", rates.not_accepted},
              {"expected_reason", rates.expected_reason}}},
            {"must_pass", {{"kernels", rates.must_pass}, {"false_alarms", rates.false_alarms}}},
            {"surprises", rates.surprises},
            {"kernels", Json::array()},
            {"skipped", Json::array()},
            {"seconds", report.seconds}};
  for (const Examined& one : report.all) {
    json["kernels"].push_back({{"name", one.specimen->name},
                               {"exploit", one.specimen->exploit},
                               {"task", one.specimen->task},
                               {"direction", one.specimen->backward ? "backward" : "forward"},
                               {"settings", one.specimen->settings},
                               {"expected", Expectation(*one.specimen)},
                               {"verdict", one.outcome.decision},
                               {"codes", one.outcome.codes},
                               {"message", one.outcome.message},
                               {"surprise", SurpriseIn(one)},
                               {"seconds", one.outcome.seconds}});
  }
  for (const Specimen* one : report.skipped) {
    json["skipped"].push_back(
        {{"name", one->name},
         {"reason", (one->needs_gpu ? "needs a GPU: " : "needs the emulator: ") + one->note}});
  }
  return json;
}

}  // namespace cupel::app
