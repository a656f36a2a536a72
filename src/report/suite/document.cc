// SPDX-License-Identifier: Apache-2.0
#include "report/suite/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "records/json.h"
#include "report/bench_parts.h"
#include "report/loose_json.h"
#include "report/suite/scores.h"

namespace cupel::report {
namespace {

/// Verdicts and measurements come from workers: members that are missing or malformed have their
/// defaults.
std::optional<records::Verdict> VerdictIn(const Json& json) {
  auto verdict = records::ReadVerdict(json, "verdict", records::kTolerant);
  return verdict ? std::optional(*std::move(verdict)) : std::nullopt;
}
records::Bench BenchFrom(const Json& json) {
  return records::ReadBench(json, "bench", records::kTolerant).value_or(records::Bench{});
}

/// Only finite numbers.
double FiniteOrZero(double value) { return std::isfinite(value) ? value : 0; }

Json Reason(const records::Reason& reason, const std::string& where) {
  return {{"code", reason.code}, {"message", reason.message}, {"where", where}};
}

/// The kernel's entry among the timings of a setting; null if there is none.
const records::Timing* KernelTiming(const records::SettingTimes& times) {
  const auto found = std::ranges::find(times.timings, false, &records::Timing::is_baseline);
  return found == times.timings.end() ? nullptr : &*found;
}

Json TimeJson(const records::Timing& timing) {
  Json json{{"us", records::ToJson(timing.median)}, {"samples_us", timing.samples.cold}};
  if (timing.energy) json["millijoules"] = FiniteOrZero(timing.energy->joules) * 1e3;
  return json;
}

/// Time of the baseline over time of the kernel, from samples that were measured together.
std::optional<stats::Interval> Speedup(const records::SettingTimes& times,
                                       const std::string& kernel, const std::string& baseline) {
  for (const records::TimeComparison& compared : times.comparisons) {
    const bool ours = compared.a == kernel && compared.b == baseline;
    const bool turned = compared.b == kernel && compared.a == baseline;
    const stats::Interval& ratio = compared.compared.ratio;
    const bool usable = FiniteOrZero(ratio.estimate) > 0 && FiniteOrZero(ratio.low) > 0 &&
                        FiniteOrZero(ratio.high) > 0;
    if (!(ours || turned) || !usable) continue;
    if (turned) return ratio;
    return stats::Interval{1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low, ratio.confidence};
  }
  return std::nullopt;
}

void AddTimes(const records::SettingTimes& timed, Json& setting) {
  const records::Timing* timing = KernelTiming(timed);
  if (timing == nullptr) {
    if (!timed.note.empty()) setting["not_timed"] = timed.note;
    return;
  }
  if (timing->refused) {
    setting["not_timed"] = timing->refused->message;
    return;
  }
  setting.update(TimeJson(*timing));
  setting["roofline"] = FiniteOrZero(timing->roofline);
  setting["bytes_per_second"] = FiniteOrZero(timing->bytes_a_second);
  setting["work"] = {{"bytes", FiniteOrZero(timed.read_bytes) + FiniteOrZero(timed.written_bytes)},
                     {"floating_point_operations", FiniteOrZero(timed.flops)}};
  setting["baselines"] = Json::object();
  setting["speedup"] = Json::object();
  std::vector<std::string> oddities = timing->oddities;
  const records::Timing* best = nullptr;
  for (const records::Timing& baseline : timed.timings) {
    if (!baseline.is_baseline) continue;
    const std::string& name = baseline.name;
    if (baseline.is_timed() && !baseline.refused) {
      setting["baselines"][name] = TimeJson(baseline);
      if (!baseline.libraries.empty()) {
        setting["baselines"][name]["libraries"] = baseline.libraries;
      }
      const bool is_faster = best == nullptr || baseline.median.estimate < best->median.estimate;
      if (is_faster) best = &baseline;
    } else if (baseline.refused) {
      oddities.push_back(fmt::format("{} was not timed: {}", name, baseline.refused->message));
    }
    if (const auto ratio = Speedup(timed, timing->name, name)) {
      setting["speedup"][name] = records::ToJson(*ratio);
    }
  }
  if (best != nullptr) setting["best_baseline"] = best->name;
  if (!oddities.empty()) setting["oddities"] = std::move(oddities);
}

/// Adds the emulator's estimate and counters.
void AddEstimate(const records::SettingReport& judged, Json& setting) {
  const double us = FiniteOrZero(judged.counters.estimated_us);
  if (!(us > 0)) return;
  setting["estimate_us"] = us;
  double flops = 0, sectors = 0;
  for (const records::LaunchCounters& launch : judged.counters.launches) {
    flops += static_cast<double>(launch.floating_point_operations) +
             static_cast<double>(launch.tensor_operations);
    sectors += static_cast<double>(launch.global_load_sectors) +
               static_cast<double>(launch.global_store_sectors);
  }
  setting["work"] = {{"bytes", 32 * sectors}, {"floating_point_operations", flops}};
}

/// The larger of the two shares. "inf" and "nan", which are texts, count as larger than any number.
Json OverLimit(const records::LargestError& error) {
  for (const double share : {error.rms_over_limit, error.max_over_limit}) {
    if (std::isnan(share)) return "nan";
    if (std::isinf(share)) return "inf";
  }
  return std::max(error.rms_over_limit, error.max_over_limit);
}

Json SettingJson(const records::SettingReport& judged, const records::Bench& bench,
                 bool estimates) {
  Json setting{{"id", judged.id},
               {"kind", task::Name(judged.kind)},
               {"description", judged.description},
               {"status", records::Name(judged.status)}};
  if (!judged.derived.empty()) setting["derived"] = judged.derived;
  if (!judged.reduced.empty()) setting["reduced"] = judged.reduced;
  if (!judged.note.empty()) setting["note"] = judged.note;
  setting["over_limit"] = OverLimit(judged.LargestErrors());
  const auto timed = std::ranges::find(bench.settings, judged.id, &records::SettingTimes::id);
  if (timed != bench.settings.end()) {
    AddTimes(*timed, setting);
  } else if (estimates) {
    AddEstimate(judged, setting);
  }
  return setting;
}

/// The reasons for which the kernel failed while it was timed.
Json TimedReasons(const records::Bench& bench) {
  Json reasons = Json::array();
  for (const records::SettingTimes& times : bench.settings) {
    const records::Timing* timing = KernelTiming(times);
    if (timing == nullptr || !timing->failed()) continue;
    reasons.push_back(Reason(*timing->refused, times.id));
  }
  return reasons;
}

Json PendingJson(const archive::SuiteItem& item) {
  return {{"id", item.id},
          {"task", item.task},
          {"direction", item.direction},
          {"kernel", item.kernel},
          {"decision", "pending"},
          {"task_sha256", item.task_sha256},
          {"source_sha256", item.source_sha256}};
}

/// `judged`: nullopt if cupel could not judge the kernel.
Json ItemJson(const archive::SuiteItem& item, const archive::SuiteOutcome& outcome,
              const std::optional<records::Verdict>& judged, const records::Bench& bench) {
  static const records::Verdict nothing;
  const records::Verdict& verdict = judged ? *judged : nothing;
  Json json = PendingJson(item);
  json["decision"] = outcome.decision;
  json["reasons"] = Json::array();
  if (!outcome.error.empty()) {
    json["reasons"].push_back(
        {{"code", "error"}, {"message", outcome.error}, {"where", ""}, {"remedy", outcome.remedy}});
  }
  for (const records::Reason& reason : verdict.reasons) {
    json["reasons"].push_back(Reason(reason, reason.where));
  }
  for (const Json& reason : TimedReasons(bench)) json["reasons"].push_back(reason);
  if (!verdict.declared.empty()) json["declared"] = verdict.declared;
  json["seed"] = judged ? std::to_string(verdict.seed) : "";
  json["settings"] = Json::array();
  const bool estimates = verdict.device.starts_with("emu");
  for (const records::SettingReport& setting : verdict.settings) {
    json["settings"].push_back(SettingJson(setting, bench, estimates));
  }
  json["timing"] = {{"build_seconds", FiniteOrZero(verdict.build_seconds)},
                    {"seconds", outcome.seconds},
                    {"worker", outcome.worker},
                    {"cases", outcome.cases}};
  return json;
}

/// The different values of one member of the verdicts, as a text: "emu (h100)".
std::string Joined(const std::set<std::string>& values) {
  std::string joined;
  for (const std::string& value : values) joined += (joined.empty() ? "" : ", ") + value;
  return joined;
}

struct Gathered {
  Json items = Json::array();
  std::set<std::string> devices, torches, commits;
  Json ceilings = Json::object();

  void AddOrigin(const std::optional<records::Verdict>& verdict) {
    if (!verdict) return;
    if (!verdict->device.empty()) devices.insert(verdict->device);
    if (!verdict->torch_version.empty()) torches.insert(verdict->torch_version);
  }
};

/// An item that has been judged, but not timed at all settings. It gets no times yet, since means
/// over some of the settings would not be comparable.
Result<Json> UnfinishedJson(const archive::SuiteItem& item, const archive::SuiteVerdict& judged,
                            Gathered& all) {
  archive::SuiteOutcome outcome;
  outcome.cases = judged.cases;
  outcome.seconds = judged.seconds;
  for (const archive::SuiteTimed& timed : judged.timed) outcome.seconds += timed.seconds;
  TRY_ASSIGN(const Json verdict, ParseJson(judged.verdict, item.id));
  outcome.decision = DecisionOf(verdict, nullptr);
  const std::optional<records::Verdict> read = VerdictIn(verdict);
  Json json = ItemJson(item, outcome, read, {});
  const size_t done = judged.timed.size(), of = SettingsToTime(verdict).size();
  json["unfinished"] = {{"timed", done}, {"of", of}};
  all.AddOrigin(read);
  return json;
}

Status Gather(const archive::SuiteStore& store, const archive::SuiteItem& item, Gathered& all) {
  TRY_ASSIGN(const auto outcome, store.OutcomeOf(item.id));
  if (!outcome) {
    TRY_ASSIGN(const auto judged, store.VerdictOf(item.id));
    Json json = PendingJson(item);
    if (judged) {
      TRY_ASSIGN(json, UnfinishedJson(item, *judged, all));
    }
    all.items.push_back(std::move(json));
    return {};
  }
  Json verdict, bench;
  if (!outcome->verdict.empty()) {
    TRY_ASSIGN(verdict, ParseJson(outcome->verdict, item.id));
  }
  if (!outcome->bench.empty()) {
    TRY_ASSIGN(bench, ParseJson(outcome->bench, item.id));
  }
  const std::optional<records::Verdict> read = VerdictIn(verdict);
  all.items.push_back(ItemJson(item, *outcome, read, BenchFrom(bench)));
  all.AddOrigin(read);
  if (!outcome->commit.empty()) all.commits.insert(outcome->commit);
  if (const Json& ceilings = MemberAt(bench, "ceilings"); ceilings.is_object()) {
    all.ceilings = ceilings;
  }
  return {};
}

/// Keeps only the last name of a path. Results are published and must not contain local paths.
void LeaveNameOfPath(Json& member) {
  if (!member.is_string()) return;
  const std::filesystem::path path = member.get<std::string>();
  member = (path.has_filename() ? path : path.parent_path()).filename().string();
}

Json Asked(Json config) {
  for (const char* name : {"input", "kernels"}) {
    if (config.contains(name)) LeaveNameOfPath(config[name]);
  }
  if (config.contains("include_roots") && config["include_roots"].is_array()) {
    for (Json& root : config["include_roots"]) LeaveNameOfPath(root);
  }
  return config;
}

}  // namespace

std::string DecisionOf(const Json& verdict, const Json& bench) {
  const std::optional<records::Verdict> read = VerdictIn(verdict);
  const records::Decision decision = read ? read->decision : records::Decision::kError;
  if (records::Name(decision) != TextAt(verdict, "verdict")) return "error";  // it has none
  const bool fails =
      decision == records::Decision::kAccepted && !TimedReasons(BenchFrom(bench)).empty();
  return std::string(records::Name(fails ? records::Decision::kRejected : decision));
}

Json SuiteItemJson(const archive::SuiteItem& item, const archive::SuiteOutcome& outcome,
                   const Json& verdict, const Json& bench) {
  return ItemJson(item, outcome, VerdictIn(verdict), BenchFrom(bench));
}

Result<Json> SuiteDocument(const archive::SuiteStore& store) {
  TRY_ASSIGN(const archive::SuiteInfo info, store.Info());
  TRY_ASSIGN(const Json config, ParseJson(info.config, "the run's configuration"));
  TRY_ASSIGN(const Json listing, ParseJson(info.listing, "the run's listing"));
  TRY_ASSIGN(const std::vector<archive::SuiteItem> items, store.Items());
  Gathered all;
  for (const archive::SuiteItem& item : items) TRY(Gather(store, item, all));
  const Json& ceilings = all.ceilings.empty() ? MemberAt(listing, "ceilings") : all.ceilings;
  Json document{{"schema", kSuiteSchema},
                {"cupel", info.cupel_version},
                {"status", Name(info.status)},
                {"engine", TextAt(config, "engine")},
                {"device", Joined(all.devices)},
                {"torch", Joined(all.torches)},
                {"seed", std::to_string(info.seed)},
                {"asked", Asked(config)},
                {"ceilings", ceilings},
                {"items", std::move(all.items)},
                {"without_kernel", ListAt(listing, "without_kernel")},
                {"notes", ListAt(listing, "notes")}};
  TRY_ASSIGN(const Suite suite, ReadSuite(document, "the store of the run"));
  document["scores"] = ToJson(Score(suite));
  Json commits = Json::array();
  for (const std::string& commit : all.commits) commits.push_back(commit);
  document["timing"] = {{"created_ms", info.created_ms},
                        {"updated_ms", info.updated_ms},
                        {"commits", std::move(commits)}};
  return document;
}

}  // namespace cupel::report
