// The options of `cupel mcp`, the server for coding agents.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {

void AddMcpCommand(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "mcp",
      "Serve tools to coding agents (Model Context Protocol) over standard input and output");
  auto& command = AddCommand<McpCommand>(subcommands, sub);
  AddMachine(sub, command.common, true);
  AddCompile(sub, command.compile);
  AddModels(sub, command.models);
  sub->add_option("--calibration", command.calibration,
                  "Calibration of the models, from cupel review calibrate")
      ->type_name("FILE");
  sub->add_option("--jobs", command.jobs, "Judging calls at a time (default: one for each core)")
      ->check(CLI::Range(1, 256));
  sub->add_option("--timeout", command.seconds, "Time limit of a call, in seconds")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
}

}  // namespace cupel::cli
