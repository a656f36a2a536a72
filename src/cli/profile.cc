// `cupel profile`: shows what one call spends its time on, from the emulator's counts or a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "app/candidate.h"
#include "app/session.h"
#include "build/build.h"
#include "cli/commands.h"
#include "cli/gpu_profile.h"
#include "cli/gpu_profile_text.h"
#include "cli/json_file.h"
#include "cli/profile_call.h"
#include "cli/profile_text.h"
#include "cli/progress.h"
#include "judge/counters_json.h"
#include "judge/verdict_text.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

constexpr size_t kMostLines = 64;

Json RemarksJson(const std::vector<Remark>& remarks) {
  Json list = Json::array();
  for (const Remark& remark : remarks) {
    list.push_back({{"code", remark.code},
                    {"file", remark.file},
                    {"line", remark.line},
                    {"message", remark.message},
                    {"weight", remark.weight}});
  }
  return list;
}

Json SettingJson(const judge::SettingReport& setting) {
  Json launches = Json::array();
  for (const engine::LaunchCounters& launch : setting.counters.launches) {
    Json json = judge::CountersJson(launch, kMostLines);
    json["bottleneck"] = launch.bounds.empty() ? "" : launch.bounds[0].first;
    json["where"] = RemarksJson(judge::FindBottleneckLines(launch));
    json["wastes"] = RemarksJson(judge::Wastes(launch, 32));
    launches.push_back(std::move(json));
  }
  return {{"id", setting.id},
          {"description", setting.description},
          {"status", setting.status},
          {"estimated_us", setting.counters.estimated_us},
          {"launches", launches}};
}

Json ProfileJson(const judge::Verdict& verdict) {
  Json settings = Json::array();
  for (const judge::SettingReport& setting : verdict.settings) {
    settings.push_back(SettingJson(setting));
  }
  return {{"schema", "cupel.profile/1"}, {"kernel", verdict.kernel_path},
          {"task", verdict.task},        {"direction", verdict.direction},
          {"device", verdict.device},    {"verdict", judge::Name(verdict.decision)},
          {"settings", settings}};
}

SourceText SourceOf(const assay::Candidate& candidate) {
  const auto* image = std::get_if<build::Image>(&candidate.built);
  return image == nullptr ? SourceText() : cli::SourceOf(*image);
}

void Print(const judge::Verdict& verdict, const device::Description& device,
           const SourceText& source) {
  for (const judge::SettingReport& setting : verdict.settings) {
    if (setting.counters.launches.empty()) {
      fmt::print("{}: no kernel was launched\n", setting.id);
      continue;
    }
    fmt::print("{} at {} ({}) on {}: {:.4g} us per call, an estimate from counted work\n\n",
               report::Printable(verdict.task), setting.id, report::Printable(setting.description),
               device.full_name, setting.counters.estimated_us);
    fmt::print("{}", ProfileText(setting.counters, device, source));
  }
}

/// Copies of the task, each with one of the requested settings. Every setting has its own plan.
std::vector<task::Task> OneByOne(const task::Task& task, const app::Target& target) {
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

SettingProfile Format(judge::Verdict verdict, GpuProfile profile, const device::Description& device,
                      const SourceText& source) {
  judge::SettingReport& setting = verdict.settings.front();
  SettingProfile formatted;
  formatted.page = GpuProfileText(fmt::format("{} at {} on {} ({})", verdict.task, setting.id,
                                              device.full_name, setting.description),
                                  profile, source);
  setting.counters = std::move(profile.emulated);
  formatted.json = ProfileJson(verdict);
  formatted.json["settings"][0]["gpu"] = ToJson(profile);
  return formatted;
}

Result<int> RunOnGpu(const ProfileCommand& command, const task::Task& task, int ordinal) {
  const std::vector<task::Task> tasks = OneByOne(task, command.target);
  if (tasks.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("task {} has no settings of the requested kind", task.name),
                "choose another --settings value");
  }
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(auto session, app::Session::Create(command.common, command.compile, view));
  view.Show(assay::Progress{"building", 0, 0});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(command.kernel, task, DirectionOf(command.target), command.common,
                            command.compile, view));
  const SourceText source = SourceOf(candidate);
  Json json;
  for (const task::Task& one : tasks) {
    assay::Question question = QuestionOf(one, command.target, command.common);
    question.trials = 1;
    TRY_ASSIGN(assay::Judged judged, session->assay().Judge(candidate, question));
    const judge::SettingReport* first =
        judged.verdict.settings.empty() ? nullptr : &judged.verdict.settings.front();
    if (first != nullptr && first->status == "no_reference" && tasks.size() > 1) {
      view.End();
      fmt::print("{} is skipped because the task's own reference fails there: {}\n", first->id,
                 report::Printable(first->note));
      continue;
    }
    if (judged.verdict.decision != judge::Decision::kAccepted || !judged.plan) {
      view.End();
      fmt::print("the kernel is not correct, so it is not profiled:\n{}",
                 judge::VerdictText(judged.verdict, {}));
      return judge::ExitStatus(judged.verdict.decision);
    }
    const auto& image = std::get<build::Image>(candidate.built);
    view.Show(assay::Progress{"profiling " + first->id, 0, 0});
    TRY_ASSIGN(GpuProfile profile, ProfileCall(*session,
                                               {one, question.direction, question.seed, image,
                                                *judged.plan, judged.planned_setting},
                                               ordinal, command.keep));
    view.End();
    SettingProfile formatted =
        Format(std::move(judged.verdict), std::move(profile), session->engine().Device(), source);
    fmt::print("{}{}", json.empty() ? "" : "\n", formatted.page);
    if (json.empty()) {
      json = std::move(formatted.json);
    } else {
      json["settings"].push_back(std::move(formatted.json["settings"][0]));
    }
    TRY(WriteJson(command.show.json, json));
  }
  if (json.empty())
    return Fail(ErrorCode::kEnvironment, "the task's own reference fails at every setting");
  return 0;
}

}  // namespace

Result<int> Run(const ProfileCommand& command) {
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  TRY_ASSIGN(const std::optional<int> gpu, GpuOf(command.common));
  if (gpu) return RunOnGpu(command, task, *gpu);
  if (!command.keep.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--keep works only for profiles on a GPU",
                "add --device gpu");
  }
  TRY_ASSIGN(const device::Description device, device::Find(command.common.model));
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(auto session, app::Session::Create(command.common, command.compile, view));
  view.Show(assay::Progress{"building", 0, 0});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(command.kernel, task, DirectionOf(command.target), command.common,
                            command.compile, view));
  assay::Question question = QuestionOf(task, command.target, command.common);
  question.trials = 1;
  TRY_ASSIGN(const assay::Judged judged, session->assay().Judge(candidate, question));
  view.End();

  bool counted = false;
  for (const judge::SettingReport& setting : judged.verdict.settings) {
    counted = counted || !setting.counters.launches.empty();
  }
  if (counted) Print(judged.verdict, device, SourceOf(candidate));
  TRY(WriteJson(command.show.json,
                counted ? ProfileJson(judged.verdict) : judge::ToJson(judged.verdict)));
  if (judged.verdict.decision == judge::Decision::kAccepted) return 0;
  if (counted) fmt::print("\nthe kernel is not correct, so do not rely on these estimates:\n");
  fmt::print("{}", judge::VerdictText(judged.verdict, {}));
  return judge::ExitStatus(judged.verdict.decision);
}

}  // namespace cupel::cli
