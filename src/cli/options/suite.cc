// The options of `cupel suite` and `cupel worker`.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

std::string UsageError(const SuiteRunCommand& command) {
  const bool fresh = !command.input.empty() && !command.output.empty();
  if (!command.resume.empty() && !command.output.empty()) {
    return "cupel suite run: do not combine --resume with -o: --resume already names the folder";
  }
  if (fresh != !command.resume.empty()) return "";
  return "cupel suite run: give tasks or a list, and a folder for the run with -o RUN; or give "
         "--resume RUN to continue a run";
}

void AddSuiteRun(CLI::App& suite, Subcommands& subcommands) {
  auto* sub = suite.add_subcommand(
      "run", "Judge many kernels, and time them on a GPU; can be interrupted and resumed");
  auto& run = AddCommand<SuiteRunCommand>(subcommands, sub, UsageError);
  sub->add_option("input", run.input,
                  "Folder of tasks, one task, or a list with one line of JSON for each kernel");
  sub->add_option(
         "--kernels", run.kernels,
         "Folder of kernels: TASK/forward.cu, TASK/forward/*.cu, … (default: the tasks' own)")
      ->type_name("DIR");
  sub->add_option("--direction", run.direction, "Directions to judge: forward, backward or both")
      ->check(CLI::IsMember({"forward", "backward", "both"}))
      ->capture_default_str();
  sub->add_option("--settings", run.settings, "Settings to use: single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  sub->add_option("--trials", run.trials,
                  "Number of trials at each setting, each with fresh inputs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  AddFullSize(sub, run.full_size);
  sub->add_flag("!--no-explore", run.explore,
                "With all settings, do not look at sizes that no setting has");
  sub->add_flag("!--no-baselines", run.baselines, "Do not time PyTorch for comparison");
  sub->add_flag("--energy", run.energy,
                "Also measure the energy of a call, of kernels and baselines");
  AddRounds(sub, run.rounds);
  sub->add_option(
         "--workers", run.workers,
         "Command that starts a worker, e.g. 'srun -n1 --gpus=1 cupel worker' (repeatable; "
         "default: workers on this machine)")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  sub->add_option(
         "--jobs", run.jobs,
         "Workers of each command (default: one; without --workers: one for each GPU, or on the "
         "emulator one for every two cores)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--cases", run.cases,
                  "Who computes the expected results: worker (each for itself), coordinator (for "
                  "all workers), or auto (workers that have PyTorch compute their own)")
      ->check(CLI::IsMember({"auto", "worker", "coordinator"}))
      ->capture_default_str();
  sub->add_option("-o,--output", run.output, "Folder of the run; if it has a run, continue it")
      ->type_name("RUN");
  sub->add_option("--resume", run.resume, "Continue the run in this folder")->type_name("RUN");
  AddCommon(sub, run.common, run.show);
  AddCompile(sub, run.compile);
}

void AddSuiteReport(CLI::App& suite, Subcommands& subcommands) {
  auto* sub =
      suite.add_subcommand("report", "Write a run's results again: JSON, CSV, Markdown, HTML, SVG");
  auto& report = AddCommand<SuiteReportCommand>(subcommands, sub);
  sub->add_option("run", report.run, "Folder of a run, or of merged results")->required();
  sub->add_option("--records", report.records,
                  "Write each verdict as DIR/TASK/KERNEL.json, for cupel verify")
      ->type_name("DIR");
  AddShow(sub, report.show);
}

void AddSuiteMerge(CLI::App& suite, Subcommands& subcommands) {
  auto* sub = suite.add_subcommand(
      "merge", "Merge the results of several runs on the same kind of device; later runs win");
  auto& merge = AddCommand<SuiteMergeCommand>(subcommands, sub);
  sub->add_option("runs", merge.runs, "Folders of runs, or their results.json")->required();
  sub->add_option("-o,--output", merge.output, "Folder for the merged results")
      ->type_name("DIR")
      ->required();
  AddShow(sub, merge.show);
}

void AddSuiteCompare(CLI::App& suite, Subcommands& subcommands) {
  auto* sub = suite.add_subcommand(
      "compare",
      "Compare two runs: faster, slower, broken, fixed; exit status 1 if anything got worse");
  auto& compare = AddCommand<SuiteCompareCommand>(subcommands, sub);
  sub->add_option("A", compare.a, "Folder of a run, or its results.json")->required();
  sub->add_option("B", compare.b, "Folder of a later run, or its results.json")->required();
  AddShow(sub, compare.show);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "worker", "Run as a worker of cupel suite run, over standard input and output");
  auto& command = AddCommand<WorkerCommand>(subcommands, sub);
  sub->add_option("--python", command.common.python,
                  "Python interpreter that has PyTorch, on this machine");
  sub->add_option(
         "--cases", command.cases,
         "Who computes the expected results: worker, coordinator, or auto (the coordinator "
         "decides)")
      ->check(CLI::IsMember({"auto", "worker", "coordinator"}))
      ->capture_default_str();
  AddWeakSandbox(sub, command.compile);
}

void AddSuiteCommands(CLI::App& app, Subcommands& subcommands) {
  auto* suite =
      app.add_subcommand("suite", "Judge many kernels on many tasks: run, report, merge, compare");
  suite->require_subcommand(1);
  AddSuiteRun(*suite, subcommands);
  AddSuiteReport(*suite, subcommands);
  AddSuiteMerge(*suite, subcommands);
  AddSuiteCompare(*suite, subcommands);
}

}  // namespace cupel::cli
