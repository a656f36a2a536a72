// SPDX-License-Identifier: Apache-2.0
#include "report/suite/suite.h"

#include <fmt/format.h>

#include <cmath>

#include "report/loose_json.h"

namespace cupel::report {
namespace {

constexpr size_t kMostBaselines = 63, kLongestBaseline = 128;  // without the best

/// A time, a ratio or a share; nullopt if it is not a finite number above zero.
std::optional<double> Positive(const Json& object, const char* key) {
  const auto value = NumberAt(object, key);
  return value && *value > 0 ? value : std::nullopt;
}

std::optional<stats::Interval> ReadInterval(const Json& object, const char* key) {
  const auto member = object.find(key);
  if (member == object.end() || !member->is_object()) return {};
  const auto estimate = Positive(*member, "estimate"), low = Positive(*member, "low"),
             high = Positive(*member, "high"), confidence = Positive(*member, "confidence");
  if (!estimate || !low || !high) return {};
  return stats::Interval{*estimate, *low, *high, confidence.value_or(0)};
}

std::optional<SuiteTime> ReadTime(const Json& object) {
  const auto us = ReadInterval(object, "us");
  if (!us) return {};
  SuiteTime time{*us, {}, Positive(object, "millijoules")};
  const auto samples = object.find("samples_us");
  if (samples == object.end() || !samples->is_array()) return time;
  for (const Json& sample : *samples) {
    const double value = sample.is_number() ? sample.get<double>() : 0;
    if (std::isfinite(value) && value > 0) time.samples.push_back(value);
  }
  return time;
}

void ReadBaselines(const Json& json, SuiteSetting& setting) {
  const auto baselines = json.find("baselines"), speedups = json.find("speedup");
  if (baselines == json.end() || !baselines->is_object()) return;
  const bool has_speedups = speedups != json.end() && speedups->is_object();
  std::string& best = setting.best_baseline;
  for (const auto& [name, value] : baselines->items()) {
    if (name.size() > kLongestBaseline || setting.baselines.size() == kMostBaselines) continue;
    auto time = value.is_object() && name != kBest ? ReadTime(value) : std::nullopt;
    if (!time) continue;
    if (best.empty() || time->us.estimate < setting.baselines[best].us.estimate) best = name;
    setting.baselines[name] = *std::move(time);
    if (!has_speedups) continue;
    if (const auto ratio = ReadInterval(*speedups, name.c_str())) setting.speedups[name] = *ratio;
  }
  if (best.empty()) return;
  setting.baselines[kBest] = setting.baselines[best];
  if (setting.speedups.contains(best)) setting.speedups[kBest] = setting.speedups[best];
}

SuiteSetting ReadSetting(const Json& json) {
  SuiteSetting setting;
  setting.id = TextAt(json, "id");
  setting.kind = TextAt(json, "kind");
  setting.description = TextAt(json, "description");
  setting.status = TextAt(json, "status");
  setting.derived = TextAt(json, "derived");
  setting.reduced = TextAt(json, "reduced");
  setting.over_limit = Positive(json, "over_limit");
  setting.estimate_us = Positive(json, "estimate_us");
  setting.roofline = Positive(json, "roofline");
  setting.time = ReadTime(json);
  ReadBaselines(json, setting);
  return setting;
}

Result<SuiteResult> ReadItem(const Json& json, const std::string& where) {
  SuiteResult item;
  TRY_ASSIGN(item.id, JsonString(json, "id", where));
  TRY_ASSIGN(item.task, JsonString(json, "task", where));
  TRY_ASSIGN(item.direction, JsonString(json, "direction", where));
  TRY_ASSIGN(item.kernel, JsonString(json, "kernel", where));
  TRY_ASSIGN(item.decision, JsonString(json, "decision", where));
  item.is_unfinished = json.contains("unfinished");
  item.task_sha256 = TextAt(json, "task_sha256");
  item.source_sha256 = TextAt(json, "source_sha256");
  const auto reasons = json.find("reasons");
  if (reasons != json.end() && reasons->is_array() && !reasons->empty() &&
      reasons->front().is_object()) {
    item.code = TextAt(reasons->front(), "code");
    item.reason = TextAt(reasons->front(), "message");
  }
  const auto timing = json.find("timing");
  if (timing != json.end() && timing->is_object()) {
    item.build_seconds = Positive(*timing, "build_seconds");
  }
  const auto settings = json.find("settings");
  if (settings == json.end() || !settings->is_array()) return item;
  for (const Json& setting : *settings) {
    if (setting.is_object()) item.settings.push_back(ReadSetting(setting));
  }
  return item;
}

std::optional<double> Mean(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(stats::GeometricMean(values));
}

}  // namespace

Result<Suite> ReadSuite(const Json& document, std::string_view what) {
  const std::string schema = document.is_object() ? TextAt(document, "schema") : "";
  if (schema != kSuiteSchema) {
    const bool newer = schema.starts_with("cupel.suite/");
    return Fail(newer ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
                newer ? fmt::format("unsupported: {} is {}, this cupel reads {}", what, schema,
                                    kSuiteSchema)
                      : fmt::format("{} does not contain suite results ({})", what, kSuiteSchema),
                "give the folder of a run, or the results.json that cupel suite run wrote there");
  }
  Suite suite;
  TRY_ASSIGN(suite.engine, JsonString(document, "engine", what));
  suite.device = TextAt(document, "device");
  suite.cupel = TextAt(document, "cupel");
  suite.status = TextAt(document, "status");
  suite.seed = TextAt(document, "seed");
  TRY_ASSIGN(const Json* items, JsonArray(document, "items", what));
  for (size_t i = 0; i < items->size(); ++i) {
    TRY_ASSIGN(SuiteResult item, ReadItem((*items)[i], fmt::format("{}.items[{}]", what, i)));
    suite.items.push_back(std::move(item));
  }
  const auto missing = document.find("without_kernel");
  if (missing == document.end() || !missing->is_array()) return suite;
  for (const Json& problem : *missing) {
    if (!problem.is_object()) continue;
    suite.without_kernel.emplace_back(TextAt(problem, "task"), TextAt(problem, "direction"));
  }
  return suite;
}

std::vector<const SuiteSetting*> SettingsOfSpeed(const SuiteResult& item) {
  for (const std::string_view kind : {"multi", "single", ""}) {
    std::vector<const SuiteSetting*> found;
    for (const SuiteSetting& setting : item.settings) {
      if (setting.derived.empty() && (kind.empty() || setting.kind == kind)) {
        found.push_back(&setting);
      }
    }
    if (!found.empty()) return found;
  }
  return {};
}

std::optional<double> MeanSpeedup(const SuiteResult& item, const std::string& baseline) {
  std::vector<double> ratios;
  for (const SuiteSetting* setting : SettingsOfSpeed(item)) {
    const auto ratio = setting->speedups.find(baseline);
    if (setting->passed() && ratio != setting->speedups.end()) {
      ratios.push_back(ratio->second.estimate);
    }
  }
  return Mean(ratios);
}

std::optional<double> MeanEnergy(const SuiteResult& item) {
  std::vector<double> energies;
  for (const SuiteSetting* setting : SettingsOfSpeed(item)) {
    if (!setting->passed() || !setting->time || !setting->time->millijoules) continue;
    energies.push_back(*setting->time->millijoules);
  }
  return Mean(energies);
}

std::optional<double> MeanEnergyOfBest(const SuiteResult& item) {
  std::vector<double> energies;
  for (const SuiteSetting* setting : SettingsOfSpeed(item)) {
    if (!setting->passed() || !setting->time || !setting->time->millijoules) continue;
    const auto best = setting->baselines.find(kBest);
    if (best == setting->baselines.end() || !best->second.millijoules) return std::nullopt;
    energies.push_back(*best->second.millijoules);
  }
  return Mean(energies);
}

std::optional<double> MeanTime(const SuiteResult& item) {
  std::vector<double> times;
  for (const SuiteSetting* setting : SettingsOfSpeed(item)) {
    if (!setting->passed()) continue;
    if (setting->time) times.push_back(setting->time->us.estimate);
    if (!setting->time && setting->estimate_us) times.push_back(*setting->estimate_us);
  }
  return Mean(times);
}

}  // namespace cupel::report
