// `cupel check`.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "judge/verdict_text.h"
#include "plan/codec.h"
#include "records/json.h"

namespace cupel::cli {

Result<int> Run(const CheckCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const assay::Judged judged, app::Check(command, view));
  view.End();
  judge::TextOptions text;
  text.colour = ::isatty(STDOUT_FILENO) != 0;
  fmt::print("{}", judge::VerdictText(judged.verdict, text));
  TRY(WriteJson(command.show.json, records::ToJson(judged.verdict)));
  if (!command.plan.empty()) {
    if (judged.plan) {
      TRY(WriteJson(command.plan, plan::ToJson(*judged.plan)));
    } else {
      fmt::print(stderr, "cupel: no plan was recorded, so {} was not written\n",
                 command.plan.string());
    }
  }
  return judge::ExitStatus(judged.verdict.decision);
}

}  // namespace cupel::cli
