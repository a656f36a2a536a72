// SPDX-License-Identifier: Apache-2.0
#include "serve/timing.h"

#include <algorithm>
#include <utility>

#include "report/bench_parts.h"

namespace cupel::serve {
namespace {

std::vector<std::string> WithoutTimes(const Judgement& judged) {
  std::vector<std::string> settings = report::SettingsToTime(judged.verdict);
  std::erase_if(settings, [&](const std::string& setting) {
    return std::ranges::find(judged.timed, setting, &Timed::setting) != judged.timed.end();
  });
  return settings;
}

}  // namespace

Timing::Timing(Judgement given, int most_attempts)
    : judged(std::move(given)),
      settings(WithoutTimes(judged)),
      schedule(settings.size(), most_attempts) {}

Json BenchOf(const Judgement& judged, const std::string& kernel) {
  std::vector<const Json*> parts;
  for (const std::string& setting : report::SettingsToTime(judged.verdict)) {
    const auto found = std::ranges::find(judged.timed, setting, &Timed::setting);
    if (found != judged.timed.end()) parts.push_back(&found->bench);
  }
  return report::JoinBenches(parts, kernel, judged.verdict);
}

}  // namespace cupel::serve
