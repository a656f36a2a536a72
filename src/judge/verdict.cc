// SPDX-License-Identifier: Apache-2.0
#include "judge/verdict.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "judge/counters_json.h"
#include "judge/record.h"

namespace cupel::judge {
namespace {

/// JSON has no infinities: they become text, because null would hide them.
Json NumberOrName(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// As text, because many JSON readers keep only 53 bits.
std::string SeedText(uint64_t seed) { return std::to_string(seed); }

Json ToJson(const Reason& reason) {
  Json json = {{"code", reason.code}, {"message", reason.Text()}, {"where", reason.where}};
  if (!reason.at.setting.empty()) json["setting"] = reason.at.setting;
  if (reason.at.trial) json["trial"] = *reason.at.trial;
  if (reason.at.output) json["output"] = *reason.at.output;
  if (reason.at.line > 0) json["line"] = reason.at.line;
  return json;
}

Json ToJson(plan::Dim3 dim) { return Json::array({dim.x, dim.y, dim.z}); }

Json ToJson(const Comparison& c) {
  Json json = {{"ok", c.ok},
               {"elements", c.count},
               {"wrong", c.wrong_count},
               {"rms_error", NumberOrName(c.rms_error)},
               {"rms_limit", NumberOrName(c.rms_limit)},
               {"max_error", NumberOrName(c.max_error)},
               {"max_limit", NumberOrName(c.max_limit)}};
  if (c.ok) return json;
  json["code"] = c.code;
  json["message"] = c.message;
  json["pattern"] = c.pattern;
  Json& first = json["first_wrong"] = Json::array();
  for (const WrongElement& wrong : c.first_wrong) {
    first.push_back({{"index", wrong.index},
                     {"got", NumberOrName(wrong.got)},
                     {"wanted", NumberOrName(wrong.wanted)}});
  }
  return json;
}

Json ToJson(const engine::Finding& finding) {
  return {{"code", finding.code},
          {"severity", finding.severity == engine::Severity::kError ? "error" : "warning"},
          {"message", finding.message},
          {"kernel", finding.kernel},
          {"file", finding.file},
          {"line", finding.line},
          {"block", ToJson(finding.block)},
          {"thread", ToJson(finding.thread)},
          {"where", finding.where},
          {"count", finding.count}};
}

Json ToJson(const engine::LaunchCounters& launch) { return CountersJson(launch); }

Json ToJson(const build::KernelResources& resources) {
  return {{"kernel", resources.kernel},
          {"registers", resources.registers},
          {"static_shared_bytes", resources.static_shared},
          {"local_bytes", resources.local_bytes},
          {"spill_store_bytes", resources.spill_stores},
          {"spill_load_bytes", resources.spill_loads},
          {"constant_bytes", resources.constant_bytes}};
}

Json ToJson(const SettingReport& setting);

template <typename T>
Json List(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

/// The largest error over the trials, as a share of the limit: the first thing that readers look
/// for.
Json Largest(const SettingReport& setting) {
  double rms = 0, rms_share = 0, max = 0, max_share = 0;
  const auto raise = [](double& to, double value) {
    if (!(value <= to)) to = value;
  };
  for (const TrialReport& trial : setting.trials) {
    for (const Comparison& c : trial.outputs) {
      raise(rms, c.rms_error);
      raise(max, c.max_error);
      if (c.rms_limit > 0) raise(rms_share, c.rms_error / c.rms_limit);
      if (c.max_limit > 0) raise(max_share, c.max_error / c.max_limit);
    }
  }
  return {{"rms", NumberOrName(rms)},
          {"rms_over_limit", NumberOrName(rms_share)},
          {"max", NumberOrName(max)},
          {"max_over_limit", NumberOrName(max_share)}};
}

Json ToJson(const SettingReport& setting) {
  Json json = {{"id", setting.id},
               {"kind", setting.kind},
               {"description", setting.description},
               {"status", setting.status},
               {"note", setting.note},
               {"problems", List(setting.problems)},
               {"largest_error", Largest(setting)},
               {"derived", setting.derived},
               {"reduced", setting.reduced},
               {"controls", List(setting.controls)}};
  Json& trials = json["trials"] = Json::array();
  for (const TrialReport& trial : setting.trials) {
    Json entry = {{"seed", SeedText(trial.seed)},
                  {"kind", trial.kind.empty() ? "usual" : trial.kind},
                  {"ok", trial.ok},
                  {"outputs", List(trial.outputs)}};
    if (trial.emulated_blocks < trial.all_blocks) {
      entry["emulated_blocks"] = trial.emulated_blocks;
      entry["all_blocks"] = trial.all_blocks;
    }
    trials.push_back(std::move(entry));
  }
  json["distributions"] = ToJson(setting.other_inputs);
  json["cases"] = List(setting.cases);
  json["findings"] = List(setting.findings);
  json["established"] = ToJson(setting.established);
  json["counters"] = {{"estimated_us", NumberOrName(setting.counters.estimated_us)},
                      {"launches", List(setting.counters.launches)}};
  return json;
}

/// What the kernel cannot do and need not do: each limit once, with its settings.
Json Limits(const Verdict& verdict) {
  Json limits = Json::array();
  for (const SettingReport& setting : verdict.settings) {
    for (const Limit& limit : setting.other_inputs.limits) {
      auto known = std::find_if(limits.begin(), limits.end(),
                                [&](const Json& old) { return old["message"] == limit.message; });
      if (known == limits.end()) {
        limits.push_back({{"kind", limit.kind},
                          {"message", limit.message},
                          {"detail", limit.detail},
                          {"settings", Json::array()}});
        known = std::prev(limits.end());
      }
      (*known)["settings"].push_back(setting.id);
    }
  }
  return limits;
}

Json Timing(const Verdict& verdict) {
  Json settings = Json::object();
  for (const SettingReport& setting : verdict.settings) {
    settings[setting.id] = {{"host_us", NumberOrName(setting.host_us)},
                            {"oracle_seconds", NumberOrName(setting.oracle_seconds)},
                            {"record_seconds", NumberOrName(setting.record_seconds)},
                            {"engine_seconds", NumberOrName(setting.engine_seconds)},
                            {"judge_seconds", NumberOrName(setting.judge_seconds)}};
  }
  Json timing{{"build_seconds", NumberOrName(verdict.build_seconds)},
              {"total_seconds", NumberOrName(verdict.total_seconds)},
              {"settings", settings}};
  if (verdict.provenance.gpu) timing["gpu"] = ToJson(*verdict.provenance.gpu);
  return timing;
}

Json Content(const Verdict& verdict);

}  // namespace

const char* Name(Decision decision) {
  switch (decision) {
    case Decision::kAccepted:
      return "accepted";
    case Decision::kRejected:
      return "rejected";
    case Decision::kUnsupported:
      return "unsupported";
    case Decision::kError:
      return "error";
  }
  return "error";
}

int ExitStatus(Decision decision) {
  switch (decision) {
    case Decision::kAccepted:
      return 0;
    case Decision::kRejected:
      return 1;
    case Decision::kUnsupported:
      return 3;
    case Decision::kError:
      return 2;
  }
  return 2;
}

Json ToJson(const Verdict& verdict) {
  Json record = Content(verdict);
  AddProvenance(verdict.provenance, record);
  AddDigest(record);
  return record;
}

namespace {

Json Content(const Verdict& verdict) {
  return {{"schema", "cupel.verdict/1"},
          {"verdict", Name(verdict.decision)},
          {"reasons", List(verdict.reasons)},
          {"notes", verdict.notes},
          {"not_checked", verdict.not_checked},
          {"limits", Limits(verdict)},
          {"declared", verdict.declared},
          {"task", verdict.task},
          {"direction", verdict.direction},
          {"kernel", verdict.kernel_path},
          {"device", verdict.device},
          {"seed", SeedText(verdict.seed)},
          {"seed_origin", verdict.seed_origin},
          {"trials", verdict.trials},
          {"source_sha256", verdict.source_hash},
          {"image_key", verdict.image_key},
          {"task_sha256", verdict.task_hash},
          {"versions",
           {{"cupel", verdict.cupel_version},
            {"toolkit", verdict.toolkit},
            {"torch", verdict.torch_version}}},
          {"flags", verdict.flags},
          {"resources", List(verdict.resources)},
          {"settings", List(verdict.settings)},
          {"timing", Timing(verdict)}};
}

}  // namespace

}  // namespace cupel::judge
