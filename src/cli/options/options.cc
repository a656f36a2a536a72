// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/printable.h"
#include "base/spelling.h"
#include "base/version.h"
#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

/// The message for a missing or unknown command; empty if the words name a command or ask for help.
/// CLI11's own message would only say that a subcommand is required.
std::string WrongCommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  int i = 1;
  for (; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    // The word may also be an argument: `cupel review KERNEL` has no further subcommand.
    if (commands.empty() || at->get_require_subcommand_min() == 0) return {};
    const auto named = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* one) {
      return one->get_name() == argv[i];
    });
    if (named != commands.end()) {
      at = *named;
      continue;
    }
    std::vector<std::string> known;
    known.reserve(commands.size());
    for (const CLI::App* one : commands) known.push_back(one->get_name());
    const std::string group = at == &app ? "" : at->get_name() + " ";
    return fmt::format(
        "cupel: there is no command \"{}{}\"\n       {}`cupel {}--help` lists the commands\n",
        group, Printable(argv[i]), DidYouMean(argv[i], known), group);
  }
  if (i < argc || at->get_require_subcommand_min() == 0) return {};
  return at->help(at == &app ? "" : app.get_name());
}

}  // namespace

std::variant<Command, int> ParseCommandLine(int argc, char** argv) {
  CLI::App app{
      "cupel turns a PyTorch operation into a CUDA kernel that is checked for correctness and "
      "measured for speed. It also judges other CUDA kernels.",
      "cupel"};
  app.set_version_flag("--version", std::string("cupel ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 accepted or done, 1 rejected, 2 wrong usage or a broken environment,\n"
      "3 unsupported (cupel does not support something that is needed), 130 interrupted.");

  Subcommands subcommands;
  AddJudgingCommands(app, subcommands);
  AddSearchCommands(app, subcommands);
  AddPyTorchCommands(app, subcommands);
  AddTaskCommands(app, subcommands);
  AddReportCommands(app, subcommands);
  AddWorkerCommand(app, subcommands);
  AddReviewCommands(app, subcommands);
  AddMcpCommand(app, subcommands);
  AddSuiteCommands(app, subcommands);

  if (const std::string wrong = WrongCommand(app, argc, argv); !wrong.empty()) {
    std::cerr << wrong;
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error, std::cout, std::cerr);
    return status == 0 ? 0 : 2;
  }
  for (const Subcommand& subcommand : subcommands) {
    if (!*subcommand.app) continue;
    auto taken = subcommand.take();
    if (auto* command = std::get_if<Command>(&taken)) return std::move(*command);
    std::cerr << std::get<std::string>(taken) << '\n';
    return 2;
  }
  return 2;  // not reached: a command is required
}

}  // namespace cupel::cli
