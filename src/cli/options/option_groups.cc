// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_groups.h"

#include <CLI/CLI.hpp>

#include "task/allowed_operators.h"

namespace cupel::cli {

void AddGpuModel(CLI::App* app, app::Common& common, bool asks_models) {
  app->add_option(asks_models ? "--gpu-model" : "--gpu-model,--model", common.model,
                  "GPU that the emulator models: h100, h200, b200, a100")
      ->capture_default_str();
}

void AddPython(CLI::App* app, app::Common& common) {
  app->add_option("--python", common.python,
                  "Python interpreter that has PyTorch (default: $CUPEL_PYTHON, python3, .venv, "
                  "/usr/bin/python3)");
}

void AddMachine(CLI::App* app, app::Common& common, bool asks_models) {
  app->add_option("--device", common.device,
                  "Where kernels run: emu (built-in emulator), gpu, gpu:N, or gpu:all for all GPUs "
                  "(only bench, stream and suite run). Default: emu; bench: gpu");
  app->add_option("--engines", common.engines,
                  "On a GPU, who judges: emu, gpu, or both, which must then both accept. The "
                  "emulator sees races and accesses out of bounds, and looks at other sizes")
      ->check(CLI::IsMember({"emu", "gpu", "both"}))
      ->capture_default_str();
  AddGpuModel(app, common, asks_models);
  AddPython(app, common);
}

void AddShow(CLI::App* app, Show& show) {
  app->add_option("--json", show.json, "Also write the result to FILE as JSON")->type_name("FILE");
  app->add_flag("-q,--quiet", show.quiet, "Print only the result");
}

void AddCommon(CLI::App* app, app::Common& common, Show& show, bool asks_models) {
  AddMachine(app, common, asks_models);
  app->add_option("--seed", common.seed,
                  "Seed of the inputs; the same seed repeats a verdict (default: secret inputs)")
      ->check(CLI::NonNegativeNumber);
  AddShow(app, show);
}

void AddModels(CLI::App* app, app::ModelOptions& models, bool keeps_transcript) {
  app->add_option("--model", models.specs,
                  "Language model, PROVIDER:NAME@OPTION=VALUE,… (repeatable; docs/models.md)")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  app->add_option("--budget", models.budget_usd,
                  "Most that the models may cost, in US dollars; never exceeded")
      ->type_name("USD")
      ->check(CLI::Range(0.0, 1e6));
  app->add_option("--budget-tokens", models.budget_tokens,
                  "Most tokens that the models may use; never exceeded")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  if (!keeps_transcript) return;
  app->add_option("--transcript", models.transcript,
                  "Record questions and answers in FILE; questions that are already answered there "
                  "are not asked again")
      ->type_name("FILE");
}

void AddWeakSandbox(CLI::App* app, app::Compile& compile) {
  app->add_flag(
         "--allow-weak-sandbox", compile.allow_weak_sandbox,
         "Compile and record even if the operating system lacks parts of the sandbox; only for "
         "kernels that you trust (same as CUPEL_ALLOW_WEAK_SANDBOX=1)")
      ->envname("CUPEL_ALLOW_WEAK_SANDBOX");
}

void AddCompile(CLI::App* app, app::Compile& compile) {
  app->add_option("--arch", compile.arch,
                  "Target architecture of nvcc: sm_80, sm_90, sm_90a, sm_100, sm_100a. auto: the "
                  "GPU's, with the suffix a if the kernel needs it")
      ->check(CLI::IsMember({"auto", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a"}))
      ->capture_default_str();
  app->add_option("--flag", compile.flags,
                  "Additional nvcc flag, from the list of allowed flags (repeatable)")
      ->type_name("FLAG")
      ->allow_extra_args(false);
  app->add_option("--include", compile.include_roots,
                  "Folder of headers that the kernel may include, read-only (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app->add_option("--compile-limit", compile.seconds, "Most seconds for compiling the kernel")
      ->check(CLI::Range(1, 7200))
      ->capture_default_str();
  AddWeakSandbox(app, compile);
}

void AddEntry(CLI::App* app, app::Compile& compile) {
  app->add_option_function<std::string>(
         "--entry",
         [&compile](const std::string& name) { compile.flags.push_back("-DCUPEL_ENTRY=" + name); },
         "Function of the module to judge, if it is not called forward or backward. It takes the "
         "task's arguments in the task's order")
      ->type_name("NAME");
}

void AddSources(CLI::App* app, app::Compile& compile) {
  app->add_option("--sources", compile.sources,
                  "Other .cu and C++ files of the kernel. Each file is compiled by itself, and all "
                  "are linked")
      ->type_name("FILE")
      ->expected(1, 64);
}

void AddFullSize(CLI::App* app, bool& full_size) {
  app->add_flag("--full-size", full_size,
                "On the emulator too, use the task's own sizes instead of the smaller ones in "
                "task.json");
}

void AddRounds(CLI::App* app, int& rounds) {
  app->add_option("--rounds", rounds, "Most replays of each kernel and baseline when timing")
      ->check(CLI::Range(app::kFewestRounds, app::kMostRounds))
      ->capture_default_str();
}

void AddTask(CLI::App* app, app::Target& target, bool positional) {
  if (positional) {
    app->add_option("task", target.task, "Task: a name under tasks/, a folder, or a .py file");
  } else {
    app->add_option("--task", target.task, "Task: a name under tasks/, a folder, or a .py file")
        ->required();
  }
  app->add_flag("--backward", target.backward, "Use the backward direction of the task");
  app->add_option("--settings", target.settings, "Settings to use: single, multi, heldout or all")
      ->check(CLI::IsMember({"single", "multi", "heldout", "all"}))
      ->capture_default_str();
  app->add_option(
         "--operators", target.operators,
         "Operators of PyTorch in the candidate's host code: allowed, none, a list such as "
         "aten::sum,aten::mean, or auto (what the task allows)")
      ->type_name("OPERATORS")
      ->check(CLI::Validator(
          [](const std::string& text) -> std::string {
            if (text == "auto") return "";
            const auto allowed = task::ParseAllowedOperators(text);
            return allowed ? "" : allowed.error().message + ": " + allowed.error().remedy;
          },
          ""))
      ->capture_default_str();
  AddFullSize(app, target.full_size);
}

void AddTarget(CLI::App* app, app::Target& target, bool positional) {
  AddTask(app, target, positional);
  app->add_option("--trials", target.trials,
                  "Number of trials at each setting, each with fresh inputs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
}

}  // namespace cupel::cli
