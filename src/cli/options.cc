// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/version.h"
#include "cli/option_groups.h"

namespace cupel::cli {

std::variant<Command, int> ParseCommandLine(int argc, char** argv) {
  CLI::App app{
      "cupel takes a PyTorch operation and returns a CUDA kernel that is proved right and measured "
      "fast, and judges anyone's CUDA kernels."};
  app.set_version_flag("--version", std::string("cupel ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 accepted or done, 1 rejected, 2 wrong usage or a broken environment,\n"
      "3 unsupported (something cupel does not know: never silently passed), 130 interrupted.");

  Offers offers;
  AddJudgingCommands(app, offers);
  AddSearchCommands(app, offers);
  AddPyTorchCommands(app, offers);
  AddTaskCommands(app, offers);
  AddReportCommands(app, offers);
  AddWorkerCommand(app, offers);
  AddReviewCommands(app, offers);
  AddMcpCommand(app, offers);
  AddSuiteCommands(app, offers);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error, std::cout, std::cerr);
    return status == 0 ? 0 : 2;
  }
  for (const Offered& offered : offers) {
    if (!*offered.app) continue;
    auto taken = offered.take();
    if (auto* command = std::get_if<Command>(&taken)) return std::move(*command);
    std::cerr << std::get<std::string>(taken) << '\n';
    return 2;
  }
  return 2;  // not reached: a command is required
}

}  // namespace cupel::cli
