// SPDX-License-Identifier: Apache-2.0
#include "records/verdict.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "records/verdict_fields.h"

namespace cupel::records {

std::string_view Name(Decision decision) { return NameOf(decision); }
std::string_view Name(SettingStatus status) { return NameOf(status); }

void RoundedResults::AddCounts(const RoundedResults& other) {
  count += other.count;
  above += other.above;
  outward += other.outward;
  beyond_half += other.beyond_half;
  beyond_one += other.beyond_one;
  subnormal += other.subnormal;
  flushed += other.flushed;
  least_normal += other.least_normal;
  least_right += other.least_right;
}

double Comparison::Severity() const {
  if (!(rms_limit > 0) || !(max_limit > 0)) return wrong_count > 0 ? INFINITY : 0;
  return std::max(rms_error / rms_limit, max_error / max_limit);
}

LargestError SettingReport::LargestErrors() const {
  LargestError largest;
  const auto raise = [](double& to, double value) {
    if (!(value <= to)) to = value;
  };
  for (const TrialReport& trial : trials) {
    for (const Comparison& c : trial.outputs) {
      raise(largest.rms, c.rms_error);
      raise(largest.max, c.max_error);
      if (c.rms_limit > 0) raise(largest.rms_over_limit, c.rms_error / c.rms_limit);
      if (c.max_limit > 0) raise(largest.max_over_limit, c.max_error / c.max_limit);
    }
  }
  return largest;
}

std::vector<const Verdict*> Verdict::OfAllEngines() const {
  std::vector<const Verdict*> all = {this};
  for (const Verdict& other : other_engines) all.push_back(&other);
  return all;
}

std::vector<VerdictLimit> Verdict::Limits() const {
  std::vector<VerdictLimit> limits;
  for (const SettingReport& setting : settings) {
    for (const Limit& limit : setting.other_inputs.limits) {
      auto known = std::ranges::find(limits, limit.message, &VerdictLimit::message);
      if (known == limits.end()) {
        limits.push_back({limit.kind, limit.message, limit.detail, {}});
        known = std::prev(limits.end());
      }
      known->settings.push_back(setting.id);
    }
  }
  for (const SizeLimit& limit : exploration.limits) {
    const char* kind = limit.code == kCurrentStream ? "streams" : "sizes";
    limits.push_back({kind, limit.message, limit.code, {}});
  }
  for (const Verdict& other : other_engines) {
    for (VerdictLimit& limit : other.Limits()) {
      const auto known = std::ranges::find(limits, limit.message, &VerdictLimit::message);
      if (known == limits.end()) limits.push_back(std::move(limit));
    }
  }
  return limits;
}

}  // namespace cupel::records
