// `cupel translate`.
// SPDX-License-Identifier: Apache-2.0
#include "app/search/translate.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "base/printable.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "report/objective_kind.h"

namespace cupel::cli {
namespace {

/// Like "attempt 2 (MODEL): candidate 1, Tiled product is not correct", followed by the reasons.
std::string AttemptText(const evolve::Attempt& attempt) {
  std::string text = fmt::format("attempt {} ({}): ", attempt.number, Printable(attempt.model));
  if (!attempt.candidate) {
    return text + "no kernel in the answer: " + Fit(Printable(attempt.problem), 200) + "\n";
  }
  text += fmt::format("candidate {}{}{} {}\n", *attempt.candidate, attempt.name.empty() ? "" : ", ",
                      Printable(attempt.name), attempt.accepted ? "is correct" : "is not correct");
  for (const std::string_view line : SplitLines(attempt.problem)) {
    text += "  " + Fit(Printable(line), 160) + "\n";
  }
  return text;
}

}  // namespace

Result<int> Run(const TranslateCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::TranslateReport report, app::Translate(command, view));
  view.End();
  for (const evolve::Attempt& attempt : report.attempts) {
    if (!command.show.quiet || attempt.number == static_cast<int>(report.attempts.size())) {
      fmt::print("{}", AttemptText(attempt));
    }
  }
  TRY(report.status);
  if (report.accepted) {
    fmt::print("correct: {}{}\n", report.kernel.string(),
               report.objective
                   ? ", " + report::ObjectiveText(report.objective_kind, *report.objective)
                   : std::string());
  } else {
    fmt::print(
        "no kernel is correct after {} attempts; to allow more attempts: cupel translate "
        "--resume {} --attempts N\n",
        report.attempts.size(), report.folder.string());
  }
  TRY(WriteJson(command.show.json, report.document));
  return report.accepted ? 0 : 1;
}

}  // namespace cupel::cli
