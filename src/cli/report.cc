// `cupel report RUN`: works while another process drives the run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/run_summary.h"
#include "cli/session.h"

namespace cupel::cli {

Result<int> Run(const ReportCommand& command) {
  const std::filesystem::path folder = command.run;
  TRY_ASSIGN(const archive::Archive archive,
             archive::Archive::Open(folder / kRunFile, archive::Access::kReadOnly));
  TRY_ASSIGN(const RunSummary summary, Summarise(archive, folder));
  fmt::print("{}", summary.text);
  TRY(WriteJson(command.common.json, summary.json));
  return 0;
}

}  // namespace cupel::cli
