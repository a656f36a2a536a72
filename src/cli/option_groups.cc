// SPDX-License-Identifier: Apache-2.0
#include "cli/option_groups.h"

#include <CLI/CLI.hpp>

namespace cupel::cli {

void AddMachine(CLI::App* app, Common& common, bool asks_models) {
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

void AddCommon(CLI::App* app, Common& common, bool uses_device, bool asks_models) {
  if (uses_device) {
    AddMachine(app, common, asks_models);
    app->add_option("--seed", common.seed,
                    "Draw the inputs from this number: repeats a verdict (default: a secret pool)")
        ->check(CLI::NonNegativeNumber);
  }
  app->add_option("--json", common.json, "Write the same facts to FILE as JSON")->type_name("FILE");
  app->add_flag("-q,--quiet", common.quiet, "Print the result alone");
}

void AddModels(CLI::App* app, ModelOptions& models, bool keeps_transcript) {
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

void AddRounds(CLI::App* app, int& rounds) {
  app->add_option("--rounds", rounds, "Replays of each at most, where it is timed")
      ->check(CLI::Range(kFewestRounds, kMostRounds))
      ->capture_default_str();
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

}  // namespace cupel::cli
