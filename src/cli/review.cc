// `cupel review`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "app/review/review_kernel.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

std::string TextOf(const review::Review& review, const review::ReviewOptions& options) {
  std::string out =
      fmt::format("{}: score {:.2f}, threshold {:.2f}\n", review.passed ? "PASSED" : "NOT PASSED",
                  review.score, options.threshold);
  term::Table table(
      {{"verifier"}, {"model"}, {"says"}, {"confidence", term::Align::kRight}, {"line"}});
  for (const review::Opinion& opinion : review.opinions) {
    const char* says = !opinion.usable ? "unusable" : opinion.fine ? "fine" : "wrong";
    const bool objects = opinion.usable && !opinion.fine;
    table.Add({Name(opinion.aspect), opinion.model, says,
               opinion.usable ? fmt::format("{:.2f}", opinion.confidence) : "-",
               !objects                  ? ""
               : opinion.line_number > 0 ? fmt::format("{}: {}", opinion.line_number, opinion.line)
                                         : "not in the kernel: " + opinion.line});
  }
  out += table.Render(0, "  ");
  for (const review::Opinion& opinion : review.opinions) {
    out += fmt::format("  {}: {}\n", Name(opinion.aspect), Printable(opinion.reason));
  }
  return out + fmt::format("  ${:.4f}, {}\n", review.usd, term::Duration(review.seconds));
}

}  // namespace

Result<int> Run(const ReviewCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::KernelReview result, app::ReviewKernel(command, view));
  view.End();
  fmt::print("{}", TextOf(result.review, result.options));
  TRY(WriteJson(command.show.json, result.document));
  return result.review.passed ? 0 : 1;
}

}  // namespace cupel::cli
