// The options of `cupel task`.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

std::string UsageError(const FilterCommand& command) {
  if (command.task.empty() != command.all.empty()) return "";
  return "cupel task filter: give either a task, or --all FOLDER for a folder of tasks";
}

void AddListing(CLI::App* tasks, Subcommands& subcommands) {
  auto* list = tasks->add_subcommand("list", "List all tasks");
  auto& list_command = AddCommand<TaskCommand>(subcommands, list);
  list_command.action = "list";
  AddShow(list, list_command.show);
  auto* show = tasks->add_subcommand("show", "Show the settings and files of one task");
  auto& show_command = AddCommand<TaskCommand>(subcommands, show);
  show_command.action = "show";
  show->add_option("task", show_command.task, "Name or path of a task")->required();
  AddShow(show, show_command.show);
  auto* controls = tasks->add_subcommand(
      "controls", "Check that the judge rejects wrong answers at each setting of a task");
  auto& controls_command = AddCommand<TaskCommand>(subcommands, controls);
  controls_command.action = "controls";
  controls->add_option("task", controls_command.task, "Name or path of a task")->required();
  controls->add_flag("--backward", controls_command.backward,
                     "Use the backward direction of the task");
  controls
      ->add_option("--settings", controls_command.settings,
                   "Settings to use: single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  AddFullSize(controls, controls_command.full_size);
  AddCommon(controls, controls_command.common, controls_command.show);
}

void AddFilter(CLI::App* tasks, Subcommands& subcommands) {
  auto* sub =
      tasks->add_subcommand("filter", "Check whether a task is suitable for judging kernels");
  auto& command = AddCommand<FilterCommand>(subcommands, sub, UsageError);
  auto* task = sub->add_option("task", command.task, "Name or path of a task");
  sub->add_option("--all", command.all, "Check every task in a folder and its subfolders")
      ->type_name("FOLDER")
      ->excludes(task);
  sub->add_flag("--backward", command.backward,
                "Only the backward direction (default: every direction that the task has)");
  sub->add_option("--settings", command.settings, "Settings to use: single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  AddFullSize(sub, command.full_size);
  sub->add_option("--seconds", command.seconds, "Time limit of a setting, in seconds")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  sub->add_option("--seed", command.common.seed, "The first of the five seeds (default: 0)");
  sub->add_option("--python", command.common.python,
                  "Python interpreter that has PyTorch (default: $CUPEL_PYTHON, python3, .venv, "
                  "/usr/bin/python3)");
  AddShow(sub, command.show);
}

void AddImport(CLI::App* tasks, Subcommands& subcommands) {
  auto* sub = tasks->add_subcommand("import",
                                    "Make task folders from KernelBench problems, or from any "
                                    "Python file with an nn.Module; runs their code");
  auto& command = AddCommand<ImportCommand>(subcommands, sub);
  sub->add_option("paths", command.paths, ".py files, or folders of them")->required();
  sub->add_option("-o,--output", command.output,
                  "Folder for the new task folders (default: the current folder; with --report: "
                  "they are not kept)")
      ->type_name("DIR");
  sub->add_option("--name", command.name, "Name of the task (default: the file's name)");
  sub->add_option("--module", command.module,
                  "Name of the module, a class or an object (default: Model)");
  sub->add_option("--inputs", command.inputs,
                  "Name of the function that returns example inputs (default: get_inputs)");
  sub->add_option("--init", command.init,
                  "Name of the function that returns the constructor's arguments (default: "
                  "get_init_inputs)");
  sub->add_flag("--eval", command.evaluate,
                "Use eval mode: no dropout, and running means in batch norm");
  sub->add_flag("--force", command.force, "Overwrite the files of existing folders");
  sub->add_option(
         "--report", command.report,
         "Also run the tasks and the filters, and write the results to FILE; an interrupted "
         "report is continued")
      ->type_name("FILE");
  sub->add_option("--seconds", command.seconds,
                  "Time limit of a problem and of each stage, in seconds")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  sub->add_option("--memory", command.memory, "Memory limit of a problem, like 4G")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4G");
  sub->add_option("--jobs", command.jobs,
                  "With --report: problems at a time (default: one for each core)")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--python", command.common.python, "Python interpreter that has PyTorch");
  AddShow(sub, command.show);
}

}  // namespace

void AddTaskCommands(CLI::App& app, Subcommands& subcommands) {
  auto* tasks = app.add_subcommand("task", "Benchmark tasks: list, show, controls, filter, import");
  tasks->require_subcommand(1);
  AddListing(tasks, subcommands);
  AddFilter(tasks, subcommands);
  AddImport(tasks, subcommands);
}

}  // namespace cupel::cli
