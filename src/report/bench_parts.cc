// SPDX-License-Identifier: Apache-2.0
#include "report/bench_parts.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "records/json.h"

namespace cupel::report {
namespace {

/// Takes over every member that can be read, of any length.
constexpr records::ReadOptions kWhole{.tolerant = true};

}  // namespace

std::vector<std::string> SettingsToTime(const Json& verdict) {
  std::vector<std::string> found;
  const auto read = records::ReadVerdict(verdict, "verdict", kWhole);
  if (!read || !read->accepted()) return found;
  for (const records::SettingReport& setting : read->settings) {
    if (setting.id.empty() || setting.id.size() > kLongestSettingId || !setting.passed() ||
        !setting.derived.empty() || std::ranges::find(found, setting.id) != found.end()) {
      continue;
    }
    found.push_back(setting.id);
  }
  return found;
}

Json JoinBenches(std::span<const Json* const> parts, const std::string& kernel,
                 const Json& verdict) {
  if (parts.empty()) return nullptr;
  // The parts stay as the workers wrote them, byte for byte.
  Json settings = Json::array();
  for (const Json* part : parts) {
    const auto own = JsonArray(*part, "settings", "bench");
    if (!own) continue;
    for (const Json& setting : **own) settings.push_back(setting);
  }
  Json whole = parts.front()->is_object() ? *parts.front() : Json::object();
  whole["kernels"] = Json::array({{{"name", kernel}, {"verdict", verdict}}});
  whole["geometric_means"] = Json::array();
  whole["settings"] = std::move(settings);
  if (const auto bench = records::ReadBench(whole, "bench", kWhole)) {
    whole["geometric_means"] = records::ToJson(bench->GeometricMeans());
  }
  return whole;
}

}  // namespace cupel::report
