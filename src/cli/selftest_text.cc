// Tested by selftest_text_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "cli/selftest_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "term/text.h"

namespace cupel::cli {
namespace {

double Share(int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; }

std::string Slowest(const std::vector<app::Examined>& all) {
  constexpr size_t kShown = 5;
  std::vector<const app::Examined*> order;
  order.reserve(all.size());
  for (const app::Examined& one : all) order.push_back(&one);
  std::sort(order.begin(), order.end(), [](const app::Examined* a, const app::Examined* b) {
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

std::string SelftestText(const app::SelftestReport& report) {
  const app::Rates rates = app::RatesOf(report.all);
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
  for (const app::Examined& one : report.all) {
    const std::string surprise = app::SurpriseIn(one);
    if (surprise.empty()) continue;
    const std::string& what =
        one.specimen->exploit.empty() ? one.specimen->note : one.specimen->exploit;
    text += fmt::format("  {} ({})\n    {}\n", one.specimen->name, Printable(what),
                        Printable(surprise));
  }
  for (const app::Specimen* one : report.skipped) {
    text += fmt::format("skipped: {} needs {} ({})\n", one->name,
                        one->needs_gpu ? "a GPU" : "the emulator", Printable(one->note));
  }
  text += fmt::format("slowest: {}\n", Slowest(report.all));
  text += fmt::format("{} kernels in {}\n", report.all.size(), term::Duration(report.seconds));
  return text;
}

}  // namespace cupel::cli
