// SPDX-License-Identifier: Apache-2.0
#include "report/suite/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "report/bench_parts.h"
#include "report/loose_json.h"
#include "report/suite/scores.h"

namespace cupel::report {
namespace {

/// Verdicts and measurements come from workers and may be malformed. Malformed members count as 0.
double NumberOrZero(const Json& object, const char* key) {
  return NumberAt(object, key).value_or(0);
}

const Json& Find(const Json& list, const char* key, const std::string& value) {
  static const Json null;
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Json& entry) { return TextAt(entry, key) == value; });
  return found == list.end() ? null : *found;
}

Json Reason(const Json& reason, const std::string& where) {
  return {
      {"code", TextAt(reason, "code")}, {"message", TextAt(reason, "message")}, {"where", where}};
}

/// The kernel's entry among the timings of a setting.
const Json& KernelTiming(const Json& setting) {
  static const Json null;
  const Json& timings = ListAt(setting, "timings");
  const auto found = std::find_if(timings.begin(), timings.end(), [](const Json& timing) {
    const Json& baseline = MemberAt(timing, "baseline");
    return baseline.is_boolean() && !baseline.get<bool>();
  });
  return found == timings.end() ? null : *found;
}

Json TimeJson(const Json& timing) {
  return {{"us", MemberAt(timing, "us")}, {"samples_us", ListAt(timing, "samples_us")}};
}

/// Time of the baseline over time of the kernel, from samples that were measured together.
Json Speedup(const Json& setting, const std::string& kernel, const std::string& baseline) {
  for (const Json& compared : ListAt(setting, "comparisons")) {
    const bool ours = TextAt(compared, "a") == kernel && TextAt(compared, "b") == baseline;
    const bool turned = TextAt(compared, "b") == kernel && TextAt(compared, "a") == baseline;
    const Json& ratio = MemberAt(compared, "ratio");
    const double estimate = NumberOrZero(ratio, "estimate"), low = NumberOrZero(ratio, "low"),
                 high = NumberOrZero(ratio, "high");
    if (!(ours || turned) || !(estimate > 0) || !(low > 0) || !(high > 0)) continue;
    const Json confidence = NumberOrZero(ratio, "confidence");
    if (turned) return ratio;
    return {{"estimate", 1 / estimate},
            {"low", 1 / high},
            {"high", 1 / low},
            {"confidence", confidence}};
  }
  return nullptr;
}

void AddTimes(const Json& timed, Json& setting) {
  const Json& timing = KernelTiming(timed);
  if (!timing.is_object()) {
    if (const std::string note = TextAt(timed, "note"); !note.empty()) setting["not_timed"] = note;
    return;
  }
  if (const Json& refused = MemberAt(timing, "refused"); refused.is_object()) {
    setting["not_timed"] = TextAt(refused, "message");
    return;
  }
  setting.update(TimeJson(timing));
  setting["roofline"] = NumberOrZero(timing, "roofline");
  setting["bytes_per_second"] = NumberOrZero(timing, "bytes_per_second");
  const double bytes = NumberOrZero(timed, "read_bytes") + NumberOrZero(timed, "written_bytes");
  const double flops = NumberOrZero(timed, "floating_point_operations");
  setting["work"] = {{"bytes", bytes}, {"floating_point_operations", flops}};
  setting["baselines"] = Json::object();
  setting["speedup"] = Json::object();
  Json oddities = ListAt(timing, "oddities");
  for (const char* name : kBaselines) {
    const Json& baseline = Find(ListAt(timed, "timings"), "name", name);
    if (baseline.is_object() && MemberAt(baseline, "us").is_object()) {
      setting["baselines"][name] = TimeJson(baseline);
    } else if (const Json& refused = MemberAt(baseline, "refused"); refused.is_object()) {
      oddities.push_back(fmt::format("{} was not timed: {}", name, TextAt(refused, "message")));
    }
    if (Json ratio = Speedup(timed, TextAt(timing, "name"), name); ratio.is_object()) {
      setting["speedup"][name] = std::move(ratio);
    }
  }
  if (!oddities.empty()) setting["oddities"] = std::move(oddities);
}

/// Adds the emulator's estimate and counters.
void AddEstimate(const Json& judged, Json& setting) {
  const Json& counters = MemberAt(judged, "counters");
  const double us = NumberOrZero(counters, "estimated_us");
  if (!(us > 0)) return;
  setting["estimate_us"] = us;
  double flops = 0, sectors = 0;
  for (const Json& launch : ListAt(counters, "launches")) {
    flops += NumberOrZero(launch, "floating_point_operations") +
             NumberOrZero(launch, "tensor_operations");
    sectors +=
        NumberOrZero(launch, "global_load_sectors") + NumberOrZero(launch, "global_store_sectors");
  }
  setting["work"] = {{"bytes", 32 * sectors}, {"floating_point_operations", flops}};
}

/// The larger of the two shares. "inf" and "nan", which are strings, count as larger than any
/// number.
Json OverLimit(const Json& error) {
  for (const char* key : {"rms_over_limit", "max_over_limit"}) {
    if (MemberAt(error, key).is_string()) return MemberAt(error, key);
  }
  return std::max(NumberOrZero(error, "rms_over_limit"), NumberOrZero(error, "max_over_limit"));
}

Json SettingJson(const Json& judged, const Json& bench, bool estimates) {
  Json setting{{"id", TextAt(judged, "id")},
               {"kind", TextAt(judged, "kind")},
               {"description", TextAt(judged, "description")},
               {"status", TextAt(judged, "status")}};
  for (const char* key : {"derived", "reduced", "note"}) {
    if (const std::string text = TextAt(judged, key); !text.empty()) setting[key] = text;
  }
  setting["over_limit"] = OverLimit(MemberAt(judged, "largest_error"));
  const Json& timed = Find(ListAt(bench, "settings"), "id", TextAt(judged, "id"));
  if (timed.is_object()) {
    AddTimes(timed, setting);
  } else if (estimates) {
    AddEstimate(judged, setting);
  }
  return setting;
}

/// The reasons for which the kernel failed while it was timed.
Json TimedReasons(const Json& bench) {
  Json reasons = Json::array();
  for (const Json& setting : ListAt(bench, "settings")) {
    const Json& refused = MemberAt(KernelTiming(setting), "refused");
    // If cupel cannot time the kernel, that is not the kernel's fault.
    if (!refused.is_object() || TextAt(refused, "code") == "unsupported") continue;
    reasons.push_back(Reason(refused, TextAt(setting, "id")));
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

  void AddOrigin(const Json& verdict) {
    const std::string device = TextAt(verdict, "device");
    if (!device.empty()) devices.insert(device);
    const std::string torch = TextAt(MemberAt(verdict, "versions"), "torch");
    if (!torch.empty()) torches.insert(torch);
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
  Json json = SuiteItemJson(item, outcome, verdict, nullptr);
  const size_t done = judged.timed.size(), of = SettingsToTime(verdict).size();
  json["unfinished"] = {{"timed", done}, {"of", of}};
  all.AddOrigin(verdict);
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
  all.items.push_back(SuiteItemJson(item, *outcome, verdict, bench));
  all.AddOrigin(verdict);
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
  const std::string decision = TextAt(verdict, "verdict");
  return decision == "accepted" && !TimedReasons(bench).empty() ? "rejected" : decision;
}

Json SuiteItemJson(const archive::SuiteItem& item, const archive::SuiteOutcome& outcome,
                   const Json& verdict, const Json& bench) {
  Json json = PendingJson(item);
  json["decision"] = outcome.decision;
  json["reasons"] = Json::array();
  if (!outcome.error.empty()) {
    json["reasons"].push_back(
        {{"code", "error"}, {"message", outcome.error}, {"where", ""}, {"remedy", outcome.remedy}});
  }
  for (const Json& reason : ListAt(verdict, "reasons")) {
    json["reasons"].push_back(Reason(reason, TextAt(reason, "where")));
  }
  for (const Json& reason : TimedReasons(bench)) json["reasons"].push_back(reason);
  if (const std::string declared = TextAt(verdict, "declared"); !declared.empty()) {
    json["declared"] = declared;
  }
  json["seed"] = TextAt(verdict, "seed");
  json["settings"] = Json::array();
  const bool estimates = TextAt(verdict, "device").starts_with("emu");
  for (const Json& setting : ListAt(verdict, "settings")) {
    json["settings"].push_back(SettingJson(setting, bench, estimates));
  }
  json["timing"] = {{"build_seconds", NumberOrZero(MemberAt(verdict, "timing"), "build_seconds")},
                    {"seconds", outcome.seconds},
                    {"worker", outcome.worker},
                    {"cases", outcome.cases}};
  return json;
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
