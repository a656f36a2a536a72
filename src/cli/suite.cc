// `cupel suite run`, `report`, `merge` and `compare`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "app/suite/suite_results.h"
#include "app/suite/suite_run.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "report/suite/compare.h"
#include "report/suite/tables.h"

namespace cupel::cli {
namespace {

void Print(const app::SuiteResults& results, const std::filesystem::path& folder) {
  fmt::print("{}{}\n", report::SuiteText(results.suite, results.scores),
             (folder / "results.html").string());
}

}  // namespace

Result<int> Run(const SuiteRunCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::SuiteRunReport report, app::RunSuite(command, view));
  view.End();
  TRY(WriteJson(command.show.json, report.results.document));
  TRY(report.status);
  Print(report.results, report.folder);
  if (report.not_judged > 0) {
    fmt::print(
        "{} not judged because of an error in cupel or in the task; to try again: --resume {}\n",
        report.not_judged, report.folder.string());
    return 2;
  }
  return report.counts.accepted == report.counts.total ? 0 : 1;
}

Result<int> Run(const SuiteReportCommand& command) {
  if (!command.records.empty()) {
    TRY_ASSIGN(const size_t records, app::WriteSuiteRecords(command));
    fmt::print("{} records in {}\n", records, command.records.string());
  }
  TRY_ASSIGN(const app::SuiteResults results, app::ReportSuite(command));
  Print(results, command.run);
  TRY(WriteJson(command.show.json, results.document));
  return 0;
}

Result<int> Run(const SuiteMergeCommand& command) {
  TRY_ASSIGN(const app::SuiteResults results, app::MergeSuites(command));
  Print(results, command.output);
  TRY(WriteJson(command.show.json, results.document));
  return 0;
}

Result<int> Run(const SuiteCompareCommand& command) {
  TRY_ASSIGN(const report::Comparison comparison, app::CompareSuites(command));
  fmt::print("{}", report::CompareText(comparison));
  TRY(WriteJson(command.show.json, report::ToJson(comparison)));
  return comparison.worse() ? 1 : 0;
}

}  // namespace cupel::cli
