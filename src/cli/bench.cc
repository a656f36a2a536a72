// `cupel bench`.
// SPDX-License-Identifier: Apache-2.0
#include "app/measure/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/bench_text.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "records/json.h"

namespace cupel::cli {
namespace {

/// The exit status of the worst kernel.
int StatusOf(const records::Bench& report) {
  int status = 0;
  for (const records::BenchedKernel& kernel : report.kernels) {
    status = std::max(status, judge::ExitStatus(kernel.verdict.decision));
  }
  for (const records::SettingTimes& setting : report.settings) {
    for (const records::Timing& timing : setting.timings) {
      if (timing.is_baseline || !timing.refused) continue;
      const auto decision =
          timing.failed() ? records::Decision::kRejected : records::Decision::kUnsupported;
      status = std::max(status, judge::ExitStatus(decision));
    }
  }
  return status;
}

}  // namespace

Result<int> Run(const BenchCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const records::Bench report, app::Bench(command, view));
  view.End();
  BenchTextOptions text;
  text.colour = ::isatty(STDOUT_FILENO) != 0;
  fmt::print("{}", BenchText(report, text));
  TRY(WriteJson(command.show.json, records::ToJson(report)));
  return StatusOf(report);
}

}  // namespace cupel::cli
