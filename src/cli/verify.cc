// `cupel verify`.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/verify.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "cli/verify_text.h"

namespace cupel::cli {
namespace {

/// Returns 1 if a record is contradicted, otherwise 2 if one was not repeated or not read,
/// otherwise 0.
int StatusOf(const app::Verifications& all) {
  if (all.contradicted() > 0) return 1;
  return all.not_repeated() + all.failed() > 0 ? 2 : 0;
}

/// Verifies one record after the other. An error in one does not stop the others.
Result<int> VerifyAll(const VerifyCommand& command) {
  if (!command.kernel.empty() || !command.task.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--kernel and --task work only with a single record",
                "verify records that need these options one by one");
  }
  app::Verifications all;
  for (const std::filesystem::path& record : command.records) {
    ProgressView view(command.show.quiet);
    const auto one = app::Verify(command, record, view);
    view.End();
    if (!one && one.error().code == ErrorCode::kCancelled)
      return tl::unexpected<Error>(one.error());
    fmt::print("{}", one ? VerificationText(*one) : FailedText(record.string(), one.error()));
    std::fflush(stdout);
    all.Add(record.string(), one);
  }
  fmt::print("{}", SummaryText(all));
  TRY(WriteJson(command.show.json, all.ToJson()));
  return StatusOf(all);
}

}  // namespace

Result<int> Run(const VerifyCommand& command) {
  if (command.records.size() > 1) return VerifyAll(command);
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::Verification result, app::Verify(command, command.records.front(), view));
  view.End();
  fmt::print("{}", VerificationText(result));
  TRY(WriteJson(command.show.json, app::ToJson(result)));
  if (result.IsNotRepeated()) return 2;
  return result.Holds() ? 0 : 1;
}

}  // namespace cupel::cli
