// SPDX-License-Identifier: Apache-2.0
#include "app/search/run_summary.h"

#include "os/files.h"
#include "report/run/document.h"
#include "report/run/html.h"

namespace cupel::app {

Result<RunSummary> Summarise(const archive::Archive& archive) {
  RunSummary summary;
  TRY_ASSIGN(summary.run, report::ReadRun(archive));
  const report::Run& run = summary.run;
  TRY_ASSIGN(const archive::RunInfo info, archive.Run());
  const auto config = ParseJson(info.config, "configuration of the run");
  const bool is_python =
      config && JsonString(*config, "form", "configuration of the run").value_or("") == "python";
  summary.best_file = BestFile(is_python ? evolve::Form::kPython : evolve::Form::kCuda);
  if (run.best) {
    TRY_ASSIGN(summary.best, archive.Get(*run.best));
    TRY_ASSIGN(summary.best_source, archive.Source(*run.best));
  }
  summary.json = report::RunDocument(run);
  TRY_ASSIGN(summary.html, report::RunHtml(run, archive));
  return summary;
}

Status WriteBest(const RunSummary& summary, const std::filesystem::path& folder) {
  if (!summary.best) return {};
  return os::WriteFileAtomically(folder / summary.best_file, summary.best_source);
}

}  // namespace cupel::app
