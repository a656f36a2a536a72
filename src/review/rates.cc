// SPDX-License-Identifier: Apache-2.0
#include "review/rates.h"

#include "stats/wilson.h"

namespace cupel::review {
namespace {

Json Share(int64_t hits, int64_t trials) {
  if (trials == 0) return nullptr;
  const stats::Interval interval = stats::Wilson(hits, trials);
  return {{"value", interval.estimate}, {"low", interval.low}, {"high", interval.high}};
}

}  // namespace

void Rates::Add(bool is_fine, bool said_fine) {
  ++(is_fine ? (said_fine ? passed : stopped) : (said_fine ? missed : found));
}

double Rates::Balanced() const {
  const auto share = [](int64_t hits, int64_t misses) {
    return static_cast<double>(hits) / static_cast<double>(hits + misses);
  };
  const bool wrong = found + missed > 0, right = passed + stopped > 0;
  if (wrong && right) return (share(found, missed) + share(passed, stopped)) / 2;
  return wrong ? share(found, missed) : right ? share(passed, stopped) : 0.5;
}

Json ToJson(const Rates& rates) {
  return {{"found", rates.found},
          {"missed", rates.missed},
          {"passed", rates.passed},
          {"stopped", rates.stopped},
          {"balanced_accuracy", rates.Balanced()},
          {"accuracy", Share(rates.found + rates.passed, rates.all())},
          {"precision", Share(rates.found, rates.found + rates.stopped)},
          {"recall", Share(rates.found, rates.found + rates.missed)}};
}

}  // namespace cupel::review
