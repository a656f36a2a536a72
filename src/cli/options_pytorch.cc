// Commands that take a kernel to PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

void AddExport(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("export", "Write an accepted kernel as a PyTorch package");
  auto& command = Offer<ExportCommand>(offers, sub);
  sub->add_option("kernel", command.kernel, "The .cu file with forward, or a Python answer")
      ->required();
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
}

void AddConfirm(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("confirm",
                                 "Time it from Python as others do, for comparison (needs a GPU)");
  auto& command = Offer<ConfirmCommand>(offers, sub);
  command.target.settings = "single";
  sub->add_option("kernel", command.kernel, "The .cu file, or a Python answer")->required();
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
}

}  // namespace

void AddPyTorchCommands(CLI::App& app, Offers& offers) {
  AddExport(app, offers);
  AddConfirm(app, offers);
}

}  // namespace cupel::cli
