// `cupel task filter`.
// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "cli/task_filter_text.h"

namespace cupel::cli {
namespace {

int StatusOf(const app::FilterReport& report) {
  const auto any = [&report](app::FilterVerdict verdict) {
    return std::any_of(
        report.tasks.begin(), report.tasks.end(),
        [verdict](const app::FilteredTask& task) { return task.verdict() == verdict; });
  };
  if (any(app::FilterVerdict::kFlagged)) return 1;
  return any(app::FilterVerdict::kNotExamined) ? 2 : 0;
}

}  // namespace

Result<int> Run(const FilterCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::FilterReport report, app::FilterTasks(command, view));
  view.End();
  if (command.all.empty()) {
    for (const app::FilteredTask& task : report.tasks) fmt::print("{}", FilterText(task));
  } else if (!report.tasks.empty()) {
    fmt::print("{}", FilterSummary(report));
  }
  TRY(WriteJson(command.show.json, app::ToJson(report)));
  TRY(report.status);
  return StatusOf(report);
}

}  // namespace cupel::cli
