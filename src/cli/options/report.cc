// The options of commands that report on runs, this machine and cupel itself.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace cupel::cli {
namespace {

std::string UsageError(const ReportCommand& command) {
  if (!command.svg.empty() && !command.compare) {
    return "cupel report: --svg draws a comparison: use it with --compare";
  }
  if (command.runs.size() <= 1 || command.compare) return "";
  return "cupel report: give one run, or several runs with --compare";
}

void AddReport(CLI::App& app, Subcommands& subcommands) {
  auto* sub =
      app.add_subcommand("report", "Show what a run tried and found, or compare several runs");
  auto& report = AddCommand<ReportCommand>(subcommands, sub, UsageError);
  sub->add_option("runs", report.runs, "Folder of a run")->required()->type_name("RUN");
  sub->add_flag("--compare", report.compare, "Compare several runs side by side");
  sub->add_option("--html", report.html,
                  "Write the HTML page to FILE (default: report.html in RUN)")
      ->type_name("FILE");
  sub->add_option("--svg", report.svg,
                  "With --compare: draw to FILE how the gains grow with the kernels judged")
      ->type_name("FILE");
  AddShow(sub, report.show);
}

void AddDoctor(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand("doctor", "Show what works on this machine and what is missing");
  auto& doctor = AddCommand<DoctorCommand>(subcommands, sub);
  sub->add_option("--python", doctor.common.python, "Python interpreter that has PyTorch");
  AddShow(sub, doctor.show);
}

void AddSelftest(CLI::App& app, Subcommands& subcommands) {
  auto* sub = app.add_subcommand(
      "selftest", "Test cupel on this machine with known cheating and honest kernels");
  auto& command = AddCommand<SelftestCommand>(subcommands, sub);
  command.common.device = "emu";
  sub->add_option(
         "--filter", command.filter,
         "Use only kernels whose name matches this regular expression, e.g. mustfail/cache")
      ->type_name("RE");
  sub->add_option("--jobs", command.jobs, "Kernels at a time (default: one for each core)")
      ->check(CLI::Range(1, 1024));
  AddCommon(sub, command.common, command.show);
}

}  // namespace

void AddReportCommands(CLI::App& app, Subcommands& subcommands) {
  AddReport(app, subcommands);
  AddDoctor(app, subcommands);
  AddSelftest(app, subcommands);
}

}  // namespace cupel::cli
