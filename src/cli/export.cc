// `cupel export`.
// SPDX-License-Identifier: Apache-2.0
#include "app/export/export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "judge/verdict_text.h"
#include "records/json.h"
#include "term/text.h"

namespace cupel::cli {

Result<int> Run(const ExportCommand& command) {
  ProgressView view(command.show.quiet);
  const auto print = [&view](const records::Verdict& verdict) {
    view.End();
    judge::TextOptions text;
    text.colour = ::isatty(STDOUT_FILENO) != 0;
    fmt::print("{}", judge::VerdictText(verdict, text));
  };
  TRY_ASSIGN(const app::ExportReport report, app::Export(command, view, print));
  view.End();
  if (report.package.empty()) {
    const records::Verdict& verdict = report.verdicts.back();
    fmt::print(
        "Not exported: the kernel is not accepted. --force exports it anyway; the package says "
        "so.\n");
    TRY(WriteJson(command.show.json, records::ToJson(verdict)));
    return judge::ExitStatus(verdict.decision);
  }
  const std::string folder = Printable(command.output.string());
  fmt::print(
      "Package {} written to {}. Install and test it on a machine with a GPU:\n"
      "  python -m pip install --no-build-isolation {}\n  python -m {}.test\n",
      report.package, folder, folder, report.package);
  TRY(WriteJson(command.show.json, app::ToJson(report, command.output)));
  return 0;
}

}  // namespace cupel::cli
