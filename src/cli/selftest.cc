// `cupel selftest`.
// SPDX-License-Identifier: Apache-2.0
#include "app/selftest/selftest.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "cli/selftest_text.h"

namespace cupel::cli {

Result<int> Run(const SelftestCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::SelftestReport report, app::Selftest(command, view));
  view.End();
  fmt::print("{}", SelftestText(report));
  TRY(WriteJson(command.show.json, app::ToJson(report)));
  return app::RatesOf(report.all).surprises == 0 ? 0 : 1;
}

}  // namespace cupel::cli
