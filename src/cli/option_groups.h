// Options that several commands share, each group added in one place; and how a command is offered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace cupel::cli {

/// `asks_models`: --model names a language model there, not the GPU.
void AddMachine(CLI::App* app, Common& common, bool asks_models = false);
void AddCommon(CLI::App* app, Common& common, bool uses_device, bool asks_models = false);
void AddModels(CLI::App* app, ModelOptions& models, bool keeps_transcript = true);
void AddWeakSandbox(CLI::App* app, Compile& compile);
void AddCompile(CLI::App* app, Compile& compile);
void AddFullSize(CLI::App* app, bool& full_size);
void AddRounds(CLI::App* app, int& rounds);
void AddTask(CLI::App* app, Target& target, bool positional);
/// The task and how many trials.
void AddTarget(CLI::App* app, Target& target, bool positional);

/// A subcommand, and the command that its options make; or what is wrong with them together.
struct Offered {
  CLI::App* app;
  std::function<std::variant<Command, std::string>()> take;
};
/// Those inside of others before these.
using Offers = std::vector<Offered>;

/// Makes the command that the options of `app` fill in. `wrong` says what is wrong with them
/// together; empty: nothing.
template <typename C>
C& Offer(
    Offers& offers, CLI::App* app,
    std::string (*wrong)(const C&) = [](const C&) { return std::string(); }) {
  auto command = std::make_shared<C>();
  offers.push_back({app, [command, wrong]() -> std::variant<Command, std::string> {
                      if (std::string message = wrong(*command); !message.empty()) return message;
                      return Command(std::move(*command));
                    }});
  return *command;
}

// The families of commands, each in a file options_*.cc.
void AddJudgingCommands(CLI::App& app, Offers& offers);
void AddSearchCommands(CLI::App& app, Offers& offers);
void AddPyTorchCommands(CLI::App& app, Offers& offers);
void AddTaskCommands(CLI::App& app, Offers& offers);
void AddReportCommands(CLI::App& app, Offers& offers);
void AddWorkerCommand(CLI::App& app, Offers& offers);
void AddReviewCommands(CLI::App& app, Offers& offers);
void AddMcpCommand(CLI::App& app, Offers& offers);
void AddSuiteCommands(CLI::App& app, Offers& offers);

}  // namespace cupel::cli
