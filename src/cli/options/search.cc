// The options of commands that search for kernels.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "app/search/optimize_config.h"
#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

std::string UsageError(const OptimizeCommand& command) {
  const int ways = (command.target.task.empty() ? 0 : 1) + (command.resume.empty() ? 0 : 1) +
                   (command.replay.empty() ? 0 : 1);
  if (ways == 1) return "";
  return "cupel optimize: give exactly one of: a task, --resume RUN to continue a run, --replay "
         "RUN "
         "to repeat a run";
}

std::string UsageError(const TranslateCommand& command) {
  if (command.target.task.empty() != command.resume.empty()) return "";
  return "cupel translate: give either a task, or --resume RUN to continue a run";
}

void AddSearch(CLI::App* app, app::SearchOptions& search) {
  AddModels(app, search.models, false);  // the run's archive is the transcript
  app->add_option("--reviewer", search.reviewers,
                  "Language model that reviews proposals before they are judged (repeatable; "
                  "default: the first --model)")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  const auto number = [&](const char* name, int& value, const char* help, int least, int most) {
    app->add_option(name, value, help)->check(CLI::Range(least, most))->capture_default_str();
  };
  number("--generations", search.generations, "With models: number of rounds of proposals", 1,
         10000);
  number("--proposals", search.proposals, "With models: kernels that are proposed in a generation",
         1, 64);
  number("--evaluations", search.evaluations,
         "With models: proposed kernels of a generation that are measured, the fastest first", 1,
         64);
  number("--examples", search.examples, "With models: accepted kernels that a prompt shows", 0, 20);
  number("--islands", search.islands, "With models: populations that evolve separately", 1, 16);
  app->add_option("--sampling", search.sampling,
                  "With models: ask for proposals in parallel, or sequentially in one conversation")
      ->check(CLI::IsMember({"parallel", "sequential"}))
      ->capture_default_str();
  app->add_option("--review", search.review,
                  "With models: review proposals before judging them: on, off, or auto (while that "
                  "saves more than it costs)")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app->add_option("--calibration", search.calibration,
                  "With models: calibration of the reviewers, from cupel review calibrate")
      ->type_name("FILE");
  app->add_option("--lessons", search.lessons,
                  "With models: show them what made kernels faster in the run in this folder "
                  "(repeatable; the run's record lists it)")
      ->type_name("RUN")
      ->allow_extra_args(false);
  app->add_flag(
      "--lint", search.lint,
      "With models: show them clang-tidy's remarks on accepted kernels (takes seconds for each)");
  app->add_option(
         "--without", search.without,
         "With models: turn off a part of the search, for ablations: " + app::IngredientNames())
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void AddOptimize(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("optimize", "Evolve a faster kernel for a task");
  auto& optimize = AddCommand<OptimizeCommand>(subcommands, sub, UsageError);
  AddTarget(sub, optimize.target, true);
  AddCommon(sub, optimize.common, optimize.show, true);
  AddCompile(sub, optimize.compile);
  auto* kernel = sub->add_option("--kernel", optimize.kernel,
                                 "Start from this .cu file or Python program (default: the task's "
                                 "baseline kernel)");
  sub->add_flag("--translate", optimize.translate,
                "With models: start from a kernel that they write, not from the task's")
      ->excludes(kernel);
  sub->add_option("--objective", optimize.objective,
                  "What to minimise: time, energy (of a call, on a GPU), or mix (their product)")
      ->check(CLI::IsMember({"time", "energy", "mix"}))
      ->capture_default_str();
  sub->add_option("--form", optimize.form,
                  "With --translate: what models write: a .cu file (cuda, the default) or a Python "
                  "program that brings its kernels (python)")
      ->check(CLI::IsMember({"cuda", "python"}));
  sub->add_option("--stop-at", optimize.stop_at,
                  "Stop when the best kernel reaches this share of the speed at which the GPU "
                  "could move the data once, such as 0.95 (default: go on)")
      ->check(CLI::Range(0.0, 1.0));
  sub->add_option("--candidates", optimize.candidates,
                  "Without models: number of variants that the tuner tries")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  sub->add_option("--batch", optimize.batch,
                  "Without models: number of variants proposed at a time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddSearch(sub, optimize.search);
  sub->add_option("-o,--run", optimize.run, "Folder of the run (default: cupel-runs/…)");
  sub->add_option("--resume", optimize.resume, "Continue the run in this folder")->type_name("RUN");
  sub->add_option("--replay", optimize.replay,
                  "Repeat the run in this folder with its recorded answers, in a new run folder")
      ->type_name("RUN");
}

void AddTranslate(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("translate",
                                 "Let language models write a first correct kernel for a task");
  auto& command = AddCommand<TranslateCommand>(subcommands, sub, UsageError);
  AddTarget(sub, command.target, true);
  AddModels(sub, command.models, false);  // the run's archive is the transcript
  sub->add_option("-o,--output", command.output,
                  "File for the kernel (default: RUN/best.cu or RUN/best.py)")
      ->type_name("FILE");
  sub->add_option("--form", command.form,
                  "What models write: a .cu file (cuda) or a Python program that brings its "
                  "kernels (python)")
      ->check(CLI::IsMember({"cuda", "python"}))
      ->capture_default_str();
  sub->add_option("--attempts", command.attempts,
                  "Most answers, of all models together (default: 10)")
      ->check(CLI::Range(1, 1000));
  sub->add_option("--run", command.run, "Folder of the run (default: cupel-runs/…)");
  sub->add_option("--resume", command.resume, "Continue the run in this folder")->type_name("RUN");
  AddCommon(sub, command.common, command.show, true);
  AddCompile(sub, command.compile);
}

}  // namespace

void AddSearchCommands(CLI::App& app, Subcommands& subcommands) {
  AddOptimize(app, subcommands);
  AddTranslate(app, subcommands);
}

}  // namespace cupel::cli
