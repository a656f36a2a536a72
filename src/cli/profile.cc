// `cupel profile`: what one call spends its time on, by the emulator's counts.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/profile_text.h"
#include "cli/progress.h"
#include "cli/remarks.h"
#include "cli/session.h"
#include "judge/counters_json.h"
#include "judge/verdict_text.h"
#include "os/fd.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

constexpr size_t kMaxSourceBytes = 8u << 20;
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
    json["where"] = RemarksJson(WhereTheBoundIs(launch));
    json["wastes"] = RemarksJson(Wastes(launch, 32));
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

void Print(const judge::Verdict& verdict, const device::Description& device,
           const SourceText& source) {
  for (const judge::SettingReport& setting : verdict.settings) {
    if (setting.counters.launches.empty()) {
      fmt::print("{}: no kernel was launched\n", setting.id);
      continue;
    }
    fmt::print("{} at {} ({}) on {}: {:.4g} us a call, an estimate from counted work\n\n",
               report::Printable(verdict.task), setting.id, report::Printable(setting.description),
               device.full_name, setting.counters.estimated_us);
    fmt::print("{}", ProfileText(setting.counters, device, source));
  }
}

}  // namespace

Result<int> Run(const ProfileCommand& command) {
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target));
  TRY_ASSIGN(const device::Description device, device::Find(command.common.model));
  ProgressView view(command.common.quiet);
  TRY(RequireEmulator(command.common, "a profile"));
  TRY_ASSIGN(auto session, Session::Create(command.common, command.compile,
                                           [&](const assay::Progress& p) { view.Show(p); }));
  view.Show(assay::Progress{"building", 0, 0});
  TRY_ASSIGN(const assay::Candidate candidate, session->assay().Build(command.kernel));
  assay::Question question = QuestionOf(task, command.target, command.common);
  question.trials = 1;
  TRY_ASSIGN(const assay::Judged judged, session->assay().Judge(candidate, question));
  view.End();

  bool counted = false;
  for (const judge::SettingReport& setting : judged.verdict.settings) {
    counted = counted || !setting.counters.launches.empty();
  }
  if (counted) {
    auto text = os::ReadFile(command.kernel, kMaxSourceBytes);
    const SourceText source =
        text ? SourceText(command.kernel.filename().string(), *text) : SourceText();
    Print(judged.verdict, device, source);
    TRY(WriteJson(command.common.json, ProfileJson(judged.verdict)));
  }
  if (judged.verdict.decision == judge::Decision::kAccepted) return 0;
  if (counted) fmt::print("\nthe kernel is not right, so what it takes says little:\n");
  fmt::print("{}", judge::VerdictText(judged.verdict, {}));
  return judge::ExitStatus(judged.verdict.decision);
}

}  // namespace cupel::cli
