// Commands that show what was found, and what this machine can do.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/option_groups.h"

namespace cupel::cli {
namespace {

std::string WhatIsWrong(const ReportCommand& command) {
  if (command.runs.size() <= 1 || command.compare) return "";
  return "cupel report: name one run, or several with --compare";
}

void AddReport(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("report", "What a run tried and found; several runs side by side");
  auto& report = Offer<ReportCommand>(offers, sub, WhatIsWrong);
  sub->add_option("runs", report.runs, "Folder of the run")->required()->type_name("RUN");
  sub->add_flag("--compare", report.compare, "Lay several runs side by side");
  sub->add_option("--html", report.html, "Write the page to FILE (default: report.html in RUN)")
      ->type_name("FILE");
  AddCommon(sub, report.common, false);
}

void AddDoctor(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand("doctor", "What this machine offers, and what is missing");
  auto& doctor = Offer<DoctorCommand>(offers, sub);
  sub->add_option("--python", doctor.common.python, "Python that has PyTorch");
  AddCommon(sub, doctor.common, false);
}

void AddSelftest(CLI::App& app, Offers& offers) {
  auto* sub = app.add_subcommand(
      "selftest", "Does it tell cheating kernels from honest ones here? Both corpora, with rates");
  auto& command = Offer<SelftestCommand>(offers, sub);
  command.common.device = "emu";
  sub->add_option("--filter", command.filter,
                  "Only kernels whose name matches, e.g. mustfail/cache")
      ->type_name("RE");
  sub->add_option("--jobs", command.jobs, "Kernels at a time (default: one a core)")
      ->check(CLI::Range(1, 1024));
  AddCommon(sub, command.common, true);
}

}  // namespace

void AddReportCommands(CLI::App& app, Offers& offers) {
  AddReport(app, offers);
  AddDoctor(app, offers);
  AddSelftest(app, offers);
}

}  // namespace cupel::cli
