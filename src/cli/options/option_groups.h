// Groups of options that several commands share, and the registration of subcommands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/options/options.h"

namespace CLI {
class App;
}

namespace cupel::cli {

void AddGpuModel(CLI::App* app, app::Common& common, bool asks_models = false);
void AddPython(CLI::App* app, app::Common& common);
/// Adds --device, --gpu-model and --python. `asks_models`: the command's --model names a language
/// model, not the GPU.
void AddMachine(CLI::App* app, app::Common& common, bool asks_models = false);
void AddShow(CLI::App* app, Show& show);
/// Adds the options of AddMachine, --seed, and the options of AddShow.
void AddCommon(CLI::App* app, app::Common& common, Show& show, bool asks_models = false);
void AddModels(CLI::App* app, app::ModelOptions& models, bool keeps_transcript = true);
void AddWeakSandbox(CLI::App* app, app::Compile& compile);
void AddCompile(CLI::App* app, app::Compile& compile);
void AddEntry(CLI::App* app, app::Compile& compile);
void AddSources(CLI::App* app, app::Compile& compile);
void AddFullSize(CLI::App* app, bool& full_size);
void AddRounds(CLI::App* app, int& rounds);
void AddTask(CLI::App* app, app::Target& target, bool positional);
/// Adds the options of AddTask, and --trials.
void AddTarget(CLI::App* app, app::Target& target, bool positional);

/// A subcommand. `take` returns the command that its options make, or a message about a wrong
/// combination of options.
struct Subcommand {
  CLI::App* app;
  std::function<std::variant<Command, std::string>()> take;
};
/// Nested subcommands come before the subcommand that contains them.
using Subcommands = std::vector<Subcommand>;

/// Registers the subcommand `app`, and returns the command that its options fill in. `usage_error`
/// returns a message about a wrong combination of options, or an empty string.
template <typename C>
C& AddCommand(
    Subcommands& subcommands, CLI::App* app,
    std::string (*usage_error)(const C&) = [](const C&) { return std::string(); }) {
  auto command = std::make_shared<C>();
  subcommands.push_back({app, [command, usage_error]() -> std::variant<Command, std::string> {
                           if (std::string message = usage_error(*command); !message.empty())
                             return message;
                           return Command(std::move(*command));
                         }});
  return *command;
}

// The families of commands. Each is in a file options_*.cc.
void AddJudgingCommands(CLI::App& app, Subcommands& subcommands);
void AddSearchCommands(CLI::App& app, Subcommands& subcommands);
void AddPyTorchCommands(CLI::App& app, Subcommands& subcommands);
void AddTaskCommands(CLI::App& app, Subcommands& subcommands);
void AddReportCommands(CLI::App& app, Subcommands& subcommands);
void AddWorkerCommand(CLI::App& app, Subcommands& subcommands);
void AddReviewCommands(CLI::App& app, Subcommands& subcommands);
void AddMcpCommand(CLI::App& app, Subcommands& subcommands);
void AddSuiteCommands(CLI::App& app, Subcommands& subcommands);

}  // namespace cupel::cli
