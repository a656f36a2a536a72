// The server for coding agents.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {

void AddMcpCommand(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand(
      "mcp", "Tools for coding agents (Model Context Protocol), over standard input and output");
  auto& command = Offer<McpCommand>(offers, sub);
  AddMachine(sub, command.common, true);
  AddCompile(sub, command.compile);
  AddModels(sub, command.models);
  sub->add_option("--calibration", command.calibration,
                  "Of the models: what cupel review calibrate found")
      ->type_name("FILE");
  sub->add_option("--jobs", command.jobs, "Calls that judge, at a time (default: one a core)")
      ->check(CLI::Range(1, 256));
  sub->add_option("--timeout", command.seconds, "Seconds that a call may take")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
}

}  // namespace cupel::cli
