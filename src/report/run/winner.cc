// SPDX-License-Identifier: Apache-2.0
#include "report/run/winner.h"

#include <algorithm>

#include "base/demangle.h"
#include "records/json.h"
#include "report/loose_json.h"
#include "stats/robust.h"

namespace cupel::report {
namespace {

constexpr size_t kMostSettings = 200, kMostLaunches = 64, kMostKernels = 64, kMostTexts = 50;

template <typename T>
Json First(const std::vector<T>& list, size_t most) {
  Json json = Json::array();
  for (size_t i = 0; i < std::min(most, list.size()); ++i) json.push_back(list[i]);
  return json;
}

Json SettingJson(const records::SettingReport& setting) {
  const Json whole = records::ToJson(setting);
  Json json = Json::object();
  for (const char* key : {"id", "kind", "description", "status", "reduced", "derived", "note"}) {
    json[key] = whole[key];
  }
  for (const char* key : {"rms_over_limit", "max_over_limit"}) {
    json[key] = whole["largest_error"][key];
  }
  json["trials"] = setting.trials.size();
  json["trials_ok"] = std::ranges::count(setting.trials, true, &records::TrialReport::ok);
  json["shadow_inputs"] = setting.established.shadow_inputs;
  json["exact_inputs"] = setting.established.exact_inputs;
  json["schedules"] = setting.established.schedules;
  json["distributions"] = First(setting.other_inputs.tried, kMostTexts);
  return json;
}

Json TimesOf(const std::vector<archive::Sample>& samples) {
  Json times = Json::array();
  for (const archive::Sample& sample : samples) {
    if (times.size() == kMostSettings) break;
    if (sample.us.empty()) continue;
    times.push_back({{"setting", Bounded(sample.setting)},
                     {"clock", Bounded(sample.clock)},
                     {"subject", Bounded(sample.subject)},
                     {"samples", sample.us.size()},
                     {"median_us", stats::Median(sample.us)}});
  }
  return times;
}

Json LaunchJson(const records::LaunchCounters& launch) {
  const Json whole = records::ToJson(launch, 0);
  Json json = Json::object();
  for (const char* key : {"kernel",
                          "grid",
                          "block",
                          "estimated_us",
                          "occupancy",
                          "limited_by",
                          "warp_instructions",
                          "floating_point_operations",
                          "global_requests",
                          "global_load_bytes",
                          "global_store_bytes",
                          "global_load_sectors",
                          "global_store_sectors",
                          "touched_bytes",
                          "shared_requests",
                          "shared_wavefronts",
                          "shared_ideal_wavefronts",
                          "global_atomics",
                          "branches",
                          "divergent_branches"}) {
    if (!whole[key].is_null()) json[key] = whole[key];
  }
  return json;
}

}  // namespace

Json EvidenceOf(const archive::StoredVerdict& stored, const records::Verdict& verdict,
                const std::vector<archive::Sample>& samples) {
  const Json whole = records::ToJson(verdict);
  Json json{{"decision", stored.decision}, {"fresh_cases", stored.fresh_cases}};
  for (const char* key :
       {"declared", "device", "seed", "seed_origin", "trials", "source_sha256", "task_sha256"}) {
    json[key] = whole[key];
  }
  json["digest"] = verdict.digest;
  json["versions"] = whole["versions"];
  json["versions"]["commit"] = verdict.provenance.commit;
  json["not_checked"] = First(verdict.not_checked, kMostTexts);
  json["notes"] = First(verdict.notes, kMostTexts);
  Json& limits = json["limits"] = Json::array();
  for (const records::VerdictLimit& limit : verdict.Limits()) {
    if (limits.size() == kMostTexts) break;
    limits.push_back({{"kind", limit.kind}, {"message", limit.message}});
  }
  Json& settings = json["settings"] = Json::array();
  for (const records::SettingReport& setting : verdict.settings) {
    if (settings.size() == kMostSettings) break;
    settings.push_back(SettingJson(setting));
  }
  json["times"] = TimesOf(samples);
  return json;
}

Json ProfileOf(const records::Verdict& verdict) {
  Json json{{"resources", Json::array()}, {"settings", Json::array()}};
  for (const build::KernelResources& kernel : verdict.resources) {
    if (json["resources"].size() == kMostKernels) break;
    Json& shown = json["resources"].emplace_back(records::ToJson(kernel));
    shown["name"] = Bounded(BriefName(Demangle(kernel.kernel)), 200);
  }
  for (const records::SettingReport& setting : verdict.settings) {
    if (json["settings"].size() == kMostSettings) break;
    Json launches = Json::array();
    for (const records::LaunchCounters& launch : setting.counters.launches) {
      if (launches.size() == kMostLaunches) break;
      launches.push_back(LaunchJson(launch));
    }
    if (launches.empty()) continue;
    json["settings"].push_back({{"id", setting.id},
                                {"estimated_us", setting.counters.estimated_us},
                                {"launches", std::move(launches)}});
  }
  return json;
}

}  // namespace cupel::report
