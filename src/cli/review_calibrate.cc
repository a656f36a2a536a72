// `cupel review calibrate`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "app/review/calibrate.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "stats/wilson.h"
#include "term/table.h"

namespace cupel::cli {
namespace {

std::string Share(int64_t hits, int64_t trials) {
  if (trials == 0) return "-";
  const stats::Interval share = stats::Wilson(hits, trials);
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", share.estimate, share.low, share.high);
}

std::vector<std::string> Cells(std::string who, const review::Rates& rates) {
  return {std::move(who),
          std::to_string(rates.all()),
          Share(rates.found + rates.passed, rates.all()),
          fmt::format("{:.2f}", rates.Balanced()),
          Share(rates.found, rates.found + rates.stopped),
          Share(rates.found, rates.found + rates.missed)};
}

std::string TextOf(const review::CalibrationResult& result) {
  using term::Align;
  term::Table table({{"verifier"},
                     {"kernels", Align::kRight},
                     {"accuracy"},
                     {"balanced", Align::kRight},
                     {"precision"},
                     {"recall"},
                     {"unusable", Align::kRight},
                     {"misquoted", Align::kRight},
                     {"cost", Align::kRight}});
  for (const review::VerifierRates& each : result.verifiers) {
    auto cells = Cells(fmt::format("{} ({})", Name(each.aspect), each.model), each.rates);
    cells.push_back(std::to_string(each.unusable));
    cells.push_back(std::to_string(each.misquoted));
    cells.push_back(fmt::format("${:.4f}", each.usd));
    table.Add(std::move(cells));
    if (result.options.reflect) table.Add(Cells("  before reflection", each.before));
  }
  table.Add(Cells("vote, tuned", result.vote));
  table.Add(Cells("vote, plain majority", result.majority));
  return fmt::format(
      "Tuned on {} kernels, measured on the other {}; 95 % intervals (Wilson). Precision: share of "
      "real faults among kernels called wrong. Recall: share of faulty kernels that were "
      "found.\n{}threshold {:.3f}; weights compile {:.2f}, memory {:.2f}, numerics {:.2f}; ${:.4f} "
      "in total\n",
      result.tuned_on, result.reported_on, table.Render(0, "  "), result.options.threshold,
      result.options.weights[0], result.options.weights[1], result.options.weights[2], result.usd);
}

}  // namespace

Result<int> Run(const CalibrateCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::Calibrated calibrated, app::CalibrateReviewers(command, view));
  view.End();
  TRY(WriteJson(command.output, calibrated.document));
  fmt::print("{}", TextOf(calibrated.result));
  return 0;
}

}  // namespace cupel::cli
