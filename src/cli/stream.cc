// `cupel stream`.
// SPDX-License-Identifier: Apache-2.0
#include "app/measure/stream.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/progress.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

std::string TextOf(const app::StreamReport& report) {
  std::string counts;
  for (const auto& [verdict, count] : report.counts) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, verdict);
  }
  return fmt::format("{} candidates in {:.1f} s on {} {}, {:.0f} per hour: {}\n", report.candidates,
                     report.seconds, report.lanes, report.lanes == 1 ? "lane" : "lanes",
                     3600 * static_cast<double>(report.candidates) / report.seconds, counts);
}

}  // namespace

Result<int> Run(const StreamCommand& command) {
  ProgressView view(command.show.quiet);
  const auto print = [&](const app::Streamed& result) {
    if (command.show.quiet) return;
    view.End();
    fmt::print("{:11} {} {}: {}\n", result.verdict, Printable(result.kernel.string()),
               Printable(result.task), Printable(result.detail));
    std::fflush(stdout);
  };
  TRY_ASSIGN(const app::StreamReport report, app::Stream(command, view, print));
  view.End();
  fmt::print("{}", TextOf(report));
  return report.counts.size() == 1 && report.counts.contains("accepted") ? 0 : 1;
}

}  // namespace cupel::cli
