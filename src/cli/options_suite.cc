// Commands that judge many kernels, and the worker that does it for them.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

std::string WhatIsWrong(const SuiteRunCommand& command) {
  const bool fresh = !command.input.empty() && !command.output.empty();
  if (!command.resume.empty() && !command.output.empty()) {
    return "cupel suite run: --resume names the folder of the run, so there is no -o beside it";
  }
  if (fresh != !command.resume.empty()) return "";
  return "cupel suite run: name either tasks or a list and, with -o RUN, a folder for the run; or, "
         "with --resume RUN, a run to go on with";
}

void AddSuiteRun(CLI::App& suite, Offers& offers) {
  auto* go = suite.add_subcommand("run", "Judge (and time) all of them; may be interrupted");
  auto& run = Offer<SuiteRunCommand>(offers, go, WhatIsWrong);
  go->add_option("input", run.input,
                 "Folder of tasks, one task, or a list: a line of JSON for each kernel");
  go->add_option(
        "--kernels", run.kernels,
        "Folder of kernels: TASK/forward.cu, TASK/forward/*.cu, … (default: the tasks' own)")
      ->type_name("DIR");
  go->add_option("--direction", run.direction, "forward, backward or both")
      ->check(CLI::IsMember({"forward", "backward", "both"}))
      ->capture_default_str();
  go->add_option("--settings", run.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  go->add_option("--trials", run.trials, "Trials with fresh inputs for each setting")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  AddFullSize(go, run.full_size);
  go->add_flag("!--no-baselines", run.baselines, "Do not time PyTorch beside the kernels");
  AddRounds(go, run.rounds);
  go->add_option("--workers", run.workers,
                 "Command that starts a worker, e.g. 'srun -n1 --gpus=1 cupel worker' (repeatable; "
                 "default: workers on this machine)")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  go->add_option(
        "--jobs", run.jobs,
        "Workers of each command (default: one; on this machine one for each GPU, else for "
        "each two cores)")
      ->check(CLI::Range(1, 4096));
  go->add_option("--cases", run.cases,
                 "Who computes truth: each worker, the coordinator for all of them, or auto (the "
                 "workers that have PyTorch their own)")
      ->check(CLI::IsMember({"auto", "worker", "coordinator"}))
      ->capture_default_str();
  go->add_option("-o,--output", run.output, "Folder of the run; where it is there, go on with it")
      ->type_name("RUN");
  go->add_option("--resume", run.resume, "Go on with the run in this folder")->type_name("RUN");
  AddCommon(go, run.common, true);
  AddCompile(go, run.compile);
}

void AddSuiteReport(CLI::App& suite, Offers& offers) {
  auto* again =
      suite.add_subcommand("report", "Write a run's results again: JSON, CSV, MD, HTML, SVG");
  auto& report = Offer<SuiteReportCommand>(offers, again);
  again->add_option("run", report.run, "Folder of the run, or of merged results")->required();
  again
      ->add_option("--records", report.records,
                   "Write each verdict as DIR/TASK/KERNEL.json, for cupel verify")
      ->type_name("DIR");
  AddCommon(again, report.common, false);
}

void AddSuiteMerge(CLI::App& suite, Offers& offers) {
  auto* join = suite.add_subcommand(
      "merge", "Results of several runs on the same kind of device as one; the last one counts");
  auto& merge = Offer<SuiteMergeCommand>(offers, join);
  join->add_option("runs", merge.runs, "Folders of runs, or their results.json")->required();
  join->add_option("-o,--output", merge.output, "Folder for what comes of it")
      ->type_name("DIR")
      ->required();
  AddCommon(join, merge.common, false);
}

void AddSuiteCompare(CLI::App& suite, Offers& offers) {
  auto* hold = suite.add_subcommand(
      "compare", "What got faster, slower or broken? Exit status 1 where something got worse");
  auto& compare = Offer<SuiteCompareCommand>(offers, hold);
  hold->add_option("A", compare.a, "Folder of a run, or its results.json")->required();
  hold->add_option("B", compare.b, "That of a later one")->required();
  AddCommon(hold, compare.common, false);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand(
      "worker", "Judges for a suite that started it, over standard input and output");
  auto& command = Offer<WorkerCommand>(offers, sub);
  sub->add_option("--python", command.python, "Python that has PyTorch, on this machine");
  sub->add_option("--cases", command.cases,
                  "Who computes truth: worker, coordinator, or auto (the coordinator says)")
      ->check(CLI::IsMember({"auto", "worker", "coordinator"}))
      ->capture_default_str();
  AddWeakSandbox(sub, command.compile);
}

void AddSuiteCommands(CLI::App& app, Offers& offers) {
  auto* suite =
      app.add_subcommand("suite", "Many kernels on many tasks: run, report, merge, compare");
  suite->require_subcommand(1);
  AddSuiteRun(*suite, offers);
  AddSuiteReport(*suite, offers);
  AddSuiteMerge(*suite, offers);
  AddSuiteCompare(*suite, offers);
}

}  // namespace cupel::cli
