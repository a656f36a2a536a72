// Commands that judge and time kernels.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

constexpr char kKernel[] =
    "A .cu file, a folder with .cu and C++ files directly in it, a setup.py, or a Python answer";

void AddDistributions(CLI::App* sub, std::string& distributions) {
  sub->add_option("--distributions", distributions,
                  "Inputs to try in addition to the task's own: all, none, or names "
                  "(normal,zeros,…)")
      ->capture_default_str();
}

void AddBuild(CLI::App& app, Subcommands& subcommands) {
  auto* sub =
      app.add_subcommand("build", "Compile a kernel; show diagnostics, resources and audit");
  auto& build = AddCommand<BuildCommand>(subcommands, sub);
  sub->add_option("kernel", build.kernel, kKernel)->required();
  sub->add_option("--task", build.task,
                  "For a Python program, the task whose arguments it is called with: what it asks "
                  "for is compiled");
  AddGpuModel(sub, build.common);
  AddPython(sub, build.common);
  AddShow(sub, build.show);
  AddCompile(sub, build.compile);
  AddEntry(sub, build.compile);
  AddSources(sub, build.compile);
}

void AddCheck(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("check",
                                 "Judge whether a kernel is correct; print a verdict with reasons");
  auto& check = AddCommand<CheckCommand>(subcommands, sub);
  sub->add_option("kernel", check.kernel, kKernel)->required();
  AddTarget(sub, check.target, false);
  AddCommon(sub, check.common, check.show);
  AddCompile(sub, check.compile);
  AddEntry(sub, check.compile);
  AddSources(sub, check.compile);
  sub->add_option("--plan", check.plan, "Write the plan of the first setting to FILE as JSON")
      ->type_name("FILE");
  sub->add_flag("--fresh", check.fresh, "Compute new cases instead of using the case pool");
  sub->add_flag("!--no-shadow", check.shadow, "Skip the comparison with exact arithmetic");
  AddDistributions(sub, check.distributions);
  sub->add_flag("!--no-explore", check.explore,
                "With all settings, do not look at sizes that no setting has");
  sub->add_flag("!--no-prove", check.prove,
                "Do not try to prove the kernel's function of real numbers (cupel prove)");
  sub->add_flag("--strict-layouts", check.strict_layouts,
                "Reject kernels that fail on strided tensors and on unaligned ones; by default "
                "that is a limit");
  sub->add_flag("!--no-exact", check.exact, "Skip the trial on small integers");
  sub->add_option("--schedules", check.schedules,
                  "Number of other orders of blocks and warps to try (default: 2 if atomics or "
                  "waiting make the order matter)")
      ->check(CLI::Range(0, 1000));
}

void AddExtract(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "extract", "Write the code that a Python program brings: CUDA sources, and PTX of Triton");
  auto& command = AddCommand<ExtractCommand>(subcommands, sub);
  sub->add_option("program", command.program, "A Python program (.py)")->required();
  sub->add_option("--task", command.task, "Task whose arguments the program is called with")
      ->required();
  sub->add_option("-o,--output", command.output,
                  "Folder to create. Without it, cupel lists the files, and prints a single one")
      ->type_name("DIR");
  AddGpuModel(sub, command.common);
  AddPython(sub, command.common);
  AddShow(sub, command.show);
  AddCompile(sub, command.compile);
}

void AddVerify(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("verify", "Verify records: check their hashes and judge again");
  auto& command = AddCommand<VerifyCommand>(subcommands, sub);
  sub->add_option("records", command.records,
                  "Files that cupel check --json or cupel suite report --records wrote")
      ->required();
  sub->add_option("--kernel", command.kernel,
                  "The .cu file or folder, for one record (default: the path in the record, or the "
                  "same name next to the record)")
      ->type_name("FILE");
  sub->add_option("--task", command.task,
                  "The task, for one record (default: the task in the record)");
  sub->add_option("--device", command.common.device, "gpu or gpu:N, for a record made on a GPU");
  sub->add_option("--python", command.common.python, "Python interpreter that has PyTorch");
  AddWeakSandbox(sub, command.compile);
  AddShow(sub, command.show);
}

void AddBench(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "bench", "Time kernels on a GPU against eager PyTorch, torch.compile and each other");
  auto& bench = AddCommand<BenchCommand>(subcommands, sub, [](const BenchCommand& command) {
    return command.compile.sources.empty() || command.kernels.size() == 1
               ? std::string()
               : "--sources needs a single kernel; give each of several kernels as a folder";
  });
  sub->add_option("kernels", bench.kernels, ".cu files, folders of them, or Python answers")
      ->required();
  AddTarget(sub, bench.target, false);
  AddCommon(sub, bench.common, bench.show);
  AddCompile(sub, bench.compile);
  AddEntry(sub, bench.compile);
  AddSources(sub, bench.compile);
  sub->add_option("--baselines", bench.baselines,
                  "Baselines to time: eager, compile, max-autotune, named (those that the task "
                  "names) or some of their names, or none; probe shows that both clocks agree")
      ->capture_default_str();
  sub->add_option("--baseline", bench.baseline_files,
                  "Also time this function, which takes the arguments of the task's function "
                  "(repeatable)")
      ->type_name("FILE.py:FUNCTION")
      ->allow_extra_args(false);
  sub->add_flag("--energy", bench.energy,
                "Also measure the energy of a call, of kernels and baselines");
  sub->add_option("--sets", bench.sets, "Number of input sets that the replays rotate through")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  AddRounds(sub, bench.rounds);
}

void AddStream(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "stream", "Judge many candidates and time them on a GPU; compiles ahead in parallel");
  auto& stream = AddCommand<StreamCommand>(subcommands, sub);
  sub->add_option(
         "list", stream.list,
         "File with one line of JSON for each candidate: {\"kernel\": …, \"sources\": […], "
         "\"task\": …, \"backward\": …}")
      ->required();
  sub->add_option("--settings", stream.settings, "Settings to use: single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  sub->add_option("--trials", stream.trials,
                  "Number of trials at each setting, each with fresh inputs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  sub->add_option("--timed", stream.timed,
                  "On a GPU, the settings to time, among those judged: single or all")
      ->check(CLI::IsMember({"single", "all"}))
      ->capture_default_str();
  AddDistributions(sub, stream.distributions);
  sub->add_flag("--shadow,!--no-shadow", stream.shadow,
                "Compare with exact arithmetic (default: on, as in check)");
  sub->add_flag("!--no-explore", stream.explore,
                "With all settings, do not look at sizes that no setting has");
  sub->add_flag("!--no-exact", stream.exact, "Skip the trial on small integers");
  sub->add_option("-o,--output", stream.output, "Write each result to FILE as one line of JSON")
      ->type_name("FILE");
  AddCommon(sub, stream.common, stream.show);
  AddCompile(sub, stream.compile);
}

void AddProfile(CLI::App& app, Subcommands& subcommands) {
  auto* sub =
      app.add_subcommand("profile", "Profile a kernel: its bottleneck and the lines that cause it");
  auto& profile = AddCommand<ProfileCommand>(subcommands, sub);
  profile.target.settings = "single";
  sub->add_option("kernel", profile.kernel, kKernel)->required();
  AddTask(sub, profile.target, false);
  AddCommon(sub, profile.common, profile.show);
  AddCompile(sub, profile.compile);
  AddEntry(sub, profile.compile);
  AddSources(sub, profile.compile);
  sub->add_option("--keep", profile.keep,
                  "With --device gpu: keep the recorded call and Nsight Compute's report in DIR")
      ->type_name("DIR");
}

void AddProve(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "prove", "Prove that a kernel computes its task's function of real numbers, up to rounding");
  auto& prove = AddCommand<ProveCommand>(subcommands, sub);
  sub->footer(
      "Exit status: 0 proved, 1 differs, 2 wrong usage or a broken environment, 3 not proved,\n"
      "130 interrupted.");
  prove.target.settings = "single";
  sub->add_option("kernel", prove.kernel, kKernel)->required();
  AddTask(sub, prove.target, false);
  AddCommon(sub, prove.common, prove.show);
  AddCompile(sub, prove.compile);
  AddEntry(sub, prove.compile);
  AddSources(sub, prove.compile);
}

}  // namespace

void AddJudgingCommands(CLI::App& app, Subcommands& subcommands) {
  AddBuild(app, subcommands);
  AddCheck(app, subcommands);
  AddExtract(app, subcommands);
  AddVerify(app, subcommands);
  AddBench(app, subcommands);
  AddStream(app, subcommands);
  AddProfile(app, subcommands);
  AddProve(app, subcommands);
}

}  // namespace cupel::cli
