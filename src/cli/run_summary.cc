// SPDX-License-Identifier: Apache-2.0
#include "cli/run_summary.h"

#include "report/run.h"
#include "report/run_document.h"
#include "report/run_html.h"
#include "report/run_text.h"

namespace cupel::cli {

Result<RunSummary> Summarise(const archive::Archive& archive, const std::filesystem::path& folder) {
  RunSummary summary;
  TRY_ASSIGN(const report::Run run, report::ReadRun(archive));
  if (run.best) {
    TRY_ASSIGN(summary.best, archive.Get(*run.best));
    TRY_ASSIGN(summary.best_source, archive.Source(*run.best));
  }
  summary.text = report::RunText(run, folder.string(), kBestFile);
  summary.json = report::RunDocument(run);
  TRY_ASSIGN(summary.html, report::RunHtml(run, archive));
  return summary;
}

}  // namespace cupel::cli
