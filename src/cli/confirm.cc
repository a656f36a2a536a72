// `cupel confirm`.
// SPDX-License-Identifier: Apache-2.0
#include "app/confirm/confirm.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/confirm_text.h"
#include "cli/json_file.h"
#include "cli/progress.h"

namespace cupel::cli {

Result<int> Run(const ConfirmCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::ConfirmReport report, app::Confirm(command, view));
  view.End();
  fmt::print("{}", ConfirmText(report.document));
  TRY(WriteJson(command.show.json, report.document));
  if (report.built && report.document["settings"].empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the reference fails at every setting, so there is nothing to run");
  }
  return report.right ? 0 : 1;
}

}  // namespace cupel::cli
