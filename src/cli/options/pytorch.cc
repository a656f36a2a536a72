// The options of commands that use a kernel from PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

void AddExport(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("export", "Write an accepted kernel as a PyTorch package");
  auto& command = AddCommand<ExportCommand>(subcommands, sub);
  sub->add_option("kernel", command.kernel, "A .cu file with forward")->required();
  sub->add_option("--task", command.target.task,
                  "Task: a name under tasks/, a folder, or a .py file")
      ->required();
  sub->add_option("-o,--output", command.output, "Folder to create")->type_name("DIR")->required();
  sub->add_option("--backward-kernel", command.backward_kernel,
                  "A .cu file with backward; it gives the operator its gradients");
  sub->add_option("--name", command.name, "Name of the package (default: the task's)");
  sub->add_option("--record", command.record,
                  "Measurements to show: a file that cupel bench --json wrote")
      ->type_name("FILE");
  sub->add_flag("--force", command.force,
                "Export the kernel even if it is not accepted; the package says so");
  sub->add_option("--trials", command.target.trials,
                  "Number of trials at each setting, each with fresh inputs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  AddCommon(sub, command.common, command.show);
  AddCompile(sub, command.compile);
}

void AddConfirm(CLI::App& app, Subcommands& subcommands) {
  auto* sub =
      app.add_subcommand("confirm",
                         "Time a kernel from Python like published harnesses, for comparison "
                         "(needs a GPU)");
  auto& command = AddCommand<ConfirmCommand>(subcommands, sub);
  command.target.settings = "single";
  sub->add_option("kernel", command.kernel, "A .cu file")->required();
  AddTask(sub, command.target, false);
  AddCommon(sub, command.common, command.show);
  AddCompile(sub, command.compile);
  sub->add_option("--repeats", command.repeats,
                  "Number of calls that are timed one by one with CUDA events")
      ->check(CLI::Range(10, 100000))
      ->capture_default_str();
  sub->add_flag("!--no-references", command.references,
                "Do not time eager PyTorch and torch.compile");
  sub->add_flag("--unsandboxed", command.unsandboxed,
                "Run the kernel's host code without a sandbox if CUDA does not start in it; only "
                "for kernels that you trust");
}

}  // namespace

void AddPyTorchCommands(CLI::App& app, Subcommands& subcommands) {
  AddExport(app, subcommands);
  AddConfirm(app, subcommands);
}

}  // namespace cupel::cli
