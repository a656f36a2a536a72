// Commands that ask models to read kernels.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

std::string WhatIsWrong(const ReviewCommand& command) {
  if (!command.kernel.empty() && !command.target.task.empty()) return "";
  return "cupel review: name a kernel and, with --task, its task";
}

void AddCalibrate(CLI::App* review, Offers& offers) {
  auto* tune = review->add_subcommand(
      "calibrate", "How good are the reviewers? Measured and tuned on labelled kernels");
  auto& calibrate = Offer<CalibrateCommand>(offers, tune);
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
}

}  // namespace

void AddReviewCommands(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("review", "Is it right? As language models read it");
  AddCalibrate(sub, offers);
  auto& review = Offer<ReviewCommand>(offers, sub, WhatIsWrong);
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
}

}  // namespace cupel::cli
