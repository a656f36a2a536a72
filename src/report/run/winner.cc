// SPDX-License-Identifier: Apache-2.0
#include "report/run/winner.h"

#include <algorithm>

#include "report/loose_json.h"
#include "stats/robust.h"

namespace cupel::report {
namespace {

constexpr size_t kMostSettings = 200, kMostLaunches = 64, kMostKernels = 64, kMostTexts = 50;

/// Copies a scalar member; texts are cut to a maximal length.
void Copy(const Json& from, const char* key, Json& to) {
  const auto it = from.find(key);
  if (it == from.end()) return;
  if (it->is_string()) {
    to[key] = TextAt(from, key);
  } else if (it->is_primitive() && !it->is_null()) {
    to[key] = *it;
  }
}

/// Copies a member if it is a list of three integers, as [5, 1, 1].
void CopyDims(const Json& from, const char* key, Json& to) {
  const Json& dims = ListAt(from, key);
  const bool numbers = std::all_of(dims.begin(), dims.end(),
                                   [](const Json& dim) { return dim.is_number_integer(); });
  if (dims.size() == 3 && numbers) to[key] = dims;
}

Json SettingJson(const Json& setting) {
  Json json = Json::object();
  for (const char* key : {"id", "kind", "description", "status", "reduced", "derived", "note"}) {
    Copy(setting, key, json);
  }
  const Json& error = ObjectAt(setting, "largest_error");
  for (const char* key : {"rms_over_limit", "max_over_limit"}) Copy(error, key, json);
  const Json& trials = ListAt(setting, "trials");
  json["trials"] = trials.size();
  json["trials_ok"] = std::count_if(trials.begin(), trials.end(), [](const Json& trial) {
    return BoolAt(trial, "ok").value_or(false);
  });
  const Json& established = ObjectAt(setting, "established");
  for (const char* key : {"shadow_inputs", "exact_inputs", "schedules"}) {
    Copy(established, key, json);
  }
  json["distributions"] = TextsAt(ObjectAt(setting, "distributions"), "tried");
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

Json LaunchJson(const Json& launch) {
  Json json = Json::object();
  Copy(launch, "kernel", json);
  CopyDims(launch, "grid", json);
  CopyDims(launch, "block", json);
  for (const char* key :
       {"estimated_us", "occupancy", "limited_by", "warp_instructions", "floating_point_operations",
        "global_requests", "global_load_bytes", "global_store_bytes", "global_load_sectors",
        "global_store_sectors", "touched_bytes", "shared_requests", "shared_wavefronts",
        "shared_ideal_wavefronts", "global_atomics", "branches", "divergent_branches"}) {
    Copy(launch, key, json);
  }
  return json;
}

}  // namespace

Json EvidenceOf(const archive::StoredVerdict& stored, const Json& verdict,
                const std::vector<archive::Sample>& samples) {
  Json json{{"decision", stored.decision}, {"fresh_cases", stored.fresh_cases}};
  for (const char* key : {"declared", "device", "seed", "seed_origin", "trials", "source_sha256",
                          "task_sha256", "digest"}) {
    Copy(verdict, key, json);
  }
  Json& versions = json["versions"] = Json::object();
  for (const char* key : {"cupel", "toolkit", "torch"}) {
    Copy(ObjectAt(verdict, "versions"), key, versions);
  }
  Copy(ObjectAt(verdict, "tools"), "commit", versions);
  json["not_checked"] = TextsAt(verdict, "not_checked", kMostTexts);
  json["notes"] = TextsAt(verdict, "notes", kMostTexts);
  Json& limits = json["limits"] = Json::array();
  for (const Json& limit : ListAt(verdict, "limits")) {
    if (limits.size() == kMostTexts) break;
    limits.push_back({{"kind", TextAt(limit, "kind")}, {"message", TextAt(limit, "message")}});
  }
  Json& settings = json["settings"] = Json::array();
  for (const Json& setting : ListAt(verdict, "settings")) {
    if (settings.size() == kMostSettings) break;
    settings.push_back(SettingJson(setting));
  }
  json["times"] = TimesOf(samples);
  return json;
}

Json ProfileOf(const Json& verdict) {
  Json json{{"resources", Json::array()}, {"settings", Json::array()}};
  for (const Json& kernel : ListAt(verdict, "resources")) {
    if (json["resources"].size() == kMostKernels) break;
    Json resources = Json::object();
    for (const char* key : {"kernel", "registers", "static_shared_bytes", "local_bytes",
                            "spill_store_bytes", "spill_load_bytes", "constant_bytes"}) {
      Copy(kernel, key, resources);
    }
    json["resources"].push_back(std::move(resources));
  }
  for (const Json& setting : ListAt(verdict, "settings")) {
    if (json["settings"].size() == kMostSettings) break;
    const Json& counters = ObjectAt(setting, "counters");
    Json launches = Json::array();
    for (const Json& launch : ListAt(counters, "launches")) {
      if (launches.size() == kMostLaunches) break;
      launches.push_back(LaunchJson(launch));
    }
    if (launches.empty()) continue;
    Json shown{{"id", TextAt(setting, "id")}};
    Copy(counters, "estimated_us", shown);
    shown["launches"] = std::move(launches);
    json["settings"].push_back(std::move(shown));
  }
  return json;
}

}  // namespace cupel::report
