// Commands that judge and time kernels.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

void AddDistributions(CLI::App* sub, std::string& distributions) {
  sub->add_option("--distributions", distributions,
                  "Inputs to try beside the task's own: all, none, or names (normal,zeros,…)")
      ->capture_default_str();
}

void AddBuild(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("build", "Does it compile? Diagnostics, resources, audit");
  auto& build = Offer<BuildCommand>(offers, sub);
  sub->add_option("kernel", build.kernel, "The .cu file, or a Python answer")->required();
  sub->add_option("--task", build.task, "Task of a Python answer, for its arguments' order");
  sub->add_option("--python", build.common.python, "Python that has PyTorch");
  AddCommon(sub, build.common, false);
  AddCompile(sub, build.compile);
}

void AddCheck(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("check", "Is it right? A verdict with reasons");
  auto& check = Offer<CheckCommand>(offers, sub);
  sub->add_option("kernel", check.kernel, "The .cu file, or a Python answer")->required();
  AddTarget(sub, check.target, false);
  AddCommon(sub, check.common, true);
  AddCompile(sub, check.compile);
  sub->add_option("--plan", check.plan, "Write the plan of the first setting to FILE as JSON")
      ->type_name("FILE");
  sub->add_flag("--fresh", check.fresh, "Draw new cases instead of using the pool");
  sub->add_flag("!--no-shadow", check.shadow, "Leave out the run with exact arithmetic beside");
  AddDistributions(sub, check.distributions);
  sub->add_flag("!--no-exact", check.exact, "Leave out the trial on small integers");
  sub->add_option("--schedules", check.schedules,
                  "Other orders of blocks and warps to try (default: 2 where atomics or waiting "
                  "make the order matter)")
      ->check(CLI::Range(0, 1000));
}

void AddExtract(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand(
      "extract", "The .cu file in a Python answer with load_inline, without running it");
  auto& command = Offer<ExtractCommand>(offers, sub);
  sub->add_option("answer", command.answer, "The .py file")->required();
  sub->add_option("--task", command.task,
                  "Task that gives the order of the arguments (default: the answer's own)");
  sub->add_option("-o,--output", command.output, "File to write (default: standard output)")
      ->type_name("FILE");
  sub->add_option("--python", command.common.python, "Python that has PyTorch");
  AddCommon(sub, command.common, false);
}

void AddVerify(CLI::App& app, Offers& offers) {
  auto* sub =
      app.add_subcommand("verify", "Are records true? Checks their hashes, and judges again");
  auto& command = Offer<VerifyCommand>(offers, sub);
  sub->add_option("records", command.records, "What cupel check --json wrote, or suite report")
      ->required();
  sub->add_option("--kernel", command.kernel,
                  "The .cu file of one record (default: where it says, or beside it)")
      ->type_name("FILE");
  sub->add_option("--task", command.task, "The task of one record (default: where it says)");
  sub->add_option("--device", command.common.device, "gpu[:N] for a record of a GPU");
  sub->add_option("--python", command.common.python, "Python that has PyTorch");
  AddWeakSandbox(sub, command.compile);
  AddCommon(sub, command.common, false);
}

void AddBench(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand(
      "bench", "How fast? Against eager PyTorch, torch.compile and each other, on a GPU");
  auto& bench = Offer<BenchCommand>(offers, sub);
  sub->add_option("kernels", bench.kernels, "The .cu files, or Python answers")->required();
  AddTarget(sub, bench.target, false);
  AddCommon(sub, bench.common, true);
  AddCompile(sub, bench.compile);
  sub->add_option("--baselines", bench.baselines,
                  "PyTorch's answers beside them: eager, compile, max-autotune, or none; probe "
                  "shows that both clocks agree")
      ->capture_default_str();
  sub->add_flag("--energy", bench.energy, "Measure the energy of a call, too");
  sub->add_option("--sets", bench.sets, "Input sets that replays rotate among")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  AddRounds(sub, bench.rounds);
}

void AddStream(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand(
      "stream", "Judges many candidates, and times them on a GPU: compilers run ahead");
  auto& stream = Offer<StreamCommand>(offers, sub);
  sub->add_option(
         "list", stream.list,
         "File with a line of JSON for each: {\"kernel\": …, \"task\": …, \"backward\": …}")
      ->required();
  sub->add_option("--settings", stream.settings, "single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  sub->add_option("--trials", stream.trials, "Trials with fresh inputs for each setting")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  AddDistributions(sub, stream.distributions);
  sub->add_flag("--shadow", stream.shadow, "Run with exact arithmetic beside, too, as check does");
  sub->add_option("-o,--output", stream.output, "Write each result to FILE as a line of JSON")
      ->type_name("FILE");
  AddCommon(sub, stream.common, true);
  AddCompile(sub, stream.compile);
}

void AddProfile(CLI::App& app, Offers& offers) {
  auto* sub =
      app.add_subcommand("profile", "What does it spend its time on? The bottleneck and its lines");
  auto& profile = Offer<ProfileCommand>(offers, sub);
  profile.target.settings = "single";
  sub->add_option("kernel", profile.kernel, "The .cu file, or a Python answer")->required();
  AddTask(sub, profile.target, false);
  AddCommon(sub, profile.common, true);
  AddCompile(sub, profile.compile);
  sub->add_option("--keep", profile.keep,
                  "With --device gpu: leave the call and Nsight Compute's report in DIR")
      ->type_name("DIR");
}

}  // namespace

void AddJudgingCommands(CLI::App& app, Offers& offers) {
  AddBuild(app, offers);
  AddCheck(app, offers);
  AddExtract(app, offers);
  AddVerify(app, offers);
  AddBench(app, offers);
  AddStream(app, offers);
  AddProfile(app, offers);
}

}  // namespace cupel::cli
