// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/version.h"

namespace cupel::cli {
namespace {

void AddCommon(CLI::App* app, Common& common, bool uses_device) {
  if (uses_device) {
    app->add_option(
        "--device", common.device,
        "emu (the built-in emulator), gpu[:N], or gpu:all where work can be spread (default: "
        "emu; bench: gpu)");
    app->add_option("--model", common.model, "GPU that the emulator describes: h100, h200, a100")
        ->capture_default_str();
    app->add_option("--seed", common.seed,
                    "Draw the inputs from this number: repeats a verdict (default: a secret pool)");
    app->add_option("--python", common.python,
                    "Python that has PyTorch (default: $CUPEL_PYTHON, python3, /usr/bin/python3)");
  }
  app->add_option("--json", common.json, "Write the same facts to FILE as JSON")->type_name("FILE");
  app->add_flag("-q,--quiet", common.quiet, "Print the result alone");
}

void AddCompile(CLI::App* app, Compile& compile) {
  app->add_option("--arch", compile.arch, "Target of nvcc: sm_80, sm_90, sm_90a, sm_100")
      ->check(CLI::IsMember({"sm_80", "sm_90", "sm_90a", "sm_100"}))
      ->capture_default_str();
  app->add_option("--flag", compile.flags,
                  "One more flag for nvcc, from the allow-list (repeatable)")
      ->type_name("FLAG")
      ->allow_extra_args(false);
  app->add_option("--include", compile.include_roots,
                  "Folder of headers that the kernel may include, read-only (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

void AddTask(CLI::App* app, Target& target, bool positional) {
  if (positional) {
    app->add_option("task", target.task, "Task: a name under tasks/, a folder, or a .py file");
  } else {
    app->add_option("--task", target.task, "Task: a name under tasks/, a folder, or a .py file")
        ->required();
  }
  app->add_flag("--backward", target.backward, "The backward direction of the task");
  app->add_option("--settings", target.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
}

void AddTarget(CLI::App* app, Target& target, bool positional) {
  AddTask(app, target, positional);
  app->add_option("--trials", target.trials, "Trials with fresh inputs for each setting")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
}

CLI::App* AddExport(CLI::App& app, ExportCommand& command) {
  auto* sub = app.add_subcommand("export", "Write an accepted kernel as a PyTorch package");
  sub->add_option("kernel", command.kernel, "The .cu file with forward")->required();
  sub->add_option("--task", command.target.task,
                  "Task: a name under tasks/, a folder, or a .py file")
      ->required();
  sub->add_option("-o,--output", command.output, "Folder to make")->type_name("DIR")->required();
  sub->add_option("--backward-kernel", command.backward_kernel,
                  "The .cu file with backward: gives the operator its gradients");
  sub->add_option("--name", command.name, "Name of the package (default: the task's)");
  sub->add_option("--record", command.record, "Measurements to show: what cupel bench --json wrote")
      ->type_name("FILE");
  sub->add_flag("--force", command.force, "Export a kernel that is not accepted, and say so");
  sub->add_option("--trials", command.target.trials, "Trials with fresh inputs for each setting")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  AddCommon(sub, command.common, true);
  AddCompile(sub, command.compile);
  return sub;
}

CLI::App* AddConfirm(CLI::App& app, ConfirmCommand& command) {
  command.target.settings = "single";
  auto* sub = app.add_subcommand("confirm",
                                 "Time it from Python as others do, for comparison (needs a GPU)");
  sub->add_option("kernel", command.kernel, "The .cu file")->required();
  AddTask(sub, command.target, false);
  AddCommon(sub, command.common, true);
  AddCompile(sub, command.compile);
  sub->add_option("--repeats", command.repeats, "Calls timed one by one with CUDA events")
      ->check(CLI::Range(10, 100000))
      ->capture_default_str();
  sub->add_flag("!--no-references", command.references, "Leave out eager and torch.compile");
  sub->add_flag("--unsandboxed", command.unsandboxed,
                "Run the kernel's host code without a sandbox where CUDA does not start in one; "
                "only for kernels that you trust");
  return sub;
}

}  // namespace

std::variant<Command, int> ParseCommandLine(int argc, char** argv) {
  CLI::App app{
      "cupel takes a PyTorch operation and returns a CUDA kernel that is proved right and measured "
      "fast, and judges anyone's CUDA kernels."};
  app.set_version_flag("--version", std::string("cupel ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 accepted or done, 1 rejected, 2 wrong usage or a broken environment,\n"
      "3 unsupported (something cupel does not know: never silently passed), 130 interrupted.");

  BuildCommand build;
  auto* build_app = app.add_subcommand("build", "Does it compile? Diagnostics, resources, audit");
  build_app->add_option("kernel", build.kernel, "The .cu file")->required();
  AddCommon(build_app, build.common, false);
  AddCompile(build_app, build.compile);

  CheckCommand check;
  auto* check_app = app.add_subcommand("check", "Is it right? A verdict with reasons");
  check_app->add_option("kernel", check.kernel, "The .cu file")->required();
  AddTarget(check_app, check.target, false);
  AddCommon(check_app, check.common, true);
  AddCompile(check_app, check.compile);
  check_app->add_option("--plan", check.plan, "Write the plan of the first setting to FILE as JSON")
      ->type_name("FILE");
  check_app->add_flag("--fresh", check.fresh, "Draw new cases instead of using the pool");
  check_app->add_flag("!--no-shadow", check.shadow,
                      "Leave out the run with exact arithmetic beside");
  check_app->add_flag("!--no-exact", check.exact, "Leave out the trial on small integers");
  check_app
      ->add_option("--schedules", check.schedules,
                   "Other orders of blocks and warps to try (default: 2 where atomics or waiting "
                   "make the order matter)")
      ->check(CLI::Range(0, 1000));

  BenchCommand bench;
  auto* bench_app = app.add_subcommand(
      "bench", "How fast? Against eager PyTorch, torch.compile and each other, on a GPU");
  bench_app->add_option("kernels", bench.kernels, "The .cu files")->required();
  AddTarget(bench_app, bench.target, false);
  AddCommon(bench_app, bench.common, true);
  AddCompile(bench_app, bench.compile);
  bench_app
      ->add_option("--baselines", bench.baselines,
                   "PyTorch's answers beside them: eager, compile, max-autotune, or none; probe "
                   "shows that both clocks agree")
      ->capture_default_str();
  bench_app->add_flag("--energy", bench.energy, "Measure the energy of a call, too");
  bench_app->add_option("--sets", bench.sets, "Input sets that replays rotate among")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  bench_app->add_option("--rounds", bench.rounds, "Replays of each at most")
      ->check(CLI::Range(10, 100000))
      ->capture_default_str();

  StreamCommand stream;
  auto* stream_app = app.add_subcommand(
      "stream", "Judges many candidates, and times them on a GPU: compilers run ahead");
  stream_app
      ->add_option(
          "list", stream.list,
          "File with a line of JSON for each: {\"kernel\": …, \"task\": …, \"backward\": …}")
      ->required();
  stream_app->add_option("--settings", stream.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  stream_app->add_option("--trials", stream.trials, "Trials with fresh inputs for each setting")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  stream_app
      ->add_option("-o,--output", stream.output, "Write each result to FILE as a line of JSON")
      ->type_name("FILE");
  AddCommon(stream_app, stream.common, true);
  AddCompile(stream_app, stream.compile);

  ProfileCommand profile;
  profile.target.settings = "single";
  auto* profile_app =
      app.add_subcommand("profile", "What does it spend its time on? The bottleneck and its lines");
  profile_app->add_option("kernel", profile.kernel, "The .cu file")->required();
  AddTask(profile_app, profile.target, false);
  AddCommon(profile_app, profile.common, true);
  AddCompile(profile_app, profile.compile);
  profile_app
      ->add_option("--keep", profile.keep,
                   "With --device gpu: leave the call and Nsight Compute's report in DIR")
      ->type_name("DIR");

  OptimizeCommand optimize;
  auto* optimize_app = app.add_subcommand("optimize", "Evolve a faster kernel for a task");
  AddTarget(optimize_app, optimize.target, true);
  AddCommon(optimize_app, optimize.common, true);
  AddCompile(optimize_app, optimize.compile);
  optimize_app->add_option("--kernel", optimize.kernel,
                           "Start from this .cu (default: the task's)");
  optimize_app->add_option("--candidates", optimize.candidates, "How many variants to try")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  optimize_app->add_option("--batch", optimize.batch, "Variants proposed at a time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  optimize_app->add_option("-o,--run", optimize.run, "Folder of the run (default: cupel-runs/…)");
  optimize_app->add_option("--resume", optimize.resume, "Go on with the run in this folder")
      ->type_name("RUN");

  ExportCommand exported;
  auto* export_app = AddExport(app, exported);
  ConfirmCommand confirm;
  auto* confirm_app = AddConfirm(app, confirm);

  TaskCommand task;
  auto* task_app = app.add_subcommand("task", "The benchmark: list, show");
  task_app->require_subcommand(1);
  auto* list_app = task_app->add_subcommand("list", "All tasks");
  AddCommon(list_app, task.common, false);
  auto* show_app = task_app->add_subcommand("show", "Settings and files of one task");
  show_app->add_option("task", task.task, "Name or path")->required();
  AddCommon(show_app, task.common, false);

  ReportCommand report;
  auto* report_app = app.add_subcommand("report", "What a run tried and found");
  report_app->add_option("run", report.run, "Folder of the run")->required();
  AddCommon(report_app, report.common, false);

  DoctorCommand doctor;
  auto* doctor_app = app.add_subcommand("doctor", "What this machine offers, and what is missing");
  doctor_app->add_option("--python", doctor.common.python, "Python that has PyTorch");
  AddCommon(doctor_app, doctor.common, false);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error, std::cout, std::cerr);
    return status == 0 ? 0 : 2;
  }
  if (*build_app) return Command(std::move(build));
  if (*check_app) return Command(std::move(check));
  if (*bench_app) return Command(std::move(bench));
  if (*export_app) return Command(std::move(exported));
  if (*confirm_app) return Command(std::move(confirm));
  if (*stream_app) return Command(std::move(stream));
  if (*profile_app) return Command(std::move(profile));
  if (*optimize_app) {
    if (optimize.target.task.empty() == optimize.resume.empty()) {
      std::cerr
          << "cupel optimize: name either a task or, with --resume RUN, a run to go on with\n";
      return 2;
    }
    return Command(std::move(optimize));
  }
  if (*report_app) return Command(std::move(report));
  if (*doctor_app) return Command(std::move(doctor));
  task.action = *show_app ? "show" : "list";
  return Command(std::move(task));
}

}  // namespace cupel::cli
