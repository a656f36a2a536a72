// The options of commands that ask models to review kernels.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

std::string UsageError(const ReviewCommand& command) {
  if (!command.kernel.empty() && !command.target.task.empty()) return "";
  return "cupel review: give a kernel, and its task with --task";
}

void AddCalibrate(CLI::App* review, Subcommands& subcommands) {
  auto* tune =
      review->add_subcommand("calibrate", "Measure and tune the reviewers on labelled kernels");
  auto& calibrate = AddCommand<CalibrateCommand>(subcommands, tune);
  tune->add_option("--labels", calibrate.labels, "List of kernels and what is wrong with each")
      ->type_name("FILE")
      ->required();
  AddModels(tune, calibrate.models);
  tune->add_option("--instructions", calibrate.instructions,
                   "Folder of instructions to choose from: memory.NAME.md, …")
      ->type_name("DIR");
  tune->add_flag("!--no-reflect", calibrate.reflect, "Do not ask the reviewers to reconsider");
  tune->add_option("-o,--out", calibrate.output, "Write the calibration to FILE, for --calibration")
      ->type_name("FILE");
  tune->add_option("--python", calibrate.common.python, "Python interpreter that has PyTorch");
  tune->add_flag("-q,--quiet", calibrate.show.quiet, "Print only the result");
}

}  // namespace

void AddReviewCommands(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("review", "Let language models review a kernel");
  AddCalibrate(sub, subcommands);
  auto& review = AddCommand<ReviewCommand>(subcommands, sub, UsageError);
  sub->add_option("kernel", review.kernel, "A .cu file or a Python answer");
  sub->add_option("--task", review.target.task,
                  "Task: a name under tasks/, a folder, or a .py file");
  sub->add_flag("--backward", review.target.backward, "Use the backward direction of the task");
  AddModels(sub, review.models);
  sub->add_option("--calibration", review.calibration,
                  "Instructions, weights and threshold, from cupel review calibrate")
      ->type_name("FILE");
  sub->add_flag("!--no-reflect", review.reflect, "Do not ask the reviewers to reconsider");
  sub->add_flag(
      "--show-findings", review.show_findings,
      "Judge the kernel first, as cupel check does, and show the findings to the reviewers");
  AddCommon(sub, review.common, review.show, true);
  AddCompile(sub, review.compile);
}

}  // namespace cupel::cli
