// SPDX-License-Identifier: Apache-2.0
#include "app/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "app/candidate.h"
#include "app/profile/gpu_profile.h"
#include "app/profile/gpu_profile_text.h"
#include "app/profile/profile_call.h"
#include "app/session.h"
#include "build/build.h"
#include "records/json.h"

namespace cupel::app {
namespace {

constexpr size_t kMostLines = 64;

Json RemarksJson(const std::vector<judge::Remark>& remarks) {
  Json list = Json::array();
  for (const judge::Remark& remark : remarks) {
    list.push_back({{"code", remark.code},
                    {"file", remark.file},
                    {"line", remark.line},
                    {"message", remark.message},
                    {"weight", remark.weight}});
  }
  return list;
}

Json SettingJson(const records::SettingReport& setting) {
  Json launches = Json::array();
  for (const records::LaunchCounters& launch : setting.counters.launches) {
    Json json = records::ToJson(launch, kMostLines);
    json["bottleneck"] = launch.bounds.empty() ? "" : launch.bounds[0].first;
    json["where"] = RemarksJson(judge::FindBottleneckLines(launch));
    json["wastes"] = RemarksJson(judge::Wastes(launch, 32));
    launches.push_back(std::move(json));
  }
  return {{"id", setting.id},
          {"description", setting.description},
          {"status", records::Name(setting.status)},
          {"estimated_us", setting.counters.estimated_us},
          {"launches", launches}};
}

Json ProfileJson(const records::Verdict& verdict) {
  Json settings = Json::array();
  for (const records::SettingReport& setting : verdict.settings) {
    settings.push_back(SettingJson(setting));
  }
  return {{"schema", "cupel.profile/1"}, {"kernel", verdict.kernel_path},
          {"task", verdict.task},        {"direction", task::Name(verdict.direction)},
          {"device", verdict.device},    {"verdict", records::Name(verdict.decision)},
          {"settings", settings}};
}

/// Copies of the task, each with one of the requested settings. Every setting has its own plan.
std::vector<task::Task> OneByOne(const task::Task& task, const Target& target) {
  std::vector<task::Task> tasks;
  const std::vector<task::SettingKind> kinds = KindsOf(target);
  for (const task::Setting& setting : task.SettingsOf(DirectionOf(target))) {
    if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), setting.kind) == kinds.end()) {
      continue;
    }
    tasks.push_back(task);
    tasks.back().settings[static_cast<int>(DirectionOf(target))] = {setting};
  }
  return tasks;
}

/// A GPU profile of one setting: a page of text, and JSON of the form "cupel.profile/1".
struct SettingProfile {
  std::string page;
  Json json;
};

SettingProfile Format(records::Verdict verdict, GpuProfile profile,
                      const device::Description& device, const judge::SourceText& source) {
  records::SettingReport& setting = verdict.settings.front();
  SettingProfile formatted;
  formatted.page = GpuProfileText(fmt::format("{} at {} on {} ({})", verdict.task, setting.id,
                                              device.full_name, setting.description),
                                  profile, source);
  setting.counters = std::move(profile.emulated);
  formatted.json = ProfileJson(verdict);
  formatted.json["settings"][0]["gpu"] = ToJson(profile);
  return formatted;
}

/// Profiles one setting after the other.
Result<GpuProfileReport> ProfileSettings(const ProfileOptions& options, const task::Task& task,
                                         int ordinal, Events& events, const OnProfiled& profiled) {
  const std::vector<task::Task> tasks = OneByOne(task, options.target);
  if (tasks.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("task {} has no settings of the requested kind", task.name),
                "choose another --settings value");
  }
  Common common = options.common;
  common.engines = "gpu";  // the numbers are a GPU's
  TRY_ASSIGN(auto session, Session::Create(common, options.compile, events));
  events.Show(Progress{"building"});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(options.kernel, options.common, options.compile, events));
  ReportNotes(candidate, events);
  const judge::SourceText source = SourceOf(candidate);
  GpuProfileReport report;
  Json& json = report.document;
  for (const task::Task& one : tasks) {
    assay::Question question = QuestionOf(one, options.target, options.common);
    question.trials = 1;
    TRY_ASSIGN(assay::Judged judged, session->assay().Judge(candidate, question));
    const records::SettingReport* first =
        judged.verdict.settings.empty() ? nullptr : &judged.verdict.settings.front();
    if (first != nullptr && first->status == records::SettingStatus::kNoReference &&
        tasks.size() > 1) {
      TRY(profiled({first->id, first->note, "", json}));
      continue;
    }
    if (judged.verdict.decision != records::Decision::kAccepted || !judged.plan) {
      report.not_correct = std::move(judged.verdict);
      return report;
    }
    events.Show(Progress{"profiling " + first->id});
    TRY_ASSIGN(GpuProfile profile,
               ProfileCall(*session, {one, question.direction, question.seed, judged}, ordinal,
                           options.keep));
    const std::string id = first->id;
    SettingProfile formatted =
        Format(std::move(judged.verdict), std::move(profile), session->engine().Device(), source);
    if (json.empty()) {
      json = std::move(formatted.json);
    } else {
      json["settings"].push_back(std::move(formatted.json["settings"][0]));
    }
    TRY(profiled({id, "", formatted.page, json}));
  }
  if (json.empty())
    return Fail(ErrorCode::kEnvironment, "the task's own reference fails at every setting");
  return report;
}

Result<EmulatorProfile> ProfileOnEmulator(const ProfileOptions& options, const task::Task& task,
                                          Events& events) {
  if (!options.keep.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--keep works only for profiles on a GPU",
                "add --device gpu");
  }
  EmulatorProfile report;
  TRY_ASSIGN(report.device, device::Find(options.common.model));
  TRY_ASSIGN(auto session, Session::Create(options.common, options.compile, events));
  events.Show(Progress{"building"});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(options.kernel, options.common, options.compile, events));
  ReportNotes(candidate, events);
  assay::Question question = QuestionOf(task, options.target, options.common);
  question.trials = 1;
  TRY_ASSIGN(assay::Judged judged, session->assay().Judge(candidate, question));
  report.verdict = std::move(judged.verdict);
  report.source = SourceOf(candidate);
  for (const records::SettingReport& setting : report.verdict.settings) {
    report.counted = report.counted || !setting.counters.launches.empty();
  }
  return report;
}

}  // namespace

Result<AnyProfile> Profile(const ProfileOptions& options, Events& events,
                           const OnProfiled& profiled) {
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  TRY_ASSIGN(const std::optional<int> gpu, GpuOf(options.common));
  if (!gpu) return ProfileOnEmulator(options, task, events);
  return ProfileSettings(options, task, *gpu, events, profiled);
}

Json ToJson(const EmulatorProfile& report) {
  return report.counted ? ProfileJson(report.verdict) : records::ToJson(report.verdict);
}

}  // namespace cupel::app
