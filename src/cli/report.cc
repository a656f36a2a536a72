// `cupel report`: reports on one run, which may still be running, or compares several runs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "app/search/run_summary.h"
#include "app/session.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "os/files.h"
#include "report/run/compare.h"
#include "report/run/compare_svg.h"
#include "report/run/text.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;

Result<archive::Archive> OpenArchive(const fs::path& folder) {
  return archive::Archive::Open(folder / app::kRunFile, archive::Access::kReadOnly);
}

/// Writes the page to the file that the user named, otherwise to the run's folder. In the run's
/// folder a write error is only a warning.
Status WriteHtml(const fs::path& wanted, const fs::path& folder, const std::string& html) {
  const fs::path file = wanted.empty() ? folder / app::kReportFile : wanted;
  Status written = os::WriteFileAtomically(file, html);
  if (!written && !wanted.empty()) return written;
  if (written) {
    fmt::print("Report: {}\n", file.string());
  } else {
    fmt::print(stderr, "cannot write the page: {}; choose another file with --html FILE\n",
               written.error().message);
  }
  return {};
}

Result<int> Compare(const ReportCommand& command) {
  std::vector<report::Run> runs;
  std::vector<std::string> names;
  for (const fs::path& folder : command.runs) {
    TRY_ASSIGN(const archive::Archive archive, OpenArchive(folder));
    TRY_ASSIGN(report::Run run, report::ReadRun(archive));
    runs.push_back(std::move(run));
    names.push_back(folder.string());
  }
  const report::RunComparison comparison = report::CompareRuns(runs, names);
  fmt::print("{}", report::ComparisonText(comparison));
  if (!command.html.empty()) {
    TRY(WriteHtml(command.html, {}, report::ComparisonHtml(comparison)));
  }
  if (!command.svg.empty()) {
    TRY(os::WriteFileAtomically(command.svg, report::ComparisonSvg(comparison)));
    fmt::print("Picture: {}\n", command.svg.string());
  }
  TRY(WriteJson(command.show.json, report::ToJson(comparison)));
  return 0;
}

}  // namespace

Result<int> Run(const ReportCommand& command) {
  if (command.compare) return Compare(command);
  const fs::path& folder = command.runs.front();
  TRY_ASSIGN(const archive::Archive archive, OpenArchive(folder));
  TRY_ASSIGN(const app::RunSummary summary, app::Summarise(archive));
  // A run that was killed has not written it.
  const bool missing = summary.best && !fs::exists(folder / summary.best_file);
  if (const Status written = missing ? app::WriteBest(summary, folder) : Status(); !written) {
    fmt::print(stderr, "cannot write the best kernel: {}\n", written.error().message);
  }
  fmt::print("{}", report::RunText(summary.run, folder.string(), summary.best_file));
  TRY(WriteHtml(command.html, folder, summary.html));
  TRY(WriteJson(command.show.json, summary.json));
  return 0;
}

}  // namespace cupel::cli
