// `cupel profile`.
// SPDX-License-Identifier: Apache-2.0
#include "app/profile/profile.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <variant>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/profile_text.h"
#include "cli/progress.h"
#include "judge/verdict_text.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

void Print(const records::Verdict& verdict, const device::Description& device,
           const SourceText& source) {
  for (const records::SettingReport& setting : verdict.settings) {
    if (setting.counters.launches.empty()) {
      fmt::print("{}: no kernel was launched\n", setting.id);
      continue;
    }
    fmt::print("{} at {} ({}) on {}: {:.4g} us per call, an estimate from counted work\n\n",
               Printable(verdict.task), setting.id, Printable(setting.description),
               device.full_name, setting.counters.estimated_us);
    fmt::print("{}", ProfileText(setting.counters, device, source));
  }
}

int PrintGpu(const app::GpuProfileReport& report) {
  if (!report.not_correct) return 0;
  fmt::print("the kernel is not correct, so it is not profiled:\n{}",
             judge::VerdictText(*report.not_correct, {}));
  return judge::ExitStatus(report.not_correct->decision);
}

Result<int> PrintEmulator(const app::EmulatorProfile& report, const std::string& json) {
  const records::Verdict& verdict = report.verdict;
  if (report.counted) Print(verdict, report.device, report.source);
  TRY(WriteJson(json, app::ToJson(report)));
  if (verdict.decision == records::Decision::kAccepted) return 0;
  if (report.counted) {
    fmt::print("\nthe kernel is not correct, so do not rely on these estimates:\n");
  }
  fmt::print("{}", judge::VerdictText(verdict, {}));
  return judge::ExitStatus(verdict.decision);
}

}  // namespace

Result<int> Run(const ProfileCommand& command) {
  ProgressView view(command.show.quiet);
  bool first = true;
  const auto print = [&](const app::ProfiledSetting& setting) -> Status {
    view.End();
    if (!setting.skipped.empty()) {
      fmt::print("{} is skipped because the task's own reference fails there: {}\n", setting.id,
                 Printable(setting.skipped));
      return {};
    }
    fmt::print("{}{}", first ? "" : "\n", setting.page);
    first = false;
    return WriteJson(command.show.json, setting.document);
  };
  TRY_ASSIGN(const app::AnyProfile report, app::Profile(command, view, print));
  view.End();
  const auto* gpu = std::get_if<app::GpuProfileReport>(&report);
  if (gpu != nullptr) return PrintGpu(*gpu);
  return PrintEmulator(std::get<app::EmulatorProfile>(report), command.show.json);
}

}  // namespace cupel::cli
