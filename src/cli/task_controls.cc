// `cupel task controls`.
// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_controls.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

std::string DistanceText(const records::Control& control) {
  if (!control.skipped.empty()) return "-";
  if (!std::isfinite(control.distance)) return "not finite or not exact";
  return fmt::format("{:.3g} x", control.distance);
}

std::string TextOf(const app::SettingControls& result) {
  const task::Setting& setting = *result.setting;
  std::string text =
      fmt::format("{} ({}){}\n", setting.id, Printable(setting.Describe()),
                  setting.derived.empty() ? "" : " derived: " + Printable(setting.derived));
  if (!result.no_reference.empty()) {
    return text + fmt::format("  no reference: {}\n", Printable(result.no_reference));
  }
  term::Table table({{"control", term::Align::kLeft},
                     {"output", term::Align::kRight},
                     {"error / allowed", term::Align::kRight},
                     {"", term::Align::kLeft}});
  for (const records::Control& control : result.controls) {
    table.Add({control.name, std::to_string(control.output), DistanceText(control),
               control.Passes()          ? "PASSES: this setting cannot detect wrong answers"
               : control.skipped.empty() ? "rejected"
                                         : "skipped: " + control.skipped});
  }
  return text + table.Render(0, "  ");
}

}  // namespace

/// Returns 0 if every setting whose reference runs can detect wrong answers, otherwise 1.
Result<int> RunTaskControls(const TaskCommand& command) {
  ProgressView view(command.show.quiet);
  const auto print = [&view](const app::SettingControls& result) {
    view.End();
    fmt::print("{}", TextOf(result));
  };
  TRY_ASSIGN(const app::ControlsReport report, app::TryControls(command, view, print));
  TRY(WriteJson(command.show.json, report.document));
  return report.can_judge ? 0 : 1;
}

}  // namespace cupel::cli
