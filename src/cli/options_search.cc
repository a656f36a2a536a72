// Commands that look for kernels.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/optimize_config.h"
#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

std::string WhatIsWrong(const OptimizeCommand& command) {
  const int ways = (command.target.task.empty() ? 0 : 1) + (command.resume.empty() ? 0 : 1) +
                   (command.replay.empty() ? 0 : 1);
  if (ways == 1) return "";
  return "cupel optimize: name one of a task, --resume RUN to go on with a run, and "
         "--replay RUN to repeat one";
}

std::string WhatIsWrong(const TranslateCommand& command) {
  if (command.target.task.empty() != command.resume.empty()) return "";
  return "cupel translate: name either a task or, with --resume RUN, a run to go on with";
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
  app->add_option("--calibration", search.calibration,
                  "With models: what cupel review calibrate found of the reviewers")
      ->type_name("FILE");
  app->add_flag(
      "--lint", search.lint,
      "With models: tell them what clang-tidy remarks on accepted kernels (seconds each)");
  app->add_option("--without", search.without,
                  "With models: leave an ingredient out, for ablations: " + IngredientNames())
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void AddOptimize(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("optimize", "Evolve a faster kernel for a task");
  auto& optimize = Offer<OptimizeCommand>(offers, sub, WhatIsWrong);
  AddTarget(sub, optimize.target, true);
  AddCommon(sub, optimize.common, true, true);
  AddCompile(sub, optimize.compile);
  auto* kernel = sub->add_option("--kernel", optimize.kernel,
                                 "Start from this .cu file or Python answer (default: the task's)");
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
}

void AddTranslate(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("translate", "Have a first kernel written that is right");
  auto& command = Offer<TranslateCommand>(offers, sub, WhatIsWrong);
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
}

}  // namespace

void AddSearchCommands(CLI::App& app, Offers& offers) {
  AddOptimize(app, offers);
  AddTranslate(app, offers);
}

}  // namespace cupel::cli
