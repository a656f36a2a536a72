// SPDX-License-Identifier: Apache-2.0
#include "report/bench_parts.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "stats/robust.h"

namespace cupel::report {

std::vector<std::string> SettingsToTime(const Json& verdict) {
  std::vector<std::string> found;
  const auto decision = JsonString(verdict, "verdict", "verdict");
  const auto settings = JsonArray(verdict, "settings", "verdict");
  if (!settings || !decision || *decision != "accepted") return found;
  for (const Json& setting : **settings) {
    const auto id = JsonString(setting, "id", "setting");
    const auto status = JsonString(setting, "status", "setting");
    const auto derived = JsonString(setting, "derived", "setting");
    if (!id || id->empty() || id->size() > kLongestSettingId || !status || *status != "passed" ||
        !derived || !derived->empty() || std::ranges::find(found, *id) != found.end()) {
      continue;
    }
    found.push_back(*id);
  }
  return found;
}

Json MeansOf(const Json& settings) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> ratios;
  for (const Json& setting : settings) {
    const auto comparisons = JsonArray(setting, "comparisons", "setting");
    if (!comparisons) continue;
    for (const Json& compared : **comparisons) {
      const auto a = JsonString(compared, "a", "comparison");
      const auto b = JsonString(compared, "b", "comparison");
      const auto ratio = JsonObject(compared, "ratio", "comparison");
      if (!a || !b || !ratio) continue;
      const auto estimate = JsonNumber(**ratio, "estimate", "ratio");
      if (estimate && *estimate > 0) ratios[{*a, *b}].push_back(*estimate);
    }
  }
  Json means = Json::array();
  for (const auto& [names, values] : ratios) {
    means.push_back({{"a", names.first},
                     {"b", names.second},
                     {"ratio", stats::GeometricMean(values)},
                     {"settings", values.size()}});
  }
  return means;
}

Json JoinBenches(std::span<const Json* const> parts, const std::string& kernel,
                 const Json& verdict) {
  if (parts.empty()) return nullptr;
  Json settings = Json::array();
  for (const Json* part : parts) {
    const auto own = JsonArray(*part, "settings", "bench");
    if (!own) continue;
    for (const Json& setting : **own) settings.push_back(setting);
  }
  Json whole = parts.front()->is_object() ? *parts.front() : Json::object();
  whole["kernels"] = Json::array({{{"name", kernel}, {"verdict", verdict}}});
  whole["geometric_means"] = MeansOf(settings);
  whole["settings"] = std::move(settings);
  return whole;
}

}  // namespace cupel::report
