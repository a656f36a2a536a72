// `cupel optimize`.
// SPDX-License-Identifier: Apache-2.0
#include "app/search/optimize.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "report/run/text.h"

namespace cupel::cli {

Result<int> Run(const OptimizeCommand& command) {
  ProgressView view(command.show.quiet);
  const auto announce = [&command](const app::StartedRun& run) {
    if (command.show.quiet) return;
    fmt::print(
        "run {}   ({}; {})\n", run.folder.string(), run.task,
        run.gpu.empty()
            ? fmt::format("all times are emulator estimates for {}, not measurements", run.model)
            : fmt::format("{} measured on {}", run.objective, run.gpu));
    std::fflush(stdout);
  };
  TRY_ASSIGN(const app::OptimizeReport report, app::Optimize(command, view, announce));
  view.End();
  TRY(WriteJson(command.show.json, report.summary.json));
  fmt::print("{}Report: {}\n",
             report::RunText(report.summary.run, report.folder.string(), report.summary.best_file),
             (report.folder / app::kReportFile).string());
  TRY(report.status);
  if (!report.end.empty() && !command.show.quiet) fmt::print("The run ended: {}.\n", report.end);
  return report.start_accepted ? 0 : 1;
}

}  // namespace cupel::cli
