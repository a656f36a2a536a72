// Compares each kernel's result with its expectation, and formats the report. Tested by
// selftest_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/version.h"
#include "cli/selftest.h"
#include "judge/verdict.h"
#include "report/table.h"
#include "report/text.h"

namespace cupel::cli {
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

std::string Expectation(const Specimen& specimen) {
  return specimen.codes.empty() ? fmt::format("{}", fmt::join(specimen.decisions, "|"))
                                : fmt::format("{} {}", fmt::join(specimen.decisions, "|"),
                                              fmt::join(specimen.codes, "|"));
}

/// "rejected wrong_result: 640 of 640 elements are wrong …"
std::string OutcomeText(const CheckOutcome& outcome) {
  std::string text = outcome.decision;
  if (!outcome.codes.empty()) text += fmt::format(" {}", fmt::join(outcome.codes, ", "));
  if (!outcome.message.empty()) text += ": " + outcome.message.substr(0, 300);
  return text;
}

double Share(int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; }

std::string Slowest(const std::vector<Examined>& all) {
  constexpr size_t kShown = 5;
  std::vector<const Examined*> order;
  order.reserve(all.size());
  for (const Examined& one : all) order.push_back(&one);
  std::sort(order.begin(), order.end(), [](const Examined* a, const Examined* b) {
    return a->outcome.seconds > b->outcome.seconds;
  });
  std::string text;
  for (size_t i = 0; i < std::min(kShown, order.size()); ++i) {
    text += fmt::format("{}{} {:.1f} s", i == 0 ? "" : ", ", order[i]->specimen->name,
                        order[i]->outcome.seconds);
  }
  return text;
}

}  // namespace

CheckOutcome OutcomeOf(int exit_status, const Json& verdict) {
  CheckOutcome outcome;
  const auto decision = JsonString(verdict, "verdict", "verdict");
  const auto reasons = JsonArray(verdict, "reasons", "verdict");
  const auto settings = JsonArray(verdict, "settings", "verdict");
  outcome.decision = "crashed";
  if (!decision || !reasons || !settings) {
    outcome.message = "cupel check wrote no verdict";
    return outcome;
  }
  for (const judge::Decision known : {judge::Decision::kAccepted, judge::Decision::kRejected,
                                      judge::Decision::kUnsupported, judge::Decision::kError}) {
    if (*decision == judge::Name(known) && exit_status == judge::ExitStatus(known)) {
      outcome.decision = *decision;
    }
  }
  if (outcome.decision == "crashed") {
    outcome.message =
        fmt::format("the verdict is {}, but the exit status is {}", *decision, exit_status);
  }
  for (const Json& reason : **reasons) {
    const auto code = JsonString(reason, "code", "reason");
    const auto message = JsonString(reason, "message", "reason");
    if (code) outcome.codes.push_back(*code);
    if (message && outcome.message.empty()) outcome.message = *message;
  }
  for (const Json& setting : **settings) {
    const auto findings = JsonArray(setting, "findings", "setting");
    if (!findings) continue;
    for (const Json& finding : **findings) {
      const auto severity = JsonString(finding, "severity", "finding");
      outcome.error_finding = outcome.error_finding || (severity && *severity == "error");
    }
  }
  return outcome;
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

std::string SelftestText(const std::vector<Examined>& all,
                         const std::vector<const Specimen*>& skipped, double seconds) {
  const Rates rates = RatesOf(all);
  std::string text;
  if (rates.must_fail > 0) {
    text += fmt::format(
        "must fail: {} of {} not accepted ({:.1f} %), {} with an expected reason ({:.1f} %)\n",
        rates.not_accepted, rates.must_fail, Share(rates.not_accepted, rates.must_fail),
        rates.expected_reason, Share(rates.expected_reason, rates.must_fail));
  }
  if (rates.must_pass > 0) {
    text += fmt::format("must pass: {} of {} accepted; false alarms: {} ({:.1f} %)\n",
                        rates.must_pass - rates.false_alarms, rates.must_pass, rates.false_alarms,
                        Share(rates.false_alarms, rates.must_pass));
  }
  if (rates.surprises > 0) text += "Surprises:\n";
  for (const Examined& one : all) {
    const std::string surprise = SurpriseIn(one);
    if (surprise.empty()) continue;
    const std::string& what =
        one.specimen->exploit.empty() ? one.specimen->note : one.specimen->exploit;
    text += fmt::format("  {} ({})\n    {}\n", one.specimen->name, report::Printable(what),
                        report::Printable(surprise));
  }
  for (const Specimen* one : skipped) {
    text += fmt::format("skipped: {} needs {} ({})\n", one->name,
                        one->needs_gpu ? "a GPU" : "the emulator", report::Printable(one->note));
  }
  text += fmt::format("slowest: {}\n", Slowest(all));
  text += fmt::format("{} kernels in {}\n", all.size(), report::Duration(seconds));
  return text;
}

Json SelftestJson(const std::vector<Examined>& all, const std::vector<const Specimen*>& skipped,
                  const std::string& device, double seconds) {
  const Rates rates = RatesOf(all);
  Json json{{"schema", "cupel.selftest/1"},
            {"cupel", kVersion},
            {"device", device},
            {"must_fail",
             {{"kernels", rates.must_fail},
              {"not_accepted", rates.not_accepted},
              {"expected_reason", rates.expected_reason}}},
            {"must_pass", {{"kernels", rates.must_pass}, {"false_alarms", rates.false_alarms}}},
            {"surprises", rates.surprises},
            {"kernels", Json::array()},
            {"skipped", Json::array()},
            {"seconds", seconds}};
  for (const Examined& one : all) {
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
  for (const Specimen* one : skipped) {
    json["skipped"].push_back(
        {{"name", one->name},
         {"reason", (one->needs_gpu ? "needs a GPU: " : "needs the emulator: ") + one->note}});
  }
  return json;
}

}  // namespace cupel::cli
