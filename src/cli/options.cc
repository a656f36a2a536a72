// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/version.h"
#include "cli/optimize_config.h"

namespace cupel::cli {
namespace {

/// `asks_models`: --model names a language model there, not the GPU.
void AddMachine(CLI::App* app, Common& common, bool asks_models = false) {
  app->add_option(
      "--device", common.device,
      "emu (the built-in emulator), gpu[:N], or gpu:all where work can be spread (default: "
      "emu; bench: gpu)");
  app->add_option(asks_models ? "--gpu-model" : "--gpu-model,--model", common.model,
                  "GPU that the emulator describes: h100, h200, a100")
      ->capture_default_str();
  app->add_option("--python", common.python,
                  "Python that has PyTorch (default: $CUPEL_PYTHON, python3, /usr/bin/python3)");
}

void AddCommon(CLI::App* app, Common& common, bool uses_device, bool asks_models = false) {
  if (uses_device) {
    AddMachine(app, common, asks_models);
    app->add_option("--seed", common.seed,
                    "Draw the inputs from this number: repeats a verdict (default: a secret pool)");
  }
  app->add_option("--json", common.json, "Write the same facts to FILE as JSON")->type_name("FILE");
  app->add_flag("-q,--quiet", common.quiet, "Print the result alone");
}

void AddModels(CLI::App* app, ModelOptions& models, bool keeps_transcript = true) {
  app->add_option("--model", models.specs,
                  "Language model, PROVIDER:NAME@OPTION=VALUE,… (repeatable; docs/models.md)")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  app->add_option("--budget", models.budget_usd, "Dollars that the models may cost, never exceeded")
      ->type_name("USD")
      ->check(CLI::Range(0.0, 1e6));
  app->add_option("--budget-tokens", models.budget_tokens, "The same in tokens")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  if (!keeps_transcript) return;
  app->add_option("--transcript", models.transcript,
                  "Keep questions and answers in FILE; what it answers already is not asked again")
      ->type_name("FILE");
}

void AddWeakSandbox(CLI::App* app, Compile& compile) {
  app->add_flag(
         "--allow-weak-sandbox", compile.allow_weak_sandbox,
         "Compile and record also where the kernel grants too little of the sandbox; only for "
         "kernels that you trust (or CUPEL_ALLOW_WEAK_SANDBOX=1)")
      ->envname("CUPEL_ALLOW_WEAK_SANDBOX");
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
  AddWeakSandbox(app, compile);
}

void AddFullSize(CLI::App* app, bool& full_size) {
  app->add_flag("--full-size", full_size,
                "The task's own sizes without a GPU too, where task.json names smaller ones");
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
  AddFullSize(app, target.full_size);
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

CLI::App* AddVerify(CLI::App& app, VerifyCommand& command) {
  auto* sub = app.add_subcommand("verify", "Is a record true? Checks its hashes, and judges again");
  sub->add_option("record", command.record, "What cupel check --json wrote")->required();
  sub->add_option("--kernel", command.kernel, "The .cu file (default: where the record says)")
      ->type_name("FILE");
  sub->add_option("--task", command.task, "The task (default: where the record says)");
  sub->add_option("--device", command.common.device, "gpu[:N] for a record of a GPU");
  sub->add_option("--python", command.common.python, "Python that has PyTorch");
  AddWeakSandbox(sub, command.compile);
  AddCommon(sub, command.common, false);
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

CLI::App* AddExtract(CLI::App& app, ExtractCommand& command) {
  auto* sub = app.add_subcommand(
      "extract", "The .cu file in a Python answer with load_inline, without running it");
  sub->add_option("answer", command.answer, "The .py file")->required();
  sub->add_option("--task", command.task,
                  "Task that gives the order of the arguments (default: the answer's own)");
  sub->add_option("-o,--output", command.output, "File to write (default: standard output)")
      ->type_name("FILE");
  sub->add_option("--python", command.common.python, "Python that has PyTorch");
  AddCommon(sub, command.common, false);
  return sub;
}

CLI::App* AddImport(CLI::App* tasks, ImportCommand& command) {
  auto* sub = tasks->add_subcommand(
      "import", "Task folders from KernelBench problems, or any Python file with an nn.Module");
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
  return sub;
}

CLI::App* AddFilter(CLI::App* tasks, FilterCommand& command) {
  auto* sub = tasks->add_subcommand("filter", "Is a task worth judging kernels on?");
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
  return sub;
}

CLI::App* AddSelftest(CLI::App& app, SelftestCommand& command) {
  command.common.device = "emu";
  auto* sub = app.add_subcommand(
      "selftest", "Does it tell cheating kernels from honest ones here? Both corpora, with rates");
  sub->add_option("--filter", command.filter,
                  "Only kernels whose name matches, e.g. mustfail/cache")
      ->type_name("RE");
  sub->add_option("--jobs", command.jobs, "Kernels at a time (default: one a core)")
      ->check(CLI::Range(1, 1024));
  AddCommon(sub, command.common, true);
  return sub;
}

struct SuiteApps {
  CLI::App *run, *report, *compare;
};

SuiteApps AddSuite(CLI::App& app, SuiteRunCommand& run, SuiteReportCommand& report,
                   SuiteCompareCommand& compare) {
  auto* suite = app.add_subcommand("suite", "Many kernels on many tasks: run, report, compare");
  suite->require_subcommand(1);
  auto* go = suite->add_subcommand("run", "Judge (and time) all of them; may be interrupted");
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
  go->add_option("-o,--output", run.output, "Folder of the run; where it is there, go on with it")
      ->type_name("RUN");
  go->add_option("--resume", run.resume, "Go on with the run in this folder")->type_name("RUN");
  AddCommon(go, run.common, true);
  AddCompile(go, run.compile);
  auto* again = suite->add_subcommand("report", "Write a run's results again: JSON, CSV, MD, HTML");
  again->add_option("run", report.run, "Folder of the run")->required();
  AddCommon(again, report.common, false);
  auto* hold = suite->add_subcommand(
      "compare", "What got faster, slower or broken? Exit status 1 where something got worse");
  hold->add_option("A", compare.a, "Folder of a run, or its results.json")->required();
  hold->add_option("B", compare.b, "That of a later one")->required();
  AddCommon(hold, compare.common, false);
  return {go, again, hold};
}

struct ReviewApps {
  CLI::App *review, *calibrate;
};

ReviewApps AddReview(CLI::App& app, ReviewCommand& review, CalibrateCommand& calibrate) {
  auto* sub = app.add_subcommand("review", "Is it right? As language models read it");
  sub->add_option("kernel", review.kernel, "The .cu file, or a Python answer");
  sub->add_option("--task", review.target.task,
                  "Task: a name under tasks/, a folder, or a .py file");
  sub->add_flag("--backward", review.target.backward, "The backward direction of the task");
  AddModels(sub, review.models);
  sub->add_option("--calibration", review.calibration,
                  "Instructions, weights and threshold that cupel review calibrate found")
      ->type_name("FILE");
  sub->add_flag("!--no-reflect", review.reflect, "Do not ask the reviewers to consider again");
  sub->add_flag("--show-findings", review.show_findings,
                "Judge it first, as cupel check does, and show the reviewers what was found");
  AddCommon(sub, review.common, true, true);
  AddCompile(sub, review.compile);
  auto* tune = sub->add_subcommand(
      "calibrate", "How good are the reviewers? Measured and tuned on labelled kernels");
  tune->add_option("--labels", calibrate.labels, "The kernels and what is wrong with each")
      ->type_name("FILE")
      ->required();
  AddModels(tune, calibrate.models);
  tune->add_option("--instructions", calibrate.instructions,
                   "Folder of wordings to choose among: memory.NAME.md, …")
      ->type_name("DIR");
  tune->add_flag("!--no-reflect", calibrate.reflect, "Do not ask the reviewers to consider again");
  tune->add_option("-o,--out", calibrate.output, "Write what was found, for --calibration")
      ->type_name("FILE");
  tune->add_option("--python", calibrate.common.python, "Python that has PyTorch");
  tune->add_flag("-q,--quiet", calibrate.common.quiet, "Print the result alone");
  return {sub, tune};
}

CLI::App* AddWorker(CLI::App& app, WorkerCommand& command) {
  auto* sub = app.add_subcommand(
      "worker", "Judges for a suite that started it, over standard input and output");
  sub->add_option("--python", command.python, "Python that has PyTorch, on this machine");
  sub->add_option("--cases", command.cases,
                  "Who computes truth: worker, coordinator, or auto (the coordinator says)")
      ->check(CLI::IsMember({"auto", "worker", "coordinator"}))
      ->capture_default_str();
  AddWeakSandbox(sub, command.compile);
  return sub;
}

void AddSearch(CLI::App* app, SearchOptions& search) {
  AddModels(app, search.models, false);  // the run's archive has them
  app->add_option("--reviewer", search.reviewers,
                  "Language model that reads proposals first (repeatable; default: the first "
                  "--model)")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  const auto number = [&](const char* name, int& value, const char* help, int least, int most) {
    app->add_option(name, value, help)->check(CLI::Range(least, most))->capture_default_str();
  };
  number("--generations", search.generations, "With models: rounds of proposals", 1, 10000);
  number("--proposals", search.proposals, "With models: kernels asked for in a generation", 1, 64);
  number("--evaluations", search.evaluations, "With models: of these, how many are judged", 1, 64);
  number("--examples", search.examples, "With models: accepted kernels shown in a prompt", 0, 20);
  number("--islands", search.islands, "With models: populations that evolve apart", 1, 16);
  app->add_option("--sampling", search.sampling,
                  "With models: proposals side by side, or sequential in one conversation")
      ->check(CLI::IsMember({"parallel", "sequential"}))
      ->capture_default_str();
  app->add_option("--review", search.review,
                  "With models: let reviewers read before judging: on, off, or while it pays")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app->add_flag(
      "--lint", search.lint,
      "With models: tell them what clang-tidy remarks on accepted kernels (seconds each)");
  app->add_option("--without", search.without,
                  "With models: leave an ingredient out, for ablations: " + IngredientNames())
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
}

CLI::App* AddTranslate(CLI::App& app, TranslateCommand& command) {
  auto* sub = app.add_subcommand("translate", "Have a first kernel written that is right");
  AddTarget(sub, command.target, true);
  AddModels(sub, command.models, false);  // the run's archive has them
  sub->add_option("-o,--output", command.output, "Where to write the kernel (default: RUN/best.cu)")
      ->type_name("FILE");
  sub->add_option("--attempts", command.attempts,
                  "Answers at most, all models together (default: 10)")
      ->check(CLI::Range(1, 1000));
  sub->add_option("--run", command.run, "Folder of the run (default: cupel-runs/…)");
  sub->add_option("--resume", command.resume, "Go on with the run in this folder")
      ->type_name("RUN");
  AddCommon(sub, command.common, true, true);
  AddCompile(sub, command.compile);
  return sub;
}

CLI::App* AddOptimize(CLI::App& app, OptimizeCommand& optimize) {
  auto* sub = app.add_subcommand("optimize", "Evolve a faster kernel for a task");
  AddTarget(sub, optimize.target, true);
  AddCommon(sub, optimize.common, true, true);
  AddCompile(sub, optimize.compile);
  auto* kernel =
      sub->add_option("--kernel", optimize.kernel, "Start from this .cu (default: the task's)");
  sub->add_flag("--translate", optimize.translate,
                "With models: start from what they write, not from the task's kernel")
      ->excludes(kernel);
  sub->add_option("--objective", optimize.objective,
                  "What to minimise: time, energy (of a call, on a GPU), or mix (their product)")
      ->check(CLI::IsMember({"time", "energy", "mix"}))
      ->capture_default_str();
  sub->add_option("--candidates", optimize.candidates,
                  "Without models: how many variants the tuner tries")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  sub->add_option("--batch", optimize.batch, "Without models: variants proposed at a time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddSearch(sub, optimize.search);
  sub->add_option("-o,--run", optimize.run, "Folder of the run (default: cupel-runs/…)");
  sub->add_option("--resume", optimize.resume, "Go on with the run in this folder")
      ->type_name("RUN");
  sub->add_option("--replay", optimize.replay,
                  "Repeat the run in this folder with its recorded answers, in a new one")
      ->type_name("RUN");
  return sub;
}

CLI::App* AddMcp(CLI::App& app, McpCommand& command) {
  auto* sub = app.add_subcommand(
      "mcp", "Tools for coding agents (Model Context Protocol), over standard input and output");
  AddMachine(sub, command.common);
  AddCompile(sub, command.compile);
  sub->add_option("--jobs", command.jobs, "Calls that judge, at a time (default: one a core)")
      ->check(CLI::Range(1, 256));
  sub->add_option("--timeout", command.seconds, "Seconds that a call may take")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
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
  build_app->add_option("kernel", build.kernel, "The .cu file, or a Python answer")->required();
  build_app->add_option("--task", build.task, "Task of a Python answer, for its arguments' order");
  build_app->add_option("--python", build.common.python, "Python that has PyTorch");
  AddCommon(build_app, build.common, false);
  AddCompile(build_app, build.compile);

  CheckCommand check;
  auto* check_app = app.add_subcommand("check", "Is it right? A verdict with reasons");
  check_app->add_option("kernel", check.kernel, "The .cu file, or a Python answer")->required();
  AddTarget(check_app, check.target, false);
  AddCommon(check_app, check.common, true);
  AddCompile(check_app, check.compile);
  check_app->add_option("--plan", check.plan, "Write the plan of the first setting to FILE as JSON")
      ->type_name("FILE");
  check_app->add_flag("--fresh", check.fresh, "Draw new cases instead of using the pool");
  check_app->add_flag("!--no-shadow", check.shadow,
                      "Leave out the run with exact arithmetic beside");
  check_app
      ->add_option("--distributions", check.distributions,
                   "Inputs to try beside the task's own: all, none, or names (normal,zeros,…)")
      ->capture_default_str();
  check_app->add_flag("!--no-exact", check.exact, "Leave out the trial on small integers");
  check_app
      ->add_option("--schedules", check.schedules,
                   "Other orders of blocks and warps to try (default: 2 where atomics or waiting "
                   "make the order matter)")
      ->check(CLI::Range(0, 1000));

  ExtractCommand extract;
  auto* extract_app = AddExtract(app, extract);

  VerifyCommand verify;
  auto* verify_app = AddVerify(app, verify);

  BenchCommand bench;
  auto* bench_app = app.add_subcommand(
      "bench", "How fast? Against eager PyTorch, torch.compile and each other, on a GPU");
  bench_app->add_option("kernels", bench.kernels, "The .cu files, or Python answers")->required();
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
  auto* optimize_app = AddOptimize(app, optimize);
  TranslateCommand translate;
  auto* translate_app = AddTranslate(app, translate);

  ExportCommand exported;
  auto* export_app = AddExport(app, exported);
  ConfirmCommand confirm;
  auto* confirm_app = AddConfirm(app, confirm);

  TaskCommand task;
  auto* task_app =
      app.add_subcommand("task", "The benchmark: list, show, controls, filter, import");
  task_app->require_subcommand(1);
  auto* list_app = task_app->add_subcommand("list", "All tasks");
  AddCommon(list_app, task.common, false);
  auto* show_app = task_app->add_subcommand("show", "Settings and files of one task");
  show_app->add_option("task", task.task, "Name or path")->required();
  AddCommon(show_app, task.common, false);
  auto* controls_app = task_app->add_subcommand(
      "controls", "Can the judge tell right from wrong? Tries wrong answers at each setting");
  controls_app->add_option("task", task.task, "Name or path")->required();
  controls_app->add_flag("--backward", task.backward, "The backward direction of the task");
  controls_app->add_option("--settings", task.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  AddFullSize(controls_app, task.full_size);
  AddCommon(controls_app, task.common, true);
  FilterCommand filter;
  auto* filter_app = AddFilter(task_app, filter);
  ImportCommand imported;
  auto* import_app = AddImport(task_app, imported);

  ReportCommand report;
  auto* report_app =
      app.add_subcommand("report", "What a run tried and found; several runs side by side");
  report_app->add_option("runs", report.runs, "Folder of the run")->required()->type_name("RUN");
  report_app->add_flag("--compare", report.compare, "Lay several runs side by side");
  report_app
      ->add_option("--html", report.html, "Write the page to FILE (default: report.html in RUN)")
      ->type_name("FILE");
  AddCommon(report_app, report.common, false);

  DoctorCommand doctor;
  auto* doctor_app = app.add_subcommand("doctor", "What this machine offers, and what is missing");
  doctor_app->add_option("--python", doctor.common.python, "Python that has PyTorch");
  AddCommon(doctor_app, doctor.common, false);

  SelftestCommand selftest;
  auto* selftest_app = AddSelftest(app, selftest);
  WorkerCommand worker;
  auto* worker_app = AddWorker(app, worker);
  ReviewCommand review;
  CalibrateCommand calibrate;
  const ReviewApps review_apps = AddReview(app, review, calibrate);
  McpCommand mcp;
  auto* mcp_app = AddMcp(app, mcp);

  SuiteRunCommand suite_run;
  SuiteReportCommand suite_report;
  SuiteCompareCommand suite_compare;
  const SuiteApps suite = AddSuite(app, suite_run, suite_report, suite_compare);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error, std::cout, std::cerr);
    return status == 0 ? 0 : 2;
  }
  if (*build_app) return Command(std::move(build));
  if (*check_app) return Command(std::move(check));
  if (*extract_app) return Command(std::move(extract));
  if (*verify_app) return Command(std::move(verify));
  if (*bench_app) return Command(std::move(bench));
  if (*export_app) return Command(std::move(exported));
  if (*confirm_app) return Command(std::move(confirm));
  if (*stream_app) return Command(std::move(stream));
  if (*profile_app) return Command(std::move(profile));
  if (*optimize_app) {
    const int ways = (optimize.target.task.empty() ? 0 : 1) + (optimize.resume.empty() ? 0 : 1) +
                     (optimize.replay.empty() ? 0 : 1);
    if (ways != 1) {
      std::cerr << "cupel optimize: name one of a task, --resume RUN to go on with a run, and "
                   "--replay RUN to repeat one\n";
      return 2;
    }
    return Command(std::move(optimize));
  }
  if (*translate_app) {
    if (translate.target.task.empty() == translate.resume.empty()) {
      std::cerr
          << "cupel translate: name either a task or, with --resume RUN, a run to go on with\n";
      return 2;
    }
    return Command(std::move(translate));
  }
  if (*report_app) {
    if (report.runs.size() > 1 && !report.compare) {
      std::cerr << "cupel report: name one run, or several with --compare\n";
      return 2;
    }
    return Command(std::move(report));
  }
  if (*doctor_app) return Command(std::move(doctor));
  if (*selftest_app) return Command(std::move(selftest));
  if (*suite.report) return Command(std::move(suite_report));
  if (*suite.compare) return Command(std::move(suite_compare));
  if (*suite.run) {
    const bool fresh = !suite_run.input.empty() && !suite_run.output.empty();
    if (fresh == !suite_run.resume.empty()) {
      std::cerr
          << "cupel suite run: name either tasks or a list and, with -o RUN, a folder for the "
             "run; or, with --resume RUN, a run to go on with\n";
      return 2;
    }
    return Command(std::move(suite_run));
  }
  if (*worker_app) return Command(std::move(worker));
  if (*review_apps.calibrate) return Command(std::move(calibrate));
  if (*review_apps.review) {
    if (review.kernel.empty() || review.target.task.empty()) {
      std::cerr << "cupel review: name a kernel and, with --task, its task\n";
      return 2;
    }
    return Command(std::move(review));
  }
  if (*mcp_app) return Command(std::move(mcp));
  if (*import_app) return Command(std::move(imported));
  if (*filter_app) {
    if (filter.task.empty() == filter.all.empty()) {
      std::cerr
          << "cupel task filter: name either a task or, with --all FOLDER, a folder of them\n";
      return 2;
    }
    return Command(std::move(filter));
  }
  task.action = *show_app ? "show" : *controls_app ? "controls" : "list";
  return Command(std::move(task));
}

}  // namespace cupel::cli
