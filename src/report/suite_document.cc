// SPDX-License-Identifier: Apache-2.0
#include "report/suite_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "report/bench_parts.h"
#include "report/suite_scores.h"

namespace cupel::report {
namespace {

/// Verdicts and measurements come from workers: what is not as expected is left out.
const Json& Member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto member = object.find(key);
  return member == object.end() ? null : *member;
}

const Json& List(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const Json& member = Member(object, key);
  return member.is_array() ? member : empty;
}

double Number(const Json& object, const char* key) {
  const Json& member = Member(object, key);
  return member.is_number() ? member.get<double>() : 0;
}

std::string Text(const Json& object, const char* key) {
  const Json& member = Member(object, key);
  return member.is_string() ? member.get<std::string>() : "";
}

const Json& Find(const Json& list, const char* key, const std::string& value) {
  static const Json null;
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Json& entry) { return Text(entry, key) == value; });
  return found == list.end() ? null : *found;
}

Json Reason(const Json& reason, const std::string& where) {
  return {{"code", Text(reason, "code")}, {"message", Text(reason, "message")}, {"where", where}};
}

/// The kernel's own entry among the timings of a setting.
const Json& KernelTiming(const Json& setting) {
  static const Json null;
  const Json& timings = List(setting, "timings");
  const auto found = std::find_if(timings.begin(), timings.end(), [](const Json& timing) {
    const Json& baseline = Member(timing, "baseline");
    return baseline.is_boolean() && !baseline.get<bool>();
  });
  return found == timings.end() ? null : *found;
}

Json TimeJson(const Json& timing) {
  return {{"us", Member(timing, "us")}, {"samples_us", List(timing, "samples_us")}};
}

/// Time of the baseline over time of the kernel, from the comparison of samples taken side by side.
Json Speedup(const Json& setting, const std::string& kernel, const std::string& baseline) {
  for (const Json& compared : List(setting, "comparisons")) {
    const bool ours = Text(compared, "a") == kernel && Text(compared, "b") == baseline;
    const bool turned = Text(compared, "b") == kernel && Text(compared, "a") == baseline;
    const Json& ratio = Member(compared, "ratio");
    const double estimate = Number(ratio, "estimate"), low = Number(ratio, "low"),
                 high = Number(ratio, "high");
    if (!(ours || turned) || !(estimate > 0) || !(low > 0) || !(high > 0)) continue;
    const Json confidence = Number(ratio, "confidence");
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
    if (const std::string note = Text(timed, "note"); !note.empty()) setting["not_timed"] = note;
    return;
  }
  if (const Json& refused = Member(timing, "refused"); refused.is_object()) {
    setting["not_timed"] = Text(refused, "message");
    return;
  }
  setting.update(TimeJson(timing));
  setting["roofline"] = Number(timing, "roofline");
  setting["bytes_per_second"] = Number(timing, "bytes_per_second");
  const double bytes = Number(timed, "read_bytes") + Number(timed, "written_bytes");
  const double flops = Number(timed, "floating_point_operations");
  setting["work"] = {{"bytes", bytes}, {"floating_point_operations", flops}};
  setting["baselines"] = Json::object();
  setting["speedup"] = Json::object();
  Json oddities = List(timing, "oddities");
  for (const char* name : kBaselines) {
    const Json& baseline = Find(List(timed, "timings"), "name", name);
    if (baseline.is_object() && Member(baseline, "us").is_object()) {
      setting["baselines"][name] = TimeJson(baseline);
    } else if (const Json& refused = Member(baseline, "refused"); refused.is_object()) {
      oddities.push_back(fmt::format("{} was not timed: {}", name, Text(refused, "message")));
    }
    if (Json ratio = Speedup(timed, Text(timing, "name"), name); ratio.is_object()) {
      setting["speedup"][name] = std::move(ratio);
    }
  }
  if (!oddities.empty()) setting["oddities"] = std::move(oddities);
}

/// What the emulator counted, and what it makes of it.
void AddEstimate(const Json& judged, Json& setting) {
  const Json& counters = Member(judged, "counters");
  const double us = Number(counters, "estimated_us");
  if (!(us > 0)) return;
  setting["estimate_us"] = us;
  double flops = 0, sectors = 0;
  for (const Json& launch : List(counters, "launches")) {
    flops += Number(launch, "floating_point_operations") + Number(launch, "tensor_operations");
    sectors += Number(launch, "global_load_sectors") + Number(launch, "global_store_sectors");
  }
  setting["work"] = {{"bytes", 32 * sectors}, {"floating_point_operations", flops}};
}

/// The larger of both shares; "inf" and "nan", which are texts, are larger than any number.
Json OverLimit(const Json& error) {
  for (const char* key : {"rms_over_limit", "max_over_limit"}) {
    if (Member(error, key).is_string()) return Member(error, key);
  }
  return std::max(Number(error, "rms_over_limit"), Number(error, "max_over_limit"));
}

Json SettingJson(const Json& judged, const Json& bench, bool estimates) {
  Json setting{{"id", Text(judged, "id")},
               {"kind", Text(judged, "kind")},
               {"description", Text(judged, "description")},
               {"status", Text(judged, "status")}};
  for (const char* key : {"derived", "reduced", "note"}) {
    if (const std::string text = Text(judged, key); !text.empty()) setting[key] = text;
  }
  setting["over_limit"] = OverLimit(Member(judged, "largest_error"));
  const Json& timed = Find(List(bench, "settings"), "id", Text(judged, "id"));
  if (timed.is_object()) {
    AddTimes(timed, setting);
  } else if (estimates) {
    AddEstimate(judged, setting);
  }
  return setting;
}

/// What it fails of at the settings where it was timed; each reason once.
Json TimedReasons(const Json& bench) {
  Json reasons = Json::array();
  for (const Json& setting : List(bench, "settings")) {
    const Json& refused = Member(KernelTiming(setting), "refused");
    // What cupel cannot time is no fault of the kernel's.
    if (!refused.is_object() || Text(refused, "code") == "unsupported") continue;
    reasons.push_back(Reason(refused, Text(setting, "id")));
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

/// All different values of one member of the verdicts, as a text: "emu (h100)".
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
    const std::string device = Text(verdict, "device");
    if (!device.empty()) devices.insert(device);
    const std::string torch = Text(Member(verdict, "versions"), "torch");
    if (!torch.empty()) torches.insert(torch);
  }
};

/// An item that a run, stopped since or not, has judged and not timed everywhere. It gets no times
/// yet: means over some settings would tell something else.
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
  if (const Json& ceilings = Member(bench, "ceilings"); ceilings.is_object()) {
    all.ceilings = ceilings;
  }
  return {};
}

/// Results are published; where folders lie on one's machine is nobody's business.
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
  const std::string decision = Text(verdict, "verdict");
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
  for (const Json& reason : List(verdict, "reasons")) {
    json["reasons"].push_back(Reason(reason, Text(reason, "where")));
  }
  for (const Json& reason : TimedReasons(bench)) json["reasons"].push_back(reason);
  if (const std::string declared = Text(verdict, "declared"); !declared.empty()) {
    json["declared"] = declared;
  }
  json["seed"] = Text(verdict, "seed");
  json["settings"] = Json::array();
  const bool estimates = Text(verdict, "device").starts_with("emu");
  for (const Json& setting : List(verdict, "settings")) {
    json["settings"].push_back(SettingJson(setting, bench, estimates));
  }
  json["timing"] = {{"build_seconds", Number(Member(verdict, "timing"), "build_seconds")},
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
  const Json& ceilings = all.ceilings.empty() ? Member(listing, "ceilings") : all.ceilings;
  Json document{{"schema", kSuiteSchema},
                {"cupel", info.cupel_version},
                {"status", Name(info.status)},
                {"engine", Text(config, "engine")},
                {"device", Joined(all.devices)},
                {"torch", Joined(all.torches)},
                {"seed", std::to_string(info.seed)},
                {"asked", Asked(config)},
                {"ceilings", ceilings},
                {"items", std::move(all.items)},
                {"without_kernel", List(listing, "without_kernel")},
                {"notes", List(listing, "notes")}};
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
