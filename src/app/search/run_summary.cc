// SPDX-License-Identifier: Apache-2.0
#include "app/search/run_summary.h"

#include "report/run/document.h"
#include "report/run/html.h"

namespace cupel::app {

Result<RunSummary> Summarise(const archive::Archive& archive) {
  RunSummary summary;
  TRY_ASSIGN(summary.run, report::ReadRun(archive));
  const report::Run& run = summary.run;
  if (run.best) {
    TRY_ASSIGN(summary.best, archive.Get(*run.best));
    TRY_ASSIGN(summary.best_source, archive.Source(*run.best));
  }
  summary.json = report::RunDocument(run);
  TRY_ASSIGN(summary.html, report::RunHtml(run, archive));
  return summary;
}

}  // namespace cupel::app
