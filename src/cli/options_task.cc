// Commands about tasks.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

std::string WhatIsWrong(const FilterCommand& command) {
  if (command.task.empty() != command.all.empty()) return "";
  return "cupel task filter: name either a task or, with --all FOLDER, a folder of them";
}

void AddListing(CLI::App* tasks, Offers& offers) {
  auto* list = tasks->add_subcommand("list", "All tasks");
  auto& list_command = Offer<TaskCommand>(offers, list);
  list_command.action = "list";
  AddCommon(list, list_command.common, false);
  auto* show = tasks->add_subcommand("show", "Settings and files of one task");
  auto& show_command = Offer<TaskCommand>(offers, show);
  show_command.action = "show";
  show->add_option("task", show_command.task, "Name or path")->required();
  AddCommon(show, show_command.common, false);
  auto* controls = tasks->add_subcommand(
      "controls", "Can the judge tell right from wrong? Tries wrong answers at each setting");
  auto& controls_command = Offer<TaskCommand>(offers, controls);
  controls_command.action = "controls";
  controls->add_option("task", controls_command.task, "Name or path")->required();
  controls->add_flag("--backward", controls_command.backward, "The backward direction of the task");
  controls->add_option("--settings", controls_command.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  AddFullSize(controls, controls_command.full_size);
  AddCommon(controls, controls_command.common, true);
}

void AddFilter(CLI::App* tasks, Offers& offers) {
  auto* sub = tasks->add_subcommand("filter", "Is a task worth judging kernels on?");
  auto& command = Offer<FilterCommand>(offers, sub, WhatIsWrong);
  auto* task = sub->add_option("task", command.task, "Name or path");
  sub->add_option("--all", command.all, "Every task in a folder and in its folders")
      ->type_name("FOLDER")
      ->excludes(task);
  sub->add_flag("--backward", command.backward,
                "The backward direction alone (default: every direction that the task has)");
  sub->add_option("--settings", command.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  AddFullSize(sub, command.full_size);
  sub->add_option("--seconds", command.seconds, "Deadline of a setting")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  sub->add_option("--seed", command.common.seed, "The first of the five seeds (default: 0)");
  sub->add_option("--python", command.common.python,
                  "Python that has PyTorch (default: $CUPEL_PYTHON, python3, /usr/bin/python3)");
  AddCommon(sub, command.common, false);
}

void AddImport(CLI::App* tasks, Offers& offers) {
  auto* sub = tasks->add_subcommand("import",
                                    "Task folders from KernelBench problems, or any Python file "
                                    "with an nn.Module; runs their code");
  auto& command = Offer<ImportCommand>(offers, sub);
  sub->add_option("paths", command.paths, "The .py files, or folders of them")->required();
  sub->add_option("-o,--output", command.output,
                  "Folder in which each gets a folder of its own (default: this one; with "
                  "--report: none is kept)")
      ->type_name("DIR");
  sub->add_option("--name", command.name, "Name of the task (default: the file's)");
  sub->add_option("--module", command.module, "The module: a class or an object (default: Model)");
  sub->add_option("--inputs", command.inputs,
                  "The function that gives example inputs (default: get_inputs)");
  sub->add_option("--init", command.init,
                  "The function that gives the constructor's arguments (default: get_init_inputs)");
  sub->add_flag("--eval", command.evaluate, "In eval mode: without dropout, with running means");
  sub->add_flag("--force", command.force, "Write the files of existing folders anew");
  sub->add_option("--report", command.report,
                  "Run the tasks and the filters on them too, and write what came of each to FILE; "
                  "goes on where an interrupted one ended")
      ->type_name("FILE");
  sub->add_option("--seconds", command.seconds, "Deadline of a problem, and of each stage")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  sub->add_option("--memory", command.memory, "What a problem may take, like 4G")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4G");
  sub->add_option("--jobs", command.jobs, "With --report: problems at a time (default: one a core)")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--python", command.common.python, "Python that has PyTorch");
  AddCommon(sub, command.common, false);
}

}  // namespace

void AddTaskCommands(CLI::App& app, Offers& offers) {
  auto* tasks = app.add_subcommand("task", "The benchmark: list, show, controls, filter, import");
  tasks->require_subcommand(1);
  AddListing(tasks, offers);
  AddFilter(tasks, offers);
  AddImport(tasks, offers);
}

}  // namespace cupel::cli
